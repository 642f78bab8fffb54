"""Further statistical tests and selections, as objects that `isrr.calibrate(evidence=…, selection=…)` takes.

HOEFFDING, BENTKUS, HB_PLUS     see the mean loss alone
DKWM                            the paper's bound from the Dvoretzky–Kiefer–Wolfowitz–Massart inequality (Eq. 10)
EMPIRICAL_BERNSTEIN             Maurer and Pontil's; sees mean and variance
WSR                             Waudby-Smith and Ramdas' betting with plug-in bets
NORMAL_APPROXIMATION            asymptotic: not valid for any given number of queries
BONFERRONI, POINTWISE           selections; the paper's is pointwise, without a guarantee over the path

Small p-values speak for certifying a configuration. `mean_loss` is R̂ over `n_queries` queries, shape (n_grid,);
losses lie in [0, 1]; `alpha` is the risk to certify, one for all configurations or one for each. No bound exceeds 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isrr.risk.binomial import lower_moments
from isrr.risk.evidence import OfMean, check_delta, check_losses, unit_losses
from isrr.risk.hoeffding_bentkus import bentkus, hoeffding, hoeffding_bentkus, unit_mean
from isrr.risk.lattice import SMALLEST, BoolArray, FloatArray, IntArray, smallest_yes
from isrr.risk.select import Selection
from isrr_paper._kernels import plugin_log_wealth


def hb_plus(mean_loss: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Return the best p-value from the mean alone by convex ordering; never above `hoeffding_bentkus`.

        p = inf over integers t > n·R̂ of  E(t − B)₊ / (t − n·R̂),   B ~ Bin(n, α)

    Among laws on [0, 1] with mean α the coin is worst for every convex decreasing function, and the (t − x)₊
    generate those. A convex function over a positive line has one valley: the search bisects on its slope.

    Example:
        >>> hb_plus(np.array([0.25, 0.28, 0.31]), n_queries=1000, alpha=0.3).round(3)
        array([0.001, 0.205, 1.   ])
    """
    mean, level = np.broadcast_arrays(unit_mean(mean_loss), np.asarray(alpha, np.float64))
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
    """Return the p-value that matches the paper's DKWM bound.

    p = min( 1,  2·exp(−2n·((α − R̂)/span)²) )  where R̂ < α, else 1
    """
    gap = np.maximum(np.asarray(alpha, np.float64) - np.asarray(mean_loss, np.float64), 0.0) / loss_span
    p: FloatArray = np.minimum(1.0, 2 * np.exp(-2 * n_queries * gap**2))
    return p


def empirical_bernstein(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, alpha: ArrayLike) -> FloatArray:
    """Return the p-value that matches Maurer and Pontil's bound: its smallest delta.

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
    """Return the central limit theorem's p-value: asymptotic, and NOT valid for any given number of queries.

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


def dkwm_bound(mean_loss: ArrayLike, n_queries: int, delta: float, loss_span: float = 1.0) -> FloatArray:
    """Return the paper's bound from the Dvoretzky–Kiefer–Wolfowitz–Massart inequality (Eq. 10).

        R̂⁺ = R̂ + span·√(log(2/δ) / 2n)

    The span, largest minus smallest loss value, is the paper's constant for ordered loss values. At span 1
    this is looser than one-sided Hoeffding at the same delta.

    Example:
        >>> dkwm_bound(np.array([0.25]), n_queries=1000, delta=0.05).round(4)
        array([0.2929])
    """
    mean = np.asarray(mean_loss, np.float64)
    return _at_most_one(mean + loss_span * np.sqrt(np.log(2 / delta) / (2 * n_queries)))


def empirical_bernstein_bound(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, delta: float) -> FloatArray:
    """Maurer and Pontil's bound, with the unbiased sample variance V.

    R̂⁺ = R̂ + √(2·V·log(2/δ)/n) + 7·log(2/δ)/(3(n − 1))
    """
    mean, log_term = np.asarray(mean_loss, np.float64), np.log(2 / delta)
    if n_queries < 2:
        return np.ones(mean.shape)
    width = np.sqrt(2 * np.asarray(variance) * log_term / n_queries) + 7 * log_term / (3 * (n_queries - 1))
    return _at_most_one(mean + width)


def normal_approximation_bound(mean_loss: ArrayLike, variance: ArrayLike, n_queries: int, delta: float) -> FloatArray:
    """Return the central limit theorem's bound: asymptotic, and NOT valid for any given number of queries.

    R̂⁺ = R̂ + Φ⁻¹(1 − δ)·√(V/n)
    """
    mean = np.asarray(mean_loss, np.float64)
    if n_queries < 2:
        return np.ones(mean.shape)
    return _at_most_one(mean - scipy.special.ndtri(delta) * np.sqrt(np.asarray(variance, np.float64) / n_queries))


