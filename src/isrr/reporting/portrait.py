"""Who gains and who loses exposure under a ranker, one query in full, and how utility is spread over queries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.identifiers import BETWEEN_GROUPS
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.gains import item_gains
from isrr.ranker.gpl import GPLRanker
from isrr.reporting.retrace import Retraced

MOST_GROUPS = 15
MOST_GRADES = 12
PLACES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, None))
_PLACE_NAMES = [str(a) if a == b else f"{a} on" if b is None else f"{a}–{b}" for a, b in PLACES]
N_INTERVALS = 5  # of grades, where there are more than so many
N_BINS = 20
BLOCK = 8_192  # queries seen at a time
MOST_ITEMS = 12
SAMPLE_LENGTHS = (6, 40)


@dataclass(frozen=True)
class Share:
    """Part of all exposure that a kind of item has, before and after, beside its part of all gain if that is known."""

    name: str
    n_items: int
    before: float
    after: float
    deserved: float | None


@dataclass(frozen=True)
class Inequality:
    """How unequally items of one grade in one query are seen: the mean difference in exposure between two of them."""

    name: str
    n_items: int
    before: float
    after: float


@dataclass(frozen=True)
class Spread:
    """Expected NDCG over queries.

    Attributes:
        edges: Of the bins, (n_bins + 1,).
        before, after: Queries in each bin.
        worst_before, worst_after: Mean of the worst tenth of the queries, each by its own order.
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
    """A ranker against the deterministic order, on judged queries."""

    n_queries: int
    grades: tuple[Share, ...]
    equals: tuple[Inequality, ...]
    groups: tuple[Share, ...]
    places: tuple[Share, ...]
    spread: Spread
    sample: Sample


def portray(found: Retraced) -> Portrait:
    """Compare the outcome's ranker with the deterministic order on the queries that were tested on."""
    tested, ranker = found.tested, found.outcome.ranker
    relevance = tested.need_relevance()
    grades, places, groups, equals = _Tally(), _Tally(), _Tally(), _Tally()
    intervals = _intervals(relevance)
    moved = np.empty(len(tested))
    for start, part, before, after in _seen(tested, ranker):
        moved[start : start + BLOCK] = np.add.reduceat(np.abs(after - before), part.offsets[:-1])
        gains = item_gains(part, found.outcome.promises[0].metric.gain)
        grade = _grade(part.need_relevance(), intervals)
        grades.add(grade, before, after, gains)
        query = np.repeat(np.arange(len(part)), part.n_items)
        of_set, n_items, unequal_before, unequal_after = _unequal(query, grade, before, after)
        equals.add(of_set, unequal_before, unequal_after, n_items)
        places.add(_place(part), before, after, gains)
        groups.add_groups(part, before, after, gains)

    def named(grade: Any) -> str:
        if intervals is None:
            return f"{grade:g}"
        return f"{intervals[int(grade)]:.3g} to {intervals[int(grade) + 1]:.3g}"

    return Portrait(
        len(tested),
        grades.shares(named),
        tuple(
            Inequality(named(grade), round(row[3]), *(row[1:3] / row[3]).tolist())
            for grade, row in sorted(equals.sums.items())
        ),
        _largest(groups.shares(str, places.whole)),
        places.shares(lambda place: _PLACE_NAMES[int(place)]),
        _spread(*found.utility().T),
        _sample(tested[_telling(moved, tested.n_items)], ranker),
    )


def shown_by(queries: Queries, ranker: GPLRanker) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    """Shares of exposure by place in the order by score and by group; nothing is said about what anyone deserves."""
    places, groups = _Tally(), _Tally()
    for _, part, before, after in _seen(queries, ranker):
        places.add(_place(part), before, after, np.zeros(part.n_rows))
        groups.add_groups(part, before, after, np.zeros(part.n_rows))
    by_place = places.shares(lambda place: _PLACE_NAMES[int(place)])
    by_group = _largest(groups.shares(str, places.whole))
    return tuple(replace(s, deserved=None) for s in by_place), tuple(replace(s, deserved=None) for s in by_group)


def _seen(queries: Queries, ranker: GPLRanker) -> Iterator[tuple[int, Queries, FloatArray, FloatArray]]:
    """Blocks of queries, from which on, and the exposure of their items in the order by score and under a ranker."""
    by_score = GPLRanker.deterministic(ranker.k)
    for start in range(0, len(queries), BLOCK):
        part = queries if len(queries) <= BLOCK else queries[start : start + BLOCK]
        before, after = (part.in_query_order(r.exposure(part), "exposure") for r in (by_score, ranker))
        yield start, part, before, after


