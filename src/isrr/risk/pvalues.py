"""P-values for the null hypothesis "the risk at this configuration exceeds alpha".

Small p-values speak for certifying a configuration; testing a whole grid at once is another matter, settled
in `isrr.risk.select`. Those here see the losses through their mean (and variance); losses lie in [0, 1]. All
but `normal_approximation` hold for every number of queries. Evidence that reads the losses one by one is in
`isrr.risk.betting`, sums for shards in `isrr.risk.mixture` and `isrr.risk.vb`.

Throughout: `mean_loss` is R̂ over `n_queries` queries, shape (n_grid,), and `alpha` the risk level to
certify, in (0, 1), one for all configurations or one for each.

Paper: section 3.3, "P-value based Testing".
"""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isrr.risk._kernels import plugin_log_wealth
from isrr.risk.binomial import cdf, lower_moments, relative_entropy
from isrr.risk.lattice import FloatArray


def hoeffding(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Hoeffding's p-value in its relative-entropy form.

        p = exp(−n·h(min(R̂, α), α)),   h(a, b) = a·log(a/b) + (1 − a)·log((1 − a)/(1 − b))

    Example:
        >>> hoeffding(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.002, 0.381, 1.   ])
    """
    capped = np.minimum(_unit(mean_loss), alpha)
    p: FloatArray = np.exp(-n_queries * np.maximum(relative_entropy(capped, alpha), 0.0))
    return p


def bentkus(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Bentkus' p-value: the binomial tail, times e.

        p = min( 1,  e·P[Bin(n, α) ≤ ⌈n·R̂⌉] )

    Example:
        >>> bentkus(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.001, 0.241, 1.   ])
    """
    return np.minimum(1.0, math.e * cdf(_ceiling(_unit(mean_loss), n_queries), n_queries, alpha))


def hoeffding_bentkus(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """The smaller of the Hoeffding and the Bentkus p-value (paper, Eq. 8).

        p = min( exp(−n·h(min(R̂, α), α)),  e·P[Bin(n, α) ≤ ⌈n·R̂⌉] )

    Both are valid for the same reason, a bound on one tail, so that their minimum is valid too.

    Example:
        >>> hoeffding_bentkus(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.001, 0.241, 1.   ])
    """
    return np.minimum(hoeffding(mean_loss, n_queries, alpha), bentkus(mean_loss, n_queries, alpha))


def hb_plus(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """The best p-value from the mean alone by convex ordering; never above `hoeffding_bentkus`.

        p = inf over integers t > n·R̂ of  E(t − B)₊ / (t − n·R̂),   B ~ Bin(n, α)

    Among laws on [0, 1] with mean α the coin is worst for every convex decreasing function, and the (t − x)₊
    generate those. A convex function over a positive line has one valley: the search bisects on its slope.

    Example:
        >>> hb_plus(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.001, 0.205, 1.   ])
    """
    mean, level = np.broadcast_arrays(_unit(mean_loss), np.asarray(alpha, np.float64))
    total = n_queries * mean

    def ratio(t: FloatArray) -> FloatArray:
        ratios: FloatArray = lower_moments(t, n_queries, level)[1] / (t - total)
        return ratios

    low, high = np.floor(total) + 1, np.full(mean.shape, n_queries + 1.0)
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        rising = ratio(middle + 1) >= ratio(middle)
        low, high = np.where(rising, low, np.minimum(middle + 1, high)), np.where(rising, middle, high)
    best = np.where(mean < level, ratio(low), 1.0)
    return np.minimum(best, hoeffding_bentkus(mean, n_queries, level))


def dkwm(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike, loss_span: float = 1.0) -> FloatArray:
    """The p-value that matches the paper's DKWM bound.

    p = min( 1,  2·exp(−2n·((α − R̂)/span)²) )  where R̂ < α, else 1
    """
    gap = np.maximum(np.asarray(alpha, np.float64) - np.asarray(mean_loss, np.float64), 0.0) / loss_span
    p: FloatArray = np.minimum(1.0, 2 * np.exp(-2 * n_queries * gap**2))
    return p


def empirical_bernstein(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """The p-value that matches Maurer and Pontil's bound: its smallest delta.

        p = min(1, 2·exp(−L))  where  R̂ + √(2·V·L/n) + 7·L/(3(n − 1)) = α

    `variance` is the unbiased sample variance V, (n_grid,). One query proves nothing.
    """
    gap = np.asarray(alpha, np.float64) - np.asarray(mean_loss, np.float64)
    if n_queries < 2:
        return np.ones(gap.shape)
    slope, curve = np.sqrt(2 * np.asarray(variance) / n_queries), 7 / (3 * (n_queries - 1))
    root = (np.sqrt(slope**2 + 4 * curve * np.maximum(gap, 0.0)) - slope) / (2 * curve)
    p: FloatArray = np.minimum(1.0, 2 * np.exp(-(root**2)))
    return p


def normal_approximation(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """The central limit theorem's p-value: asymptotic, and NOT valid for any given number of queries.

    p = Φ(√n·(R̂ − α)/√V)

    For comparison only: its level was measured at twice delta on skewed losses.
    """
    gap = np.asarray(mean_loss, np.float64) - np.asarray(alpha, np.float64)
    if n_queries < 2:
        return np.ones(gap.shape)
    error = np.sqrt(np.asarray(variance, np.float64) / n_queries)
    certain = np.where(gap < 0, 0.0, 1.0)
    return np.where(error > 0, np.asarray(scipy.special.ndtr(gap / np.where(error > 0, error, 1.0))), certain)


def wsr(losses: FloatArray, alpha: ArrayLike, delta: float = 0.05) -> FloatArray:
    """Waudby-Smith and Ramdas' betting with plug-in bets: one over the largest wealth.

        p = min over t of 1/Wₜ,   Wₜ = Π (1 + λᵢ·(α − Xᵢ)),   λᵢ = min(0.99, √(2·log(1/δ)/(n·σ²ᵢ₋₁)))

    Args:
        losses: At most 1 each, shape (n_queries, n_grid), rows in canonical order.
        alpha: Risk level to certify.
        delta: Level the bets are tuned for; the p-value is valid at every level.
    """
    n_queries, n_grid = losses.shape
    log_wealth = np.empty(n_grid)
    alphas = np.array(np.broadcast_to(alpha, n_grid), np.float64)
    plugin_log_wealth(losses, alphas, np.sqrt(2 * np.log(1 / delta) / n_queries), log_wealth)
    return np.exp(-log_wealth)


def _unit(mean_loss: ArrayLike) -> FloatArray:
    """The mean within [0, 1], where rounding may have left it."""
    return np.clip(np.asarray(mean_loss, np.float64), 0.0, 1.0)


def _ceiling(mean_loss: FloatArray, n_queries: int) -> FloatArray:
    """⌈n·R̂⌉ as the smallest integer k with k/n ≥ R̂ in floats, so that R̂ = m/n gives m."""
    k = np.ceil(n_queries * mean_loss)
    k = np.where((k - 1) / n_queries >= mean_loss, k - 1, k)
    return np.where(k / n_queries < mean_loss, k + 1, k)
