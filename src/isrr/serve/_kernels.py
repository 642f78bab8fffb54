"""Compiled loops of the service."""

import numpy as np

from isrr.compiled import njit


@njit(cache=True, nogil=True)
def tally(scores, quantiles):
    # scores (n,), quantiles (5,)  rising
    # Returns how many scores fall between the quantiles, (6,), whether one lies further outside than they span, and
    # which.
    counts = np.zeros(quantiles.size + 1, np.int64)
    low, high = quantiles[0], quantiles[-1]
    span, far, worst = high - low, False, 0.0
    for score in scores:
        at = 0
        while at < quantiles.size and score > quantiles[at]:
            at += 1
        counts[at] += 1
        if score < low - span or score > high + span:
            far, worst = True, score
    return counts, far, worst
