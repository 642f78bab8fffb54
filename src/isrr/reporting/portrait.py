"""The numbers of the page: who is shown before and after, one query in full, and how utility is spread over queries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.judged import draw, judged_queries
from isrr.data.columns import Columns
from isrr.data.groups import BETWEEN_GROUPS
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.unjudged import policy_needed, refuse_other_policy
from isrr.errors import DataError
from isrr.gains import item_gains
from isrr.metrics.evaluate import evaluate
from isrr.outcome.certificate import Abstention, Certificate
from isrr.promises import objectives
from isrr.ranker.gpl import GPLRanker

MOST_GROUPS = 15
MOST_GRADES = 12
POSITIONS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, None))
MOST_POSITIONS = 20  # whose chances of being shown are drawn
N_INTERVALS = 5  # of grades, where there are more than so many
N_BINS = 20
MOST_ITEMS = 12
SAMPLE_LENGTHS = (6, 40)


@dataclass(frozen=True)
class Share:
    """What some items have, before and after, beside the share of all gain that they earn if that is known.

    Shares of all exposure; for equals, the mean difference in exposure between two items of one grade in one query.
    """

    name: str
    n_items: int
    before: float
    after: float
    deserved: float | None = None


@dataclass(frozen=True)
class Shown:
    """The mean chance of being shown at all, before and after, of the item at a position of the order by score."""

    position: int
    before: float
    after: float


@dataclass(frozen=True)
class Spread:
    """Expected utility over queries.

    Attributes:
        edges: Of the bins, (n_bins + 1,).
        before, after: Queries in each bin.
        worst_before, worst_after: Mean over the tenth of the queries that is worst in the order by score, both times.
        median_before, median_after: Half of the queries lie below.
        losing, gaining: Share of queries that lose, or gain, more than 0.05.
    """

    edges: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    worst_before: float
    worst_after: float
    median_before: float
    median_after: float
    losing: float
    gaining: float


@dataclass(frozen=True)
class Row:
    """One item of the sample query, and its chance of each position."""

    item: str
    group: str | None
    relevance: float
    score: float
    chances: tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """One query in full: items by falling score, the deterministic order."""

    query: str
    n_items: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Seen:
    """Who is shown in the lists of a ranker and in the order by score."""

    shown: tuple[Shown, ...]
    groups: tuple[Share, ...]
    positions: tuple[Share, ...]


@dataclass(frozen=True)
class Portrait(Seen):
    """A ranker beside the order by score, on the queries that were tested on; `promised` are means over queries."""

    n_queries: int
    promised: tuple[Share, ...]
    grades: tuple[Share, ...]
    equals: tuple[Share, ...]
    spread: Spread
    sample: Sample


def retrace(
    outcome: Certificate | Abstention,
    queries: Any,
    columns: Columns | None = None,
    reference: str | Queries | None = None,
) -> Queries:
    """Return the queries that an outcome was tested on, found again among those that `calibrate` took."""
    p = outcome.provenance
    segmented = any(promise.per is not None for promise in outcome.promises)
    drawn = draw(
        queries, columns, roles=outcome.columns, unjudged=p.unjudged, sample=None if p.distinct else p.sample,
        per_segment=segmented, reference=reference,
    )  # fmt: skip
    judged = judged_queries(drawn, sample=p.sample, per_segment=segmented, distinct=p.distinct)
    if judged.data != p.data:
        raise DataError(
            f"these are not the judged queries of the calibration: their fingerprint is {judged.data[:12]}…, "
            f"the outcome's {p.data[:12]}…; expected the same table; for new queries use `isrr check`"
        )
    refuse_other_policy(policy_needed(judged.queries), p.unjudged)
    left = np.ones(len(judged.queries), bool)
    left[np.flatnonzero(judged.uniform)[: p.n_set_aside]] = False
    tested = judged.queries[np.flatnonzero(left)]
    counts = np.any([promise.measure.counts(tested) for promise in outcome.promises], axis=0)
    return tested if counts.all() else tested[counts]


def portray(outcome: Certificate | Abstention, tested: Queries) -> Portrait:
    """Compare the outcome's ranker with the order by score on the queries that were tested on."""
    gains = item_gains(tested, outcome.promises[0].metric.gain)
    before, after = _exposures(tested, outcome.ranker)
    grades, name = _grades(tested.need_relevance())
    query = np.repeat(np.arange(len(tested)), tested.n_items)
    moved = np.add.reduceat(np.abs(after - before), tested.offsets[:-1])
    return Portrait(
        **vars(seen(tested, outcome.ranker, gains)),
        n_queries=len(tested),
        promised=_promised(outcome, tested),
        grades=_shares(grades, name, before, after, gains),
        equals=_inequalities(query, grades, name, before, after),
        spread=_spread(*_utility(outcome, tested).T),
        sample=_sample(tested[_telling(moved, tested.n_items)], outcome.ranker),
    )


