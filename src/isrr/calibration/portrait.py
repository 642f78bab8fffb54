"""Who gains and who loses exposure under a ranker, one query in full, and how utility is spread over queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.retrace import Retraced
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.gains import gain
from isrr.ranker.gpl import GPLRanker

MOST_GROUPS = 15
MOST_GRADES = 12
PLACES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, None))
N_BINS = 20
MOST_ITEMS = 12
SAMPLE_LENGTHS = (6, 40)


@dataclass(frozen=True)
class Share:
    """Part of all exposure that a kind of item has, before and after, beside its part of all gain."""

    name: str
    n_items: int
    before: float
    after: float
    deserved: float


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
    groups: tuple[Share, ...]
    places: tuple[Share, ...]
    spread: Spread
    sample: Sample


def portray(found: Retraced) -> Portrait:
    """Compare the outcome's ranker with the deterministic order on the queries that were tested on."""
    outcome = found.outcome
    first, ranker = outcome.guarantees[0], outcome.ranker
    judged = found.tested if found.kept.all() else found.tested[found.kept]
    after = judged.in_query_order(ranker.exposure(judged), "exposure")
    before = judged.in_query_order(GPLRanker.deterministic(ranker.k).exposure(judged), "exposure")
    gains = gain(judged.need_relevance(), first.gain_kind)
    column = 0 if ranker.is_deterministic else found.grid.index(ranker)
    ndcg = found.measured.ndcg[found.kept]

    def shares(code: IntArray, names: Sequence[str]) -> list[Share]:
        totals = [np.bincount(code, w, minlength=len(names)) for w in (before, after, gains)]
        parts = [total / max(total.sum(), 1e-300) for total in totals]
        counts = np.bincount(code, minlength=len(names))
        rows = zip(names, counts, *parts, strict=True)
        return [Share(name, int(n), float(b), float(a), float(g)) for name, n, b, a, g in rows if n]

    return Portrait(
        len(judged),
        tuple(shares(*_grades(judged.need_relevance()))),
        () if judged.item_groups is None else _largest(shares(*_coded(judged.item_groups.astype(str)))),
        tuple(shares(*_places(judged))),
        _spread(ndcg[:, 0], ndcg[:, column]),
        _sample(judged, ranker, before, after),
    )


def _coded(names: NDArray[Any]) -> tuple[IntArray, list[str]]:
    distinct, code = np.unique(names, return_inverse=True)
    return code.astype(np.int64), [str(name) for name in distinct]


def _grades(relevance: FloatArray) -> tuple[IntArray, list[str]]:
    distinct, code = np.unique(relevance, return_inverse=True)
    if distinct.size <= MOST_GRADES:
        return code.astype(np.int64), [f"{grade:g}" for grade in distinct]
    edges = np.linspace(distinct[0], distinct[-1], 6)
    names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return np.clip(np.searchsorted(edges, relevance, "right") - 1, 0, 4), names


def _largest(groups: list[Share]) -> tuple[Share, ...]:
    """The groups with the largest part of gain or exposure; the others pooled."""
    ordered = sorted(groups, key=lambda share: -max(share.deserved, share.before))
    rest = ordered[MOST_GROUPS:]
    if not rest:
        return tuple(ordered)
    parts = {name: sum(getattr(share, name) for share in rest) for name in ("n_items", "before", "after", "deserved")}
    return (*ordered[:MOST_GROUPS], Share(f"{len(rest):,} other groups", **parts))


def _places(judged: Queries) -> tuple[IntArray, list[str]]:
    """Items by their place in the deterministic order."""
    within = np.arange(judged.n_rows) - np.repeat(judged.offsets[:-1], judged.n_items)
    place = np.empty(judged.n_rows, np.int64)
    place[np.repeat(judged.offsets[:-1], judged.n_items) + judged.by_score] = within + 1
    starts = np.array([first for first, _ in PLACES])
    names = [str(a) if a == b else f"{a} on" if b is None else f"{a}–{b}" for a, b in PLACES]
    return np.searchsorted(starts, place, "right") - 1, names


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


def _sample(judged: Queries, ranker: GPLRanker, before: FloatArray, after: FloatArray) -> Sample:
    """A query of readable length in which exposure moves as much as in the middle of those where it moves most."""
    moved = np.add.reduceat(np.abs(after - before), judged.offsets[:-1])
    fewest, most = SAMPLE_LENGTHS
    readable = np.flatnonzero((judged.n_items >= fewest) & (judged.n_items <= most))
    candidates = readable if readable.size else np.arange(len(judged))
    by_move = candidates[np.argsort(moved[candidates], kind="stable")]
    q = int(by_move[int(0.75 * (len(by_move) - 1))])
    query = judged[q]
    chances = ranker.placement(query)
    rows = []
    for i in query.by_score[:MOST_ITEMS].tolist():
        item = f"item {i + 1}" if query.item_ids is None else str(query.item_ids[i])
        group = None if query.item_groups is None else str(query.item_groups[i])
        score, grade = float(query.need_scores()[i]), float(query.need_relevance()[i])
        rows.append(Row(item, group, grade, score, tuple(chances[i].tolist())))
    return Sample(str(query.query_ids[0]), query.n_rows, tuple(rows))
