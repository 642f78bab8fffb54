"""A ranker as a step of a PyTerrier pipeline: frames with `qid, docno, score, rank` in and out.

    bm25 >> neural >> StochasticRanker("ranker.json", session="u42")

PyTerrier itself is not needed: `StochasticRanker(…).transform(frame)` takes pandas and polars frames. Where PyTerrier
is installed, the class is one of its transformers and can be composed with `>>`.
"""

import os
from importlib.util import find_spec
from typing import Any

import numpy as np

from isrr.data.frames import read_queries
from isrr.outcome.certificate import Outcome, load
from isrr.ranker.gpl import GPLRanker

if find_spec("pyterrier") is not None:
    from pyterrier import Transformer
else:
    Transformer = object


class StochasticRanker(Transformer):  # type: ignore[misc]
    """Puts the items of each query in an order drawn by a ranker; below its k places they go by score.

    Args:
        ranker: A ranker, a certificate or abstention, or the file of one.
        session: The same session gets the same order; without one, or with "", every call is a fresh draw.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"qid": ["q1"] * 3, "docno": ["a", "b", "c"], "score": [1.0, 3.0, 2.0]})
        >>> StochasticRanker(GPLRanker.deterministic()).transform(frame).docno.tolist()
        ['b', 'c', 'a']
    """

    def __init__(self, ranker: GPLRanker | Outcome | str | os.PathLike[str], session: object = None) -> None:
        super().__init__()
        found = load(ranker) if isinstance(ranker, str | os.PathLike) else ranker
        self.ranker: GPLRanker = found if isinstance(found, GPLRanker) else found.ranker
        self.session = session

    def transform(self, frame: Any) -> Any:
        """The rows in their new order. `rank` counts from 0, `score` falls along it, `model_score` is the old score."""
        import narwhals as nw

        rows = nw.from_native(frame, eager_only=True)
        if len(rows) == 0:
            return frame
        queries = read_queries(rows.select("qid", "docno", "score").to_native(), query="qid", item="docno")
        shown = self.ranker.rank_queries(queries, self.session)
        starts = queries.offsets[:-1]
        place = np.empty(queries.n_rows)
        by_score = np.repeat(starts, queries.n_items) + queries.by_score
        place[by_score] = queries.n_rows + np.arange(queries.n_rows)  # behind all that are drawn
        query, at = np.nonzero(shown >= 0)
        place[starts[query] + shown[query, at]] = at
        order = np.lexsort((place, np.repeat(np.arange(len(queries)), queries.n_items)))
        rank = np.empty(queries.n_rows, np.int64)
        rank[order] = np.arange(queries.n_rows) - np.repeat(starts, queries.n_items)
        given = order if queries.rows is None else queries.rows[order]
        ordered = nw.maybe_reset_index(rows[given.tolist()])
        library, ranks = nw.get_native_namespace(rows), rank[order]
        return ordered.with_columns(
            ordered["score"].alias("model_score"),
            nw.new_series("score", -ranks.astype(np.float64), backend=library),
            nw.new_series("rank", ranks, backend=library),
        ).to_native()
