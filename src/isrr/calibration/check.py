"""Does a promise hold on new judged queries? An estimate, not a certificate."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.quality import quality_values, summed_quality
from isrr.calibration.table import Sums
from isrr.calibration.tasks import added, refuse_single
from isrr.counting import counted, in_segment, percent
from isrr.data.queries import FloatArray, Queries
from isrr.data.source import Where, counting_alike, with_values
from isrr.data.unjudged import n_unjudged, policy_needed, refuse_other_policy, unjudged_in_words
from isrr.engines.source import open_source
from isrr.engines.task import Task
from isrr.errors import DataError
from isrr.exact import exact_sums
from isrr.gains import item_gains
from isrr.metrics.evaluate import evaluate
from isrr.metrics.measure import Measure
from isrr.outcome.certificate import Certificate, Outcome
from isrr.outcome.findings import Estimate, Quality
from isrr.outcome.text import quality_rows, written
from isrr.parallel import Progress
from isrr.promises import Promise, objectives, refuse_worst, relevance_measure
from isrr.ranker.gpl import GPLRanker

SPREAD_BINS = 64  # between the 1 % and the 99 % quantile of the scores at calibration
LEAST_TO_TELL = 30  # queries below which a normal interval errs too often to call a promise broken
BESIDE = ("expected_exposure_loss", "expected_exposure_disparity", "expected_exposure_relevance")
Name = tuple[int, str]  # which promise, and the segment, "" for all queries


@dataclass(frozen=True)
class GroupShare:
    """Share of exposure of one item group, before and after, beside its share of gain."""

    group: str
    deterministic: float
    ranker: float
    gain: float


@dataclass(frozen=True, eq=False)
class Measured:
    """Sums over judged queries.

    Attributes:
        n_queries, n_skipped, n_single: Queries measured, those that have nothing to measure, those of a single item.
        utility, disparity: Of the ranker in use beside the order by score.
        promised: For each promise and segment, its metric beside what it is compared with.
        n_places, n_unjudged: The first k places by score, and those that hold an item without a grade.
        unjudged: How such items count; "refuse" where there are none.
        n_rows, n_outside: Scores, and those beyond the range of 99.8 % of the calibration scores.
        score_bins: Scores below, in equal bins of, and above the range in which calibration saw 98 % of them.
        groups: Exposure under either ranker, and gain, of each group of items, and of all under "", in units of 2⁻¹⁰⁷⁴.
        lowest: The least that a query keeps of what the order by score gives it, by metrics that the floor is about.
        beside: Measures that others use, of the ranker in use beside the order by score, by name.
        fingerprint: Of ids, scores and relevance.
        quality: Sums over `isrr.calibration.quality.quality_values`, under whether the queries are judged.
    """

    n_queries: int
    n_skipped: int
    utility: Sums
    disparity: Sums
    promised: dict[Name, Sums] = field(default_factory=dict)
    n_single: int = 0
    n_places: int = 0
    n_unjudged: int = 0
    unjudged: str = "refuse"
    n_rows: int = 0
    n_outside: int = 0
    score_bins: tuple[int, ...] = (0,) * (SPREAD_BINS + 2)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    lowest: float = np.inf
    beside: dict[str, Sums] = field(default_factory=dict)
    fingerprint: str = "0" * 32
    quality: dict[bool, Sums] = field(default_factory=dict)

    def __add__(self, other: "Measured") -> "Measured":
        return added(self, other, lowest=min)

    def score_spread(self) -> float | None:
        """How wide the middle 98 % of the scores are, as a share of how wide they were at calibration.

        None where a score in 25 or more lies beyond where they were: these are not narrower, but elsewhere.
        """
        below, *inside, above = self.score_bins
        if not sum(inside) or below + above > self.n_rows / 25:
            return None
        shares = np.cumsum([0, below, *inside, above]) / self.n_rows
        edges = np.clip(np.arange(-1, SPREAD_BINS + 2), 0, SPREAD_BINS) / SPREAD_BINS
        low, high = np.interp([0.01, 0.99], shares, edges)
        return float(high - low)

    def shares(self) -> tuple[GroupShare, ...]:
        """Each group's part of the whole, by falling part of the gain."""
        shares = [
            GroupShare(name, *(part / max(total, 1) for part, total in zip(sums, self.groups[""], strict=True)))
            for name, sums in self.groups.items()
            if name
        ]
        return tuple(sorted(shares, key=lambda share: (-share.gain, share.group)))


