"""Upper confidence bounds for the risk: the smallest alpha that the matching p-value certifies.

Each bound holds with probability at least 1 − delta, at one configuration; `normal_approximation` only as
the number of queries grows. `mean_loss` is R̂ over `n_queries` queries, shape (n_grid,); losses lie in [0,
1], and no bound exceeds 1. The bounds of `isrr.risk.betting`, `isrr.risk.mixture` and `isrr.risk.vb` stand
beside their p-values.

Paper: section 3.3, "UCB based Testing", and appendix A for the DKWM constant.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isrr.risk import pvalues
from isrr.risk.lattice import SMALLEST, FloatArray, smallest_yes


def root(
    pvalue: Callable[[FloatArray, int, FloatArray], FloatArray], mean_loss: ArrayLike, n_queries: int, delta: float
) -> FloatArray:
    """The smallest alpha at which a p-value that sees the mean alone is at most delta: it falls from 1 at the mean.

    Example:
        >>> root(pvalues.hoeffding, np.array([0.0, 0.25, 1.0]), n_queries=1000, delta=0.05).round(4)
        array([0.003 , 0.2845, 1.    ])
    """
    mean = np.clip(np.atleast_1d(np.asarray(mean_loss, np.float64)), 0.0, 1.0)
    largest = np.nextafter(1.0, 0.0)
    return smallest_yes(
        lambda alpha: pvalue(mean, n_queries, np.minimum(alpha, largest)) <= delta,
        np.maximum(mean, 2.0**-60),
        1.0,
        mean.size,
    )


def dkwm(mean_loss: ArrayLike, n_queries: int, delta: float, loss_span: float = 1.0) -> FloatArray:
    """The paper's bound from the Dvoretzky–Kiefer–Wolfowitz–Massart inequality (Eq. 10).

        R̂⁺ = R̂ + span·√(log(2/δ) / 2n)

    The span, largest minus smallest loss value, is the paper's constant for ordered loss values. At span 1
    this is looser than one-sided Hoeffding at the same delta.

    Example:
        >>> dkwm(np.array([0.25]), n_queries=1000, delta=0.05).round(4)
        array([0.2929])
    """
    mean = np.asarray(mean_loss, np.float64)
    return _at_most_one(mean + loss_span * np.sqrt(np.log(2 / delta) / (2 * n_queries)))


def empirical_bernstein(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, delta: float) -> FloatArray:
    """Maurer and Pontil's bound, with the unbiased sample variance V.

    R̂⁺ = R̂ + √(2·V·log(2/δ)/n) + 7·log(2/δ)/(3(n − 1))
    """
    mean, log_term = np.asarray(mean_loss, np.float64), np.log(2 / delta)
    if n_queries < 2:
        return np.ones(mean.shape)
    width = np.sqrt(2 * np.asarray(variance) * log_term / n_queries) + 7 * log_term / (3 * (n_queries - 1))
    return _at_most_one(mean + width)


def normal_approximation(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, delta: float) -> FloatArray:
    """The central limit theorem's bound: asymptotic, and NOT valid for any given number of queries.

    R̂⁺ = R̂ + Φ⁻¹(1 − δ)·√(V/n)
    """
    mean = np.asarray(mean_loss, np.float64)
    if n_queries < 2:
        return np.ones(mean.shape)
    return _at_most_one(mean - scipy.special.ndtri(delta) * np.sqrt(np.asarray(variance, np.float64) / n_queries))


def wsr(losses: FloatArray, delta: float, tuned_delta: float) -> FloatArray:
    """The root of `pvalues.wsr` = delta, with bets tuned for `tuned_delta`."""
    return smallest_yes(lambda alpha: pvalues.wsr(losses, alpha, tuned_delta) <= delta, SMALLEST, 1.0, losses.shape[1])


def _at_most_one(bound: FloatArray) -> FloatArray:
    return np.minimum(bound, 1.0)
