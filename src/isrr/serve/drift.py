"""The drift rule: does a list look like what calibration saw?

A promise covers scores on the scale it was made for. With q₀.₁ … q₉₉.₉ the calibration scores' quantiles at 0.1 and
99.9 % and w = q₉₉.₉ − q₀.₁, a list is uncovered when

    far      a score lies more than w below q₀.₁ or above q₉₉.₉, or
    moved    at least 5 of its scores, and more than half, lie outside [q₀.₁, q₉₉.₉].

A new maximum alone is neither: among a thousand scores of calibration itself two lie outside.
"""

import numpy as np
from numpy.typing import NDArray

from isrr.compiled import kernel
from isrr.data.queries import FloatArray

BINS = ("below 0.1%", "0.1% to 1%", "1% to 50%", "50% to 99%", "99% to 99.9%", "above 99.9%")
SHARES = np.array([0.001, 0.009, 0.49, 0.49, 0.009, 0.001])
FEWEST = 5


@kernel
def bin_scores(scores: FloatArray, quantiles: FloatArray, counts: NDArray[np.int64]) -> tuple[float, bool]:
    """Count scores by bin, which has its upper end; return the score farthest outside, and whether that is too far."""
    low, high = quantiles[0], quantiles[-1]
    worst, distance = 0.0, -np.inf
    for score in scores:
        bin = 0
        for quantile in quantiles:
            bin += quantile < score
        counts[bin] += 1
        beyond = max(low - score, score - high)
        if beyond > distance:
            worst, distance = score, beyond
    return worst, distance > high - low


def tally(scores: FloatArray, quantiles: FloatArray) -> tuple[list[int], str | None]:
    """Return how many scores fall into each bin between quantiles, and why the list is uncovered, or None."""
    counts = np.zeros(len(BINS), np.int64)
    worst, far = bin_scores(scores, quantiles, counts)
    bins: list[int] = counts.tolist()
    outside = bins[0] + bins[-1]
    if far:
        why = f"score {worst:.6g} lies far outside"
    elif outside >= FEWEST and 2 * outside > scores.size:
        why = f"{outside} of {scores.size} scores lie outside"
    else:
        return bins, None
    return bins, f"{why} [{quantiles[0]:.6g}, {quantiles[-1]:.6g}], the range of 99.8 % of the calibration scores"


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
