"""Compiled loops of the calibration: sums of powers, in whole numbers."""

import numpy as np

from isrr.compiled import njit

UNITS = 2.0**40  # whole numbers stand for multiples of 2⁻⁴⁰


@njit(cache=True, nogil=True, error_model="numpy")
def add_powers(values, reference, unit, sums):
    # values (n_queries, n_grid), reference (n_queries,)  between −unit and unit, and divided by it first
    # sums (n_grid, highest + 1, highest + 1)             adds Σ vᵃrᵇ at [:, a, b] for a + b ≤ highest, each rounded
    n_queries, n_grid = values.shape
    highest = sums.shape[1] - 1
    powers = np.empty(highest + 1)
    for q in range(n_queries):
        powers[0] = UNITS
        for b in range(1, highest + 1):
            powers[b] = powers[b - 1] * (reference[q] / unit)
        for c in range(n_grid):
            value, power = values[q, c] / unit, 1.0
            for a in range(highest + 1):
                for b in range(highest + 1 - a):
                    sums[c, a, b] += np.int64(np.rint(power * powers[b]))
                power *= value
