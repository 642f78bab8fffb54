"""What an item of a grade is worth, what a position is worth, and (N)DCG of a given order.

    gain(ρ) = 2^ρ − 1        θ_j = 1 / log₂(1 + j)        DCG@k = Σ_{j ≤ k} θ_j · gain(ρ of the item at j)

NDCG divides by the DCG of the ideal order. A query with no relevant item has no ideal to divide by; the `empty_query`
policy says what to do: "skip" (NaN, the default, as in the paper), "zero" or "one".

Paper: section 2, "Ranking Metrics for Utility and Fairness".
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.ordering import sum_largest
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import side_by_side
from isrr.errors import DataError

GainName = Literal["exponential", "linear", "equal"]
DiscountName = Literal["log2", "reciprocal", "uniform"]
Gain = GainName | Callable[[FloatArray], ArrayLike]
Discount = DiscountName | Callable[[FloatArray], ArrayLike]
EmptyQuery = Literal["skip", "zero", "one"]

GAINS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "exponential": lambda grades: np.exp2(grades) - 1.0,
    "linear": lambda grades: grades,
    "equal": np.ones_like,
}
DISCOUNTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "log2": lambda positions: 1.0 / np.log2(1.0 + positions),
    "reciprocal": lambda positions: 1.0 / positions,
    "uniform": np.ones_like,
    "trec": lambda positions: 1.0 / np.log2(np.maximum(positions, 2.0)),
}
EMPTY_VALUES = {"skip": np.nan, "zero": 0.0, "one": 1.0}
LARGEST_GRADE = 60.0
LEAST_GAIN = 1e-75  # squares of less vanish


def gain_of(relevance: ArrayLike, gain: Gain = "exponential") -> FloatArray:
    """Gain of relevance grades: 2^grade − 1, the grade itself, 1 for every item, or a function of the grades.

    Example:
        >>> gain_of([0, 1, 2, 3, 4])
        array([ 0.,  1.,  3.,  7., 15.])
    """
    grades = np.asarray(relevance, np.float64)
    if gain == "exponential" and (largest := grades.max(initial=0.0)) > LARGEST_GRADE:
        raise DataError(
            f"a relevance of {largest:g} is too large for the gain 2^relevance − 1: are scores and relevance "
            "swapped? Otherwise map it to grades, or use the linear gain"
        )
    gains = np.require(named(gain, GAINS, "gain")(grades), np.float64, "C")  # kernels load eight neighbours at a time
    if callable(gain) and (gains.shape != grades.shape or not np.isfinite(gains).all() or (gains < 0).any()):
        raise DataError(f"{described(gain)} must return one finite number ≥ 0 for each grade")
    if (tiny := (gains > 0) & (gains < LEAST_GAIN)).any():
        raise DataError(
            f"a gain of {gains[tiny].min():g} is too small to compute with: multiply the relevance by a constant"
        )
    return gains


def is_length(k: object) -> bool:
    """Return whether k can be the length of a list."""
    return isinstance(k, int | np.integer) and not isinstance(k, bool) and bool(k >= 1)


def item_gains(queries: Queries, gain: Gain = "exponential") -> FloatArray:
    """Gain of each row's item, not to be written to; the equal gain needs no relevance."""
    if gain == "equal":
        return np.ones(queries.n_rows)
    if callable(gain):
        return gain_of(queries.need_relevance(), gain)
    return queries.derived(f"{gain} gain", lambda: gain_of(queries.need_relevance(), gain))


