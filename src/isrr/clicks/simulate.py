"""Simulated searches: lists drawn for Zipf traffic and clicks on them, to rehearse what a log of clicks would prove."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.clicks.served import drawn_lists, list_column
from isrr.clicks.shown import repeated
from isrr.data.formats import write_table
from isrr.data.identifiers import Ids
from isrr.data.log import COLUMNS
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import rows_within
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
    """Lists drawn for `query_of` and `user_of`, (n,), as positions and whether each is clicked, (n, k)."""

    queries: Queries
    ranker: GPLRanker
    query_of: IntArray
    user_of: IntArray
    rankings: IntArray
    clicked: NDArray[np.bool_]

    def log(self, certificate: str) -> Any:
        """Return the served-ranking log of these lists, in Arrow, one list a second."""
        queries, query_of, n, shown = self.queries, self.query_of, self.query_of.size, self.rankings >= 0
        by_score, (_, rows) = leading(queries, self.ranker.k)[query_of], rows_within(queries.offsets, query_of)
        propensities = np.empty(self.rankings.shape)
        for start in range(0, n, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            propensities[part] = self.ranker.propensity(self.rankings[part], repeated(queries, query_of[part]))

        assert queries.items is not None
        n_items, n_shown, n_first = queries.n_items[query_of], shown.sum(axis=1), (by_score >= 0).sum(axis=1)
        return drawn_lists({
            "list_id": [f"list-{i}" for i in range(n)], "time": np.arange(n, dtype=np.float64),
            "certificate": [certificate] * n, "query_id": queries.query_ids.astype(str)[query_of],
            "session": [f"user-{user}" for user in self.user_of], "n_shown": n_shown,
            "item_ids": list_column(queries.items.texts.take(pa.array(rows)), n_items),
            "scores": list_column(queries.need_scores()[rows], n_items),
            "ranking": list_column(self.rankings[shown], n_shown),
            "propensities": list_column(propensities[shown], n_shown),
            "deterministic": list_column(by_score[by_score >= 0], n_first),
        }).select(COLUMNS.names)  # fmt: skip

    def clicks(self) -> Any:
        """Return the click table, in Arrow; each click some seconds after its list."""
        assert self.queries.item_ids is not None
        i, position = np.nonzero(self.clicked)
        items = self.queries.item_ids.astype(str)[self.queries.offsets[self.query_of[i]] + self.rankings[i, position]]
        return pa.table({"list_id": [f"list-{n}" for n in i], "item_id": items, "time": i + 3.0 * (position + 1)})

    def save(self, folder: Path, certificate: str) -> tuple[Path, Path]:
        """Write log and clicks as Parquet, and return where they lie."""
        log, clicks = folder / "served.parquet", folder / "clicks.parquet"
        write_table(self.log(certificate), log, "parquet")
        write_table(self.clicks(), clicks, "parquet")
        return log, clicks


USERS = Users()


def simulate(
    queries: Queries, ranker: GPLRanker, n: int, users: Users = USERS, *, per_user: int = 1, seed: int = 0
) -> Simulated:
    """Draw n lists of Plackett–Luce with an anchor or a floor, the same query for so many lists of a user, and clicks.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[0, 2, 1], group=[3])
        >>> simulate(queries, GPLRanker(k=2, anchor=0.8), 1_000).clicked.mean(axis=0).round(2)
        array([0.16, 0.44])
    """
    if ranker.threshold or ranker.boost:
        raise PromiseError("lists are simulated for Plackett–Luce with an anchor or a floor; omit the other settings")
    if queries.items is None:
        queries = replace(queries, items=Ids(np.arange(queries.n_rows)))
    rng, k, user_of = np.random.default_rng(seed), ranker.k, np.arange(n) // per_user
    query_of = rng.choice(len(queries), int(user_of[-1]) + 1, p=frequencies(len(queries)))[user_of]
    longest = int(queries.n_items.max())
    padded = np.full((len(queries), longest), -np.inf)
    padded[np.arange(longest) < queries.n_items[:, None]] = ranker.mapped(queries.need_scores()) * ranker.scale
    rankings = leading(queries, k)[query_of]
    drawn = np.flatnonzero(rng.random(n) >= ranker.order_share(queries)[query_of])
    for start in range(0, drawn.size, AT_ONCE):
        some = drawn[start : start + AT_ONCE]
        top = np.argsort(-padded[query_of[some]] - rng.gumbel(size=(some.size, longest)), axis=1)[:, :k]
        filled = np.arange(top.shape[1]) < queries.n_items[query_of[some]][:, None]
        rankings[some, : top.shape[1]] = np.where(filled, top, -1)
    rows = queries.offsets[query_of][:, None] + np.maximum(rankings, 0)
    clicked = users.click(queries, rows, user_of, rng) & (rankings >= 0)
    return Simulated(queries, ranker, query_of, user_of, rankings, clicked)


def frequencies(n_queries: int) -> FloatArray:
    """Return how often each query is searched for, (n_queries,), as 1/(rank + 10); the ranks have their own seed."""
    share = 1.0 / (10.0 + np.arange(n_queries))
    return np.random.default_rng(5).permutation(share / share.sum())
