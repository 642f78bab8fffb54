"""Many promises at once: a bound for every configuration such that all of them hold together.

Moving a slider until something certifies is many tests. One bound per configuration at the whole delta, each valid
alone, becomes a band valid for all of them once its shape is fixed without the calibration queries:

    k = max over j of (UCB_j − c_j) / h_j        then  P(R_j ≤ c_j + k·h_j for all j) ≥ 1 − δ

Proof: let j₀ maximise (R_j − c_j)/h_j. If any R_j lies above the band, so does R_{j₀}, hence R_{j₀} > UCB_{j₀}, and
that has probability at most δ. The closer c is to the risks and h to the widths, the narrower the band.

Without other queries to fix c and h, m promises declared beforehand are tested at δ/m each.
"""

import numpy as np

from isrr.data.queries import FloatArray
from isrr.promises.promise import Promise

LEAST_TO_SHAPE = 50  # other judged queries from which they shape a band
KEPT_SHARES = (0.99, 0.98, 0.97, 0.95, 0.925, 0.9, 0.85, 0.8)
DISTANCES = (-0.1, -0.05, -0.03, -0.01, 0.01, 0.03)


def simultaneous(upper_bound: FloatArray, centre: FloatArray, half_width: FloatArray) -> FloatArray:
    """Bounds that hold together, from bounds that hold one by one.

    Args:
        upper_bound: Of each configuration's risk, at the whole delta, (n_grid,).
        centre: Expected risk of each, fixed without the calibration queries, (n_grid,).
        half_width: Expected width of each, fixed likewise, positive, (n_grid,).

    Example:
        >>> simultaneous(np.array([0.2, 0.35]), np.array([0.15, 0.3]), np.array([0.04, 0.05])).round(4)
        array([0.2   , 0.3625])
    """
    reach = np.max((upper_bound - centre) / half_width)
    return np.asarray(centre + reach * half_width)


def expected_half_width(deviation: FloatArray, n_queries: int, mean: float) -> FloatArray:
    """How far betting's bound is expected to lie above the mean: hypot(1.75·sd/√n, 3/(n·mean))."""
    return np.asarray(np.hypot(1.75 * deviation / np.sqrt(n_queries), 3.0 / (n_queries * max(mean, 1e-3))))


def declared_stops(promise: Promise) -> tuple[Promise, ...]:
    """The promises that are tested together where no band can be shaped: fixed by the declared one alone."""
    low, high = promise.target_range
    if promise.of is not None:
        targets = (
            KEPT_SHARES if promise.at_least is not None else tuple(1 - 5 * (1 - share) for share in KEPT_SHARES[:-1])
        )
    else:
        targets = tuple(promise.target + (high - low) * distance for distance in DISTANCES)
    inside = {round(t, 6) for t in targets if low < t < high} | {promise.target}
    return tuple(promise.at(target) for target in sorted(inside))
