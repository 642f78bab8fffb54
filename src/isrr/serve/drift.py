"""Does a list look like what calibration saw? The drift rule, and the bins that the metrics count.

A promise covers scores on the scale it was made for. With q₀.₁ … q₉₉.₉ the calibration scores' quantiles at 0.1 and
99.9 % and w = q₉₉.₉ − q₀.₁, a list is uncovered when

    far      a score lies more than w below q₀.₁ or above q₉₉.₉, or
    moved    at least 5 of its scores, and more than half, lie outside [q₀.₁, q₉₉.₉].

A new maximum alone is neither: among a thousand scores of calibration itself two lie outside.
"""

from dataclasses import dataclass

import numpy as np

from isrr.data.queries import FloatArray
from isrr.serve import _kernels

BINS = ("below 0.1%", "0.1% to 1%", "1% to 50%", "50% to 99%", "99% to 99.9%", "above 99.9%")
SHARES = (0.001, 0.009, 0.49, 0.49, 0.009, 0.001)
FEWEST = 5


@dataclass(frozen=True, eq=False)
class Drift:
    """Scores of served lists against the quantiles (0.1, 1, 50, 99, 99.9 %) of the calibration scores."""

    quantiles: FloatArray

    def tally(self, scores: FloatArray) -> tuple[list[int], str | None]:
        """How many scores fall into each bin, and why the list is uncovered, or None."""
        counts, far, worst = _kernels.tally(scores, self.quantiles)
        bins = counts.tolist()
        outside = bins[0] + bins[-1]
        if far:
            found = f"score {worst:.6g} lies far outside"
        elif outside >= FEWEST and 2 * outside > scores.size:
            found = f"{outside} of {scores.size} scores lie outside"
        else:
            return bins, None
        low, high = self.quantiles[0], self.quantiles[-1]
        return bins, f"{found} [{low:.6g}, {high:.6g}], the range of 99.8 % of the calibration scores"


def stability_index(counts: FloatArray) -> float:
    """How far counts in the bins are from their shares at calibration: Σ (p − s) · log(p / s), 0 for no drift.

    One case in calibration's proportions is added, so that an empty bin is no infinity. By common usage 0.1 is worth a
    look, 0.25 a recalibration.

    Example:
        >>> round(stability_index(np.array([1, 9, 490, 490, 9, 1.0])), 3), round(stability_index(np.full(6, 100.0)), 1)
        (0.0, 3.3)
    """
    at_calibration = np.array(SHARES)
    share = (counts + at_calibration) / (counts.sum() + 1.0)
    return float(((share - at_calibration) * np.log(share / at_calibration)).sum())
