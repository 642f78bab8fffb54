"""Gain of a grade, discount of a position, and (N)DCG of a given order.

    gain(ρ) = 2^ρ − 1        θ_j = 1 / log₂(1 + j)        DCG@k = Σ_{j ≤ k} θ_j · gain(ρ of the item at j)

NDCG divides by the DCG of the ideal order. A query with no relevant item has no ideal to divide by; the `empty_query`
policy says what to do: "skip" (NaN, the default, as in the paper), "zero" or "one".

Paper: section 2, "Ranking Metrics for Utility and Fairness".
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.ordering import sum_largest
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import side_by_side
from isrr.data.rankings import checked_rankings
from isrr.errors import DataError

Gain = Literal["exponential", "linear"]
EmptyQuery = Literal["skip", "zero", "one"]
_EMPTY_VALUE = {"skip": np.nan, "zero": 0.0, "one": 1.0}
LARGEST_GRADE = 60.0


def gain(relevance: ArrayLike, kind: Gain = "exponential") -> FloatArray:
    """Gain of a relevance grade: 2^grade − 1, or the grade itself.

    Example:
        >>> gain([0, 1, 2, 3, 4])
        array([ 0.,  1.,  3.,  7., 15.])
    """
    grades = np.asarray(relevance, np.float64)
    if kind == "exponential":
        largest = grades.max(initial=0.0)
        if largest > LARGEST_GRADE:
            raise DataError(
                f"a relevance of {largest:g} is too large for the gain 2^relevance − 1: are scores and relevance "
                "exchanged? Else map it to grades, or promise with linear gain"
            )
        return np.exp2(grades) - 1.0
    if kind == "linear":
        return grades
    raise ValueError(f"gain must be one of {', '.join(get_args(Gain))}; got {kind!r}")


def discount(k: int) -> FloatArray:
    """Weight of each of the first k positions, 1 / log₂(1 + position).

    Example:
        >>> discount(3).round(3)
        array([1.   , 0.631, 0.5  ])
    """
    return 1.0 / np.log2(np.arange(2, k + 2))


def dcg(
    queries: Queries,
    rankings: ArrayLike | None = None,
    *,
    k: int = 5,
    gain_kind: Gain = "exponential",
) -> FloatArray:
    """DCG@k of given orders, or of the order by falling score.

    Args:
        queries: Judged queries.
        rankings: Positions within the query, (n_queries, …, ≥ 1), −1 where a list is shorter; as
            `GPLRanker.sample` returns them. None takes the order by score.
        k: How many places count.
        gain_kind: "exponential" or "linear".

    Returns:
        DCG of each ranking, (n_queries, …).
    """
    gains = gain(queries.need_relevance(), gain_kind)
    given = _leading(queries, queries.by_score, k) if rankings is None else checked_rankings(rankings, queries)
    places = given[..., :k]
    start = queries.offsets[:-1].reshape(-1, *(1,) * (places.ndim - 1))
    found = np.where(places >= 0, gains[np.where(places >= 0, start + places, 0)], 0.0)
    result: FloatArray = found @ discount(places.shape[-1])
    return result


def ideal_dcg(queries: Queries, *, k: int = 5, gain_kind: Gain = "exponential") -> FloatArray:
    """DCG@k of the order by falling relevance, the largest there is, (n_queries,).

    Relevant items that were judged but not retrieved count, as they do in trec_eval.
    """
    gains = gain(queries.need_relevance(), gain_kind)
    if queries.unretrieved is None:
        return queries.sum_largest(gains, discount(k))
    offsets, grades = queries.unretrieved
    return sum_largest(*side_by_side((queries.offsets, gains), (offsets, gain(grades, gain_kind))), discount(k))


def relevant_total(queries: Queries, relevant: NDArray[np.bool_], *, above: float = 0.0) -> IntArray:
    """How many relevant items a query has, retrieved or not, (n_queries,): what recall divides by.

    Args:
        queries: Judged queries.
        relevant: Which items of the lists are relevant, in query order, (n_rows,).
        above: Items that were not retrieved are relevant when their grade is above this.

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[0, 2, 1], query_ids=[7, 7, 8])
        >>> relevant_total(queries, queries.relevance > 0)
        array([1, 1])
    """
    counts: IntArray = np.add.reduceat(relevant, queries.offsets[:-1], dtype=np.int64)
    if queries.unretrieved is None:
        return counts
    offsets, grades = queries.unretrieved
    upto = np.concatenate(([0], np.cumsum(grades > above)))
    return counts + upto[offsets[1:]] - upto[offsets[:-1]]


def has_relevant(queries: Queries, *, gain_kind: Gain = "exponential") -> NDArray[np.bool_]:
    """Whether a query has a relevant item, (n_queries,)."""
    return ideal_dcg(queries, k=1, gain_kind=gain_kind) > 0


def ndcg(
    queries: Queries,
    rankings: ArrayLike | None = None,
    *,
    k: int = 5,
    gain_kind: Gain = "exponential",
    empty_query: EmptyQuery = "skip",
) -> FloatArray:
    """NDCG@k of given orders, or of the order by falling score; arguments as for `dcg`.

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> ndcg(queries).round(3)
        array([0.659])
    """
    found = dcg(queries, rankings, k=k, gain_kind=gain_kind)
    ideal = ideal_dcg(queries, k=k, gain_kind=gain_kind)
    ideal = ideal.reshape(-1, *(1,) * (found.ndim - 1))
    return np.where(ideal > 0, found / np.where(ideal > 0, ideal, 1.0), empty_value(empty_query))


def empty_value(empty_query: EmptyQuery) -> float:
    """NDCG of a query with no relevant item, under a policy."""
    if empty_query not in _EMPTY_VALUE:
        raise ValueError(f"empty_query must be one of {', '.join(_EMPTY_VALUE)}; got {empty_query!r}")
    return _EMPTY_VALUE[empty_query]


def _leading(queries: Queries, order: NDArray[np.int32], k: int) -> NDArray[np.int64]:
    """The first k places of each query of a per-row order, −1 beyond the end of a list."""
    places = np.arange(k)
    inside = places < queries.n_items[:, None]
    rows = np.where(inside, queries.offsets[:-1, None] + places, 0)
    return np.where(inside, order[rows], -1)
