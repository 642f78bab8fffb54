"""The p-values of Hoeffding and Bentkus, and the smaller of the two, which the paper uses.

Each tests "the risk exceeds alpha" and sees the losses, which lie in [0, 1], through their mean `mean_loss` over
`n_queries` queries, shape (n_grid,); `alpha` is the risk to certify, one for all configurations or one for each.

Paper: section 3.3, "P-value based Testing".
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from isrr.risk.binomial import cdf, relative_entropy
from isrr.risk.lattice import FloatArray


def hoeffding_bentkus(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Return the smaller of the Hoeffding and the Bentkus p-value (paper, Eq. 8).

        p = min( exp(−n·h(min(R̂, α), α)),  e·P[Bin(n, α) ≤ ⌈n·R̂⌉] )

    Both are valid for the same reason, a bound on one tail, so that their minimum is valid too.

    Example:
        >>> hoeffding_bentkus(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.001, 0.241, 1.   ])
    """
    return np.minimum(hoeffding(mean_loss, n_queries, alpha), bentkus(mean_loss, n_queries, alpha))


def hoeffding(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Hoeffding's p-value in its relative-entropy form.

        p = exp(−n·h(min(R̂, α), α)),   h(a, b) = a·log(a/b) + (1 − a)·log((1 − a)/(1 − b))

    Example:
        >>> hoeffding(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.002, 0.381, 1.   ])
    """
    capped = np.minimum(unit_mean(mean_loss), alpha)
    p: FloatArray = np.exp(-n_queries * np.maximum(relative_entropy(capped, alpha), 0.0))
    return p


def bentkus(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Bentkus' p-value: the binomial tail, times e.

        p = min( 1,  e·P[Bin(n, α) ≤ ⌈n·R̂⌉] )

    Example:
        >>> bentkus(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.001, 0.241, 1.   ])
    """
    return np.minimum(1.0, math.e * cdf(_ceiling(unit_mean(mean_loss), n_queries), n_queries, alpha))


def unit_mean(mean_loss: ArrayLike) -> FloatArray:
    """Return the mean within [0, 1], where rounding may have left it."""
    return np.clip(np.asarray(mean_loss, np.float64), 0.0, 1.0)


def _ceiling(mean_loss: FloatArray, n_queries: int) -> FloatArray:
    """⌈n·R̂⌉ as the smallest integer k with k/n ≥ R̂ in floats, so that R̂ = m/n gives m."""
    k = np.ceil(n_queries * mean_loss)
    k = np.where((k - 1) / n_queries >= mean_loss, k - 1, k)
    return np.where(k / n_queries < mean_loss, k + 1, k)
