"""One threshold per position from one number: thresholds that fall by a constant factor.

    λ₁ = threshold,   λ_{j+1} = decay · λ_j

Paper: section 3.3.1.
"""

import numpy as np

from isrr.data.queries import FloatArray


def expand(threshold: float, decay: float, k: int) -> FloatArray:
    """The thresholds of k positions; the first ones do not depend on k, to the last bit.

    Example:
        >>> expand(0.8, 0.5, 3)
        array([0.8, 0.4, 0.2])
    """
    if decay == 1.0:
        return np.full(k, threshold, np.float64)
    factors = np.full(k, decay)
    factors[0] = threshold
    return np.multiply.accumulate(factors)


def uniform_grid(eligibility: FloatArray, n: int = 21) -> FloatArray:
    """n equally spaced thresholds from 0 to the largest eligibility, as in the paper."""
    return np.linspace(0.0, float(eligibility.max()), n)


def quantile_grid(eligibility: FloatArray, n: int = 101) -> FloatArray:
    """At most n distinct thresholds at equally spaced quantiles of the eligibilities, with 0 before them.

    Most eligibilities are small: quantiles put the grid where admitted sets change.
    """
    return np.unique(np.concatenate(([0.0], np.quantile(eligibility, np.linspace(0.0, 1.0, n - 1)))))
