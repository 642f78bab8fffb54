"""Does a promise hold on new judged queries? An estimate, not a certificate."""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Unpack

from isrr.calibration.census import refuse_single
from isrr.calibration.measure import GroupShare, Measure, Measured
from isrr.calibration.moments import DISPARITY_SCALE, WholeNumbers
from isrr.certificate import Abstention, Certificate
from isrr.counting import counted, percent
from isrr.data.queries import FloatArray
from isrr.engines.source import Where, open_source
from isrr.errors import DataError
from isrr.findings import Estimate
from isrr.guarantee import Guarantee
from isrr.parallel import Progress


@dataclass(frozen=True)
class Kept:
    """One promise on new queries.

    Attributes:
        promise: The promise.
        segment: The segment, or None for all queries.
        value: The promised quantity on the new queries: the metric's mean, or its share of deterministic.
        target: What was promised.
        verdict: "kept", "broken", or "unclear" when the interval holds the target.
    """

    promise: str
    segment: str | None
    value: Estimate
    target: float
    verdict: str


@dataclass(frozen=True)
class Check:
    """A ranker on new judged queries.

    Attributes:
        k: Length of the lists that are measured.
        promised: Whether a promise was certified; of an abstention the deterministic order is measured.
        n_queries, n_skipped: Queries measured, and those left out for having no relevant item.
        promises: Each promise, or what was asked for, in each segment it was tested in.
        segments: The same in the other segments of the queries, of which nothing was promised.
        utility, deterministic_utility: NDCG@k of the ranker, and of the order by score.
        disparity, fairness_gain: Of the ranker.
        groups: Exposure by group of items, where there are any.
        data: Fingerprint of the queries; that of the outcome's provenance where they are those calibrated on.
        scores_outside: Share of the scores beyond where calibration saw 99.8 % of them.
        single_items: Share of the queries that have a single item, which any order ranks perfectly.
        warnings: Signs that queries or scores are not of the kind that was calibrated on; promises left unjudged.
    """

    k: int
    promised: bool
    n_queries: int
    n_skipped: int
    promises: tuple[Kept, ...]
    segments: tuple[Kept, ...]
    utility: Estimate
    deterministic_utility: Estimate
    disparity: Estimate
    fairness_gain: float
    groups: tuple[GroupShare, ...]
    data: str
    scores_outside: float
    single_items: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        left_out = f" ({self.n_skipped:,} without a relevant item left out)" if self.n_skipped else ""
        lines = [f"{counted(self.n_queries, 'judged query')}{left_out}"]
        for kept in self.promises:
            where = "" if kept.segment is None else f" in segment {kept.segment!r}"
            unclear = " (the interval contains the promise: judge more queries)" if kept.verdict == "unclear" else ""
            lines.append(
                f"promise      {kept.promise}{where}: {kept.verdict}, measured {kept.value}{unclear}"
                if self.promised
                else f"not promised {kept.promise}{where}: measured {kept.value}, by the deterministic order"
            )
        for kept in self.segments[:20]:
            lines.append(f"not promised {kept.promise} in segment {kept.segment!r}: measured {kept.value}")
        lines += [
            f"NDCG@{self.k:<6}  {self.utility}; deterministic {self.deterministic_utility.value:.4f}",
            f"disparity    {self.disparity}",
            f"fairer by    {percent(self.fairness_gain)} of the deterministic disparity",
        ]
        if self.groups:
            lines.append(f"{'share of exposure, by group':<30} {'by score':>12} {'now':>12} {'of gain':>12}")
            for share in self.groups[:20]:
                numbers = f"{share.deterministic:12.1%} {share.ranker:12.1%} {share.gain:12.1%}"
                lines.append(f"  {share.group[:28]:<28} {numbers}")
        return "\n".join([*lines, "in brackets  95 % intervals"])


