"""Rankings of many queries as a table: one row per position."""

from typing import Any

import numpy as np

from isrr.data.queries import Queries
from isrr.parallel import Progress
from isrr.ranker.gpl import GPLRanker


def placements(
    ranker: GPLRanker, queries: Queries, k: int, session: str | None, progress: Progress | None = None
) -> Any:
    """Return one order of every query in Arrow: query_id, rank, item_id, score, propensity and session."""
    import pyarrow as pa

    k = min(k, int(queries.n_items.max()))
    served = ranker.of_length(k)
    rankings = served.rank_queries(queries, session, progress)
    propensity = served.propensity(rankings, queries)
    placed = rankings >= 0
    rows = (queries.offsets[:-1, None] + rankings)[placed]
    items = rankings[placed] if queries.item_ids is None else queries.item_ids[rows]
    return pa.table(
        {
            "query_id": np.repeat(queries.query_ids, placed.sum(axis=1)),
            "rank": np.broadcast_to(np.arange(1, k + 1), placed.shape)[placed],
            "item" if queries.item_ids is None else "item_id": items,
            "score": queries.need_scores()[rows],
            "propensity": propensity[placed],
            "session": pa.array([session or None] * rows.size, pa.string()),
        }
    )
