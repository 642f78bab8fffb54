"""The drift rule: does a list look like what calibration saw?

A promise covers scores on the scale it was made for. With q₀.₁ … q₉₉.₉ the calibration scores' quantiles at 0.1 and
99.9 % and w = q₉₉.₉ − q₀.₁, a list is uncovered when

    far      a score lies more than w below q₀.₁ or above q₉₉.₉, or
    moved    at least 5 of its scores, and more than half, lie outside [q₀.₁, q₉₉.₉].

A new maximum alone is neither: among a thousand scores of calibration itself two lie outside.
"""

import numpy as np

from isrr.data.queries import FloatArray

BINS = ("below 0.1%", "0.1% to 1%", "1% to 50%", "50% to 99%", "99% to 99.9%", "above 99.9%")
SHARES = np.array([0.001, 0.009, 0.49, 0.49, 0.009, 0.001])
FEWEST = 5


def tally(scores: FloatArray, quantiles: FloatArray) -> tuple[list[int], str | None]:
    """Return how many scores fall into each bin between quantiles, and why the list is uncovered, or None."""
    bins: list[int] = np.bincount(quantiles.searchsorted(scores), minlength=len(BINS)).tolist()
    outside = bins[0] + bins[-1]
    if not outside:
        return bins, None
    low, high = quantiles[0], quantiles[-1]
    beyond = np.maximum(low - scores, scores - high)
    if beyond[worst := int(beyond.argmax())] > high - low:
        why = f"score {scores[worst]:.6g} lies far outside"
    elif outside >= FEWEST and 2 * outside > scores.size:
        why = f"{outside} of {scores.size} scores lie outside"
    else:
        return bins, None
    return bins, f"{why} [{low:.6g}, {high:.6g}], the range of 99.8 % of the calibration scores"


def stability_index(counts: FloatArray) -> float:
    """Return how far counts in the bins are from their shares at calibration: Σ (p − s) · log(p / s), 0 for no drift.

    One case in calibration's proportions is added, so that an empty bin is no infinity. By common usage 0.1 is worth a
    look, 0.25 a recalibration.

    Example:
        >>> round(stability_index(np.array([1, 9, 490, 490, 9, 1.0])), 3), round(stability_index(np.full(6, 100.0)), 1)
        (0.0, 3.3)
    """
    share = (counts + SHARES) / (counts.sum() + 1.0)
    return float(((share - SHARES) * np.log(share / SHARES)).sum())
