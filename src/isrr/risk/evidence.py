"""Evidence by name: p-value and upper bound of the same test behind one shape, with all input checked here.

betting               the default; reads queries one by one in canonical order
mixture, vb           sums only, for any number of queries
hoeffding, bentkus, hoeffding_bentkus, hb_plus, dkwm, empirical_bernstein, wsr
normal_approximation  asymptotic: not valid for any given number of queries
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import PromiseError
from isrr.risk import betting, bounds, mixture, pvalues, vb
from isrr.risk.lattice import SIGNIFICANT_BITS, BoolArray, FloatArray

HEARS_NEGATIVE = ("betting", "mixture", "wsr")  # the others raise losses below 0 to 0, which only makes them stricter
NAMES = (
    "bentkus", "betting", "dkwm", "empirical_bernstein", "hb_plus", "hoeffding", "hoeffding_bentkus", "mixture",
    "normal_approximation", "vb", "wsr",
)  # fmt: skip
ROUGH_BITS = 14  # bounds that are only looked at have four digits
ROUNDING = 1e-9


@dataclass(frozen=True)
class Evidence:
    """A way to test "the risk is at least alpha" from losses of shape (n_queries, n_grid), none above 1.

    Attributes:
        name: One of `NAMES`.
        delta: Level that mixture, vb and wsr tune their bets for; their p-values are valid at every level.
        prior_deviation: Betting's guess of the losses' deviation, one or one per configuration, fixed without the
            calibration losses.

    Example:
        >>> losses = np.random.default_rng(7).beta(2, 6, size=(400, 2))
        >>> Evidence("betting").pvalue(losses, alpha=0.3) <= 0.05
        array([ True,  True])
    """

    name: str
    delta: float = 0.05
    prior_deviation: ArrayLike = betting.PRIOR_DEVIATION

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise PromiseError(f"unknown evidence {self.name!r}; expected one of {', '.join(NAMES)}")
        check_delta(self.delta)
        if not np.all(np.asarray(self.prior_deviation) > 0):
            raise PromiseError(f"prior_deviation must be positive, got {self.prior_deviation!r}")

    def certifies(self, losses: ArrayLike, alpha: ArrayLike, delta: float) -> BoolArray:
        """Whether p ≤ delta, (n_grid,); betting answers that sooner than what p is."""
        if self.name != "betting":
            return self.pvalue(losses, alpha) <= delta
        check_delta(delta)
        return betting.certifies(self._prepared(losses), _checked_alpha(alpha), float(delta), self.prior_deviation)

    def pvalue(self, losses: ArrayLike, alpha: ArrayLike) -> FloatArray:
        """One p-value per configuration, (n_grid,); alpha is one for all or one for each."""
        level, found = _checked_alpha(alpha), self._prepared(losses)
        match self.name:
            case "betting":
                return betting.pvalue(found, level, self.prior_deviation)
            case "mixture":
                return mixture.Summary.of(found, self.delta).pvalue(level)
            case "vb":
                return vb.pvalue(found, level, self.delta)
            case "wsr":
                return pvalues.wsr(found, level, self.delta)
        of_moments: FloatArray = getattr(pvalues, self.name)(*self._moments(found), len(found), level)
        return of_moments

    def upper_bound(self, losses: ArrayLike, delta: float, *, rough: bool = False) -> FloatArray:
        """One bound per configuration, (n_grid,): the risk is below it with probability at least 1 − delta.

        A rough one is rounded up to four digits where it is found sooner that way.
        """
        check_delta(delta)
        found, level = self._prepared(losses), float(delta)
        match self.name:
            case "betting":
                bits = ROUGH_BITS if rough else SIGNIFICANT_BITS
                return betting.upper_bound(found, level, self.prior_deviation, bits)
            case "mixture":
                return mixture.Summary.of(found, self.delta).upper_bound(level)
            case "vb":
                return vb.upper_bound(found, level, self.delta, ROUGH_BITS if rough else vb.BITS)
            case "wsr":
                return bounds.wsr(found, level, self.delta)
            case "dkwm" | "empirical_bernstein" | "normal_approximation":
                of_moments: FloatArray = getattr(bounds, self.name)(*self._moments(found), len(found), level)
                return of_moments
        return bounds.root(getattr(pvalues, self.name), found.mean(axis=0), len(found), level)

    def _moments(self, losses: FloatArray) -> tuple[FloatArray, ...]:
        """Mean, and where it is asked for the unbiased variance, over queries; the variance of one query is 0."""
        mean = losses.mean(axis=0)
        if self.name not in ("empirical_bernstein", "normal_approximation"):
            return (mean,)
        return mean, ((losses - mean) ** 2).sum(axis=0) / max(len(losses) - 1, 1)

    def _prepared(self, losses: ArrayLike) -> FloatArray:
        checked = check_losses(losses)
        if self.name in HEARS_NEGATIVE or (checked.min() >= 0 and checked.max() <= 1):
            return checked
        return np.clip(checked, 0.0, 1.0)


def check_losses(losses: ArrayLike) -> FloatArray:
    """Losses as a contiguous float matrix, or a refusal that says where the first bad one is."""
    matrix = np.ascontiguousarray(losses, np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise PromiseError(f"losses must have shape (n_queries, n_grid), none of them 0, got {matrix.shape}")
    if not (matrix.max() <= 1 + ROUNDING and matrix.min() > -np.inf):
        query, point = np.argwhere(~((matrix <= 1 + ROUNDING) & (matrix > -np.inf)))[0]
        value = matrix[query, point]
        slip = "drop skipped queries first" if np.isnan(value) else "divide by the largest possible loss"
        raise PromiseError(f"losses must be at most 1, got {value} at query {query}, configuration {point}; {slip}")
    return matrix


def _checked_alpha(alpha: ArrayLike) -> FloatArray:
    level = np.asarray(alpha, np.float64)
    if not np.all((level > 0) & (level < 1)):
        raise PromiseError(
            f"alpha must lie in (0, 1), got {alpha!r}; it is the tolerated risk (1 − target), not the target"
        )
    return level


def check_delta(delta: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < delta < 1:
        raise PromiseError(
            f"delta must lie in (0, 1), got {delta}; it is the tolerated chance of error (1 − confidence)"
        )
