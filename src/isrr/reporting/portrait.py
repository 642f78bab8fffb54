"""The numbers of the page: who is shown before and after, one query in full, and how utility is spread over queries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.judged import judged_queries
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
    """A share of all exposure, before and after, beside the share of all gain if that is known."""

    name: str
    n_items: int
    before: float
    after: float
    deserved: float | None


@dataclass(frozen=True)
class Shown:
    """The mean chance of being shown at all, before and after, of the item at a position of the order by score."""

    position: int
    before: float
    after: float


@dataclass(frozen=True)
class Inequality:
    """How unequally items of one grade in one query are seen: the mean difference in exposure between two of them."""

    name: str
    n_items: int
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
class Portrait:
    """A ranker beside the order by score, on the queries that were tested on."""

    n_queries: int
    shown: tuple[Shown, ...]
    grades: tuple[Share, ...]
    equals: tuple[Inequality, ...]
    groups: tuple[Share, ...]
    positions: tuple[Share, ...]
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
    judged = judged_queries(
        queries, columns, roles=outcome.columns, unjudged=p.unjudged, sample=p.sample, per_segment=segmented,
        distinct=p.distinct, reference=reference,
    )  # fmt: skip
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
    ranker, relevance = outcome.ranker, tested.need_relevance()
    before, after = (_exposure(tested, r) for r in (GPLRanker.deterministic(ranker.k), ranker))
    gains = item_gains(tested, outcome.promises[0].metric.gain)
    grades, name = _grades(relevance)
    names, rows, number = _grouped(tested)
    whole = np.array([relevance.size, before.sum(), after.sum(), gains.sum()])
    query = np.repeat(np.arange(len(tested)), tested.n_items)
    moved = np.add.reduceat(np.abs(after - before), tested.offsets[:-1])
    return Portrait(
        len(tested),
        chances_of_being_shown(tested, ranker),
        _shares(grades, name, before, after, gains, whole),
        _inequalities(query, grades, name, before, after),
        _largest(_shares(number, lambda i: names[i], before[rows], after[rows], gains[rows], whole)),
        _shares(_position_ranges(tested), _range_name, before, after, gains, whole),
        _spread(*_utility(outcome, tested).T),
        _sample(tested[_telling(moved, tested.n_items)], ranker),
    )


def shares_shown(queries: Queries, ranker: GPLRanker) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    """Return shares of exposure by position in the order by score and by group, without what anyone deserves."""
    before, after = (_exposure(queries, r) for r in (GPLRanker.deterministic(ranker.k), ranker))
    names, rows, number = _grouped(queries)
    whole = np.array([before.size, before.sum(), after.sum(), 0.0])
    groups = _shares(number, lambda i: names[i], before[rows], after[rows], None, whole)
    return _shares(_position_ranges(queries), _range_name, before, after, None, whole), _largest(groups)


def chances_of_being_shown(queries: Queries, ranker: GPLRanker) -> tuple[Shown, ...]:
    """Return how often the item at each position of the order by score is among the first k, before and after."""
    k = ranker.k
    chances = _exposure(queries, ranker, np.ones(k))
    positions = _positions(queries)
    n_shown = min(max(2 * k, k + 3), MOST_POSITIONS, int(queries.n_items.max()))
    means = [float(chances[positions == position].mean()) for position in range(1, n_shown + 1)]
    return tuple(Shown(j, float(j <= k), mean) for j, mean in enumerate(means, 1))


def _exposure(queries: Queries, ranker: GPLRanker, weights: FloatArray | None = None) -> FloatArray:
    return queries.in_query_order(ranker.exposure(queries, weights=weights), "exposure")


def _utility(outcome: Certificate | Abstention, tested: Queries) -> FloatArray:
    """Return the utility of the order by score and of the ranker, on each query that has any, (n, 2)."""
    measure = objectives(outcome.promises, judged=tested.relevance is not None)[0]
    values = evaluate(tested, [GPLRanker.deterministic(outcome.k), outcome.ranker], [measure])[measure]
    return values[~np.isnan(values).any(axis=1)]


def _shares(
    kinds: NDArray[Any],
    name: Callable[[Any], str],
    before: FloatArray,
    after: FloatArray,
    gains: FloatArray | None,
    whole: FloatArray,
) -> tuple[Share, ...]:
    """Return what the items of each kind have of the whole: number, exposure before and after, gain."""
    distinct, code = np.unique(kinds, return_inverse=True)
    sums = [np.bincount(code, weights) for weights in (None, before, after)]
    n_items, first, second = sums[0].tolist(), sums[1] / max(whole[1], 1e-300), sums[2] / max(whole[2], 1e-300)
    earned = [None] * len(distinct) if gains is None else (np.bincount(code, gains) / max(whole[3], 1e-300)).tolist()
    columns = zip(distinct.tolist(), n_items, first.tolist(), second.tolist(), earned, strict=True)
    return tuple(Share(name(kind), n, b, a, e) for kind, n, b, a, e in columns)


def _inequalities(
    query: IntArray, grades: NDArray[Any], name: Callable[[Any], str], before: FloatArray, after: FloatArray
) -> tuple[Inequality, ...]:
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
    return tuple(Inequality(name(grade), round(n), b, a) for grade, n, b, a in columns)


def _grades(relevance: FloatArray) -> tuple[NDArray[Any], Callable[[Any], str]]:
    """Return the grade of each item, or the number of its interval where there are many, and how a grade is called."""
    if np.unique(relevance).size <= MOST_GRADES:
        return relevance, lambda grade: f"{grade:g}"
    edges = np.linspace(relevance.min(), relevance.max(), N_INTERVALS + 1)
    intervals = np.clip(np.searchsorted(edges, relevance, "right") - 1, 0, N_INTERVALS - 1)
    return intervals, lambda i: f"{edges[i]:.3g} to {edges[i + 1]:.3g}"


def _grouped(queries: Queries) -> tuple[list[str], IntArray, IntArray]:
    """Return the names of the groups, and the rows and groups of all memberships."""
    if queries.item_groups is None:
        return [], np.empty(0, np.int64), np.empty(0, np.int64)
    names, rows, number = queries.coded_groups.by_group()
    return [str(name) for name in names], np.asarray(rows), np.asarray(number)


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


def _position_ranges(queries: Queries) -> IntArray:
    """Return which of `POSITIONS` each item is in."""
    return np.searchsorted([first for first, _ in POSITIONS], _positions(queries), "right") - 1


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
