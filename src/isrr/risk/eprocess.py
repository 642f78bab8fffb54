"""Evidence against "every expected loss is at most alpha" that may be looked at after every loss, for ever.

    M_j ← (M_j + w_j · π_t) · (1 + b_j · (X_t − α)),   π_t = 1 / ((t + 1)(t + 2)),   t = 0, 1, …
    E_t = Σ_j M_j + 1 / (t + 2)

A mixture over bets b_j, and over the time at which betting begins: E is a convex combination of processes that are 1
until their start and non-negative supermartingales from there, as long as each loss X_t ∈ [0, 1] has expectation at
most α given the past. By Ville's inequality P(E ever reaches 1 / δ) ≤ δ. Betting from the first loss only would be
valid too, and useless after a long good period: its wealth is lost by then.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from isrr.risk.lattice import FloatArray

N_BETS = 12
SMALLEST_BET = 0.02
MOST_WEALTH = 1e100  # evidence beyond any doubt; kept from overflowing


@lru_cache
def bets(alpha: float) -> FloatArray:
    """Stakes on the loss being above alpha, from careful to nearly all that may be lost, (12,); read-only."""
    stakes = np.geomspace(SMALLEST_BET, 0.95 / alpha, N_BETS)
    stakes.flags.writeable = False
    return stakes


@dataclass(frozen=True, eq=False)
class EProcess:
    """The evidence so far, of one stream of losses or of several side by side.

    Attributes:
        alpha: The risk promised.
        wealth: M_j, (…, 12).
        n: Losses seen.

    Example:
        >>> calm, broken = EProcess.start(0.3), EProcess.start(0.3)
        >>> for _ in range(50):
        ...     calm, broken = calm.after(0.25), broken.after(0.6)
        >>> calm.evidence.round(2), broken.evidence > 1e4
        (np.float64(0.51), np.True_)
    """

    alpha: float
    wealth: FloatArray
    n: int

    @classmethod
    def start(cls, alpha: float, n_streams: int | None = None) -> "EProcess":
        """Nothing seen yet."""
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must lie in (0, 1), got {alpha}; it is the tolerated risk")
        return cls(alpha, np.zeros(N_BETS if n_streams is None else (n_streams, N_BETS)), 0)

    @property
    def evidence(self) -> FloatArray:
        """E, shaped as the streams; alarm where it reaches 1 / δ."""
        return np.asarray(self.wealth.sum(axis=-1) + 1.0 / (self.n + 1))[()]

    def after(self, losses: ArrayLike) -> "EProcess":
        """Return the evidence after one more loss of each stream."""
        found = np.asarray(losses, np.float64)
        if not ((found >= 0) & (found <= 1)).all():
            raise ValueError(f"a loss is {found[~((found >= 0) & (found <= 1))][0]}; expected losses in [0, 1]")
        start = 1.0 / ((self.n + 1) * (self.n + 2) * N_BETS)
        grown = (self.wealth + start) * (1.0 + bets(self.alpha) * (found[..., None] - self.alpha))
        return EProcess(self.alpha, np.minimum(grown, MOST_WEALTH), self.n + 1)
