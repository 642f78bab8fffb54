"""The float lattice on which tests are asked, and the search for the smallest point that answers yes.

A test that certifies at some level certifies at every larger one; its p-value is the smallest level that
certifies, its upper bound the smallest alpha. In floating point the yes/no answer may flicker within a few
rounding errors of that root, and three numbers that should agree would not. Tests are therefore asked only at
floats of 32 significant bits, 2e-10 apart: far wider than the flicker, so the answers on the lattice are
monotone and "certified ⇔ p ≤ delta ⇔ upper bound ≤ alpha" holds as bits. Levels are rounded down, which only
makes a test stricter.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SMALLEST = float(np.finfo(np.float64).tiny)
SIGNIFICANT_BITS = 32
_FLOAT_BITS = 53
MOST = 1 << 60  # lattice points; no search goes further
STRIDE = 4  # lattice points; how far a gallop goes first, and by what factor further each time


def coarsen(value: ArrayLike, significant_bits: int = SIGNIFICANT_BITS) -> FloatArray:
    """Return the largest lattice point not above each value, for values ≥ 0.

    Example:
        >>> float(coarsen(0.5)), bool(coarsen(0.05) < 0.05)
        (0.5, True)
    """
    shift = _FLOAT_BITS - significant_bits
    codes = np.array(value, np.float64).view(np.int64) >> shift
    return np.asarray(codes << shift).view(np.float64)


def smallest_yes(
    answers: Callable[[FloatArray], BoolArray],
    low: ArrayLike,
    high: ArrayLike,
    n_grid: int,
    significant_bits: int = SIGNIFICANT_BITS,
    guess: FloatArray | None = None,
    at_once: int = 1,
) -> FloatArray:
    """Return the smallest lattice point in [low, high] that answers yes, for each configuration.

    Answers must be monotone: no up to some point, yes from there on. `high` counts as yes without being
    asked, so that it may be a level no test is defined at. Positive floats sort like their bit patterns,
    hence the search is one over integers and ends at neighbours.

    Args:
        answers: Takes some points a configuration, (at_once, n_grid), gives an answer to each.
        low: Smallest point to ask, positive; a scalar or (n_grid,).
        high: Returned where no smaller point answers yes; a scalar or (n_grid,).
        n_grid: Number of configurations.
        significant_bits: How fine the lattice is; fewer bits need fewer questions.
        guess: Where to ask first, (n_grid,), positive: from there the search gallops until the answer changes. A good
            guess saves questions; the result is the same.
        at_once: How many points of a configuration are asked about together; the result is the same.
    """
    shift = _FLOAT_BITS - significant_bits
    points = np.empty((3, n_grid))
    points[0], points[1], points[2] = low, high, 1.0 if guess is None else guess
    first, last, near = points.view(np.int64) >> shift
    no, yes, leaps = first - 1, np.maximum(last, first), STRIDE ** np.arange(1, at_once + 1)[:, None]
    parts = np.arange(1, at_once + 1)[:, None]
    heard = np.full((2, n_grid), guess is None)  # whether a no, and a yes, was heard
    while np.any(open_ := yes - no > 1):
        around = near + (parts - (at_once + 1) // 2) * leaps[0]
        further = np.where(heard[0], no + leaps, np.where(heard[1], yes - leaps, around))
        between = no + (yes - no) * parts // (at_once + 1)
        asked = np.where(heard.all(axis=0), np.maximum(between, no + 1), np.clip(further, no + 1, yes - 1))
        asked = np.where(open_, asked, np.maximum(yes - 1, first))  # a closed one is asked for nothing
        leaps = np.minimum(leaps, MOST // STRIDE**at_once) * STRIDE**at_once
        answer = answers((asked << shift).view(np.float64))
        yes = np.where(open_, np.where(answer, asked, yes).min(axis=0), yes)
        no = np.where(open_, np.where(answer, no, asked).max(axis=0), no)
        heard |= np.stack([~answer.all(axis=0), answer.any(axis=0)])
    return np.asarray((yes << shift).view(np.float64))
