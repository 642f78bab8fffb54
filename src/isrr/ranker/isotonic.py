"""Isotonic regression: the rising values that are nearest to given ones, by pooling neighbours that fall.

SciPy has it too, and gives bit-for-bit identical results, but loading its optimisers takes longer than a small
calibration.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import FloatArray, IntArray
from isrr.ranker._scale_kernels import pool_falling


class Blocks(NamedTuple):
    """Runs of neighbours with one level each.

    Attributes:
        levels: The weighted mean of each block, strictly rising, (n_blocks,).
        edges: Where each block begins, then where the last one ends, (n_blocks + 1,).
    """

    levels: FloatArray
    edges: IntArray

    @property
    def fitted(self) -> FloatArray:
        """The level of each value's block, (n,)."""
        return np.repeat(self.levels, np.diff(self.edges))


def isotonic_blocks(values: ArrayLike, weights: ArrayLike | None = None) -> Blocks:
    """Blocks of the rising sequence nearest to `values` in squares, weighted equally unless told otherwise.

    Example:
        >>> isotonic_blocks([1.0, 3.0, 2.0, 4.0]).fitted
        array([1. , 2.5, 2.5, 4. ])
    """
    levels = np.array(values, np.float64)
    weighed = np.ones(levels.size) if weights is None else np.array(weights, np.float64)
    edges = np.empty(levels.size + 1, np.int64)
    n_blocks = pool_falling(levels, weighed, edges)
    return Blocks(levels[:n_blocks], edges[: n_blocks + 1])
