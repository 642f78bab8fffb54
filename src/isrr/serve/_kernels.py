"""Compiled loops of the service."""

import numpy as np

from isrr.compiled import njit


@njit(cache=True, nogil=True)
def tally(scores, quantiles):
    # scores (n,), quantiles (5,)  rising
    # Returns how many scores fall between the quantiles, (6,), how many outside, and one that lies further outside than
    # they span, NaN where there is none.
    counts = np.zeros(quantiles.size + 1, np.int64)
    low, high = quantiles[0], quantiles[-1]
    span, far = high - low, np.nan
    for score in scores:
        at = 0
        while at < quantiles.size and score > quantiles[at]:
            at += 1
        counts[at] += 1
        if score < low - span or score > high + span:
            far = score
    return counts, counts[0] + counts[-1], far
