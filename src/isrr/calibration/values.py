"""What a promise speaks of: one value a query and configuration."""

from collections.abc import Sequence

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.errors import GuaranteeError
from isrr.gains import discount
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation
from isrr.metrics.exposure import Groups
from isrr.ranker.gpl import GPLRanker


def values_of(measured: Evaluation, guarantee: Guarantee, queries: Queries, grid: Sequence[GPLRanker]) -> FloatArray:
    """What a promise speaks of, (n_queries, n_grid); NaN for queries left out."""
    if guarantee.metric == "ndcg":
        return measured.ndcg
    if guarantee.metric == "normalized_disparity":
        return measured.normalized_disparity
    if guarantee.metric == "disparity":
        largest = float(np.nanmax(measured.disparity))
        if guarantee.bound is not None and largest > guarantee.bound:
            raise GuaranteeError(
                f"a query has disparity {largest:.6g}, above the declared bound {guarantee.bound:g}; "
                "the bound must hold for every query there can be"
            )
        return measured.disparity
    return np.where(np.isnan(measured.ndcg), np.nan, _between_groups(queries, guarantee, grid))


def _between_groups(queries: Queries, guarantee: Guarantee, grid: Sequence[GPLRanker]) -> FloatArray:
    """Disparity between groups as a share of the largest possible, (n_queries, n_grid)."""
    groups = Groups.of(queries, guarantee.gain_kind)
    # Σe² over groups is at most (Σθ)², which bounds the disparity whatever the ranker.
    places = np.minimum(queries.n_items, guarantee.k)
    shown = np.concatenate(([0.0], np.cumsum(discount(guarantee.k))))[places]
    squares = np.add.reduceat(groups.gain**2, groups.offsets[:-1])
    n_groups = np.diff(groups.offsets)
    largest_possible = 4.0 * shown**2 * squares / np.maximum(n_groups * (n_groups - 1), 1)
    divisor = np.where(largest_possible > 0, largest_possible, 1.0)
    shares = np.empty((len(queries), len(grid)))
    for column, ranker in enumerate(grid):
        exposure = queries.in_query_order(ranker.exposure(queries), "exposure")
        shares[:, column] = groups.pooled(exposure).disparity() / divisor
    return shares
