"""What all kinds of metric have in common, what they are computed from, and a metric over the first k positions.

A metric says what it needs to know of the draws for a block of queries (`needs`), with which weights of the positions
(`position_weights`), and how its values follow (`summary`). Nothing else needs to know its kind.

    EXPOSURE         the expected exposure of single items
    ("first", rel)   the position of the first item with a grade from `rel` on
    LISTS            whole lists, drawn at random
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import PromiseError
from isrr.gains import EmptyQuery, Gain, empty_value
from isrr.metrics import kernels
from isrr.ranker.exposure import Exposure, Family, Prepared

Kind = Literal["utility", "fairness", "share"]
Result = TypeVar("Result")
EXPOSURE, LISTS = "exposure", "lists"
LISTED_AT_ONCE = 1 << 22  # positions of drawn lists


class Ways(NamedTuple):
    """Ways of weighting the positions; those that differ by a factor are one.

    Attributes:
        rows: Row of each way in `weights`, by its name.
        weights: The ways, the largest weight of each is 1, (n_ways, k).
    """

    rows: dict[bytes, int]
    weights: FloatArray

    @classmethod
    def of(cls, several: Iterable[FloatArray], k: int) -> "Ways":
        """Collect the ways among some weights, each of at most k positions."""
        distinct = {way_of(weights): weights / largest_weight(weights) for weights in several}
        padded = [np.pad(weights, (0, k - weights.size)) for weights in distinct.values()]
        return cls({way: row for row, way in enumerate(distinct)}, np.reshape(padded, (-1, k)))


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive queries, and what metrics need to know of them under each ranker of a family.

    Attributes:
        prepared: All queries as the family draws from them.
        start, stop: The block holds the queries start … stop − 1.
        exposure: Expected exposure of their items.
        family: The rankers.
        ways: Ways of weighting the positions, by what is weighted: what metrics say that they need.
        n_draws: Rankings drawn per query where nothing exact is known.
        seed: Random seed of these rankings.
    """

    prepared: Prepared
    start: int
    stop: int
    exposure: Exposure
    family: Family
    ways: Mapping[Hashable, Ways]
    n_draws: int = 0
    seed: int = 0
    _memo: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return what `make` returns, which is called once per key."""
        if key not in self._memo:
            self._memo[key] = make()
        result: Result = self._memo[key]
        return result

    def weighted_sums(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        """Return Σ exposure · value, (n_queries, n_grid); values in the order of the draw, (n_rows,)."""
        offsets, n_shown = self.prepared.queries.offsets, self.exposure.n_shown
        shown, out = self.exposure.mean[self.ways[EXPOSURE].rows[way_of(weights)]], np.empty(n_shown.shape[::-1])
        kernels.weighted_sums(offsets, n_shown, shown, values, self.start, self.stop, out)
        return out * largest_weight(weights)

    def products(self, weights: FloatArray, deserved: FloatArray) -> FloatArray:
        """Return Σ e·e′, Σ e·g and Σ e′·g of two unbiased exposures and what items deserve, (3, n_queries, n_grid)."""
        offsets, n_shown = self.prepared.queries.offsets, self.exposure.n_shown
        one, other = (half[self.ways[EXPOSURE].rows[way_of(weights)]] for half in self.exposure.halves)
        out = np.empty((3, *n_shown.shape[::-1]))
        kernels.products(offsets, n_shown, one, other, deserved, self.start, self.stop, out)
        return out * _factors(weights)

    def pooled_products(
        self, weights: FloatArray, deserved: FloatArray, pool: NDArray[np.int32], n_pools: IntArray
    ) -> FloatArray:
        """Return the same of exposure added up by pool; deserved is that of the pools, (n_rows,)."""
        offsets, n_shown, halves = self.prepared.queries.offsets, self.exposure.n_shown, []
        for half in self.exposure.halves[: 1 if self.exposure.is_exact else 2]:
            shown = half[self.ways[EXPOSURE].rows[way_of(weights)]]
            halves.append(np.empty_like(shown))
            kernels.pool_exposure(offsets, n_shown, shown, pool, n_pools, self.start, self.stop, halves[-1])
        n_pooled = np.repeat(n_pools[None, self.start : self.stop], len(n_shown), axis=0)
        out = np.empty((3, *n_shown.shape[::-1]))
        kernels.products(offsets, n_pooled, halves[0], halves[-1], deserved, self.start, self.stop, out)
        return out * _factors(weights)

    def of_rows(self, weights: FloatArray) -> FloatArray:
        """Return the exposure of each row, rows in query order, (n_grid, rows)."""
        offsets = self.prepared.queries.offsets[self.start : self.stop + 1]
        n_items, first, last = np.diff(offsets), offsets[0], offsets[-1]
        within = np.arange(first, last) - np.repeat(offsets[:-1], n_items)
        row = self.ways[EXPOSURE].rows[way_of(weights)]
        shown = self.exposure.mean[row, :, : last - first] * largest_weight(weights)
        out = np.empty_like(shown)
        hidden = within >= np.repeat(self.exposure.n_shown, n_items, axis=1)
        out[:, self.prepared.rows[first:last] - first] = np.where(hidden, 0.0, shown)
        return out

    def mean_of_lists(self, measure: "Measure", n_lists: int | None = None) -> FloatArray:
        """Return the mean of a metric over drawn lists, (n_queries, n_grid); some queries at a time.

        There are `n_draws` lists per query unless the metric says how many.
        """
        n_lists = n_lists or self.n_draws
        if n_lists < 2:
            raise ValueError(f"n_draws must be ≥ 2 for what is drawn, such as {measure}, got {self.n_draws}")
        (n_grid, n_queries), k = self.exposure.n_shown.shape, self.family.position_weights.shape[1]
        means, step = np.empty((n_queries, n_grid)), max(LISTED_AT_ONCE // (n_grid * n_lists * k), 1)
        for start in range(self.start, self.stop, step):
            stop = min(start + step, self.stop)
            here = slice(start - self.start, stop - self.start)
            lists = self.family.lists(self.prepared, start, stop, n_lists, self.exposure.shares[:, here], self.seed)
            values = measure.metric.list_values(
                self.prepared.queries[start:stop], lists.reshape(stop - start, -1, k), measure
            )
            means[here] = values.reshape(stop - start, n_grid, -1).mean(axis=2)
        return means

    def first_relevant(self, weights: FloatArray, relevant: NDArray[np.bool_], needs: Hashable) -> FloatArray:
        """Return Σ weight · chance that the first relevant item is at that position, for decay 1, (n_queries, n_grid).

        Args:
            weights: Weights of the positions, (k,).
            relevant: Which items are relevant, in the order of the draw, (n_rows,).
            needs: What the metric says that it needs; its ways of weighting positions are computed together.
        """
        ways = self.ways[needs]
        values = self.once(needs, lambda: self._first_relevant(ways.weights, relevant))
        return np.asarray(values[ways.rows[way_of(weights)]] * largest_weight(weights))

    def _first_relevant(self, position_weights: FloatArray, relevant: NDArray[np.bool_]) -> FloatArray:
        """Return the same for several ways of weighting positions, (n_weights, n_queries, n_grid)."""
        values = self.family.first_relevant(self.prepared, relevant, position_weights, self.start, self.stop)
        if not self.exposure.shares.any():
            return values
        offsets = self.prepared.queries.offsets[self.start : self.stop + 1]
        rows = np.repeat(offsets[:-1], np.diff(offsets)) + self.prepared.leading[offsets[0] : offsets[-1]]
        position = np.arange(rows.size) - np.repeat(offsets[:-1] - offsets[0], np.diff(offsets))
        first = np.where(relevant[rows], position, position_weights.shape[1])
        by_score = np.minimum.reduceat(first, offsets[:-1] - offsets[0])
        worth = np.pad(position_weights, ((0, 0), (0, 1)))[:, np.minimum(by_score, position_weights.shape[1]), None]
        return np.asarray(values + self.exposure.shares.T * (worth - values))


def way_of(weights: FloatArray) -> bytes:
    """Return a name for a way of weighting positions, the same for weights that differ by a factor."""
    return (weights / largest_weight(weights)).tobytes().rstrip(b"\0")  # a number above 0 ends in another byte


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
    needs: Hashable = EXPOSURE  # what it needs to know of the draws
    protected: ClassVar[bool] = False  # whether a floor for its position weights keeps a share of it on every query
    group: str | None = None  # of items, whose exposure it is
    merit: Callable[[Queries, int], FloatArray] | None = None  # what items deserve of it, for promises "of merit"

    @property
    def in_percent(self) -> bool:
        """Whether values are written in percent."""
        return self.kind == "share"

    @property
    def bounded(self) -> bool:
        """Whether it always lies between 0 and 1."""
        return True

    def bounds(self, k: int, bound: tuple[float, float]) -> tuple[float, float]:
        """Return the least and the largest value on a query, where a bound is declared as `bound`."""
        return 0.0, 1.0

    def check_bound(self, queries: Queries, k: int, bound: tuple[float, float]) -> float:
        """Refuse queries that can leave the declared bound; return how near they come, as a share."""
        raise NotImplementedError

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries have something to divide by, (n_queries,)."""
        raise NotImplementedError

    def position_weights(self, k: int) -> FloatArray:
        """Return the weights of the positions 1 … k, (k,); all alike where it does not weigh positions."""
        return np.ones(k)

    def summary(self, prepared: Prepared, measure: "Measure") -> Callable[[Block], FloatArray]:
        """Return how its values on a block of queries follow, (n_queries, n_grid)."""
        raise NotImplementedError

    def list_values(self, queries: Queries, lists: NDArray[np.integer[Any]], measure: "Measure") -> FloatArray:
        """Return the metric of each list, (n_queries, n_lists); NaN where a query does not count.

        Args:
            queries: What was ranked.
            lists: Positions within the query, −1 beyond its last item, (n_queries, n_lists, ≥ k).
            measure: This metric over the first k positions.
        """
        raise PromiseError(f"{self.name} has no value of a single list")

    def at(self, k: int, empty_query: EmptyQuery | None = None) -> "Measure":
        """Return the metric over the first k positions."""
        return Measure(self, k, self.empty_query if empty_query is None else empty_query)


class Measure(NamedTuple):
    """A metric over the first k positions, with its policy for queries that have nothing to divide by."""

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


def divided(sums: FloatArray, whole: NDArray[Any], empty_query: EmptyQuery) -> FloatArray:
    """Return sums (n_queries, …) as shares of what 1 means; where that is 0, what the policy says."""
    values: FloatArray = sums / np.where(whole > 0, whole, 1.0)[:, None]
    values[whole <= 0] = empty_value(empty_query)
    return values


def shown_values(queries: Queries, values: NDArray[Any], lists: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return the value of the item at each position of some lists, 0 where there is none, (n_queries, n_lists, k).

    Values are those of the rows, (n_rows,), and lists hold positions within the query, −1 beyond its last item.
    """
    rows = np.where(lists < 0, -1, queries.offsets[:-1, None, None] + lists)
    return np.asarray(np.append(values, values.dtype.type(0))[rows])
