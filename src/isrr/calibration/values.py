"""What a promise speaks of: one value a query and configuration."""

from collections.abc import Sequence

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.errors import GuaranteeError
from isrr.gains import discount
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation
from isrr.metrics.exposure import group_exposure
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
    pooled = [group_exposure(r.exposure(queries), queries, gain_kind=guarantee.gain_kind) for r in grid]
    # Σe² over groups is at most (Σθ)², which bounds the disparity whatever the ranker.
    places = np.minimum(queries.n_items, guarantee.k)
    shown = np.concatenate(([0.0], np.cumsum(discount(guarantee.k))))[places]
    squares = np.add.reduceat(pooled[0].gain ** 2, pooled[0].offsets[:-1])
    n_groups = np.diff(pooled[0].offsets)
    largest_possible = 4.0 * shown**2 * squares / np.maximum(n_groups * (n_groups - 1), 1)
    columns = [p.disparity() for p in pooled]
    shares = np.stack([c / np.where(largest_possible > 0, largest_possible, 1.0) for c in columns], axis=1)
    return np.where(np.isnan(measured.ndcg), np.nan, shares)