def seen(queries: Queries, ranker: GPLRanker, *gains: FloatArray) -> Seen:
    """Return who is seen before and after, by position in the order by score and by group."""
    k, parts, positions = ranker.k, (*_exposures(queries, ranker), *gains), _positions(queries)
    _, chances = _exposures(queries, ranker, np.ones(k))
    n_shown = min(max(2 * k, k + 3), MOST_POSITIONS, int(queries.n_items.max()))
    shown = [Shown(j, float(j <= k), float(chances[positions == j].mean())) for j in range(1, n_shown + 1)]
    ranges = np.searchsorted([first for first, _ in POSITIONS], positions, "right") - 1
    groups: tuple[Share, ...] = ()
    if queries.item_groups is not None:
        names, rows, number = queries.coded_groups.by_group()
        groups = _largest(_shares(number, lambda i: names[i], *parts, rows=rows))
    return Seen(tuple(shown), groups, _shares(ranges, _range_name, *parts))


def _exposures(queries: Queries, ranker: GPLRanker, weights: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the exposure of each item in the order by score and under a ranker."""
    rankers = (GPLRanker.deterministic(ranker.k), ranker)
    before, after = (queries.in_query_order(r.exposure(queries, weights=weights), "exposure") for r in rankers)
    return before, after


def _utility(outcome: Certificate | Abstention, tested: Queries) -> FloatArray:
    """Return the utility of the order by score and of the ranker, on each query that has any, (n, 2)."""
    measure = objectives(outcome.promises, judged=tested.relevance is not None)[0]
    values = evaluate(tested, [GPLRanker.deterministic(outcome.k), outcome.ranker], [measure])[measure]
    return values[~np.isnan(values).any(axis=1)]


def _promised(outcome: Certificate | Abstention, tested: Queries) -> tuple[Share, ...]:
    """Return the mean share of exposure of each group that a promise is about, as the promise measures it."""
    measures = list(dict.fromkeys(p.base_measure for p in outcome.promises if p.group is not None))
    if not measures:
        return ()
    values = evaluate(tested, [GPLRanker.deterministic(outcome.k), outcome.ranker], measures)
    means = {measure: np.nanmean(values[measure], axis=0).tolist() for measure in measures}
    return tuple(Share(measure.title, tested.n_rows, *means[measure]) for measure in measures)


def _shares(
    kinds: NDArray[Any], name: Callable[[Any], str], *parts: FloatArray, rows: IntArray | None = None
) -> tuple[Share, ...]:
    """Return the share of each part (exposure before and after, gain) that items of each kind have; rows: the items."""
    distinct, code = np.unique(kinds, return_inverse=True)
    sums = [np.bincount(code, part if rows is None else part[rows]) / max(part.sum(), 1e-300) for part in parts]
    columns = zip(distinct.tolist(), np.bincount(code).tolist(), *(each.tolist() for each in sums), strict=True)
    return tuple(Share(name(kind), *numbers) for kind, *numbers in columns)


def _inequalities(
    query: IntArray, grades: NDArray[Any], name: Callable[[Any], str], before: FloatArray, after: FloatArray
) -> tuple[Share, ...]:
    """Return the mean difference in exposure between two items of one grade in one query, by grade."""
    sums = []
    for exposure in (before, after):
        order = np.lexsort((exposure, grades, query))
        starts = np.flatnonzero(np.concatenate(([True], (np.diff(query[order]) != 0) | (np.diff(grades[order]) != 0))))
        size = np.diff(np.append(starts, query.size))
        rank = np.arange(query.size) - np.repeat(starts, size)
        differences = np.add.reduceat((2 * rank + 1 - np.repeat(size, size)) * exposure[order], starts)
        several = size > 1
        distinct, code = np.unique(grades[order][starts][several], return_inverse=True)
        n_items = np.bincount(code, size[several])
        sums.append(np.bincount(code, differences[several] / ((size[several] - 1) / 2)) / n_items)
    columns = zip(distinct.tolist(), n_items.tolist(), sums[0].tolist(), sums[1].tolist(), strict=True)
    return tuple(Share(name(grade), round(n), b, a) for grade, n, b, a in columns)


def _grades(relevance: FloatArray) -> tuple[NDArray[Any], Callable[[Any], str]]:
    """Return the grade of each item, or the number of its interval where there are many, and how a grade is called."""
    if np.unique(relevance).size <= MOST_GRADES:
        return relevance, lambda grade: f"{grade:g}"
    edges = np.linspace(relevance.min(), relevance.max(), N_INTERVALS + 1)
    intervals = np.clip(np.searchsorted(edges, relevance, "right") - 1, 0, N_INTERVALS - 1)
    return intervals, lambda i: f"{edges[i]:.3g} to {edges[i + 1]:.3g}"


def _largest(groups: tuple[Share, ...]) -> tuple[Share, ...]:
    """Return the groups with the largest share of gain or exposure; the others pooled."""
    ordered = sorted(groups, key=lambda share: -max(share.deserved or 0.0, share.before))
    rest = ordered[MOST_GROUPS:]
    if len(rest) < 2:
        return tuple(ordered)
    parts: dict[str, Any] = {name: sum(getattr(s, name) for s in rest) for name in ("n_items", "before", "after")}
    deserved = None if rest[0].deserved is None else sum(share.deserved or 0.0 for share in rest)
    return (*ordered[:MOST_GROUPS], Share(f"{len(rest):,} other groups", **parts, deserved=deserved))


def _positions(queries: Queries) -> IntArray:
    """Return the position of each item in the order by score, from 1."""
    starts = np.repeat(queries.offsets[:-1], queries.n_items)
    positions = np.empty(queries.n_rows, np.int64)
    positions[starts + queries.by_score] = np.arange(queries.n_rows) - starts + 1
    return positions


def _range_name(number: int) -> str:
    first, last = POSITIONS[number]
    return str(first) if first == last else f"{first} on" if last is None else f"{first}–{last}"


def _spread(before: FloatArray, after: FloatArray) -> Spread:
    edges = np.linspace(0.0, 1.0, N_BINS + 1)
    counts = [np.histogram(np.clip(values, 0.0, 1.0), edges)[0] for values in (before, after)]
    worst = np.argsort(before, kind="stable")[: max(len(before) // 10, 1)]
    return Spread(
        tuple(edges.tolist()),
        tuple(counts[0].tolist()),
        tuple(counts[1].tolist()),
        float(before[worst].mean()),
        float(after[worst].mean()),
        float(np.median(before)),
        float(np.median(after)),
        float(np.mean(after - before < -0.05)),
        float(np.mean(after - before > 0.05)),
    )


def _telling(moved: FloatArray, n_items: IntArray) -> int:
    """Return a query of readable length in which exposure moves more than in three quarters of such queries."""
    fewest, most = SAMPLE_LENGTHS
    readable = np.flatnonzero((n_items >= fewest) & (n_items <= most))
    candidates = readable if readable.size else np.arange(moved.size)
    by_move = candidates[np.argsort(moved[candidates], kind="stable")]
    return int(by_move[int(0.75 * (len(by_move) - 1))])


def _sample(query: Queries, ranker: GPLRanker) -> Sample:
    chances = ranker.placement(query)
    rows = []
    for i in query.by_score[:MOST_ITEMS].tolist():
        item = f"item {i + 1}" if query.item_ids is None else str(query.item_ids[i])
        group = None if query.item_groups is None else str(query.item_groups[i]).replace(BETWEEN_GROUPS, ", ")
        score, grade = float(query.need_scores()[i]), float(query.need_relevance()[i])
        rows.append(Row(item, group, grade, score, tuple(chances[i].tolist())))
    return Sample(str(query.query_ids[0]), query.n_rows, tuple(rows))
