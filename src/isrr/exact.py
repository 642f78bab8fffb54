"""Sums of floats that are exact, hence the same in any order and any cut into parts, whatever the scale.

A float is a whole multiple of 2⁻¹⁰⁷⁴. It is added to a row of 64-bit limbs, each worth 2³² of the one before, at the
place its exponent names; a limb takes 2³⁰ floats before it could run over. The limbs make one Python integer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr._exact_kernels import N_LIMBS, add

UNIT = 2**1074  # sums are multiples of 1 / UNIT


def exact_sums(values: NDArray[np.float64], row_of: NDArray[Any] | None = None, n_rows: int = 1) -> NDArray[np.object_]:
    """Sums over the first axis, one row per group, as Python integers in units of 2⁻¹⁰⁷⁴, (n_rows, m).

    Args:
        values: Finite numbers, (n, m).
        row_of: The group of each, (n,); by default one group.
        n_rows: Number of groups.

    Example:
        >>> forward = exact_sums(np.array([[1e300], [0.1], [-1e300]]))
        >>> float(forward[0, 0] / UNIT), bool(forward == exact_sums(np.array([[-1e300], [1e300], [0.1]])))
        (0.1, True)
    """
    groups = np.zeros(len(values), np.int64) if row_of is None else np.asarray(row_of, np.int64)
    limbs = np.zeros((n_rows, values.shape[1], N_LIMBS), np.int64)
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    add(bits, groups, limbs)
    used = np.flatnonzero(limbs.any(axis=(0, 1)))  # a few, where the values are of like size
    worth = np.array([1 << (32 * int(place)) for place in used], object)
    return np.asarray((limbs[:, :, used].astype(object) * worth).sum(axis=2, initial=0))