def discount(k: int, kind: Discount = "log2") -> FloatArray:
    """Return the weights of positions j = 1 … k: 1 / log₂(1 + j), 1 / j, 1, or a function of these numbers.

    Example:
        >>> discount(3).round(3)
        array([1.   , 0.631, 0.5  ])
    """
    if not is_length(k):
        raise ValueError(f"k must be a whole number ≥ 1, got {k!r}; it is the length of the list")
    if not callable(kind):
        return _named_discount(int(k), kind).copy()
    weights = np.asarray(kind(np.arange(1.0, k + 1)), np.float64)
    if weights.shape != (k,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{described(kind)} must return one finite number ≥ 0 for each of the positions 1 … {k}")
    return weights


@lru_cache(32)
def _named_discount(k: int, kind: DiscountName) -> FloatArray:
    return np.asarray(named(kind, DISCOUNTS, "discount")(np.arange(1.0, k + 1)), np.float64)


def named(
    kind: str | Callable[..., ArrayLike], known: dict[str, Callable[..., FloatArray]], what: str
) -> Callable[..., ArrayLike]:
    """Return a function given by name, or as it is."""
    if callable(kind):
        return kind
    if kind not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, or a function; got {kind!r}")
    return known[kind]


def described(kind: str | Callable[..., ArrayLike]) -> str:
    """Return what a gain or discount is called: its name, or that of the function."""
    return kind if isinstance(kind, str) else str(getattr(kind, "__name__", kind))


def leading(queries: Queries, k: int) -> NDArray[np.int64]:
    """Return the items at the first k positions by score, numbered within the query, −1 beyond its end."""
    positions = np.arange(k)
    inside = positions < queries.n_items[:, None]
    rows = np.where(inside, queries.offsets[:-1, None] + positions, 0)
    return np.where(inside, queries.by_score[rows], -1).astype(np.int64)


def dcg(queries: Queries, rankings: ArrayLike | None = None, *, k: int = 5, gain: Gain = "exponential") -> FloatArray:
    """DCG@k of given orders, or of the order by falling score.

    Args:
        queries: Judged queries.
        rankings: Positions within the query, (n_queries, …, ≥ 1), −1 where a list is shorter; as
            `GPLRanker.sample` returns them. None takes the order by score.
        k: How many positions count.
        gain: "exponential", "linear", "equal" or a function of the grades.

    Returns:
        DCG of each ranking, (n_queries, …).
    """
    gains = item_gains(queries, gain)
    items = (leading(queries, k) if rankings is None else checked_rankings(rankings, queries))[..., :k]
    start = queries.offsets[:-1].reshape(-1, *(1,) * (items.ndim - 1))
    placed = np.where(items >= 0, gains[np.where(items >= 0, start + items, 0)], 0.0)
    result: FloatArray = placed @ discount(items.shape[-1])
    return result


def ideal_dcg(
    queries: Queries, *, k: int = 5, gain: Gain = "exponential", discount_kind: Discount = "log2"
) -> FloatArray:
    """DCG@k of the order by falling relevance, the largest there is, (n_queries,).

    Relevant items that were judged but not retrieved count, as they do in trec_eval.
    """
    gains, weights = item_gains(queries, gain), discount(k, discount_kind)
    if queries.unretrieved is None:
        return sum_largest(queries.offsets, gains, weights)
    offsets, grades = queries.unretrieved
    return sum_largest(*side_by_side((queries.offsets, gains), (offsets, gain_of(grades, gain))), weights)


def is_relevant(grades: FloatArray, rel: int = 1) -> NDArray[np.bool_]:
    """Return which grades count as relevant: those above 0, or those from `rel` on where it is 2 or more.

    Example:
        >>> is_relevant(np.array([0.0, 1.0, 2.0])), is_relevant(np.array([0.0, 1.0, 2.0]), rel=2)
        (array([False,  True,  True]), array([False, False,  True]))
    """
    return np.asarray(grades >= rel if rel > 1 else grades > 0)


def relevant_total(queries: Queries, rel: int = 1) -> IntArray:
    """Return how many relevant items a query has, retrieved or not, (n_queries,): what recall divides by.

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[0, 2, 1], query_ids=[7, 7, 8])
        >>> relevant_total(queries)
        array([1, 1])
    """
    relevant = is_relevant(queries.need_relevance(), rel)
    counts: IntArray = np.add.reduceat(relevant, queries.offsets[:-1], dtype=np.int64)
    if queries.unretrieved is None:
        return counts
    offsets, grades = queries.unretrieved
    upto = np.concatenate(([0], np.cumsum(is_relevant(grades, rel))))
    return counts + upto[offsets[1:]] - upto[offsets[:-1]]


def has_relevant(queries: Queries, *, gain: Gain = "exponential") -> NDArray[np.bool_]:
    """Return whether a query's list has a relevant item, (n_queries,); items that were not retrieved don't count."""
    return np.asarray(np.maximum.reduceat(item_gains(queries, gain), queries.offsets[:-1]) > 0)


def ndcg(
    queries: Queries,
    rankings: ArrayLike | None = None,
    *,
    k: int = 5,
    gain: Gain = "exponential",
    empty_query: EmptyQuery = "skip",
) -> FloatArray:
    """NDCG@k of given orders, or of the order by falling score; arguments as for `dcg`.

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> ndcg(queries).round(3)
        array([0.659])
    """
    gained = dcg(queries, rankings, k=k, gain=gain)
    ideal = ideal_dcg(queries, k=k, gain=gain)
    ideal = ideal.reshape(-1, *(1,) * (gained.ndim - 1))
    return np.where(ideal > 0, gained / np.where(ideal > 0, ideal, 1.0), empty_value(empty_query))


def empty_value(empty_query: EmptyQuery) -> float:
    """Return what a query with no relevant item counts as, under a policy."""
    if empty_query not in EMPTY_VALUES:
        raise ValueError(f"empty_query must be one of {', '.join(EMPTY_VALUES)}; got {empty_query!r}")
    return EMPTY_VALUES[empty_query]


def checked_rankings(rankings: ArrayLike, queries: Queries) -> IntArray:
    """Rankings of the queries, or an error that names the first that cannot be.

    Args:
        rankings: Positions within the query, none twice, −1 where a list is shorter, (n_queries, …, positions).
        queries: What is ranked.
    """
    try:
        positions = np.asarray(rankings)
    except ValueError:
        raise DataError("expected rankings of equal length, filled up with -1") from None
    if positions.dtype.kind not in "iu":
        raise DataError(f"rankings hold {positions.dtype}; expected whole numbers, positions within the query")
    if positions.ndim < 2 or len(positions) != len(queries) or positions.shape[-1] == 0:
        raise DataError(f"rankings have shape {positions.shape}; expected ({len(queries)}, …, positions)")
    lists = positions.reshape(len(queries), -1, positions.shape[-1])
    outside = (lists < -1) | (lists >= queries.n_items[:, None, None])
    ordered = np.sort(lists, axis=-1)
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    for bad, what in ((outside, "has an item that does not exist"), (twice, "has an item twice")):
        if bad.any():
            q, draw = (int(position) for position in np.argwhere(bad.any(axis=-1))[0])
            query = str(queries.query_ids[q])
            raise DataError(f"ranking {lists[q, draw].tolist()} of query {query!r} {what}", query)
    return positions.astype(np.int64, copy=False)
