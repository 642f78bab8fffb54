"""Evidence: a p-value, an upper bound and a decision of the same test, as one object.

betting             the default; reads queries one by one in canonical order
hoeffding_bentkus   the paper's; sees the mean loss alone

`isrr.calibrate(evidence=…)` takes either name, or an object with what `Evidence` lists (`isrr_paper.further_evidence`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import PromiseError
from isrr.risk import betting
from isrr.risk.hoeffding_bentkus import hoeffding_bentkus
from isrr.risk.lattice import SIGNIFICANT_BITS, BoolArray, FloatArray, smallest_yes

ROUGH_BITS = 14  # bounds that are only looked at have four digits
ROUNDING = 1e-9


class Evidence(Protocol):
    """A test of "the risk is at least alpha" on losses of shape (n_queries, n_grid), none above 1.

    Attributes:
        name: What certificates call it.
        takes_negative: Whether losses below 0 count as they are; otherwise they are raised to 0, which is stricter.
        caveat: What a certificate warns of, if anything.
    """

    @property
    def name(self) -> str: ...
    @property
    def takes_negative(self) -> bool: ...
    @property
    def caveat(self) -> str: ...

    def certifies(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> BoolArray:
        """Return whether each configuration is certified at level delta; the prior guesses its losses' deviation."""
        ...

    def pvalue(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> FloatArray:
        """Return the smallest level that certifies each configuration; bets may be tuned for the level delta."""
        ...

    def upper_bound(self, losses: FloatArray, delta: float, prior: ArrayLike, *, rough: bool = False) -> FloatArray:
        """Return a bound on each risk that holds with probability 1 − delta; a rough one has four digits."""
        ...


@dataclass(frozen=True)
class Betting:
    """The digital-option hedge of `isrr.risk.betting`."""

    name: str = "betting"
    takes_negative: bool = True
    caveat: str = ""

    def certifies(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> BoolArray:
        """Decide sooner than a p-value could be found."""
        return betting.certifies(check_losses(losses), alpha, check_delta(delta), prior)

    def pvalue(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> FloatArray:
        """Bisect for the smallest level that certifies."""
        return betting.pvalue(check_losses(losses), alpha, prior)

    def upper_bound(self, losses: FloatArray, delta: float, prior: ArrayLike, *, rough: bool = False) -> FloatArray:
        """Bisect for the smallest risk that is certified."""
        bits = ROUGH_BITS if rough else SIGNIFICANT_BITS
        return betting.upper_bound(check_losses(losses), check_delta(delta), prior, bits)


@dataclass(frozen=True)
class OfMean:
    """A test that sees the mean loss alone; its bound is where the p-value, which falls with alpha, reaches delta.

    Example:
        >>> losses = np.random.default_rng(7).beta(2, 6, size=(400, 2))
        >>> OfMean("hoeffding_bentkus", hoeffding_bentkus).certifies(losses, np.array([0.3, 0.25]), 0.05, 0.25)
        array([ True, False])
    """

    name: str
    of_mean: Callable[[FloatArray, int, ArrayLike], FloatArray]
    takes_negative: bool = False
    caveat: str = ""

    def certifies(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> BoolArray:
        """Return whether p ≤ delta."""
        return self.pvalue(losses, alpha, delta, prior) <= check_delta(delta)

    def pvalue(self, losses: FloatArray, alpha: FloatArray, delta: float, prior: ArrayLike) -> FloatArray:
        """Return the p-value of the mean."""
        return self.of_mean(unit_losses(losses).mean(axis=0), len(losses), alpha)

    def upper_bound(self, losses: FloatArray, delta: float, prior: ArrayLike, *, rough: bool = False) -> FloatArray:
        """Return the bound of the mean."""
        return self.bound_of_mean(unit_losses(losses).mean(axis=0), len(losses), check_delta(delta))

    def bound_of_mean(self, mean_loss: FloatArray, n_queries: int, delta: float) -> FloatArray:
        """Return the smallest alpha at which the p-value is at most delta: it falls from 1 at the mean."""
        largest = np.nextafter(1.0, 0.0)
        return smallest_yes(
            lambda alpha: self.of_mean(mean_loss, n_queries, np.minimum(alpha, largest)) <= delta,
            np.maximum(mean_loss, 2.0**-60),
            1.0,
            mean_loss.size,
        )


NAMED: dict[str, Evidence] = {
    "betting": Betting(),
    "hoeffding_bentkus": OfMean("hoeffding_bentkus", hoeffding_bentkus),
}


def evidence_of(given: str | Evidence) -> Evidence:
    """Return the evidence of a name; evidence itself is returned as it is."""
    if not isinstance(given, str):
        return given
    if given not in NAMED:
        raise PromiseError(f"unknown evidence {given!r}; expected one of {', '.join(NAMED)}, or an object")
    return NAMED[given]


def unit_losses(losses: ArrayLike) -> FloatArray:
    """Checked losses, those below 0 raised to 0."""
    return np.clip(check_losses(losses), 0.0, 1.0)


def check_losses(losses: ArrayLike) -> FloatArray:
    """Return losses as a contiguous float matrix, or refuse and say where the first bad one is."""
    matrix = np.ascontiguousarray(losses, np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise PromiseError(f"losses must have shape (n_queries, n_grid), none of them 0, got {matrix.shape}")
    if not (matrix.max() <= 1 + ROUNDING and matrix.min() > -np.inf):
        query, point = np.argwhere(~((matrix <= 1 + ROUNDING) & (matrix > -np.inf)))[0]
        value = matrix[query, point]
        slip = "drop skipped queries first" if np.isnan(value) else "divide by the largest possible loss"
        raise PromiseError(f"losses must be at most 1, got {value} at query {query}, configuration {point}; {slip}")
    return matrix


def check_delta(delta: float) -> float:
    """Return a level in (0, 1), or refuse it."""
    if not 0 < delta < 1:
        raise PromiseError(
            f"delta must lie in (0, 1), got {delta}; it is the tolerated chance of error (1 − confidence)"
        )
    return float(delta)
