"""Simulated searches: lists drawn for Zipf traffic and clicks on them, to rehearse what a log of clicks would prove.

Users examine position j with a chance of j^−η and click on what they examine by its relevance. Other users are another
class with the methods of `Users`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.clicks.shown import repeated
from isrr.data.files import write_table
from isrr.data.identifiers import Ids
from isrr.data.log import COLUMNS
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import offsets_from, rows_within
from isrr.errors import PromiseError
from isrr.gains import item_gains, leading
from isrr.ranker.gpl import GPLRanker

AT_ONCE = 1 << 16  # lists drawn at a time


@dataclass(frozen=True)
class Users:
    """Users who examine position j with chance j^−examination, and click on worthless items with chance noise."""

    examination: float = 1.0
    noise: float = 0.1

    def chances(self, queries: Queries, k: int) -> FloatArray:
        """Return the chance of a click on each row's item at each position, (n_rows, k)."""
        worth = item_gains(queries, "exponential")
        clicked = self.noise + (1 - self.noise) * worth / worth.max()
        return np.asarray(clicked[:, None] * np.arange(1.0, k + 1.0) ** -self.examination)

    def click(self, queries: Queries, rows: IntArray, user_of: IntArray, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return whether each shown row is clicked, (n, k), given who sees each list, (n,)."""
        return rng.random(rows.shape) < self.chances(queries, rows.shape[1])[rows, np.arange(rows.shape[1])]


@dataclass(frozen=True, eq=False)
class Simulated:
    """Lists that were shown, and the clicks on them.

    Attributes:
        queries: What was searched for, with relevance.
        ranker: Who drew the lists.
        query_of, user_of: The query and the user of each impression, (n,).
        rankings: Positions within the query, (n, k); −1 beyond the end of a list.
        clicked: Whether each position was clicked, (n, k).
    """

    queries: Queries
    ranker: GPLRanker
    query_of: IntArray
    user_of: IntArray
    rankings: IntArray
    clicked: NDArray[np.bool_]

    @cached_property
    def _ids(self) -> list[str]:
        return [f"list-{i}" for i in range(self.query_of.size)]

    def log(self, certificate: str) -> Any:
        """Return the served-ranking log of these lists, in Arrow, one list a second."""
        queries, n = self.queries, self.query_of.size
        sizes, (_, rows) = queries.n_items[self.query_of], rows_within(queries.offsets, self.query_of)
        by_score, shown = leading(queries, self.ranker.k)[self.query_of], self.rankings >= 0
        propensities = np.concatenate(
            [
                self.ranker.propensity(
                    self.rankings[i : i + AT_ONCE], repeated(queries, self.query_of[i : i + AT_ONCE])
                )
                for i in range(0, n, AT_ONCE)
            ]
        )

        def lists(values: Any, lengths: IntArray) -> Any:
            return pa.ListArray.from_arrays(pa.array(offsets_from(lengths), pa.int32()), pa.array(values))

        assert queries.item_ids is not None
        columns = {
            "list_id": self._ids,
            "time": np.arange(n, dtype=np.float64),
            "certificate": [certificate] * n,
            "status": ["valid"] * n,
            "order": ["drawn"] * n,
            "query_id": queries.query_ids.astype(str)[self.query_of],
            "first_rank": np.ones(n, np.int64),
            "n_shown": shown.sum(axis=1),
            "item_ids": lists(queries.item_ids.astype(str)[rows], sizes),
            "scores": lists(queries.need_scores()[rows], sizes),
            "ranking": lists(self.rankings[shown], shown.sum(axis=1)),
            "propensities": lists(propensities[shown], shown.sum(axis=1)),
            "deterministic": lists(by_score[by_score >= 0], (by_score >= 0).sum(axis=1)),
            "session": [f"user-{user}" for user in self.user_of],
        }
        return pa.table([columns.get(field.name, pa.nulls(n)) for field in COLUMNS], COLUMNS.names).cast(COLUMNS)

    def clicks(self) -> Any:
        """Return the click table, in Arrow; each click some seconds after its list."""
        impression, place = np.nonzero(self.clicked)
        rows = self.queries.offsets[self.query_of[impression]] + self.rankings[impression, place]
        assert self.queries.item_ids is not None
        lists, items = np.array(self._ids, object)[impression], self.queries.item_ids.astype(str)[rows]
        return pa.table({"list_id": lists, "item_id": items, "time": impression + 3.0 * (place + 1)})

    def save(self, folder: Path, certificate: str) -> tuple[Path, Path]:
        """Write log and clicks as Parquet, and return where they lie."""
        log, clicks = folder / "served.parquet", folder / "clicks.parquet"
        write_table(self.log(certificate), log, "parquet")
        write_table(self.clicks(), clicks, "parquet")
        return log, clicks


def simulate(
    queries: Queries,
    ranker: GPLRanker,
    n: int,
    users: Users = Users(),  # a frozen value
    *,
    per_user: int = 1,
    seed: int = 0,
) -> Simulated:
    """Draw n impressions and the clicks on them.

    Args:
        queries: Judged queries; a click goes by the gain of the item.
        ranker: Plackett–Luce, at a temperature, optionally with an anchor and a floor.
        n: Impressions.
        users: How they click.
        per_user: Impressions of each user, all of the same query.
        seed: Random seed.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[0, 2, 1], group=[3])
        >>> simulate(queries, GPLRanker(k=2, anchor=0.8), 1_000).clicked.mean(axis=0).round(2)
        array([0.16, 0.44])
    """
    if ranker.threshold or ranker.boost:
        raise PromiseError("lists are simulated for Plackett–Luce with an anchor or a floor; omit the other settings")
    if queries.items is None:
        queries = replace(queries, items=Ids(np.arange(queries.n_rows)))
    rng, k = np.random.default_rng(seed), ranker.k
    user_of = np.arange(n) // per_user
    query_of = rng.choice(len(queries), int(user_of[-1]) + 1, p=frequencies(len(queries)))[user_of]
    longest = int(queries.n_items.max())
    padded = np.full((len(queries), longest), -np.inf)
    padded[np.arange(longest) < queries.n_items[:, None]] = ranker.mapped(queries.need_scores()) * ranker.scale
    rankings = leading(queries, k)[query_of]
    drawn = np.flatnonzero(rng.random(n) >= ranker.order_share(queries)[query_of])
    for start in range(0, drawn.size, AT_ONCE):
        some = drawn[start : start + AT_ONCE]
        noisy = padded[query_of[some]] + rng.gumbel(size=(some.size, longest))
        top = np.argsort(-noisy, axis=1)[:, :k]
        filled = np.arange(top.shape[1]) < queries.n_items[query_of[some]][:, None]
        rankings[some, : top.shape[1]] = np.where(filled, top, -1)
    rows = queries.offsets[query_of][:, None] + np.maximum(rankings, 0)
    return Simulated(
        queries, ranker, query_of, user_of, rankings, users.click(queries, rows, user_of, rng) & (rankings >= 0)
    )


def frequencies(n_queries: int) -> FloatArray:
    """Return how often each query is searched for, (n_queries,), as 1/(rank + 10); the ranks have their own seed."""
    share = 1.0 / (10.0 + np.arange(n_queries))
    return np.random.default_rng(5).permutation(share / share.sum())
