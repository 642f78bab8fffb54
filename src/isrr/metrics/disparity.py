"""Disparity: how far exposure is from being proportional to gain.

    D(e) = 2 · mean over ordered pairs of distinct items of (e_d · g_d' − e_d' · g_d)²
         = 4 (Σe² · Σg² − (Σ e·g)²) / (n (n − 1))

0 when exposure is proportional to gain, for one item, and when no item is relevant. D is convex in exposure, so among
all mixtures of rankings it is largest at a single ranking; that largest value makes it a share of at most 1. Between
groups, exposure and gain of a group's items are added up first.

Paper: section 2, R_fair.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.ordering import sum_largest
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import PromiseError
from isrr.gains import Discount, EmptyQuery, Gain, discount, has_relevant, item_gains
from isrr.metrics import kernels
from isrr.metrics.measure import Block, Kind, Measurable, Measure, per_query
from isrr.ranker.exposure import Prepared

Error = Literal["squared", "absolute"]


@dataclass(frozen=True, eq=False)
class Pools:
    """Which rows are added up before exposures are compared, and what each pool deserves.

    Attributes:
        deserved: Gain of each pool, in the first rows of its query, (n_rows,); 0 in the other rows.
        pool: Pool that each row adds to, counted within the query, (n_rows,); None where every item is its own.
        n_pools, n_pairs: Pools of each query, and ordered pairs of them, at least 1, (n_queries,).
        squares: Σ of squared deserts, (n_queries,); 0 only where no pool deserves anything.
    """

    deserved: FloatArray
    pool: NDArray[np.int32] | None
    n_pools: IntArray
    n_pairs: IntArray
    squares: FloatArray

    @classmethod
    def of(cls, queries: Queries, gain: Gain, between_groups: bool) -> "Pools":
        """Pool items by `item_groups`, or leave every item by itself."""
        deserved, pool, n_pools = item_gains(queries, gain), None, queries.n_items
        if between_groups:
            names, code = queries.coded_groups
            query = np.repeat(np.arange(len(queries)), queries.n_items)
            pairs, position = np.unique(query * len(names) + code, return_inverse=True)
            first = np.searchsorted(pairs // len(names), np.arange(len(queries) + 1))
            pool = (position - np.repeat(first[:-1], queries.n_items)).astype(np.int32)
            deserved, n_pools = pooled(deserved, queries, pool), np.diff(first)
        n_pairs = np.maximum(n_pools * (n_pools - 1), 1)
        return cls(deserved, pool, n_pools, n_pairs, per_query(deserved**2, queries))


@dataclass(frozen=True)
class Disparity(Measurable):
    """Disparity between items or between groups of items.

    Attributes:
        name: Its name in promises.
        gain, discount: What items deserve, and what positions give.
        normalized: Whether it is divided by the largest value any ranker can have on the query.
        between_groups: Whether items are pooled by group first.
    """

    name: str = "disparity"
    gain: Gain = "exponential"
    discount: Discount = "log2"
    normalized: bool = False
    between_groups: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    kind: ClassVar[Kind] = "fairness"  # type: ignore[misc]
    empty_query: ClassVar[EmptyQuery] = "skip"  # type: ignore[misc]
    rising: ClassVar[bool] = False

    @property
    def title(self) -> str:  # type: ignore[override]
        """As sentences call it."""
        what = "disparity between groups" if self.between_groups else "disparity"
        return f"normalized {what}" if self.normalized and not self.between_groups else what

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Columns it reads beside query, item and score."""
        judged = () if self.gain == "equal" else ("relevance",)
        return (*judged, "item_group") if self.between_groups else judged

    @property
    def bounded(self) -> bool:
        """Whether it always lies between 0 and 1."""
        return self.normalized

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries have a relevant item, (n_queries,)."""
        return has_relevant(queries, gain=self.gain)

    def bounds(self, k: int, bound: tuple[float, float]) -> tuple[float, float]:
        """Return the least and the largest value on a query."""
        return (0.0, 1.0) if self.normalized else bound

    def check_bound(self, queries: Queries, k: int, bound: tuple[float, float]) -> float:
        """Refuse queries on which some ranker could leave the declared bound; how near they come, as a share."""
        largest = float(self.largest(queries, k).max())
        if largest > bound[1]:
            raise PromiseError(
                f"a query can have a disparity of {largest:.6g}, above the declared bound {bound[1]:g}; expected a "
                "bound that holds for every possible query"
            )
        return largest / bound[1]

    def position_weights(self, k: int) -> FloatArray:
        """Return the discounts of the positions 1 … k, (k,)."""
        return discount(k, self.discount)

    def summary(self, prepared: Prepared, measure: Measure) -> Callable[[Block], FloatArray]:
        """Return how its values follow: 4 (Σee′·Σg² − Σeg·Σe′g) / (n (n − 1)) with independent unbiased e and e′."""
        queries, weights = prepared.queries, self.position_weights(measure.k)
        pools = Pools.of(queries, self.gain, self.between_groups)
        largest = self.largest(queries, measure.k, pools) if self.normalized else None
        deserved, pool = pools.deserved, None
        if pools.pool is None:
            deserved = deserved[prepared.rows]
        else:
            pool = pools.pool[prepared.rows]

        def of(block: Block) -> FloatArray:
            here = slice(block.start, block.stop)
            same = measure.k, self.gain, self.discount, self.between_groups
            both, mine, others = block.once(
                same,
                lambda: (
                    block.products(weights, deserved)
                    if pool is None
                    else block.pooled_products(weights, deserved, pool, pools.n_pools)
                ),
            )
            squares, n_pairs = pools.squares[here, None], pools.n_pairs[here, None]
            values = 4.0 * (both * squares - mine * others) / n_pairs
            if block.exposure.is_exact:
                values = np.maximum(values, 0.0)
            values[pools.n_pools[here] < 2] = 0.0
            if largest is not None:
                values = share_of_bound(values, largest[here])
            if measure.empty_query == "skip":
                values[squares[:, 0] == 0] = np.nan
            return np.asarray(values)

        return of

    def largest(self, queries: Queries, k: int, pools: Pools | None = None) -> FloatArray:
        """Return the largest value any ranker can have on each query, (n_queries,).

        Between items B = 4 (Θ₂ · Σg² − DCG_min²) / (n (n − 1)), Θ₂ the sum of squared discounts, DCG_min the least DCG
        of a ranking; it is attained. Between groups Σe² is at most (Σθ)², which gives a bound that may be loose.
        """
        pools = Pools.of(queries, self.gain, self.between_groups) if pools is None else pools
        squares, positions = pools.squares, np.minimum(queries.n_items, k)
        weights = discount(k, self.discount)
        if self.between_groups:
            shown = np.concatenate(([0.0], np.cumsum(weights)))[positions] ** 2
            return np.where(pools.n_pools > 1, 4.0 * shown * squares / pools.n_pairs, 0.0)
        shown = np.concatenate(([0.0], np.cumsum(weights**2)))[positions]
        least = sum_largest(queries.offsets, pools.deserved, weights, smallest=True)
        return np.where(pools.n_pools > 1, 4.0 * (shown * squares - least**2) / pools.n_pairs, 0.0)


def disparity(
    exposure: ArrayLike, queries: Queries, *, error: Error = "squared", gain: Gain = "exponential", groups: bool = False
) -> FloatArray:
    """Disparity of each query, (n_queries,).

    Args:
        exposure: One number per row, in the caller's row order, as `GPLRanker.exposure` returns it.
        queries: Judged queries.
        error: "squared", or "absolute": the mean of |e_d · g_d' − e_d' · g_d| in place of its square.
        gain: "exponential", "linear", "equal" or a function of the grades.
        groups: Whether exposure and gain are pooled by `item_groups` first.

    Example:
        >>> queries = Queries.from_arrays(scores=[1, 0], relevance=[1, 1], query_ids=[7, 7])
        >>> disparity([1.0, 0.0], queries), disparity([0.5, 0.5], queries)
        (array([2.]), array([0.]))
    """
    if error not in get_args(Error):
        raise ValueError(f"error must be one of {', '.join(get_args(Error))}; got {error!r}")
    values = queries.in_query_order(exposure, "exposure")
    pools = Pools.of(queries, gain, groups)
    if pools.pool is not None:
        values = pooled(values, queries, pools.pool)
    deserved, out = pools.deserved, np.empty(len(queries))
    if error == "squared":
        product = per_query(values * deserved, queries)
        squared = 4.0 * (per_query(values**2, queries) * pools.squares - product**2) / pools.n_pairs
        return np.where(pools.n_pools > 1, np.maximum(squared, 0.0), 0.0)
    by_ratio = np.lexsort((np.arctan2(values, deserved), np.repeat(np.arange(len(queries)), queries.n_items)))
    kernels.absolute_disparity(queries.offsets, pools.n_pools, values[by_ratio], deserved[by_ratio], out)
    return out


def pooled(values: FloatArray, queries: Queries, pool: NDArray[np.int32]) -> FloatArray:
    """Per-row numbers in query order, added up by pool; laid out as `Pools.deserved`."""
    rows = np.repeat(queries.offsets[:-1], queries.n_items) + pool
    return np.bincount(rows, values, queries.n_rows).astype(np.float64)


def share_of_bound(values: FloatArray, bound: FloatArray) -> FloatArray:
    """Disparities (n_queries, …) divided by the queries' bounds; 0 where the bound is 0.

    Example:
        >>> share_of_bound(np.array([0.5, 0.0, 3.0]), np.array([2.0, 0.0, 2.0]))
        array([0.25, 0.  , 1.5 ])
    """
    wide = bound.reshape(-1, *(1,) * (values.ndim - 1))
    return np.divide(values, wide, out=np.zeros_like(values), where=wide > 0)


def fairness_gain(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the share of disparity removed, 1 − mean / mean of the reference; queries NaN in either are left out.

    Example:
        >>> fairness_gain([0.25, 0.5], reference=[0.5, 1.0])
        0.5
    """
    ours, theirs = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    both = ~(np.isnan(ours) | np.isnan(theirs))
    total = theirs[both].sum()
    return float(1.0 - ours[both].sum() / total) if total > 0 else 0.0
