"""The score map, compiled: between its knots and beyond the outermost ones it is linear."""

import numpy as np

from isrr.compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def map_scores(raw, inputs, outputs, slopes):
    # raw (n,)                  raw scores
    # inputs, outputs (knots,)  the map at its knots; slopes (knots − 1,) between them
    mapped = np.empty(raw.size)
    for i in range(raw.size):
        low, high = 0, slopes.size - 1
        while low < high:
            middle = (low + high + 1) // 2
            if inputs[middle] <= raw[i]:
                low = middle
            else:
                high = middle - 1
        mapped[i] = outputs[low] + (raw[i] - inputs[low]) * slopes[low]
        if low < slopes.size - 1 and mapped[i] > outputs[low + 1]:  # by rounding: the next segment begins there
            mapped[i] = outputs[low + 1]
    return mapped
