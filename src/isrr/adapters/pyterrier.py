"""A ranker as a step of a PyTerrier pipeline: `bm25 >> neural >> StochasticRanker("ranker.json", session="u42")`.

PyTerrier itself is not needed: `transform` takes pandas and polars frames with the columns `qid, docno, score`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from isrr.adapters import RankerSource, ranker_of
from isrr.data.columns import Columns
from isrr.data.tables import read_queries

Transformer: Any = import_module("pyterrier").Transformer if find_spec("pyterrier") else object


class StochasticRanker(Transformer):  # type: ignore[misc]
    """Puts the items of each query in an order drawn by a ranker; below its k positions they go by score.

    Args:
        ranker: A ranker, a certificate or abstention, or the file of one.
        session: The same session gets the same order; without one, or with "", every call is a fresh draw.

    Example:
        >>> import pandas as pd
        >>> from isrr import GPLRanker
        >>> frame = pd.DataFrame({"qid": ["q1"] * 3, "docno": ["a", "b", "c"], "score": [1.0, 3.0, 2.0]})
        >>> StochasticRanker(GPLRanker.deterministic()).transform(frame).docno.tolist()
        ['b', 'c', 'a']
    """

    def __init__(self, ranker: RankerSource, session: object = None) -> None:
        super().__init__()
        self.ranker, self.session = ranker_of(ranker), session

    def transform(self, frame: Any) -> Any:
        """Return the rows in their new order; `rank` counts from 0, `score` is −rank, `model_score` the old score."""
        order = ranks = np.empty(0, np.int64)
        if len(frame):
            queries = read_queries(frame[["qid", "docno", "score"]], Columns(query="qid", item="docno"))
            drawn, row = self.ranker.rank_queries(queries, self.session), np.arange(queries.n_rows)
            query_of_row, starts = np.repeat(np.arange(len(queries)), queries.n_items), queries.offsets[:-1]
            position = np.empty(queries.n_rows, np.int64)
            position[starts[query_of_row] + queries.by_score] = queries.n_rows + row  # behind all that are drawn
            query, drawn_position = np.nonzero(drawn >= 0)
            position[starts[query] + drawn[query, drawn_position]] = drawn_position
            order, ranks = np.lexsort((position, query_of_row)), row - starts[query_of_row]
            order = order if queries.rows is None else queries.rows[order]
        new = {"score": -ranks.astype(np.float64), "rank": ranks}
        if hasattr(frame, "iloc"):  # of pandas
            ordered = frame.iloc[order].reset_index(drop=True)
            return ordered.assign(model_score=ordered["score"], **new)
        series = import_module("polars").Series
        ordered = frame[order.tolist()]
        columns = (series(name, values) for name, values in new.items())
        return ordered.with_columns(ordered["score"].alias("model_score"), *columns)
