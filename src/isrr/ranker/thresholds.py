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
