"""Does a promise hold on new judged queries? An estimate, not a certificate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isrr.calibration.certify import Tested
from isrr.calibration.judged import draw, refuse_single, repeats
from isrr.calibration.measured import Means
from isrr.calibration.quality import averaged_quality, quality_values
from isrr.counting import counted, in_segment, percent
from isrr.data.columns import Columns
from isrr.data.doubtful_grades import doubtful_grades
from isrr.data.queries import FloatArray, Queries
from isrr.data.sample import SAMPLE, canonical_order
from isrr.data.unjudged import n_unjudged, policy_needed, refuse_other_policy, unjudged_in_words
from isrr.errors import DataError
from isrr.gains import item_gains
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.outcome.certificate import Certificate, Outcome
from isrr.outcome.findings import Estimate, Quality
from isrr.outcome.text import MANY_REPEATS, quality_rows, unprotected, written
from isrr.parallel import Progress
from isrr.promises import Promise, objectives, refuse_worst, relevance_measure
from isrr.ranker.gpl import GPLRanker
from isrr.risk.lattice import BoolArray

LEAST_TO_TELL = 30  # queries below which a normal interval errs too often to call a promise broken
ELSEWHERE = 1 / 25  # share of the scores beyond where they were at calibration, from which on they are elsewhere
BESIDE = ("expected_exposure_loss", "expected_exposure_disparity", "expected_exposure_relevance")


@dataclass(frozen=True)
class GroupShare:
    """Share of exposure of one item group, before and after, beside its share of gain."""

    group: str
    deterministic: float
    ranker: float
    gain: float


@dataclass(frozen=True)
class Kept:
    """One promise on new queries.

    Attributes:
        segment: The segment, or None for all queries.
        value: The promised quantity on the new queries: the metric's mean, or its share of what it is compared with.
        verdict: "kept", "broken", "unclear" when the interval contains the target, or "too few to say".
        shortfall: How many lists fall short, for a promise about lists; empty for others.
    """

    promise: str
    segment: str | None
    n_queries: int
    value: Estimate
    target: float
    verdict: str
    shortfall: str = ""

    @property
    def in_its_units(self) -> str:
        """The measured value and its interval, in percent if the promise is."""
        if "%" not in self.promise:
            return str(self.value)
        value, low, high = (100 * number for number in (self.value.value, self.value.low, self.value.high))
        return f"{value:.1f} % [{low:.1f}, {high:.1f}]"


@dataclass(frozen=True)
class Check:
    """A ranker on new judged queries.

    Attributes:
        k: Length of the lists that are measured.
        promised: Whether a promise was certified; of an abstention the order by score is measured.
        protects_relevance: Whether a promise sets a lower limit on relevance.
        n_queries, n_skipped: Queries measured, and those left out because they have nothing to measure.
        promises: Each promise, or what was asked for, in each segment it was tested in.
        segments: The same in the other segments of the queries, of which nothing was promised.
        utility_name: What utility is measured by.
        utility, deterministic_utility: Of the ranker, and of the order by score.
        quality: What becomes of NDCG@k, or of `kept@k` where there are no grades.
        disparity, deterministic_disparity, fairness_gain: Of the ranker, of the order by score, and what it removes.
        groups: Exposure by group of items, where there are any.
        beside: Measures that others use, each of the ranker and of the order by score; see `isrr.metrics.exposed`.
        floor: Share of what the order by score gives it that every query keeps by construction.
        lowest: The least that any query here keeps; None where there is no floor.
        data: Fingerprint of the queries; that of the outcome's provenance where they are those calibrated on.
        scores_outside: Share of the scores beyond the range of 99.8 % of the calibration scores.
        single_items: Share of the queries that have a single item, which any order ranks perfectly.
        unjudged: How items without a grade count, as in calibration; "refuse" where there are none.
        unjudged_share: Share of the first k positions by score that hold such an item.
        warnings: Signs that queries or scores are not of the kind that was calibrated on; promises left unjudged.
    """

    k: int
    promised: bool
    protects_relevance: bool
    n_queries: int
    n_skipped: int
    promises: tuple[Kept, ...]
    segments: tuple[Kept, ...]
    utility_name: str
    utility: Estimate
    deterministic_utility: Estimate
    quality: Quality
    disparity: Estimate
    deterministic_disparity: Estimate
    fairness_gain: float
    groups: tuple[GroupShare, ...]
    beside: dict[str, tuple[Estimate, Estimate]]
    floor: float
    lowest: float | None
    data: str
    scores_outside: float
    single_items: float
    unjudged: str
    unjudged_share: float
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{one.promise}: {one.verdict}" for one in self.promises)
        return f"<Check of {counted(self.n_queries, 'query')}: {verdicts}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    def __str__(self) -> str:
        return self.text()

    def text(self, verbose: bool = False) -> str:
        """Return the check in a few plain lines; verbose: with the measures that others use."""
        left_out = f" ({self.n_skipped:,} more left out: no relevant item)" if self.n_skipped else ""
        lines = [f"{counted(self.n_queries, 'judged query')}{left_out}"]
        for one in self.promises:
            where = in_segment(one.segment)
            measured = f"measured {one.in_its_units}{one.shortfall and f'; {one.shortfall}'}"
            more = " (the interval contains the promise: judge more queries)" if one.verdict == "unclear" else ""
            lines.append(
                f"promise      {one.promise}{where}: {one.verdict}, {measured}{more}"
                if self.promised
                else f"not promised {one.promise}{where}: {measured}, by the order by score"
            )
        for one in self.segments[:20]:
            lines.append(f"not promised {one.promise} in segment {one.segment!r}: measured {one.in_its_units}")
        if self.lowest is not None:
            lines.append(
                f"every query  keeps at least {percent(self.lowest)} of what the order by score gives it (guaranteed: "
                f"{percent(self.floor)})"
            )
        before = self.deterministic_disparity.value
        lines += [
            f"{self.utility_name:<12} {self.utility}; order by score {self.deterministic_utility.value:.4f}",
            *written(quality_rows(self.quality, self.utility_name, self.protects_relevance)),
            f"disparity    {self.disparity}; order by score {before:.4f}",
            f"fairer by    {percent(self.fairness_gain)}: that much less disparity than the order by score",
        ]
        if self.unjudged != "refuse":
            lines.append(f"unjudged     {unjudged_in_words(self.unjudged, self.unjudged_share, self.k)}")
        for name, (now, then) in self.beside.items() if verbose else ():
            lines.append(f"{name.replace('_', ' ')} {now.value:.4f}; order by score {then.value:.4f}")
        if self.groups:
            lines.append(f"{'share of exposure, by group':<30} {'by score':>12} {'now':>12} {'of merit':>12}")
            for share in self.groups[:20]:
                numbers = f"{share.deterministic:12.1%} {share.ranker:12.1%} {share.gain:12.1%}"
                lines.append(f"  {share.group[:28]:<28} {numbers}")
        return "\n".join([*lines, "Brackets hold approximate 95 % confidence intervals."])


def check(
    outcome: Outcome,
    queries: Any,
    engine: str = "local",
    progress: Progress | None = None,
    *,
    columns: Columns | None = None,
    sample: int | None = SAMPLE,
    reference: str | Queries | None = None,
    master: str | None = None,
) -> Check:
    """Check the promises of an outcome on new judged queries, and measure its ranker.

    Args:
        outcome: What calibration returned.
        queries: New judged queries, as `calibrate` takes them. Items without a grade count as they did there.
        engine: "local" or "spark".
        progress: Called with (done, total).
        columns: The names of columns that are not called as usual, for queries still to be read; see `isrr.Columns`.
        sample: How many queries are drawn from a larger table; None for all.
        reference: What promises "of production" are compared with, as for `calibrate`.
        master: Spark's master, where there is no session yet.
    """
    then, promises = outcome.provenance.unjudged, outcome.promises
    refuse_worst(promises, then)
    segmented = any(promise.per is not None for promise in promises)
    seen = draw(
        queries, columns, roles=outcome.columns, unjudged=then, engine=engine, master=master, sample=sample,
        per_segment=segmented, reference=reference,
    )  # fmt: skip
    order = canonical_order(seen.queries.keys, seen.queries.scores_fingerprint)
    judged, uniform = seen.queries[order], seen.uniform(sample)[order]
    everything = judged if uniform.all() else judged[np.flatnonzero(uniform)]
    here, is_judged = policy_needed(judged), judged.relevance is not None
    grid = [GPLRanker.deterministic(outcome.k), outcome.ranker]
    refuse_worst(promises, here)
    refuse_other_policy(here, then)
    reported = objectives(promises, judged=is_judged)
    others = () if not is_judged else BESIDE if judged.item_groups is None else (*BESIDE, "awrf")
    measures = dict.fromkeys([*reported, *(promise.measure for promise in promises), *others])
    values = evaluate(judged, grid, measures, gain=promises[0].metric.gain, progress=progress)
    utility, disparity = (_means(values[measure][uniform]) for measure in reported)
    if utility.n_queries < 2:
        raise DataError(
            f"queries with a relevant item: {utility.n_queries} of {len(everything)}; expected several, to check a "
            "promise"
        )
    refuse_single(judged)
    measure = relevance_measure(promises, judged=is_judged)
    quality = averaged_quality(measure, quality_values(everything, grid[1], measure))
    promised, by_segment = _verdicts(outcome, judged, uniform, values)
    low, _, _, _, high = outcome.provenance.score_quantiles
    scores = everything.need_scores()
    n_positions = max(int(np.minimum(everything.n_items, outcome.k).sum()), 1)
    return Check(
        outcome.k,
        not outcome.abstained,
        outcome.protects_relevance,
        utility.n_queries,
        len(everything) - utility.n_queries,
        tuple(promised),
        tuple(by_segment),
        outcome.utility_name,
        *_beside(utility),
        quality,
        *_beside(disparity),
        float(disparity.reduction[0]),
        _group_shares(everything, outcome, grid),
        {name: _beside(_means(values[name][uniform])) for name in others},
        outcome.ranker.floor,
        _least_share([values[p.measure] for p in promises if p.floored(outcome.ranker)]),
        judged.fingerprint,
        float(((scores < low) | (scores > high)).mean()),
        float((everything.n_items == 1).mean()),
        here,
        n_unjudged(everything, outcome.k) / n_positions,
        (*unprotected(promises, quality), *_warnings(outcome, utility, promised, everything)),
    )


def _means(values: FloatArray) -> Means:
    """Average the ranker in use beside the order by score."""
    return Means.of(values[:, 1:], values[:, 0])


def _beside(means: Means) -> tuple[Estimate, Estimate]:
    """Return the ranker in use, and the order by score."""
    return Estimate.around(means.mean[0], means.error[0]), Estimate.around(means.reference, means.reference_error)


def _verdicts(
    outcome: Outcome, queries: Queries, uniform: BoolArray, evaluated: Evaluation
) -> tuple[list[Kept], list[Kept]]:
    """Return the verdicts on promises where they were tested, and what is measured in other segments."""
    promised, by_segment = list[Kept](), list[Kept]()
    names = None if queries.segments is None else queries.segments.astype(str)
    for promise in outcome.promises:
        values = evaluated[promise.measure]
        reference, counts = promise.reference(queries, values[:, 0]), ~np.isnan(values[:, 1])
        parts: Mapping[str, BoolArray] = {} if promise.per else {"": uniform}
        if names is not None:
            parts = {**parts, **{str(name): names == name for name in np.unique(names)}}
        for segment, rows in parts.items():
            chosen = rows & counts
            if chosen.any():
                verdict = _kept(promise, segment or None, values[chosen, 1], reference[chosen])
                (promised if segment in _promised_in(outcome, promise) else by_segment).append(verdict)
    return promised, by_segment


def _promised_in(outcome: Outcome, promise: Promise) -> list[str]:
    """Return the segments that a promise was tested in, "" standing for all queries together."""
    if promise.per is None:
        return [""]
    return [test.segment for test in outcome.tests if test.promise == promise and test.segment is not None]


def _kept(promise: Promise, segment: str | None, values: FloatArray, reference: FloatArray) -> Kept:
    """Return the verdict on a promise from its metric and what that is compared with, (n_queries,) each."""
    tested = Tested(promise, segment, np.zeros(1, bool), values[:, None], reference, np.zeros(1))
    measured, target = float(tested.measured()[0]), promise.target
    value = Estimate.around(measured, tested.deviation()[0] / np.sqrt(values.size))
    good, bad = value.low >= target, value.high < target
    if promise.at_least is None:
        good, bad = value.high <= target, value.low > target
    verdict = "kept" if good else "broken" if bad else "unclear"
    verdict = verdict if values.size >= LEAST_TO_TELL else "too few to say"
    return Kept(str(promise), segment, values.size, value, target, verdict, promise.shortfall(measured))


def _group_shares(queries: Queries, outcome: Outcome, grid: Sequence[GPLRanker]) -> tuple[GroupShare, ...]:
    """Return each group's part of all exposure, before and after, and of all gain, by falling part of the gain."""
    if queries.item_groups is None:
        return ()
    names, rows, number = queries.coded_groups.by_group()  # an item may be of several groups
    gain = outcome.promises[0].metric.gain if queries.relevance is not None else "equal"
    columns = [queries.in_query_order(ranker.exposure(queries), "exposure") for ranker in grid]
    parts = [
        np.bincount(number, column[rows], len(names)) / max(float(column.sum()), 2.0**-1074)
        for column in (*columns, item_gains(queries, gain))
    ]
    shares = [GroupShare(name, *map(float, of_name)) for name, *of_name in zip(names, *parts, strict=True)]
    return tuple(sorted(shares, key=lambda share: (-share.gain, share.group)))