def _unequal(
    query: IntArray, grade: NDArray[Any], before: FloatArray, after: FloatArray
) -> tuple[NDArray[Any], FloatArray, FloatArray, FloatArray]:
    """Sets of two or more items of one grade in one query: grade and size; mean difference between two, times size."""
    found = []
    for exposure in (before, after):
        order = np.lexsort((exposure, grade, query))
        starts = np.flatnonzero(np.concatenate(([True], (np.diff(query[order]) != 0) | (np.diff(grade[order]) != 0))))
        size = np.diff(np.append(starts, query.size))
        rank = np.arange(query.size) - np.repeat(starts, size)
        differences = np.add.reduceat((2 * rank + 1 - np.repeat(size, size)) * exposure[order], starts)
        several = size > 1
        found.append(differences[several] / ((size[several] - 1) / 2))
    return grade[order][starts][several], size[several].astype(np.float64), found[0], found[1]


class _Tally:
    """Items, exposure before and after, and gain, summed up by kind of item."""

    def __init__(self) -> None:
        self.sums: dict[Any, FloatArray] = {}

    def add(self, kinds: NDArray[Any], before: FloatArray, after: FloatArray, gains: FloatArray) -> None:
        """Count some items in, each of the kind given."""
        distinct, code = np.unique(kinds, return_inverse=True)
        columns = [np.bincount(code, weights) for weights in (None, before, after, gains)]
        for kind, row in zip(distinct.tolist(), np.stack(columns, axis=1), strict=True):
            self.sums[kind] = self.sums.get(kind, 0.0) + row

    def add_groups(self, queries: Queries, before: FloatArray, after: FloatArray, gains: FloatArray) -> None:
        """Count the items of queries in, each in all of its groups."""
        if queries.item_groups is not None:
            names, rows, number = queries.coded_groups.by_group()
            self.add(np.array(names, object)[number], before[rows], after[rows], gains[rows])

    @property
    def whole(self) -> FloatArray:
        """All kinds together."""
        return np.asarray(sum(self.sums.values(), np.zeros(4)))

    def shares(self, name: Callable[[Any], str], whole: FloatArray | None = None) -> tuple[Share, ...]:
        """What each kind has of the whole, kinds in their own order."""
        totals = np.maximum(self.whole if whole is None else whole, 1e-300)
        parts = [(kind, self.sums[kind], self.sums[kind] / totals) for kind in sorted(self.sums)]
        return tuple(Share(name(kind), round(row[0]), *part[1:].tolist()) for kind, row, part in parts)


def _intervals(relevance: FloatArray) -> FloatArray | None:
    """Edges that group grades where there are too many to show each; None where there are not."""
    distinct: set[float] = set()
    for start in range(0, relevance.size, BLOCK):
        distinct.update(np.unique(relevance[start : start + BLOCK]).tolist())
        if len(distinct) > MOST_GRADES:
            return np.linspace(relevance.min(), relevance.max(), N_INTERVALS + 1)
    return None


def _grade(relevance: FloatArray, intervals: FloatArray | None) -> NDArray[Any]:
    """The grade of each item, or the number of its interval."""
    if intervals is None:
        return relevance
    return np.clip(np.searchsorted(intervals, relevance, "right") - 1, 0, N_INTERVALS - 1)


def _largest(groups: tuple[Share, ...]) -> tuple[Share, ...]:
    """The groups with the largest part of gain or exposure; the others pooled."""
    ordered = sorted(groups, key=lambda share: -max(share.deserved or 0.0, share.before))
    rest = ordered[MOST_GROUPS:]
    if len(rest) < 2:
        return tuple(ordered)
    parts = {name: sum(getattr(share, name) for share in rest) for name in ("n_items", "before", "after", "deserved")}
    return (*ordered[:MOST_GROUPS], Share(f"{len(rest):,} other groups", **parts))


def _place(queries: Queries) -> IntArray:
    """Which of `PLACES` each item has in the deterministic order."""
    starts = np.repeat(queries.offsets[:-1], queries.n_items)
    place = np.empty(queries.n_rows, np.int64)
    place[starts + queries.by_score] = np.arange(queries.n_rows) - starts + 1
    return np.searchsorted([first for first, _ in PLACES], place, "right") - 1


def _spread(before: FloatArray, after: FloatArray) -> Spread:
    edges = np.linspace(0.0, 1.0, N_BINS + 1)
    counts = [np.histogram(np.clip(values, 0.0, 1.0), edges)[0] for values in (before, after)]
    n_worst = max(len(before) // 10, 1)
    return Spread(
        tuple(edges.tolist()),
        tuple(counts[0].tolist()),
        tuple(counts[1].tolist()),
        float(np.sort(before)[:n_worst].mean()),
        float(np.sort(after)[:n_worst].mean()),
        float(np.median(before)),
        float(np.median(after)),
        float(np.mean(after - before < -0.05)),
        float(np.mean(after - before > 0.05)),
    )


def _telling(moved: FloatArray, n_items: IntArray) -> int:
    """A query of readable length in which exposure moves more than in three quarters of such queries."""
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
