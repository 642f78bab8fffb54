"""What counts as losses: numbers of at most 1, one per query and configuration. Anything else voids a test."""

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import PromiseError
from isrr.risk.lattice import FloatArray

ROUNDING = 1e-9


def check_losses(losses: ArrayLike) -> FloatArray:
    """Losses as a contiguous float matrix, or a refusal that says where the first bad one is."""
    matrix = np.ascontiguousarray(losses, np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise PromiseError(f"losses must have shape (n_queries, n_grid), none of them 0, got {matrix.shape}")
    if not (matrix.max() <= 1 + ROUNDING and matrix.min() > -np.inf):
        query, point = np.argwhere(~((matrix <= 1 + ROUNDING) & (matrix > -np.inf)))[0]
        value = matrix[query, point]
        slip = "drop skipped queries first" if np.isnan(value) else "divide by the largest possible loss"
        raise PromiseError(f"losses must be at most 1, got {value} at query {query}, configuration {point}; {slip}")
    return matrix
