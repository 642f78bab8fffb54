"""Disparity: how far exposure is from being proportional to gain.

    D(e) = 2 · mean over ordered pairs of distinct items of (e_d · g_d' − e_d' · g_d)²
         = 4 (Σe² · Σg² − (Σ e·g)²) / (n (n − 1))

0 when exposure is proportional to gain, for one item, and when no item is relevant. D is convex in exposure, so among
all mixtures of rankings it is largest at a single ranking; that largest value makes it a share of at most 1.

Paper: section 2, R_fair.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import FloatArray, Queries
from isrr.gains import Gain, discount, gain
from isrr.metrics import _kernels

Error = Literal["squared", "absolute"]
EXACT_TO = 1e-6  # a share above 1 by less is 1: exposures are exact to some 1e-7


def disparity(
    exposure: ArrayLike, queries: Queries, *, error: Error = "squared", gain_kind: Gain = "exponential"
) -> FloatArray:
    """Disparity of each query, (n_queries,).

    Args:
        exposure: One number a row, in the caller's row order, as `GPLRanker.exposure` returns it.
        queries: Judged queries.
        error: "squared", or "absolute": the mean of |e_d · g_d' − e_d' · g_d| in place of its square.
        gain_kind: "exponential" or "linear".

    Example:
        >>> queries = Queries.from_arrays(scores=[1, 0], relevance=[1, 1], query_ids=[7, 7])
        >>> disparity([1.0, 0.0], queries), disparity([0.5, 0.5], queries)
        (array([2.]), array([0.]))
    """
    kernels = {
        "squared": _kernels.disparity_of_queries,
        "absolute": _kernels.absolute_disparity_of_queries,
    }
    if error not in kernels:
        raise ValueError(f"error must be one of {', '.join(kernels)}; got {error!r}")
    values = queries.in_query_order(exposure, "exposure")
    out = np.empty(len(queries))
    kernels[error](queries.offsets, values, gain(queries.need_relevance(), gain_kind), out)
    return out


def disparity_bound(queries: Queries, *, k: int = 5, gain_kind: Gain = "exponential") -> FloatArray:
    """The largest disparity any ranker can have on each query, (n_queries,).

    B = 4 (Θ₂ · Σg² − DCG_min²) / (n (n − 1)), Θ₂ the sum of squared discounts, DCG_min the least DCG of a ranking.
    """
    gains = gain(queries.need_relevance(), gain_kind)
    n_items = queries.n_items
    places = np.minimum(n_items, k)
    discount_squares = np.concatenate(([0.0], np.cumsum(discount(k) ** 2)))[places]
    gain_squares = np.add.reduceat(gains**2, queries.offsets[:-1])
    least = queries.sum_largest(-gains, discount(k))
    pairs = np.maximum(n_items * (n_items - 1), 1)
    bound: FloatArray = np.where(n_items > 1, 4.0 * (discount_squares * gain_squares - least**2) / pairs, 0.0)
    return bound


def normalized_disparity(
    exposure: ArrayLike, queries: Queries, *, k: int = 5, gain_kind: Gain = "exponential"
) -> FloatArray:
    """Disparity as a share of the largest any ranker can have on the query, in [0, 1]; 0 where that is 0."""
    return share_of_bound(
        disparity(exposure, queries, gain_kind=gain_kind), disparity_bound(queries, k=k, gain_kind=gain_kind)
    )


def share_of_bound(values: FloatArray, bound: FloatArray) -> FloatArray:
    """Disparities (n_queries, …) divided by the queries' bounds; 0 where the bound is 0.

    Example:
        >>> share_of_bound(np.array([0.5, 0.0, 2.0000001, 3.0]), np.array([2.0, 0.0, 2.0, 2.0]))
        array([0.25, 0.  , 1.  , 1.5 ])
    """
    wide = bound.reshape(-1, *(1,) * (values.ndim - 1))
    share = np.divide(values, wide, out=np.zeros_like(values), where=wide > 0)
    share[(share > 1) & (share < 1 + EXACT_TO)] = 1.0
    return share


def fairness_gain(values: ArrayLike, reference: ArrayLike) -> float:
    """The share of disparity removed, 1 − mean / mean of the reference; queries that are NaN in either are left out.

    Example:
        >>> fairness_gain([0.25, 0.5], reference=[0.5, 1.0])
        0.5
    """
    ours, theirs = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    both = ~(np.isnan(ours) | np.isnan(theirs))
    total = theirs[both].sum()
    return float(1.0 - ours[both].sum() / total) if total > 0 else 0.0
