"""Evidence from sums: a mixture of fixed bets, the same whatever the order of queries or the cut into shards.

    E(α) = Σⱼ wⱼ·exp(Lⱼ)·(1 − cⱼα)⁻ⁿ,   Lⱼ = Σᵢ log(1 − cⱼXᵢ),   p = min(1, 1/E(α))

Each factor (1 − cX)/(1 − cα) has mean at most 1 when the risk is at least alpha; products over independent
queries and averages over bets keep that, and Markov's inequality does the rest. Losses are at most 1 and may
be negative. The sums Lⱼ do not know alpha, so one set of them serves every absolute promise. They are kept
as integers in units of 2⁻⁴⁰, each term rounded down: addition is exact in any order, and rounding only
weakens the evidence. A block of queries fits into 64 bits; sums of blocks are Python's integers, which never
run over.

The bets depend on the planned number of queries and on delta alone:

    16 deviations σⱼ log-spaced in [0.04, 0.5],  b = √(2·log(1/δ)/n)/σ,  c = min(b/(1 + 0.4b), 0.999)
    w ∝ exp(−(log(σ/0.26)/0.45)²/2)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import MergeError
from isrr.risk._kernels import SUM_SCALE, add_logs
from isrr.risk.lattice import SMALLEST, FloatArray, WholeNumberArray, coarsen, smallest_yes, whole_numbers, whole_sums
from isrr.risk.losses import check_losses

_DEVIATIONS = np.geomspace(0.04, 0.5, 16)
_CENTRED = np.exp(-((np.log(_DEVIATIONS / 0.26) / 0.45) ** 2) / 2)
WEIGHTS = _CENTRED / _CENTRED.sum()
NEWTON_STEPS = 12
BLOCK = 1 << 16  # queries whose sums fit into 64 bits with room to spare


def bet_shares(n_queries: int, delta: float) -> FloatArray:
    """The bets cⱼ, one a deviation, (16,)."""
    bets = np.sqrt(2 * np.log(1 / delta) / n_queries) / _DEVIATIONS
    shares: FloatArray = np.minimum(bets / (1 + 0.4 * bets), 0.999)
    return shares


@dataclass(frozen=True, eq=False)
class Summary:
    """What a shard has to say about the risk of each configuration. Shards are joined by `+`, in any order.

    Attributes:
        planned_queries: Number of queries of all shards together, fixed beforehand: it sets the bets.
        delta: Level the bets are tuned for; the p-value is valid at every level.
        n_queries: Number of queries summed up.
        log_sums: Lⱼ in units of 2⁻⁴⁰, rounded down term by term, as Python integers, (n_grid, 16).
        moments: Σ X and Σ X² in units of 2⁻⁴⁰, as Python integers, (n_grid, 2).
    """

    planned_queries: int
    delta: float
    n_queries: int
    log_sums: WholeNumberArray
    moments: WholeNumberArray

    @classmethod
    def of(cls, losses: FloatArray, delta: float, planned_queries: int | None = None) -> Self:
        """Sum up losses of at most 1, shape (n_queries, n_grid), rows in any order.

        Example:
            >>> losses = np.random.default_rng(7).beta(2, 6, size=(400, 2))
            >>> whole = Summary.of(losses, delta=0.05)
            >>> parts = [Summary.of(part, delta=0.05, planned_queries=400) for part in np.split(losses, 4)]
            >>> bool(np.all(sum(parts[1:], parts[0]).log_sums == whole.log_sums)), whole.pvalue(0.3) < 0.01
            (True, array([ True,  True]))
        """
        planned = losses.shape[0] if planned_queries is None else planned_queries
        shares, n_grid = bet_shares(planned, delta), losses.shape[1]
        total, moments = np.zeros((n_grid, WEIGHTS.size), object), np.zeros((n_grid, 2), object)
        for start in range(0, len(losses), BLOCK):
            block = check_losses(losses[start : start + BLOCK])
            sums = np.zeros((n_grid, WEIGHTS.size), np.int64)
            add_logs(block, shares, sums, np.zeros(sums.size))
            total += sums.astype(object)
            moments += np.array([whole_sums(block, SUM_SCALE), whole_sums(block**2, SUM_SCALE)], object).T
        return cls(planned, delta, losses.shape[0], total, moments)

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
        sums = whole_numbers(np.floor(-SUM_SCALE * (powers @ factors))) - rounding
        return cls(n_queries, delta, n_queries, sums, whole_numbers(np.rint(SUM_SCALE * powers[:, :2])))

    def __add__(self, other: "Summary") -> "Summary":
        ours, theirs = (self.planned_queries, self.delta), (other.planned_queries, other.delta)
        if ours != theirs:
            raise MergeError(
                f"found summaries of different bets: (queries planned, delta) is {ours} here, {theirs} there"
            )
        if self.log_sums.shape != other.log_sums.shape:
            here, there = len(self.log_sums), len(other.log_sums)
            raise MergeError(f"found summaries of different grids: {here} configurations here, {there} there")
        n_queries = self.n_queries + other.n_queries
        return Summary(*ours, n_queries, self.log_sums + other.log_sums, self.moments + other.moments)

    def mean_and_deviation(self) -> tuple[FloatArray, FloatArray]:
        """Of the losses, (n_grid,) each."""
        mean, square = (self.moments / (SUM_SCALE * self.n_queries)).astype(float).T
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))

    def log_evidence(self, alpha: ArrayLike) -> FloatArray:
        """log E(α) for each configuration; alpha is one level or one a configuration, in (0, 1)."""
        return self._evidence_and_slope(np.asarray(alpha, np.float64))[0]

    @cached_property
    def _bets(self) -> tuple[FloatArray, FloatArray]:
        """cⱼ and Lⱼ."""
        return bet_shares(self.planned_queries, self.delta), (self.log_sums / SUM_SCALE).astype(float)

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
