"""Lower tails of the binomial law, accurate for up to 10⁸ trials.

    N ~ Bin(n, q),  F = its distribution function,  f′ = the mass function of Bin(n − 1, q)
    E(t − N)₊  = (t − nq)·F(t − 1) + nq(1 − q)·f′(t − 1)
    E(t − N)₊² = (t − nq)·E(t − N)₊ + nq(1 − q)·(F(t − 1) + q·f′(t − 1))

for integers t (Stein's identity). Sums of terms would be slow, differences of log-gammas lose seven digits at
n = 10⁸; these forms lose about as many as the square of the distance from the mean in deviations.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isrr.risk.kernels import LOG_SQRT_2PI
from isrr.risk.lattice import FloatArray


def relative_entropy(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """h(a, b) = a·log(a/b) + (1 − a)·log((1 − a)/(1 − b)) between two coins, b in (0, 1)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    entropy: FloatArray = scipy.special.xlog1py(a, (a - b) / b) + scipy.special.xlog1py(1 - a, (b - a) / (1 - b))
    return entropy


def cdf(k: FloatArray, n: int, q: ArrayLike) -> FloatArray:
    """P[Bin(n, q) ≤ k] for integers k; 0 below the support, 1 above it."""
    inside = np.clip(k, 0, max(n - 1, 0))
    tail = scipy.special.betaincc(inside + 1, np.maximum(n - inside, 1), q)
    return np.where(k < 0, 0.0, np.where(k >= n, 1.0, tail))


def pmf(k: FloatArray, n: int, q: ArrayLike) -> FloatArray:
    """P[Bin(n, q) = k] for integers k, by Loader's saddle-point form."""
    if n == 0:
        return np.where(k == 0, 1.0, 0.0)
    inside = np.clip(k, 0, n)
    whole, came, stayed = _log_factorial_rest(np.stack([np.full_like(inside, n, np.float64), inside, n - inside]))
    log_mass = whole - came - stayed - n * relative_entropy(inside / n, q)
    return np.where(k == inside, np.exp(log_mass), 0.0)


def lower_moments(t: FloatArray, n: int, q: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P(N < t), E(t − N)₊ and E(t − N)₊² for N ~ Bin(n, q) and integers t ≥ 0."""
    q = np.asarray(q, np.float64)
    below, edge, gap = cdf(t - 1, n, q), pmf(t - 1, n - 1, q), t - n * q
    variance = n * q * (1 - q)
    first = np.maximum(gap * below + variance * edge, 0.0)
    second = np.maximum(gap * first + variance * (below + q * edge), 0.0)
    return below, first, second


def _log_factorial_rest(k: ArrayLike) -> FloatArray:
    """log k! − (k·log k − k): half a log and Stirling's series."""
    k = np.asarray(k, np.float64)
    u = 1.0 / np.maximum(k, 16.0)
    series = u * (1 / 12 - u**2 * (1 / 360 - u**2 * (1 / 1260 - u**2 * (1 / 1680 - u**2 / 1188))))
    large = 0.5 * np.log(np.maximum(k, 16.0)) + LOG_SQRT_2PI + series
    small = np.minimum(k, 16.0)
    exact = scipy.special.gammaln(small + 1) - scipy.special.xlogy(small, small) + small
    return np.where(k < 16, np.asarray(exact), large)
