"""Sums of floats that are exact, hence the same in any order and any cut into parts, whatever the scale.

A float is a whole multiple of 2⁻¹⁰⁷⁴. It is added to a row of 64-bit limbs, each worth 2³² of the one before, at the
place its exponent names; a limb takes 2³⁰ floats before it could run over. The limbs make one Python integer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.compiled import njit

UNIT = 2**1074  # sums are multiples of 1 / UNIT
N_LIMBS = 68
LOW = 0xFFFFFFFF


@njit(cache=True, nogil=True, error_model="numpy")
def _add(bits, row_of, limbs):
    # bits (n, m)                   finite floats as their bit patterns
    # row_of (n,)                   the row that each adds to
    # limbs (n_rows, m, N_LIMBS)    in and out
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            word = bits[i, j]
            exponent, mantissa = (word >> 52) & 0x7FF, word & 0x000FFFFFFFFFFFFF
            if exponent > 0:
                mantissa |= 1 << 52
                exponent -= 1  # subnormal numbers share the exponent of the smallest normal ones
            place, shift = exponent >> 5, exponent & 31
            low, high = (mantissa & LOW) << shift, (mantissa >> 32) << shift
            sign = -1 if word < 0 else 1
            row = limbs[row_of[i], j]
            row[place] += sign * (low & LOW)
            row[place + 1] += sign * ((low >> 32) + (high & LOW))
            row[place + 2] += sign * (high >> 32)


def exact_sums(values: NDArray[np.float64], row_of: NDArray[Any] | None = None, n_rows: int = 1) -> NDArray[np.object_]:
    """Sums over the first axis, one row per group, as Python integers in units of 2⁻¹⁰⁷⁴, (n_rows, m).

    Args:
        values: Finite numbers, (n, m).
        row_of: The group of each, (n,); one group unless given.
        n_rows: Number of groups.

    Example:
        >>> forward, back = (exact_sums(np.array([[x] for x in xs])) for xs in ([1e300, 0.1, -1e300], [-1e300, 1e300, 0.1]))
        >>> float(forward[0, 0] / UNIT), bool(forward == back)
        (0.1, True)
    """
    groups = np.zeros(len(values), np.int64) if row_of is None else np.asarray(row_of, np.int64)
    limbs = np.zeros((n_rows, values.shape[1], N_LIMBS), np.int64)
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    _add(bits, groups, limbs)
    worth = np.array([1 << (32 * place) for place in range(N_LIMBS)], object)
    return np.asarray((limbs.astype(object) * worth).sum(axis=2))
