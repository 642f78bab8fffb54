"""Evidence from sums: a mixture of fixed bets, the same whatever the order of queries or the cut into shards.

    E(α) = Σⱼ wⱼ·exp(Lⱼ)·(1 − cⱼα)⁻ⁿ,   Lⱼ = Σᵢ log(1 − cⱼXᵢ),   p = min(1, 1/E(α))

Each factor (1 − cX)/(1 − cα) has mean at most 1 when the risk is at least alpha; products over independent
queries and averages over bets keep that, and Markov's inequality does the rest. Losses are at most 1 and may
be negative. The sums Lⱼ do not know alpha, so one set of them serves every absolute promise. They are kept
as integers in units of 2⁻⁴⁰, each term rounded down: addition is exact in any order, and rounding only
weakens the evidence. A block of queries fits into 64 bits; sums of blocks are Python's integers, which never
run over, so that any order of queries gives the same bits.

The bets depend on the number of queries and on delta alone:

    16 deviations σⱼ log-spaced in [0.04, 0.5],  b = √(2·log(1/δ)/n)/σ,  c = min(b/(1 + 0.4b), 0.999)
    w ∝ exp(−(log(σ/0.26)/0.45)²/2)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from isrr.risk._kernels import SUM_SCALE, add_logs
from isrr.risk.lattice import SMALLEST, FloatArray, WholeNumberArray, coarsen, smallest_yes, whole_numbers

_DEVIATIONS = np.geomspace(0.04, 0.5, 16)
_CENTRED = np.exp(-((np.log(_DEVIATIONS / 0.26) / 0.45) ** 2) / 2)
WEIGHTS = _CENTRED / _CENTRED.sum()
NEWTON_STEPS = 12
BLOCK = 1 << 16  # queries whose sums fit into 64 bits with room to spare


def bet_shares(n_queries: int, delta: float) -> FloatArray:
    """The bets cⱼ, one per deviation, (16,)."""
    bets = np.sqrt(2 * np.log(1 / delta) / n_queries) / _DEVIATIONS
    shares: FloatArray = np.minimum(bets / (1 + 0.4 * bets), 0.999)
    return shares


def log_sums(losses: FloatArray, shares: FloatArray) -> WholeNumberArray:
    """Lⱼ in units of 2⁻⁴⁰, rounded down term by term, as Python integers, (n_grid, 16)."""
    total = np.zeros((losses.shape[1], WEIGHTS.size), object)
    for start in range(0, len(losses), BLOCK):
        sums = np.zeros(total.shape, np.int64)
        add_logs(losses[start : start + BLOCK], shares, sums, np.zeros(sums.size))
        total += sums.astype(object)
    return total


@dataclass(frozen=True, eq=False)
class Summary:
    """What losses have to say about the risk of each configuration.

    Attributes:
        n_queries: Number of queries summed up.
        delta: Level the bets are tuned for; the p-value is valid at every level.
        log_sums: Lⱼ, as `log_sums` gives it.
    """

    n_queries: int
    delta: float
    log_sums: WholeNumberArray

    @classmethod
    def of(cls, losses: FloatArray, delta: float) -> Self:
        """Sum up losses of at most 1, shape (n_queries, n_grid), contiguous, rows in any order.

        Example:
            >>> losses = np.random.default_rng(7).beta(2, 6, size=(400, 2))
            >>> Summary.of(losses, delta=0.05).pvalue(0.3) < 0.01
            array([ True,  True])
        """
        return cls(len(losses), delta, log_sums(losses, bet_shares(len(losses), delta)))

    @classmethod
    def of_powers(cls, powers: FloatArray, n_queries: int, delta: float) -> Self:
        """No more than `of` finds, from sums of powers of losses in [−1, 1]; tight where bets are small.

            log(1 − cX) ≥ −cX − … − (cX)ᵐ⁻¹/(m − 1) − t·Xᵐ,   t = −log(1 − c) − c − … − cᵐ⁻¹/(m − 1)

        Args:
            powers: Σ X, Σ X², …, Σ Xᵐ for an even m, (n_grid, m).
            n_queries: Number of queries summed up, all there are.
            delta: Level the bets are tuned for.
        """
        shares = bet_shares(n_queries, delta)
        order = np.arange(1, powers.shape[1] + 1)
        factors = shares ** order[:, None] / order[:, None]
        factors[-1] = -np.log1p(-shares) - factors[:-1].sum(axis=0)
        rounding = 4 * n_queries  # `of` rounds each term down by less than one unit, and sums of powers are rounded too
        return cls(n_queries, delta, whole_numbers(np.floor(-SUM_SCALE * (powers @ factors))) - rounding)

    def log_evidence(self, alpha: ArrayLike) -> FloatArray:
        """log E(α) for each configuration; alpha is one level or one per configuration, in (0, 1)."""
        return self._evidence_and_slope(np.asarray(alpha, np.float64))[0]

    @cached_property
    def _bets(self) -> tuple[FloatArray, FloatArray]:
        """cⱼ and Lⱼ."""
        return bet_shares(self.n_queries, self.delta), (self.log_sums / SUM_SCALE).astype(float)

    def _evidence_and_slope(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log E(α) and its derivative, (n_grid,) each."""
        shares, logs = self._bets
        level = np.broadcast_to(alpha, len(logs))[:, None]
        growth = logs - self.n_queries * np.log1p(-shares * level)
        largest = growth.max(axis=1, keepdims=True)
        each = WEIGHTS * np.exp(growth - largest)
        total = each.sum(axis=1)
        slope = self.n_queries * (each * shares / (1 - shares * level)).sum(axis=1) / total
        return largest[:, 0] + np.log(total), slope

    def pvalue(self, alpha: ArrayLike) -> FloatArray:
        """p = min(1, 1/E(α)), (n_grid,), alpha rounded down to the lattice: p ≤ delta ⇔ bound ≤ alpha."""
        return np.exp(-np.maximum(self.log_evidence(coarsen(alpha)), 0.0))

    def upper_bound(self, delta: float) -> FloatArray:
        """The root of E(α) = 1/delta, (n_grid,): evidence grows with alpha. 1 where there is none below.

        log E is convex in alpha, so Newton's steps come down to the root and show where to look for it.
        """
        near = np.full(len(self.log_sums), 0.5)
        for _ in range(NEWTON_STEPS):
            evidence, slope = self._evidence_and_slope(near)
            near = np.clip(near - (evidence + np.log(delta)) / np.maximum(slope, SMALLEST), SMALLEST, 1 - 1e-9)
        return smallest_yes(lambda alpha: self.pvalue(alpha) <= delta, SMALLEST, 1.0, near.size, guess=near)
