"""Evidence from sums that adapts to the variance: Bentkus' and Berry and Esseen's bounds, joined.

    β = δ/10,  m = max(α, 1 − α),  v̄ = the mixture's upper bound at level β for E(X − α)²
    p = β + sup over s² ≤ v̄ of  min( B₂(s),  Φ(−√n·(α − X̄)/s) + C(m/s)/√n )
    B₂(s) = inf over τ > y of  E(τ − N)₊²/(τ − y)²,   N ~ Bin(n, q),  q = α²/(α² + s²),  y = n·q·X̄/α
    C(b) = min(0.4690·b, 0.3322·(b + 0.429), 0.3031·(b + 0.646))

B₂ is Bentkus' (2004) bound for sums of variables at most α above their mean with variance s², C Shevtsova's
(2013) constants. Better than `isrr.risk.mixture` from about 500 queries on. Losses must lie in [0, 1]:
negative ones are raised to 0, which only makes the test stricter. The sums depend on alpha; they are
integers in units of 2⁻⁴⁰, rounded against certifying, so that they add up exactly in any order.
"""

from dataclasses import dataclass
from itertools import count
from typing import Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

from isrr.risk import mixture
from isrr.risk._kernels import SUM_SCALE
from isrr.risk.binomial import lower_moments
from isrr.risk.lattice import BoolArray, FloatArray, WholeNumberArray, coarsen, smallest_yes, whole_numbers

_BLOCK = 4096
_STEP = 1.03
BITS = 20
_AROUND = np.array([[-1.0], [0.0], [1.0]])


@dataclass(frozen=True, eq=False)
class Summary:
    """What losses have to say about "the risk is at least alpha".

    Attributes:
        alpha: Risk level tested, one per configuration, (n_grid,); rounded down to 20 significant bits, the
            lattice of `upper_bound`, so that p ≤ delta ⇔ bound ≤ alpha.
        loss_sums: Σ X in units of 2⁻⁴⁰, each loss rounded up, as Python integers, (n_grid,).
        squares: The mixture's summary of ((X − α)/m)², at level delta/10.
    """

    alpha: FloatArray
    loss_sums: WholeNumberArray
    squares: mixture.Summary

    @classmethod
    def of(cls, losses: FloatArray, alpha: ArrayLike, delta: float) -> Self:
        """Sum up losses, shape (n_queries, n_grid), rows in any order.

        Args:
            losses: At most 1 each, but for rounding; negative ones count as 0.
            alpha: Risk level to test, one or one per configuration.
            delta: Level the sums are tuned for: p-values are never below delta/10.
        """
        n_queries, n_grid = losses.shape
        level = np.array(np.broadcast_to(tested_level(alpha), n_grid))
        shares = mixture.bet_shares(n_queries, delta / 10)
        total, logs = np.zeros(n_grid, object), mixture.log_sums(losses[:0], shares)
        for start in range(0, n_queries, _BLOCK):
            block = np.clip(losses[start : start + _BLOCK], 0.0, 1.0)
            total += np.ceil(block * SUM_SCALE).astype(np.int64).sum(axis=0).astype(object)
            logs += mixture.log_sums(((block - level) / np.maximum(level, 1 - level)) ** 2, shares)
        return cls(level, total, mixture.Summary(n_queries, delta / 10, logs))

    @classmethod
    def of_powers(cls, powers: FloatArray, n_queries: int, alpha: FloatArray, delta: float) -> Self:
        """No more than `of` finds, from sums of powers of X − α, for losses X in [0, 1].

        Args:
            powers: Σ (X − α), Σ (X − α)², …, Σ (X − α)⁸, (n_grid, 8).
            n_queries: Number of queries summed up, all there are.
            alpha: Risk level to test, one per configuration, as `tested_level` gives it, (n_grid,).
            delta: Level the sums are tuned for.
        """
        rounding = 4 * n_queries
        total = whole_numbers(np.ceil(SUM_SCALE * (powers[:, 0] + n_queries * alpha))) + rounding
        even = np.arange(2, powers.shape[1] + 1, 2)
        span = np.maximum(alpha, 1 - alpha)[:, None]
        return cls(alpha, total, mixture.Summary.of_powers(powers[:, even - 1] / span**even, n_queries, delta / 10))

    def pvalue(self) -> FloatArray:
        """The p-value of the module's docstring, (n_grid,).

        The supremum runs over deviations 3 % apart, downward from √v̄, each term taken at the worse end of
        its interval. It ends where B₂, which falls with s, has fallen below what was already found.
        """
        n, beta = self.squares.n_queries, self.squares.delta
        span = np.maximum(self.alpha, 1 - self.alpha)
        mean: FloatArray = (self.loss_sums / (SUM_SCALE * n)).astype(float)
        high = span * np.sqrt(self.squares.upper_bound(beta))
        bentkus, worst = np.zeros(mean.size), np.where(mean < self.alpha, 0.0, 1.0)
        rows = np.flatnonzero(mean < self.alpha)
        bentkus[rows] = _bentkus(mean[rows], high[rows], self.alpha[rows], n)
        while rows.size:
            low = high[rows] / _STEP
            normal = scipy.special.ndtr(-np.sqrt(n) * (self.alpha[rows] - mean[rows]) / high[rows])
            berry_esseen = normal + _constant(span[rows] / low) / np.sqrt(n)
            worst[rows] = np.maximum(worst[rows], np.minimum(bentkus[rows], berry_esseen))
            high[rows] = low
            bentkus[rows] = _bentkus(mean[rows], low, self.alpha[rows], n)
            rows = rows[bentkus[rows] > worst[rows]]
        return np.minimum(1.0, beta + worst)


