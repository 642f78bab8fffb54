"""Utility and disparity summed up over queries, in whole numbers: what a report says of each configuration.

What must add up is kept in whole numbers, so any cut of the queries into shards, added in any order, gives the same
bits.
"""

from dataclasses import dataclass

import numpy as np

from isrr.data.queries import FloatArray
from isrr.risk.lattice import whole_sums

UTILITY_SCALE = 2**40  # whole numbers stand for multiples of 2⁻⁴⁰ …
DISPARITY_SCALE = 2**28  # … and, as disparities and their squares are larger, of 2⁻²⁸
WholeNumbers = tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """Sums over queries for each configuration, in whole numbers; the first configuration is the deterministic one.

    Attributes:
        n_queries: Queries summed up.
        utility, utility_squares: Σ U, each rounded down, and Σ U², in units of 2⁻⁴⁰.
        disparity, disparity_squares: Σ D, each rounded up, and Σ D², in units of 2⁻²⁸.
        disparity_products: Σ D · D_deterministic, in units of 2⁻²⁸.
    """

    n_queries: int
    utility: WholeNumbers
    utility_squares: WholeNumbers
    disparity: WholeNumbers
    disparity_squares: WholeNumbers
    disparity_products: WholeNumbers

    @classmethod
    def of(cls, utility: FloatArray, disparity: FloatArray) -> "Moments":
        """Sum up values of shape (n_queries, n_grid), deterministic ranker first."""

        return cls(
            len(utility),
            whole_sums(utility, UTILITY_SCALE, np.floor),
            whole_sums(utility**2, UTILITY_SCALE),
            whole_sums(disparity, DISPARITY_SCALE, np.ceil),
            whole_sums(disparity**2, DISPARITY_SCALE),
            whole_sums(disparity * disparity[:, :1], DISPARITY_SCALE),
        )

    @classmethod
    def none(cls, n_grid: int) -> "Moments":
        """Of no queries."""
        return cls.of(np.empty((0, n_grid)), np.empty((0, n_grid)))

    def __add__(self, other: "Moments") -> "Moments":
        pairs = [
            tuple(a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True))
            for name in ("utility", "utility_squares", "disparity", "disparity_squares", "disparity_products")
        ]
        return Moments(self.n_queries + other.n_queries, *pairs)

    def mean_utility(self) -> tuple[FloatArray, FloatArray]:
        """Mean utility of each configuration and its standard error."""
        return _mean_and_error(self.utility, self.utility_squares, self.n_queries, UTILITY_SCALE)

    def mean_disparity(self) -> tuple[FloatArray, FloatArray]:
        """Mean disparity of each configuration and its standard error."""
        return _mean_and_error(self.disparity, self.disparity_squares, self.n_queries, DISPARITY_SCALE)

    def fairness_gain(self) -> tuple[FloatArray, FloatArray]:
        """1 − D / D_deterministic of each configuration, freed of the ratio's bias to first order, and its error.

        With s the covariances over queries, r = D̄/D̄₀:
        r − (r·s₀₀ − s₀)/(n·D̄₀²) and √((s − 2r·s₀ + r²·s₀₀)/n)/D̄₀; the leading terms of the jackknife's.
        """
        n = self.n_queries
        mean = np.array(self.disparity, float) / (DISPARITY_SCALE * n)
        if mean[0] <= 0:
            return np.zeros(mean.size), np.zeros(mean.size)
        squares = np.array(self.disparity_squares, float) / (DISPARITY_SCALE * n) - mean**2
        products = np.array(self.disparity_products, float) / (DISPARITY_SCALE * n) - mean * mean[0]
        ratio = mean / mean[0]
        degrees = max(n - 1, 1)
        bias = (ratio * squares[0] - products) / (degrees * mean[0] ** 2)
        variance = np.maximum(squares - 2 * ratio * products + ratio**2 * squares[0], 0.0)
        return 1.0 - (ratio - bias), np.sqrt(variance / degrees) / mean[0]


def _mean_and_error(
    sums: WholeNumbers, squares: WholeNumbers, n_queries: int, scale: int
) -> tuple[FloatArray, FloatArray]:
    mean = np.array(sums, float) / (scale * n_queries)
    variance = np.maximum(np.array(squares, float) / (scale * n_queries) - mean**2, 0.0)
    return mean, np.sqrt(variance / max(n_queries - 1, 1))
