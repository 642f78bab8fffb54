"""Measures of expected exposure that others report: evaluated, never promised.

expected_exposure_loss         Σ (e − e*)² over a query's items, e their expected exposure and e* that under an ideal
                               ranker, which shows better grades first and items of one grade equally often
expected_exposure_disparity    Σ e², its part that grows as exposure concentrates on few items
expected_exposure_relevance    Σ e·e*, its part that grows as exposure goes to the relevant;
                               loss = disparity − 2 · relevance + Σ e*²
awrf                           attention-weighted rank fairness: 1 − the Jensen–Shannon divergence (base 2) between the
                               groups' shares of exposure and their shares of gain; 1 is perfectly fair

With `discount="trec"`, 1 / log2(max(position, 2)), they are those of TREC's Fair Ranking track.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.gains import Discount, EmptyQuery, Gain, discount, item_gains
from isrr.metrics.measure import Block, Kind, Measurable, Measure, per_query
from isrr.ranker.exposure import Prepared

COLUMNS = {
    "expected_exposure_loss": ("relevance",),
    "expected_exposure_disparity": (),
    "expected_exposure_relevance": ("relevance",),
    "awrf": ("relevance", "item_group"),
}  # of the measures, by name
RISING = ("expected_exposure_relevance", "awrf")


@dataclass(frozen=True)
class Exposed(Measurable):
    """A measure of the expected exposure of a query's items.

    Attributes:
        name: What it is called.
        columns: Columns it reads.
        rising: Whether larger is better.
        discount: How positions are weighted.
    """

    name: str
    columns: tuple[str, ...]
    rising: bool  # type: ignore[misc]
    discount: Discount = "log2"
    gain: Gain = field(default="exponential", compare=False, repr=False)
    settings: tuple[tuple[str, str], ...] = ()
    title: str = ""
    kind: Kind = "fairness"
    empty_query: EmptyQuery = "skip"

    def position_weights(self, k: int) -> FloatArray:
        """Return the weights of the positions 1 … k."""
        return discount(k, self.discount)

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries have a relevant item, (n_queries,)."""
        return np.asarray(per_query(item_gains(queries, self.gain), queries) > 0)

    def summary(self, prepared: Prepared, measure: Measure) -> Callable[[Block], FloatArray]:
        """Return how its values follow, NaN where no item is relevant."""
        queries, weights = prepared.queries, self.position_weights(measure.k)
        counts = self.counts(queries, measure.k)
        of = _awrf(queries, weights, self.gain) if self.name == "awrf" else self._expected(prepared, weights)
        return lambda block: np.where(counts[block.start : block.stop, None], of(block), np.nan)

    def _expected(self, prepared: Prepared, weights: FloatArray) -> Callable[[Block], FloatArray]:
        queries = prepared.queries
        ideal = ideal_exposure(queries, weights) if self.columns else np.zeros(queries.n_rows)
        squares, by_draw = per_query(ideal**2, queries), ideal[prepared.rows]

        def of(block: Block) -> FloatArray:
            disparity, mine, others = block.products(weights, by_draw)
            relevance = (mine + others) / 2
            loss = disparity - 2.0 * relevance + squares[block.start : block.stop, None]
            return np.asarray({"loss": loss, "disparity": disparity, "relevance": relevance}[self.name.split("_")[2]])

        return of


def ideal_exposure(queries: Queries, weights: FloatArray) -> FloatArray:
    """Expected exposure under the ideal ranker: better grades first, equal grades equally often, (n_rows,).

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[1, 1, 0], query_ids=[7, 7, 7])
        >>> ideal_exposure(queries, np.array([1.0, 0.5]))
        array([0.75, 0.75, 0.  ])
    """
    grades, query = queries.need_relevance(), np.repeat(np.arange(len(queries)), queries.n_items)
    order = np.lexsort((-grades, query))
    position = np.arange(queries.n_rows) - np.repeat(queries.offsets[:-1], queries.n_items)
    padded = np.concatenate((weights, np.zeros(max(int(queries.n_items.max()) - weights.size, 0))))
    shown = padded[position]
    changes = (np.diff(grades[order]) != 0) | (np.diff(query) != 0)
    tie = np.concatenate(([0], np.cumsum(changes)))
    shared = (np.bincount(tie, shown) / np.bincount(tie))[tie]
    found = np.empty(queries.n_rows)
    found[order] = shared
    return found


def _awrf(queries: Queries, weights: FloatArray, gain: Gain) -> Callable[[Block], FloatArray]:
    """Items of several groups count in each of them by an equal part."""
    _, rows, group = queries.coded_groups.by_group()
    part = 1.0 / np.bincount(rows, minlength=queries.n_rows)[rows]
    query = np.repeat(np.arange(len(queries)), queries.n_items)[rows]
    by_cell = np.lexsort((group, query))
    rows, part, query, group = rows[by_cell], part[by_cell], query[by_cell], group[by_cell]
    new_cell = np.concatenate(([True], (np.diff(query) != 0) | (np.diff(group) != 0)))
    gains = item_gains(queries, gain)

    def shares(values: FloatArray, cells: NDArray[np.intp], of_cell: NDArray[np.intp], n: int) -> FloatArray:
        sums = np.add.reduceat(values, cells, axis=-1)
        totals = np.stack([np.bincount(of_cell, row, n) for row in sums])[:, of_cell]
        return np.asarray(sums / np.where(totals > 0, totals, 1.0))

    def of(block: Block) -> FloatArray:
        n_queries, first = block.stop - block.start, queries.offsets[block.start]
        here = slice(*np.searchsorted(query, [block.start, block.stop]))
        cells = np.flatnonzero(new_cell[here])
        if cells.size == 0:
            return np.ones((n_queries, len(block.exposure.n_shown)))
        of_cell = query[here][cells] - block.start
        exposure = block.of_rows(weights)[:, rows[here] - first] * part[here]
        shown = shares(exposure, cells, of_cell, n_queries)
        deserved = shares((gains[rows[here]] * part[here])[None], cells, of_cell, n_queries)
        middle = (shown + deserved) / 2

        def divergence(share: FloatArray) -> FloatArray:
            some = share > 0
            return np.where(some, share * np.log2(np.where(some, share, 1.0) / np.where(some, middle, 1.0)), 0.0)

        halves = (divergence(shown) + divergence(deserved)) / 2
        return np.stack([1.0 - np.bincount(of_cell, row, n_queries) for row in halves], axis=1)

    return of


def exposed(name: str, gain: Gain, kind: Discount) -> Exposed:
    """Return the measure of that name."""
    return Exposed(name, COLUMNS[name], name in RISING, kind, gain)
