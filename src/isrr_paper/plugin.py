"""The paper's disparity: that of exposures averaged over drawn rankings, which overstates it."""

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.gains import Gain, discount
from isrr.metrics.disparity import disparity
from isrr.ranker.gpl import GPLRanker


def plugin_disparity(
    queries: Queries, ranker: GPLRanker, n_draws: int = 100, seed: int = 0, gain: Gain = "exponential"
) -> FloatArray:
    """Return the disparity of each query at exposures averaged over its draws, (n_queries,)."""
    rankings, exposure = ranker.sample(queries, n_draws, seed), np.zeros(queries.n_rows)
    rows = np.arange(queries.n_rows) if queries.rows is None else queries.rows
    for j, weight in enumerate(discount(ranker.k).tolist()):
        placed = rankings[:, :, j]
        at = (queries.offsets[:-1, None] + placed)[placed >= 0]
        exposure += np.bincount(rows[at], minlength=queries.n_rows) * weight / n_draws
    return disparity(exposure, queries, gain=gain)
