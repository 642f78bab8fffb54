"""Rankings of a whole table as a file: one row a place."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from isrr.data.files import write_table
from isrr.data.queries import Queries
from isrr.parallel import Progress
from isrr.ranker.gpl import GPLRanker


def write_rankings(
    ranker: GPLRanker, queries: Queries, file: Path, k: int, session: str | None, progress: Progress | None
) -> int:
    """Rank every query and write query_id, rank, item_id (or position), score, propensity, session; how many rows."""
    import pyarrow

    k = min(k, int(queries.n_items.max()))
    served = replace(ranker, k=k)
    rankings = served.rank_queries(queries, session, progress)
    propensity = served.propensity(rankings, queries)
    placed = rankings >= 0
    rows = (queries.offsets[:-1, None] + rankings)[placed]
    items = rankings[placed] if queries.item_ids is None else queries.item_ids[rows]
    table = pyarrow.table(
        {
            "query_id": np.repeat(queries.query_ids, placed.sum(axis=1)),
            "rank": np.broadcast_to(np.arange(1, k + 1), placed.shape)[placed],
            "item" if queries.item_ids is None else "item_id": items,
            "score": queries.need_scores()[rows],
            "propensity": propensity[placed],
            "session": pyarrow.array([session] * rows.size, pyarrow.string()),
        }
    )
    write_table(table, file, "parquet")
    return rows.size