def _at_most_one(bound: FloatArray) -> FloatArray:
    return np.minimum(bound, 1.0)


@dataclass(frozen=True)
class OfMoments:
    """A test that sees the mean and, where it asks for it, the variance of the losses, with a bound of its own."""

    name: str
    p_of: Callable[..., FloatArray]
    bound_of: Callable[..., FloatArray]
    sees_variance: bool
    takes_negative: bool = False
    caveat: str = ""

    def certifies(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> BoolArray:
        """Whether p ≤ delta."""
        return self.pvalue(losses, alpha, delta, prior) <= check_delta(delta)

    def pvalue(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> FloatArray:
        """Return the p-value of the moments."""
        return self.p_of(*self._moments(losses), len(losses), alpha)

    def upper_bound(self, losses: FloatArray, delta: float, prior: ArrayLike, *, rough: bool = False) -> FloatArray:
        """Return the bound of the moments."""
        return self.bound_of(*self._moments(losses), len(losses), check_delta(delta))

    def _moments(self, losses: FloatArray) -> tuple[FloatArray, ...]:
        """Mean and unbiased variance over queries; the variance of one query is 0."""
        checked = unit_losses(losses)
        mean = checked.mean(axis=0)
        if not self.sees_variance:
            return (mean,)
        return mean, ((checked - mean) ** 2).sum(axis=0) / max(len(checked) - 1, 1)


@dataclass(frozen=True)
class PluginBetting:
    """Waudby-Smith and Ramdas' bets, tuned for the level asked for; p-values are valid at every level."""

    name: str = "wsr"
    takes_negative: bool = True
    caveat: str = ""

    def certifies(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> BoolArray:
        """Whether p ≤ delta."""
        return self.pvalue(losses, alpha, delta, prior) <= check_delta(delta)

    def pvalue(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> FloatArray:
        """One over the largest wealth."""
        return wsr(check_losses(losses), alpha, check_delta(delta))

    def upper_bound(self, losses: FloatArray, delta: float, prior: ArrayLike, *, rough: bool = False) -> FloatArray:
        """Return the smallest alpha that is certified."""
        checked = check_losses(losses)
        return smallest_yes(
            lambda alpha: (wsr(checked, alpha[0], delta) <= delta)[None], SMALLEST, 1.0, checked.shape[1]
        )


HOEFFDING = OfMean("hoeffding", hoeffding)
BENTKUS = OfMean("bentkus", bentkus)
HB_PLUS = OfMean("hb_plus", hb_plus)
DKWM = OfMoments("dkwm", dkwm, dkwm_bound, sees_variance=False)
EMPIRICAL_BERNSTEIN = OfMoments("empirical_bernstein", empirical_bernstein, empirical_bernstein_bound, True)
WSR = PluginBetting()
NORMAL_APPROXIMATION = OfMoments(
    "normal_approximation", normal_approximation, normal_approximation_bound, True,
    caveat="the normal approximation is not valid for any given number of queries",
)  # fmt: skip
EVIDENCE = (HOEFFDING, BENTKUS, HB_PLUS, DKWM, EMPIRICAL_BERNSTEIN, WSR, NORMAL_APPROXIMATION)


def bonferroni(pvalues: ArrayLike, delta: float) -> IntArray:
    """Every p-value against delta/m. Any order, any dependence; never more survivors than `holm`.

    Example:
        >>> bonferroni([0.04, 0.001, 0.03, 0.015], delta=0.05)
        array([1])
    """
    p = np.asarray(pvalues)
    return np.flatnonzero(p * p.size <= delta)


def pointwise(pvalues: ArrayLike, delta: float) -> IntArray:
    """Every p-value against the whole delta: the paper's selection, which carries NO guarantee over the grid.

    Each survivor alone would be right with probability 1 − delta; that some survivor is false can be far more
    likely (28 % for 21 independent configurations at the boundary, delta = 5 %). For reproduction only.

    Example:
        >>> pointwise([0.001, 0.02, 0.07, 0.01], delta=0.05)
        array([0, 1, 3])
    """
    return np.flatnonzero(np.asarray(pvalues) <= delta)


BONFERRONI = Selection("bonferroni", bonferroni, divides_delta=True)
POINTWISE = Selection(
    "pointwise", pointwise, caveat="pointwise selection carries no guarantee over the path, only for each single test"
)