@dataclass(frozen=True)
class MeasureOutcome(Task[Measured]):
    """The task: measure an outcome's ranker beside the order by score."""

    outcome: Outcome

    @property
    def roles(self) -> tuple[str, ...]:
        usual = ("query", "item", "score", "relevance", "segment", "item_group")
        return tuple(dict.fromkeys((*usual, *self.outcome.columns)))

    def summary(self, blocks: Iterable[Queries]) -> Measured:
        return self.joined([self._measured(block) for block in blocks])

    def joined(self, summaries: Sequence[Measured]) -> Measured:
        nothing = Sums.of(np.empty((0, 1)), np.empty(0))
        return reduce(Measured.__add__, summaries) if summaries else Measured(0, 0, nothing, nothing)

    def _measured(self, queries: Queries) -> Measured:
        promises, scores = self.outcome.promises, queries.need_scores()
        grid = [GPLRanker.deterministic(self.outcome.k), self.outcome.ranker]
        reported = objectives(promises, judged=queries.relevance is not None)
        others = () if queries.relevance is None else BESIDE if queries.item_groups is None else (*BESIDE, "awrf")
        measures = [*reported, *(promise.measure for promise in promises), *others]
        found = evaluate(queries, grid, measures, gain=promises[0].metric.gain)
        judged = queries.relevance is not None
        quality = quality_values(queries, grid[1], relevance_measure(promises, judged=judged))

        def beside(measure: Measure | str) -> Sums:
            return Sums.of(found[measure][:, 1:], found[measure][:, 0])

        promised: dict[Name, Sums] = {}
        for i, promise in enumerate(promises):
            values = found[promise.measure]
            reference = promise.reference(queries, values[:, 0])
            for segment, rows in self._segments(queries, promise).items():
                if (~np.isnan(values[rows, 1])).any():
                    promised[i, segment] = Sums.of(values[rows, 1:], reference[rows])
        low, bottom, _, top, high = self.outcome.provenance.score_quantiles
        edges = np.linspace(bottom, top, SPREAD_BINS + 1)
        bins = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=SPREAD_BINS + 2)
        n_kept = int((~np.isnan(found[reported[0]][:, 0])).sum())
        return Measured(
            n_kept,
            len(queries) - n_kept,
            beside(reported[0]),
            beside(reported[1]),
            promised,
            int((queries.n_items == 1).sum()),
            int(np.minimum(queries.n_items, self.outcome.k).sum()),
            n_unjudged(queries, self.outcome.k),
            policy_needed(queries),
            queries.n_rows,
            int(((scores < low) | (scores > high)).sum()),
            tuple(bins.tolist()),
            self._groups(queries, grid),
            min((_lowest(found[p.measure]) for p in promises if p.floored(self.outcome.ranker)), default=np.inf),
            {name: beside(name) for name in others},
            queries.fingerprint,
            {judged: Sums.of(quality[:, 1:], quality[:, 0])},
        )

    def _groups(self, queries: Queries, grid: Sequence[GPLRanker]) -> dict[str, tuple[int, ...]]:
        if queries.item_groups is None:
            return {}
        names, rows, number = queries.coded_groups.by_group()
        exposures = [queries.in_query_order(ranker.exposure(queries), "exposure") for ranker in grid]
        gain = self.outcome.promises[0].metric.gain if queries.relevance is not None else "equal"
        table = np.stack([*exposures, item_gains(queries, gain)], axis=1)
        everything = exact_sums(table, np.zeros(len(table), np.int64), 1)
        sums = exact_sums(table[rows], number, len(names))  # an item may be of several groups
        return dict(zip(["", *names], map(tuple, [*everything.tolist(), *sums.tolist()]), strict=True))

    def _segments(self, queries: Queries, promise: Promise) -> dict[str, NDArray[np.bool_]]:
        """All queries, "", if the promise is about them, and every segment there is."""
        everywhere = {} if promise.per else {"": np.ones(len(queries), bool)}
        if queries.segments is None:
            return everywhere
        names = queries.segments.astype(str)
        return everywhere | {str(name): names == name for name in np.unique(names)}


