"""How many losses betting needs to certify a risk.

    n = ( sd · (z_{1−δ} + κ/√n + z_{power}) / (α − R) )²

R and sd are the mean and deviation of the loss; κ/√n is what betting needs beyond a normal test. Bets are capped, which
adds log(1/δ)(1 − α)/gap where losses vary little beside their range, as paired ones do. Where losses are at hand, the
number is then corrected by running the test itself on losses drawn from them.
"""

import math

import numpy as np
from scipy.special import ndtri

from isrr.risk import betting
from isrr.risk.lattice import FloatArray

POWER = 0.8
TRIALS = 200  # tests that are simulated for each number of losses
LARGEST_SIMULATED = 3_000  # losses; beyond, the formula is as good
SEED = 20230


def needed(
    mean: float, deviation: float, alpha: float, delta: float, power: float = POWER, *, paired: bool = False
) -> int | None:
    """Losses with which betting certifies with probability `power`; None when no number is enough.

    Example:
        >>> needed(0.25, 0.28, alpha=0.3, delta=0.05)
        237
    """
    gap = alpha - mean
    if gap <= 0:
        return None
    kappa = 4.0 if mean < 0.3 else 3.0
    linear = deviation * float(ndtri(1 - delta) + ndtri(power)) / gap
    constant = deviation * kappa / gap
    n = ((linear + math.sqrt(linear**2 + 4 * constant)) / 2) ** 2
    if paired:
        n += math.log(1 / delta) * (1 - alpha) / gap
    floor = math.log(1 / delta) / -math.log1p(-alpha)  # wealth grows by at most 1/(1 − α) per loss
    return math.ceil(max(n, floor))


def simulated(
    losses: FloatArray,
    alpha: float,
    delta: float,
    prior_deviation: float,
    power: float = POWER,
    *,
    paired: bool = False,
) -> int | None:
    """The same, found by testing on losses drawn with replacement from those at hand, (n_losses,)."""
    guess = needed(float(losses.mean()), float(losses.std()), alpha, delta, power, paired=paired)
    if guess is None or guess > LARGEST_SIMULATED:
        return guess

    def certified(n: int) -> float:
        drawn = np.random.default_rng([SEED, n]).choice(losses, (n, TRIALS))
        return float(betting.certifies(drawn, alpha, delta, prior_deviation).mean())

    low, high = 0, guess
    while certified(high) < power:
        low, high = high, 2 * high
        if high > LARGEST_SIMULATED:
            return high
    while high - low > max(1, high // 50):  # to 2 %: the simulation itself is no more exact
        middle = (low + high) // 2
        low, high = (low, middle) if certified(middle) >= power else (middle, high)
    return high