def _least_share(values: Sequence[FloatArray]) -> float | None:
    """Return the least share that any query keeps of what the order by score gives; None where nothing is floored."""
    some = [part[part[:, 0] > 0] for part in values]  # false for NaN too
    return min((float((part[:, 1] / part[:, 0]).min()) for part in some if len(part)), default=None)


def _warnings(outcome: Outcome, utility: Means, promised: Sequence[Kept], queries: Queries) -> Iterator[str]:
    """Return what verdicts do not show: promises left unjudged, and what comparing by the same scores cannot see."""
    scores = queries.need_scores()
    if "relevance" in outcome.columns:
        doubt = doubtful_grades(queries, queries.grade_column, outcome.k, queries.has_positions)
        yield from [doubt] if doubt else []
    n_repeated = int(repeats(queries).sum())
    if n_repeated >= MANY_REPEATS * len(queries):
        yield (
            f"repeated queries: {n_repeated:,} of {len(queries):,} have the same scores and relevance as another; "
            "copies are no additional evidence, and make the intervals too narrow"
        )
    for promise in outcome.promises:
        for segment in _promised_in(outcome, promise):
            if not any((one.promise, one.segment or "") == (str(promise), segment) for one in promised):
                yield f"no query counts{in_segment(segment or None)}, so '{promise}' cannot be checked there"
    _, now = _beside(utility)
    before = next((point.utility for point in outcome.curve if point.ranker.is_deterministic), None)
    before = outcome.deterministic_utility if isinstance(outcome, Certificate) else before
    if before is not None and abs(now.value - before.value) > 0.2 * before.value:
        if now.high < before.low or now.low > before.high:
            was = f"{outcome.utility_name} of the order by score was {before.value:.4f} at calibration"
            yield f"{was}, is {now.value:.4f} here; queries or scores have changed"
    _, bottom, _, top, _ = outcome.provenance.score_quantiles
    spread = _score_spread(scores, bottom, top) if bottom < top else None
    if spread is not None and spread < 0.5:
        yield f"scores are spread {spread:.1g} times as wide as at calibration; the promise covers only that scale"


def _score_spread(scores: FloatArray, bottom: float, top: float) -> float | None:
    """Return how wide the middle 98 % of the scores are, as a share of how wide they were at calibration.

    None where a score in 25 or more lies beyond where they were: these are not narrower, but elsewhere.
    """
    if ((scores < bottom) | (scores > top)).mean() > ELSEWHERE:
        return None
    low, high = np.quantile(np.clip(scores, bottom, top), [0.01, 0.99])
    return float(high - low) / (top - bottom)