def tested_level(alpha: ArrayLike) -> FloatArray:
    """Alpha on the lattice that is tested, never above what was asked for."""
    return coarsen(alpha, BITS)


def pvalue(losses: FloatArray, alpha: ArrayLike, delta: float = 0.05) -> FloatArray:
    """The p-value of losses at hand; delta is the level it is tuned for.

    Example:
        >>> losses = np.random.default_rng(7).beta(2, 6, size=(2000, 1))
        >>> losses.mean().round(3), pvalue(losses, alpha=0.255).round(3)
        (np.float64(0.247), array([0.052]))
    """
    return Summary.of(losses, alpha, delta).pvalue()


def upper_bound(
    losses: FloatArray, delta: float, tuned_delta: float = 0.05, significant_bits: int = BITS
) -> FloatArray:
    """The smallest alpha with p ≤ delta; the sums are computed again for every alpha tried.

    It has six digits; with fewer significant bits it has fewer, is rounded up, and is found sooner.
    """

    def certifies(alpha: FloatArray) -> BoolArray:
        return Summary.of(losses, alpha, tuned_delta).pvalue() <= delta

    low = np.clip(losses.mean(axis=0), 2.0**-30, 1 - 2.0**-BITS)
    return smallest_yes(certifies, low, 1.0, losses.shape[1], significant_bits)


def _constant(ratio: FloatArray) -> FloatArray:
    return np.minimum(0.4690 * ratio, np.minimum(0.3322 * (ratio + 0.429), 0.3031 * (ratio + 0.646)))


def _bentkus(mean: FloatArray, deviation: FloatArray, alpha: FloatArray, n: int) -> FloatArray:
    """B₂. A square root of a convex function over a line has one valley: found over integers, then between them.

    The search starts where the valley of a normal law lies, goes on by Newton's steps towards
    τ − y = E(τ − N)₊² / E(τ − N)₊, and every other turn after the third halves what is left.
    """
    q = alpha**2 / (alpha**2 + deviation**2)
    y = n * q * mean / alpha
    spread = np.sqrt(n * q * (1 - q))
    z = (n * q - y) / spread
    normal = y + spread * (1 + 2 * z**2) / (z + z**3)  # to a few per cent of its distance from y
    lowest = low = np.floor(y) + 1
    high = np.full(mean.shape, n + 1.0)
    t = np.clip(np.rint(normal), low, high)
    best, rows = np.empty(mean.shape), np.arange(mean.size)
    for turn in count(1):
        tried = t + _AROUND
        below, first, second = lower_moments(tried, n, q)
        before, here, after = second / np.maximum(tried - y, 1e-150) ** 2
        falls, rises = (t <= lowest) | (before > here), (t > n) | (after >= here)
        low = np.where(rises, np.where(falls, np.maximum(low, t), low), t + 1)
        high = np.where(falls, np.where(rises, np.minimum(high, t), high), t - 1)
        found = (low == t) & (t == high)
        left, right = (_lowest_in_cell(tried[j], y, n, below[j + 1], first[j], second[j]) for j in (0, 1))
        best[rows[found]] = np.minimum(np.minimum(1.0, here), np.minimum(left, right))[found]
        if found.all():
            break
        positive = np.maximum(first[1], 1e-300)
        quotient = second[1] / positive
        newton = t - (t - y - quotient) / np.maximum(quotient * (below[1] / positive) - 1, 0.1)
        t = np.clip(np.rint(newton) if turn < 4 or turn % 2 else np.floor((low + high) / 2), low, high)
        rows, q, y, lowest, low, high, t = (x[~found] for x in (rows, q, y, lowest, low, high, t))
    return best


def _lowest_in_cell(
    j: FloatArray, y: FloatArray, n: int, mass: FloatArray, first: FloatArray, second: FloatArray
) -> FloatArray:
    """The least E(τ − N)₊²/(τ − y)² inside [j, j + 1], or beyond j ≥ n, where it is one parabola; else 1.

    mass is P(N ≤ j); first and second are the moments at j.
    """
    gap = j - y
    slope = mass * gap - first
    step = (second - gap * first) / np.where(slope > 0, slope, 1.0)
    inside = (slope > 0) & (step > 0) & ((step < 1) | (j >= n)) & (step + gap > 0)
    step = np.where(inside, step, 0.0)
    value = (second + 2 * step * first + step**2 * mass) / np.where(inside, step + gap, 1.0) ** 2
    return np.where(inside, value, 1.0)