def _lowest(values: FloatArray) -> float:
    """The least share that any query keeps of the first column's value."""
    some = values[:, 0] > 0  # false for NaN too
    return float((values[some, 1] / values[some, 0]).min(initial=np.inf))


@dataclass(frozen=True)
class Kept:
    """One promise on new queries.

    Attributes:
        segment: The segment, or None for all queries.
        value: The promised quantity on the new queries: the metric's mean, or its share of what it is compared with.
        verdict: "kept", "broken", "unclear" when the interval contains the target, or "too few to say".
    """

    promise: str
    segment: str | None
    n_queries: int
    value: Estimate
    target: float
    verdict: str


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
        unjudged_share: Share of the first k places by score that hold such an item.
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
        verdicts = ", ".join(f"{kept.promise}: {kept.verdict}" for kept in self.promises)
        return f"<Check of {counted(self.n_queries, 'query')}: {verdicts}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    def __str__(self) -> str:
        left_out = f" ({self.n_skipped:,} more left out: no relevant item)" if self.n_skipped else ""
        lines = [f"{counted(self.n_queries, 'judged query')}{left_out}"]
        for kept in self.promises:
            where = in_segment(kept.segment)
            more = " (the interval contains the promise: judge more queries)" if kept.verdict == "unclear" else ""
            lines.append(
                f"promise      {kept.promise}{where}: {kept.verdict}, measured {kept.value}{more}"
                if self.promised
                else f"not promised {kept.promise}{where}: measured {kept.value}, by the order by score"
            )
        for kept in self.segments[:20]:
            lines.append(f"not promised {kept.promise} in segment {kept.segment!r}: measured {kept.value}")
        if self.lowest is not None:
            lines.append(
                f"every query  keeps at least {percent(self.lowest)} of what the order by score gives it; the floor is "
                f"{percent(self.floor)}"
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
        for name, (now, then) in self.beside.items():
            lines.append(f"{name.replace('_', ' ')} {now.value:.4f}; order by score {then.value:.4f}")
        if self.groups:
            lines.append(f"{'share of exposure, by group':<30} {'by score':>12} {'now':>12} {'of gain':>12}")
            for share in self.groups[:20]:
                numbers = f"{share.deterministic:12.1%} {share.ranker:12.1%} {share.gain:12.1%}"
                lines.append(f"  {share.group[:28]:<28} {numbers}")
        return "\n".join([*lines, "Intervals in brackets have about 95 % confidence."])


def check(
    outcome: Outcome, queries: Any, engine: str = "local", progress: Progress | None = None, **where: Unpack[Where]
) -> Check:
    """Check the promises of an outcome on new judged queries, and measure its ranker.

    Args:
        outcome: What calibration returned.
        queries: New judged queries, as `calibrate` takes them. Items without a grade count as they did there.
        engine: "local", "spark" or "dask".
        progress: Called with (done, total).
        where: See `isrr.data.source.Where`.
    """
    then = outcome.provenance.unjudged
    refuse_worst(outcome.promises, then)
    where = counting_alike(with_values(where, outcome.columns), queries, then, engine)
    with closing(open_source(queries, engine, **where)) as source:
        found = source.run(MeasureOutcome(outcome), progress)
    refuse_worst(outcome.promises, found.unjudged)
    refuse_other_policy(found.unjudged, then)
    n_all = found.n_queries + found.n_skipped
    if found.n_queries < 2:
        raise DataError(
            f"queries with a relevant item: {found.n_queries} of {n_all}; expected several, to check a promise"
        )
    refuse_single(found.n_single, n_all)
    utility, disparity = (_beside(sums) for sums in (found.utility, found.disparity))
    ((judged, sums),) = found.quality.items()
    quality = summed_quality(relevance_measure(outcome.promises, judged=judged), sums)
    promises: list[Kept] = []
    by_segment: list[Kept] = []
    for (i, segment), sums in sorted(found.promised.items()):
        promise = outcome.promises[i]
        spoken_of = segment in _promised_in(outcome, promise)
        (promises if spoken_of else by_segment).append(_kept(promise, segment or None, sums))
    return Check(
        outcome.k,
        not outcome.abstained,
        outcome.protects_relevance,
        found.n_queries,
        found.n_skipped,
        tuple(promises),
        tuple(by_segment),
        outcome.utility_name,
        *utility,
        quality,
        *disparity,
        float(found.disparity.reduction()[0][0]),
        found.shares(),
        {name: _beside(sums) for name, sums in found.beside.items()},
        outcome.ranker.floor,
        found.lowest if np.isfinite(found.lowest) else None,
        found.fingerprint,
        found.n_outside / found.n_rows,
        found.n_single / n_all,
        found.unjudged,
        found.n_unjudged / max(found.n_places, 1),
        (*outcome.unprotected(quality), *_warnings(outcome, utility[1], found)),
    )


def _beside(sums: Sums) -> tuple[Estimate, Estimate]:
    """The ranker in use, and the order by score."""
    before = sums.means()
    variance = max(before[4, 0] - before[1, 0] ** 2, 0.0)
    error = math.sqrt(variance / max(sums.n_queries - 1, 1))
    now, spread = sums.mean_and_error()
    return Estimate.around(now[0], spread[0]), Estimate.around(before[1, 0], error)


def _promised_in(outcome: Outcome, promise: Promise) -> list[str]:
    """The segments that a promise was tested in, "" standing for all queries together."""
    if promise.per is None:
        return [""]
    return [test.segment for test in outcome.tests if test.promise == promise and test.segment is not None]


def _warnings(outcome: Outcome, now: Estimate, found: Measured) -> Iterator[str]:
    """What verdicts do not show: promises left unjudged, and signs that a comparison by the same scores cannot see."""
    for i, promise in enumerate(outcome.promises):
        for segment in _promised_in(outcome, promise):
            if (i, segment) not in found.promised:
                yield f"no query counts in segment {segment!r}, so '{promise}' cannot be checked there"
    before = _deterministic_utility(outcome)
    if before is not None and abs(now.value - before.value) > 0.2 * before.value:
        if now.high < before.low or now.low > before.high:
            was = f"{outcome.utility_name} of the order by score was {before.value:.4f} at calibration"
            yield f"{was}, is {now.value:.4f} here; queries or scores have changed"
    _, bottom, _, top, _ = outcome.provenance.score_quantiles
    spread = found.score_spread() if bottom < top else None
    if spread is not None and spread < 0.5:
        yield f"scores are spread {spread:.1g} times as wide as at calibration; the promise covers only that scale"


def _deterministic_utility(outcome: Outcome) -> Estimate | None:
    """Utility of the order by score at calibration, where it is known."""
    if isinstance(outcome, Certificate):
        return outcome.deterministic_utility
    return next((point.utility for point in outcome.curve if point.ranker.is_deterministic), None)


def _kept(promise: Promise, segment: str | None, sums: Sums) -> Kept:
    """The verdict on a promise from sums over its metric and what it is compared with."""
    n = sums.n_queries
    value, reference, square, product, square_of_reference = sums.means()[:, 0].tolist()
    if promise.of is not None:
        divisor = max(reference, 1e-300)
        ratio = value / divisor
        variance = square - 2 * ratio * product + ratio**2 * square_of_reference - (value - ratio * reference) ** 2
        found = Estimate.around(ratio, math.sqrt(max(variance, 0.0) / n) / divisor)
    else:
        found = Estimate.around(value, math.sqrt(max(square - value**2, 0.0) / n))
    good, bad = found.low >= promise.target, found.high < promise.target
    if promise.at_least is None:
        good, bad = found.high <= promise.target, found.low > promise.target
    verdict = "kept" if good else "broken" if bad else "unclear"
    return Kept(str(promise), segment, n, found, promise.target, "too few to say" if n < LEAST_TO_TELL else verdict)