def check(
    outcome: Certificate | Abstention,
    queries: Any,
    engine: str = "local",
    progress: Progress | None = None,
    **where: Unpack[Where],
) -> Check:
    """Measure an outcome's ranker and promises on judged queries, under the promise's own k, gain and policy.

    Args:
        outcome: What calibration said.
        queries: New judged queries, as `calibrate` takes them.
        engine: "local", "spark" or "dask".
        progress: Called with (done, in all).
        where: See `isrr.engines.source.Where`.
    """
    with closing(open_source(queries, engine, **where)) as source:
        found = source.run(Measure(outcome), progress)
    n_queries = found.moments.n_queries
    if n_queries < 2:
        found_of = f"{n_queries} of {n_queries + found.n_skipped}"
        raise DataError(f"queries with a relevant item: {found_of}; to judge a promise takes several")
    refuse_single(found.n_single, n_queries + found.n_skipped)
    utility, disparity = (_estimates(*pair) for pair in (found.moments.mean_utility(), found.moments.mean_disparity()))
    promises: list[Kept] = []
    by_segment: list[Kept] = []
    for (promise, segment), sums in sorted(found.pairs.items()):
        guarantee = outcome.guarantees[promise]
        spoken_of = segment in _promised_in(outcome, guarantee)
        (promises if spoken_of else by_segment).append(_kept(guarantee, segment or None, sums))
    return Check(
        outcome.k,
        not outcome.abstained,
        n_queries,
        found.n_skipped,
        tuple(promises),
        tuple(by_segment),
        utility[1],
        utility[0],
        disparity[1],
        float(found.moments.fairness_gain()[0][1]),
        found.shares(),
        found.fingerprint,
        found.n_outside / found.n_rows,
        found.n_single / (n_queries + found.n_skipped),
        tuple(_warnings(outcome, utility[0], found)),
    )


def _promised_in(outcome: Certificate | Abstention, guarantee: Guarantee) -> list[str]:
    """The segments that a promise was tested in, "" standing for all queries together."""
    if guarantee.per is None:
        return [""]
    return [test.segment for test in outcome.tests if test.guarantee == guarantee and test.segment is not None]


def _warnings(outcome: Certificate | Abstention, now: Estimate, found: Measured) -> Iterator[str]:
    """What verdicts do not show: promises left unjudged, and signs that a comparison by the same scores cannot see."""
    for promise, guarantee in enumerate(outcome.guarantees):
        for segment in _promised_in(outcome, guarantee):
            if (promise, segment) not in found.pairs:
                yield f"no query here that counts is of segment {segment!r}: of '{guarantee}' there, nothing is known"
    before = _deterministic_utility(outcome)
    if before is not None and abs(now.value - before.value) > 0.2 * before.value:
        if now.high < before.low or now.low > before.high:
            was = f"deterministic NDCG@{outcome.k} was {before.value:.4f} at calibration"
            yield f"{was}, is {now.value:.4f} here: the queries or the scores are of another kind"
    _, bottom, _, top, _ = outcome.provenance.score_quantiles
    spread = found.score_spread() if bottom < top else None
    if spread is not None and spread < 0.5:
        yield f"scores are spread about {spread:.1g} times as wide as at calibration; a promise covers its own scale"


def _deterministic_utility(outcome: Certificate | Abstention) -> Estimate | None:
    """NDCG@k of the order by score at calibration, where it is known."""
    if isinstance(outcome, Certificate):
        return outcome.deterministic_utility
    return next((point.utility for point in outcome.curve if point.ranker.is_deterministic), None)


def _estimates(means: FloatArray, errors: FloatArray) -> list[Estimate]:
    return [Estimate.around(mean, error) for mean, error in zip(means, errors, strict=True)]


def _kept(guarantee: Guarantee, segment: str | None, sums: WholeNumbers) -> Kept:
    """Sums of (1, a, b, a², b², ab) for the metric a of the deterministic ranker and b of the one in use."""
    n = sums[0] // DISPARITY_SCALE
    a, b, aa, bb, ab = (float(value) / (DISPARITY_SCALE * n) for value in sums[1:])
    if guarantee.relative:
        reference = max(a, 1e-300)
        ratio = b / reference
        variance = bb - 2 * ratio * ab + ratio**2 * aa - (b - ratio * a) ** 2
        value = Estimate.around(ratio, math.sqrt(max(variance, 0.0) / n) / reference)
    else:
        value = Estimate.around(b, math.sqrt(max(bb - b**2, 0.0) / n))
    good, bad = value.low >= guarantee.target, value.high < guarantee.target
    if not guarantee.utility:
        good, bad = value.high <= guarantee.target, value.low > guarantee.target
    return Kept(str(guarantee), segment, value, guarantee.target, "kept" if good else "broken" if bad else "unclear")
