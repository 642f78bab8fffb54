"""What all kinds of metric have in common, what they are computed from, and a metric over the first k places.

A metric says which ways of weighting places it needs (`place_weights`), and how its values follow from the exposure of
a block of queries (`summary`). Nothing else needs to know its kind.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import PromiseError
from isrr.gains import EmptyQuery, Gain
from isrr.metrics import kernels
from isrr.ranker.exposure import Exposure, Family, Prepared

Kind = Literal["utility", "fairness", "share"]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive queries, and their exposure under each ranker of a family.

    Attributes:
        prepared: All queries as the family draws from them.
        start, stop: The block holds the queries start … stop − 1.
        exposure: Expected exposure of their items.
        ways: Row of each way of weighting the places in the exposure.
        family: The rankers.
        seed: Random seed of the lists.
    """

    prepared: Prepared
    start: int
    stop: int
    exposure: Exposure
    ways: dict[bytes, int]
    family: Family
    seed: int = 0
    _memo: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return what `make` returns, which is called once per key."""
        if key not in self._memo:
            self._memo[key] = make()
        result: Result = self._memo[key]
        return result

    @property
    def _where(self) -> tuple[IntArray, IntArray]:
        return self.prepared.queries.offsets, self.exposure.n_shown

    @property
    def _shape(self) -> tuple[int, int]:
        return self.stop - self.start, len(self.exposure.n_shown)

    def weighted_sums(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """Return Σ exposure · value, (n_queries, n_grid); values in the order of the draw, (n_rows,)."""
        shown, out = self.exposure.mean[self.ways[way_of(weights)]], np.empty(self._shape)
        kernels.weighted_sums(*self._where, shown, values, self.start, self.stop, out)
        return out * largest_weight(weights)

    def products(self, weights: FloatArray, deserved: FloatArray) -> FloatArray:
        """Return Σ e·e′, Σ e·g and Σ e′·g of two unbiased exposures and what items deserve, (3, n_queries, n_grid)."""
        one, other = (half[self.ways[way_of(weights)]] for half in self.exposure.halves)
        out = np.empty((3, *self._shape))
        kernels.products(*self._where, one, other, deserved, self.start, self.stop, out)
        return out * _factors(weights)

    def pooled_products(
        self, weights: FloatArray, deserved: FloatArray, pool: NDArray[np.int32], n_pools: IntArray
    ) -> FloatArray:
        """Return the same of exposure added up by pool; deserved is that of the pools, (n_rows,)."""
        halves = []
        for half in self.exposure.halves[: 1 if self.exposure.is_exact else 2]:
            shown = half[self.ways[way_of(weights)]]
            halves.append(np.empty_like(shown))
            kernels.pool_exposure(*self._where, shown, pool, n_pools, self.start, self.stop, halves[-1])
        n_shown = np.repeat(n_pools[None, self.start : self.stop], self._shape[1], axis=0)
        offsets, out = self.prepared.queries.offsets, np.empty((3, *self._shape))
        kernels.products(offsets, n_shown, halves[0], halves[-1], deserved, self.start, self.stop, out)
        return out * _factors(weights)

    def of_rows(self, weights: FloatArray) -> FloatArray:
        """Return the exposure of each row, rows in query order, (n_grid, rows)."""
        offsets = self.prepared.queries.offsets[self.start : self.stop + 1]
        n_items, first, last = np.diff(offsets), offsets[0], offsets[-1]
        within = np.arange(first, last) - np.repeat(offsets[:-1], n_items)
        shown = self.exposure.mean[self.ways[way_of(weights)], :, : last - first] * largest_weight(weights)
        out = np.empty_like(shown)
        hidden = within >= np.repeat(self.exposure.n_shown, n_items, axis=1)
        out[:, self.prepared.rows[first:last] - first] = np.where(hidden, 0.0, shown)
        return out

    def lists(self, n_lists: int) -> NDArray[np.int32]:
        """Return the lists that `GPLRanker.sample` draws, for every ranker with the same noise.

        Positions within the query, −1 beyond its last item, (n_queries, n_grid, n_lists, k).
        """
        start, stop, shares = self.start, self.stop, self.exposure.shares
        return self.once(
            ("lists", n_lists), lambda: self.family.lists(self.prepared, start, stop, n_lists, shares, self.seed)
        )


def way_of(weights: FloatArray) -> bytes:
    """Return a name for a way of weighting places, the same for weights that differ by a factor."""
    return (np.trim_zeros(weights, "b") / largest_weight(weights)).tobytes()


def largest_weight(weights: FloatArray) -> float:
    """Return the largest weight, or 1 where all are 0."""
    return float(weights.max()) or 1.0


def _factors(weights: FloatArray) -> FloatArray:
    largest = largest_weight(weights)
    return np.array([largest**2, largest, largest])[:, None, None]


class Measurable:
    """A metric of any kind."""

    name: str
    columns: tuple[str, ...]
    kind: Kind
    title: str
    empty_query: EmptyQuery
    gain: Gain
    settings: tuple[tuple[str, str], ...]
    rising: ClassVar[bool]

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries have something to divide by, (n_queries,)."""
        raise NotImplementedError

    def place_weights(self, k: int) -> FloatArray:
        """Return the weights of the places 1 … k that its exposure is needed for, (k,)."""
        raise NotImplementedError

    def summary(self, prepared: Prepared, measure: "Measure") -> Callable[[Block], FloatArray]:
        """Return how its values on a block of queries follow from their exposure, (n_queries, n_grid)."""
        raise NotImplementedError

    def list_values(self, queries: Queries, lists: NDArray[np.integer[Any]], measure: "Measure") -> FloatArray:
        """Return the metric of each list, (n_queries, n_lists); NaN where a query does not count.

        Args:
            queries: What was ranked.
            lists: Positions within the query, −1 beyond its last item, (n_queries, n_lists, ≥ k).
            measure: This metric over the first k places.
        """
        raise PromiseError(f"{self.name} has no value of a single list")

    def at(self, k: int, empty_query: EmptyQuery | None = None) -> "Measure":
        """Return the metric over the first k places."""
        return Measure(self, k, self.empty_query if empty_query is None else empty_query)


class Measure(NamedTuple):
    """A metric over the first k places, with its policy for queries that have nothing to divide by."""

    metric: Measurable
    k: int
    empty_query: EmptyQuery

    def __str__(self) -> str:
        return f"{self.metric.name}@{self.k}"

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"

    def counts(self, queries: Queries) -> NDArray[np.bool_]:
        """Return which queries are measured, (n_queries,): all, or those that have something to divide by."""
        return np.ones(len(queries), bool) if self.empty_query != "skip" else self.metric.counts(queries, self.k)

    @property
    def title(self) -> str:
        """As sentences call it."""
        return f"{self.metric.title or self.metric.name}@{self.k}"


def per_query(values: FloatArray, queries: Queries) -> FloatArray:
    """Return sums over the items of each query of one number per row, (n_queries,)."""
    return np.asarray(np.add.reduceat(values, queries.offsets[:-1]))
