"""Measures of expected exposure that others report: evaluated, never promised.

expected_exposure_loss         Σ (e − e*)² over a query's items, e their expected exposure and e* that under an ideal
                               ranker, which shows better grades first and items of one grade equally often
expected_exposure_disparity    Σ e², its part that grows as exposure concentrates on few items
expected_exposure_relevance    Σ e·e*, its part that grows as exposure goes to the relevant;
                               loss = disparity − 2 · relevance + Σ e*²
awrf                           attention-weighted rank fairness: 1 − the Jensen–Shannon divergence (base 2) between the
                               groups' shares of exposure and their shares of gain; 1 is perfectly fair

With `discount="trec"`, 1 / log2(max(place, 2)), they are those of TREC's Fair Ranking track.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.gains import Discount, EmptyQuery, Gain, discount, item_gains
from isrr.metrics.measure import Kind, Measurable, per_query

Measured = Callable[[Queries, FloatArray, FloatArray, Gain], FloatArray]


@dataclass(frozen=True)
class Exposed(Measurable):
    """A measure of the expected exposure of a query's items.

    Attributes:
        name: What it is called.
        of: Its value on each query, (n_queries,); a function of the queries, the exposure of their rows in query order,
            the weights of the places, and the gain.
        columns: Columns it reads.
        rising: Whether larger is better.
        discount: How places are weighted.
    """

    name: str
    of: Measured = field(compare=False, repr=False)
    columns: tuple[str, ...]
    rising: bool  # type: ignore[misc]
    discount: Discount = "log2"
    gain: Gain = field(default="exponential", compare=False, repr=False)
    settings: tuple[tuple[str, str], ...] = ()
    title: str = ""
    kind: Kind = "fairness"
    empty_query: EmptyQuery = "skip"

    def weights(self, k: int) -> FloatArray:
        """The weights of the places 1 … k."""
        return discount(k, self.discount)

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Which queries have a relevant item, (n_queries,)."""
        return np.asarray(per_query(item_gains(queries, self.gain), queries) > 0)

    def values(self, queries: Queries, k: int, exposure: FloatArray) -> FloatArray:
        """Its values from the exposure of the rows in query order, NaN where no item is relevant, (n_queries,)."""
        found = self.of(queries, exposure, self.weights(k), self.gain)
        return np.where(self.counts(queries, k), found, np.nan)


def ideal_exposure(queries: Queries, weights: FloatArray) -> FloatArray:
    """Expected exposure under the ideal ranker: better grades first, equal grades equally often, (n_rows,).

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[1, 1, 0], query_ids=[7, 7, 7])
        >>> ideal_exposure(queries, np.array([1.0, 0.5]))
        array([0.75, 0.75, 0.  ])
    """
    grades, query = queries.need_relevance(), np.repeat(np.arange(len(queries)), queries.n_items)
    order = np.lexsort((-grades, query))
    place = np.arange(queries.n_rows) - np.repeat(queries.offsets[:-1], queries.n_items)
    padded = np.concatenate((weights, np.zeros(max(int(queries.n_items.max()) - weights.size, 0))))
    shown = padded[place]
    changes = (np.diff(grades[order]) != 0) | (np.diff(query) != 0)
    tie = np.concatenate(([0], np.cumsum(changes)))
    shared = (np.bincount(tie, shown) / np.bincount(tie))[tie]
    found = np.empty(queries.n_rows)
    found[order] = shared
    return found


def _awrf(queries: Queries, exposure: FloatArray, gain: Gain) -> FloatArray:
    """Items of several groups count in each of them by an equal part."""
    names, rows, group = queries.coded_groups.by_group()
    part = 1.0 / np.bincount(rows, minlength=queries.n_rows)[rows]
    query = np.repeat(np.arange(len(queries)), queries.n_items)[rows]
    cells, cell = np.unique(query * max(len(names), 1) + group, return_inverse=True)
    of_cell = cells // max(len(names), 1)

    def shares(values: FloatArray) -> FloatArray:
        sums = np.bincount(cell, values[rows] * part, cells.size)
        totals = np.bincount(of_cell, sums, len(queries))[of_cell]
        return np.asarray(sums / np.where(totals > 0, totals, 1.0))

    shown, deserved = shares(exposure), shares(item_gains(queries, gain))
    middle = (shown + deserved) / 2

    def divergence(share: FloatArray) -> FloatArray:
        some = share > 0
        return np.where(some, share * np.log2(np.where(some, share, 1.0) / np.where(some, middle, 1.0)), 0.0)

    halves = (divergence(shown) + divergence(deserved)) / 2
    return np.asarray(1.0 - np.bincount(of_cell, halves, len(queries)))


MEASURES: dict[str, tuple[Measured, tuple[str, ...], bool]] = {
    "expected_exposure_loss": (
        lambda queries, shown, weights, _: per_query((shown - ideal_exposure(queries, weights)) ** 2, queries),
        ("relevance",),
        False,
    ),
    "expected_exposure_disparity": (lambda queries, shown, *_: per_query(shown**2, queries), (), False),
    "expected_exposure_relevance": (
        lambda queries, shown, weights, _: per_query(shown * ideal_exposure(queries, weights), queries),
        ("relevance",),
        True,
    ),
    "awrf": (lambda queries, shown, _, gain: _awrf(queries, shown, gain), ("relevance", "item_group"), True),
}


def exposed(name: str, gain: Gain, kind: Discount) -> Exposed:
    """The measure of that name."""
    of, columns, rising = MEASURES[name]
    return Exposed(name, of, columns, rising, kind, gain)
