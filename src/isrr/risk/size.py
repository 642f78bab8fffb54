"""How many losses betting needs to certify a risk.

    n = ( sd · (z_{1−δ} + κ/√n + z_{power}) / (α − R) )²

R and sd are the mean and deviation of the loss; κ/√n is what betting needs beyond a normal test. Bets are capped, which
adds log(1/δ)(1 − α)/gap where losses vary little beside their range, as paired ones do. Where losses are at hand, the
number is then corrected by running the test itself on losses drawn from them. They are a sample too, so each run draws
from a resample of them: what they may be off by counts, and the power is that over all risks below alpha which they
leave possible.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from isrr.risk import betting
from isrr.risk.lattice import BoolArray, FloatArray

POWER = 0.8
TRIALS = 200  # tests that are simulated for each number of losses
LARGEST_SIMULATED = 3_000  # losses; beyond, a normal test with betting's κ is as good
LARGEST_RESAMPLED = 10_000  # losses at hand; more are taken as they are
MOST = 10**9  # losses; no more are worth planning
SEED = 20230


def needed(
    mean: float,
    deviation: float,
    alpha: float,
    delta: float,
    power: float = POWER,
    *,
    paired: bool = False,
    n_losses: int | None = None,
) -> int | None:
    """Losses with which betting certifies with probability `power`; None when no number is enough.

    Mean and deviation are taken as true, or, with `n_losses`, as those of a sample of so many.

    Example:
        >>> needed(0.25, 0.28, alpha=0.3, delta=0.05)
        237
    """
    gap = alpha - mean
    if gap <= 0:
        return None
    linear = deviation * float(scipy.special.ndtri(1 - delta) + scipy.special.ndtri(power)) / gap
    constant = deviation * _kappa(mean) / gap
    n = ((linear + math.sqrt(linear**2 + 4 * constant)) / 2) ** 2
    if paired:
        n += math.log(1 / delta) * (1 - alpha) / gap
    floor = math.log(1 / delta) / -math.log1p(-alpha)  # wealth grows by at most 1/(1 − α) per loss
    n = math.ceil(max(n, floor))
    if n_losses is None:
        return n
    quantiles = np.asarray(scipy.special.ndtri((np.arange(TRIALS) + 0.5) / TRIALS))
    gaps = gap + deviation / math.sqrt(n_losses) * quantiles
    spread = np.full(TRIALS, max(deviation, 1e-12))
    return _searched(n, power * float((gaps > 0).mean()), lambda n: _beyond(gaps, spread, n, alpha, delta, paired))


def simulated(
    losses: FloatArray,
    alpha: float,
    delta: float,
    prior_deviation: float,
    power: float = POWER,
    *,
    paired: bool = False,
) -> int | None:
    """Return how many losses prove it, by testing on losses drawn from resamples of those at hand, (n_losses,)."""
    guess = needed(float(losses.mean()), float(losses.std()), alpha, delta, power, paired=paired)
    if guess is None:
        return None
    rng, n_losses, losses = np.random.default_rng(SEED), losses.size, np.sort(losses)  # in whatever order they come
    pools = np.broadcast_to(losses[:, None], (n_losses, TRIALS))
    if n_losses <= LARGEST_RESAMPLED:
        pools = rng.choice(losses, (n_losses, TRIALS))
    gap, deviation = alpha - pools.mean(axis=0), np.maximum(pools.std(axis=0), 1e-12)
    wanted = power * float((gap > 0).mean())

    def certified(n: int) -> float:
        if n > LARGEST_SIMULATED:
            return _beyond(gap, deviation, n, alpha, delta, paired)
        rows = np.random.default_rng([SEED, n]).integers(n_losses, size=(n, TRIALS))
        drawn = np.take_along_axis(pools, rows, axis=0)
        return float(betting.certifies(drawn, alpha, delta, prior_deviation).mean())

    return _searched(guess, wanted, certified)


def needed_by_mean(
    losses: FloatArray, certified: Callable[[FloatArray, int], BoolArray], alpha: float, power: float = POWER
) -> int | None:
    """Return how many losses in [0, 1] prove it to a test that sees their mean alone.

    Args:
        losses: Those at hand, (n_losses,).
        certified: Whether the test certifies some means of so many losses.
        alpha: The risk to certify.
        power: How often it is certified.
    """
    mean, deviation = float(losses.mean()), float(losses.std())
    if mean >= alpha:
        return None
    quantiles = np.asarray(scipy.special.ndtri((np.arange(TRIALS) + 0.5) / TRIALS))
    true_means = mean + deviation / math.sqrt(losses.size) * quantiles[:, None]
    wanted = power * float((true_means < alpha).mean())

    def share(n: int) -> float:
        return float(certified(np.clip(true_means + deviation / math.sqrt(n) * quantiles, 0.0, 1.0), n).mean())

    return _searched(1, wanted, share)


def _searched(guess: int, wanted: float, certified: Callable[[int], float]) -> int | None:
    """Return the smallest number that certifies as often as wanted; None beyond any worth planning."""
    low, high = 0, guess
    while certified(high) < wanted:
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > max(1, high // 50):  # to 2 %: the simulation itself is no more exact
        middle = (low + high) // 2
        low, high = (low, middle) if certified(middle) >= wanted else (middle, high)
    return high


def _beyond(gap: FloatArray, deviation: FloatArray, n: int, alpha: float, delta: float, paired: bool) -> float:
    """Return how often so many losses are certified, by the formula: the mean over what gap and deviation may be."""
    met = gap > 0
    capped = math.log(1 / delta) * (1 - alpha) / gap[met] if paired else 0.0
    root = np.sqrt(np.maximum(n - capped, 1.0))
    found = scipy.special.ndtr(gap[met] / deviation[met] * root - scipy.special.ndtri(1 - delta) - _kappa(alpha) / root)
    return float(found.sum()) / gap.size


def _kappa(mean: float) -> float:
    """Return what betting needs beyond a normal test, times √n."""
    return 4.0 if mean < 0.3 else 3.0
