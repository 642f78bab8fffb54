"""Evidence by name: p-value and upper bound of the same test behind one shape, with all input checked here.

betting               the default; reads queries one by one in canonical order
mixture, vb           sums only, for any number of queries
hoeffding, bentkus, hoeffding_bentkus, hb_plus, dkwm, empirical_bernstein, wsr
normal_approximation  asymptotic: not valid for any given number of queries
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import PromiseError
from isrr.risk import betting, bounds, mixture, pvalues, vb
from isrr.risk.lattice import BoolArray, FloatArray
from isrr.risk.losses import check_losses

NAMES = (
    "bentkus",
    "betting",
    "dkwm",
    "empirical_bernstein",
    "hb_plus",
    "hoeffding",
    "hoeffding_bentkus",
    "mixture",
    "normal_approximation",
    "vb",
    "wsr",
)

ROUGH_BITS = 14  # bounds that are only looked at have four digits
AtAlpha = Callable[[FloatArray, FloatArray], FloatArray]  # losses and alpha → one number a configuration
AtLevel = Callable[[FloatArray, float], FloatArray]  # the same for a level


class Evidence(Protocol):
    """A way to test "the risk is at least alpha" from losses of shape (n_queries, n_grid), none above 1."""

    @property
    def name(self) -> str:
        """What a certificate calls it."""

    @property
    def needs_unit_interval(self) -> bool:
        """Whether losses below 0 are raised to 0 first, which only makes the test stricter."""

    def pvalue(self, losses: ArrayLike, alpha: ArrayLike) -> FloatArray:
        """One p-value a configuration, (n_grid,); alpha is one or one a configuration."""

    def certifies(self, losses: ArrayLike, alpha: ArrayLike, delta: float) -> BoolArray:
        """Whether p ≤ delta, (n_grid,); often quicker to answer than what p is."""

    def upper_bound(self, losses: ArrayLike, delta: float, *, rough: bool = False) -> FloatArray:
        """One bound a configuration, (n_grid,): the risk is below it with probability at least 1 − delta.

        A rough one is rounded up to four digits where that is sooner found.
        """


@dataclass(frozen=True)
class _Checked:
    """Evidence that looks at its input before it tests."""

    name: str
    test: AtAlpha
    bound: AtLevel
    needs_unit_interval: bool = True
    decision: Callable[[FloatArray, FloatArray, float], BoolArray] | None = None
    rough_bound: AtLevel | None = None

    def certifies(self, losses: ArrayLike, alpha: ArrayLike, delta: float) -> BoolArray:
        if self.decision is None:
            return self.pvalue(losses, alpha) <= delta
        check_alpha(alpha)
        check_delta(delta)
        return self.decision(self._prepared(losses), np.asarray(alpha, np.float64), float(delta))

    def pvalue(self, losses: ArrayLike, alpha: ArrayLike) -> FloatArray:
        check_alpha(alpha)
        return self.test(self._prepared(losses), np.asarray(alpha, np.float64))

    def upper_bound(self, losses: ArrayLike, delta: float, *, rough: bool = False) -> FloatArray:
        check_delta(delta)
        bound = self.rough_bound if rough and self.rough_bound is not None else self.bound
        return bound(self._prepared(losses), float(delta))

    def _prepared(self, losses: ArrayLike) -> FloatArray:
        checked = check_losses(losses)
        if self.needs_unit_interval and not (checked.min() >= 0 and checked.max() <= 1):
            return np.clip(checked, 0.0, 1.0)
        return checked


def evidence(
    name: str,
    *,
    delta: float = 0.05,
    prior_deviation: ArrayLike = betting.PRIOR_DEVIATION,
    loss_span: float = 1.0,
) -> Evidence:
    """The evidence of that name.

    Args:
        name: One of `NAMES`.
        delta: Level that mixture, vb and wsr tune their bets for; their p-values are valid at every level.
        prior_deviation: Betting's guess of the losses' deviation, one or one a configuration, fixed without the
            calibration losses.
        loss_span: DKWM's largest minus smallest loss value.

    Example:
        >>> losses = np.random.default_rng(7).beta(2, 6, size=(400, 2))
        >>> evidence("betting").pvalue(losses, alpha=0.3) <= 0.05
        array([ True,  True])
    """
    check_delta(delta)
    if not np.all(np.asarray(prior_deviation) > 0):
        raise PromiseError(f"prior_deviation must be positive, got {prior_deviation!r}")
    match name:
        case "betting":
            return _Checked(
                name,
                lambda losses, alpha: betting.pvalue(losses, alpha, prior_deviation),
                lambda losses, level: betting.upper_bound(losses, level, prior_deviation),
                needs_unit_interval=False,
                decision=lambda losses, alpha, level: betting.certifies(losses, alpha, level, prior_deviation),
                rough_bound=lambda losses, level: betting.upper_bound(losses, level, prior_deviation, ROUGH_BITS),
            )
        case "mixture":
            return _Checked(
                name,
                lambda losses, alpha: mixture.Summary.of(losses, delta).pvalue(alpha),
                lambda losses, level: mixture.Summary.of(losses, delta).upper_bound(level),
                needs_unit_interval=False,
            )
        case "wsr":
            return _Checked(
                name,
                lambda losses, alpha: pvalues.wsr(losses, alpha, delta),
                lambda losses, level: bounds.wsr(losses, level, delta),
                needs_unit_interval=False,
            )
        case "vb":
            return _Checked(
                name,
                lambda losses, alpha: vb.pvalue(losses, alpha, delta),
                lambda losses, level: vb.upper_bound(losses, level, delta),
                rough_bound=lambda losses, level: vb.upper_bound(losses, level, delta, ROUGH_BITS),
            )
        case "dkwm":
            return _Checked(
                name,
                lambda losses, alpha: pvalues.dkwm(losses.mean(axis=0), len(losses), alpha, loss_span),
                lambda losses, level: bounds.dkwm(losses.mean(axis=0), len(losses), level, loss_span),
            )
        case "hoeffding" | "bentkus" | "hoeffding_bentkus" | "hb_plus":
            test, bound = getattr(pvalues, name), getattr(bounds, name)
            return _Checked(
                name,
                lambda losses, alpha: test(losses.mean(axis=0), len(losses), alpha),
                lambda losses, level: bound(losses.mean(axis=0), len(losses), level),
            )
        case "empirical_bernstein" | "normal_approximation":
            test, bound = getattr(pvalues, name), getattr(bounds, name)
            return _Checked(
                name,
                lambda losses, alpha: test(*_mean_and_variance(losses), len(losses), alpha),
                lambda losses, level: bound(*_mean_and_variance(losses), len(losses), level),
            )
    raise PromiseError(f"unknown evidence {name!r}; expected one of {', '.join(NAMES)}")


def check_alpha(alpha: ArrayLike) -> None:
    """Refuse a risk level outside (0, 1)."""
    if not np.all((np.asarray(alpha) > 0) & (np.asarray(alpha) < 1)):
        raise PromiseError(
            f"alpha must lie in (0, 1), got {alpha!r}; it is the tolerated risk (1 − target), not the target"
        )


def check_delta(delta: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < delta < 1:
        raise PromiseError(
            f"delta must lie in (0, 1), got {delta}; it is the tolerated chance of error (1 − confidence)"
        )


def _mean_and_variance(losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance over queries; the variance of one query is 0."""
    mean = losses.mean(axis=0)
    return mean, ((losses - mean) ** 2).sum(axis=0) / max(len(losses) - 1, 1)
