"""Simulated users: lists drawn for Zipf traffic, and the clicks on them, for tests, benchmarks and examples.

Position-based users examine place j with a chance of j^−η and click on what they examine by its worth; with trust they
also click on what is worthless, for its high place; in a cascade they go down the list, and stop after a good result.
The first two keep the assumption of `isrr.clicks.estimate`, the third one breaks it, and so does a halo: whoever clicks
more where the other items are good.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.clicks.impressions import Impressions, Rules, Unit
from isrr.clicks.shown import repeated
from isrr.data.files import write_table
from isrr.data.identifiers import Ids
from isrr.data.log import COLUMNS
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import rows_within
from isrr.gains import item_gains, leading
from isrr.ranker.gpl import GPLRanker

AT_ONCE = 1 << 16  # lists drawn at a time


@dataclass(frozen=True)
class Users:
    """How users click.

    Attributes:
        model: "position", "trust" or "cascade".
        examination: η; place j is examined with chance j^−η.
        noise: Chance of a click on an examined item that is worth nothing.
        patience: In a cascade, the chance of going on to the next place.
        satisfaction: In a cascade, the share of clicks after which nothing more is looked at.
        idle: Share of users who never click.
        halo: How far a click takes good items around it: its chance is multiplied by 1 − halo + halo · (mean worth of
            the list's other items).
    """

    model: Literal["position", "trust", "cascade"] = "position"
    examination: float = 1.0
    noise: float = 0.1
    patience: float = 0.8
    satisfaction: float = 0.6
    idle: float = 0.0
    halo: float = 0.0

    def chances(self, queries: Queries, k: int) -> FloatArray:
        """Chance of a click on each row's item at each place, for users who are not idle, (n_rows, k).

        In a cascade, given that the place is reached.
        """
        gains = item_gains(queries, "exponential")
        worth, place = (gains / gains.max())[:, None], np.arange(1.0, k + 1.0)
        if self.model == "trust":  # the shape of Agarwal et al. 2019
            clicked = worth * (0.98 - place / 100) + (1 - worth) * (0.65 / place)
        else:
            clicked = np.broadcast_to(self.noise + (1 - self.noise) * worth, (worth.size, k))
        return np.asarray(clicked if self.model == "cascade" else clicked * place**-self.examination)

    def lifted(self, chances: FloatArray, worth: FloatArray) -> FloatArray:
        """The chances of lists' places by the halo of what else they show, (n_lists, k)."""
        others = (worth.sum(axis=1, keepdims=True) - worth) / max(worth.shape[1] - 1, 1)
        return np.asarray(chances * (1 - self.halo + self.halo * others))


@dataclass(frozen=True, eq=False)
class Simulated:
    """Lists that were shown, and the clicks on them.

    Attributes:
        queries: What was searched for, with relevance.
        ranker: Who drew the lists.
        query_of, user_of: The query and the user of each impression, (n,).
        rankings: Positions within the query, (n, k); −1 beyond the end of a list.
        clicked: Whether each place was clicked, (n, k).
    """

    queries: Queries
    ranker: GPLRanker
    query_of: IntArray
    user_of: IntArray
    rankings: NDArray[np.int64]
    clicked: NDArray[np.bool_]

    def impressions(self, unit: Unit = "impression") -> Impressions:
        """The same for the estimator, in the order given; of units other than impressions, each user's first one."""
        if unit != "impression":
            first = np.unique(self.user_of, return_index=True)[1]
            fields = {name: getattr(self, name)[first] for name in ("query_of", "user_of", "rankings", "clicked")}
            return replace(replace(self, **fields).impressions(), unit=unit)
        impression, place = np.nonzero(self.clicked)
        query = self.query_of[impression]
        row = self.queries.offsets[query] + self.rankings[impression, place]
        return Impressions(
            replace(self.queries, relevance=None), (self.ranker,), np.zeros(len(self.queries), np.int64),
            Rules(self.ranker.k), unit, self.query_of.astype(np.int32), np.arange(self.query_of.size, dtype=np.int32),
            impression, row, place, np.ones(row.size), {}, "simulated",
            np.arange(self.query_of.size, dtype=np.float64), self.rankings,
        )  # fmt: skip

    @cached_property
    def _ids(self) -> list[str]:
        return [f"list-{i}" for i in range(self.query_of.size)]

    def log(self, certificate: str) -> Any:
        """The served-ranking log of these lists, in Arrow, one list a second."""
        queries, n, k = self.queries, self.query_of.size, self.ranker.k
        sizes = queries.n_items[self.query_of]
        _, rows = rows_within(queries.offsets, self.query_of)
        shown = (self.rankings >= 0).sum(axis=1)
        deterministic = leading(queries, k)[self.query_of]
        assert queries.item_ids is not None

        def lists(values: Any, lengths: IntArray) -> Any:
            ends = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
            return pa.ListArray.from_arrays(ends, pa.array(values))

        columns = {
            "list_id": self._ids,
            "time": np.arange(n, dtype=np.float64),
            "certificate": [certificate] * n,
            "status": ["valid"] * n,
            "order": ["drawn"] * n,
            "query_id": queries.query_ids.astype(str)[self.query_of],
            "first_rank": np.ones(n, np.int64),
            "n_shown": shown,
            "item_ids": lists(queries.item_ids.astype(str)[rows], sizes),
            "scores": lists(queries.need_scores()[rows], sizes),
            "ranking": lists(self.rankings[self.rankings >= 0], shown),
            "propensities": lists(self._propensities(), shown),
            "deterministic": lists(deterministic[deterministic >= 0], np.minimum(sizes, k)),
            "session": [f"user-{user}" for user in self.user_of],
        }
        table = pa.table(columns)
        for name in COLUMNS.names[len(columns) :]:
            table = table.append_column(name, pa.nulls(n, COLUMNS.field(name).type))
        return table.select(COLUMNS.names).cast(COLUMNS)

    def _propensities(self) -> FloatArray:
        """The chance of each placed item at its place, given those above it."""
        found = np.empty(self.rankings.shape)
        for start in range(0, len(found), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            found[part] = self.ranker.propensity(self.rankings[part], repeated(self.queries, self.query_of[part]))
        return found[self.rankings >= 0]

    def clicks(self) -> Any:
        """The click table, in Arrow; each click some seconds after its list."""
        impression, place = np.nonzero(self.clicked)
        rows = self.queries.offsets[self.query_of[impression]] + self.rankings[impression, place]
        assert self.queries.item_ids is not None
        named = np.array(self._ids, object)[impression]
        times = impression + 3.0 * (place + 1)
        return pa.table({"list_id": named, "item_id": self.queries.item_ids.astype(str)[rows], "time": times})

    def save(self, folder: Path, certificate: str) -> tuple[Path, Path]:
        """Write log and clicks as Parquet; where they lie."""
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
    zipf: float = 10.0,
    per_user: int = 1,
    seed: int = 0,
) -> Simulated:
    """Draw n impressions and the clicks on them.

    Args:
        queries: Judged queries; a click goes by the gain of the item.
        ranker: Plackett–Luce, at a temperature, optionally with an anchor and a floor.
        n: Impressions.
        users: How they click.
        zipf: The r-th most frequent query is asked with a frequency of 1/(r + zipf).
        per_user: Impressions of each user, all of the same query.
        seed: Random seed.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[0, 2, 1], group=[3])
        >>> simulate(queries, GPLRanker(k=2, anchor=0.8), 1_000).clicked.mean(axis=0).round(2)
        array([0.16, 0.44])
    """
    if ranker.threshold or ranker.boost:
        raise ValueError("lists are simulated for Plackett–Luce with an anchor or a floor; omit the other settings")
    if queries.items is None:
        queries = replace(queries, items=Ids(np.arange(queries.n_rows)))
    rng, k = np.random.default_rng(seed), ranker.k
    user_of = np.arange(n) // per_user
    n_users = int(user_of[-1]) + 1
    query_of = rng.choice(len(queries), n_users, p=frequencies(len(queries), zipf))[user_of]
    longest = int(queries.n_items.max())
    padded = np.full((len(queries), longest), -np.inf)
    padded[np.arange(longest) < queries.n_items[:, None]] = ranker.mapped(queries.need_scores()) * ranker.scale
    rankings = leading(queries, k)[query_of]
    drawn = np.flatnonzero(rng.random(n) >= ranker.order_share(queries)[query_of])
    for start in range(0, drawn.size, AT_ONCE):
        some = drawn[start : start + AT_ONCE]
        noisy = padded[query_of[some]] + rng.gumbel(size=(some.size, longest))
        top = np.argpartition(-noisy, min(k, longest) - 1, axis=1)[:, :k]
        top = np.take_along_axis(top, np.argsort(-np.take_along_axis(noisy, top, axis=1), axis=1), axis=1)
        filled = np.arange(top.shape[1]) < queries.n_items[query_of[some]][:, None]
        rankings[some, : top.shape[1]] = np.where(filled, top, -1)
    rows = queries.offsets[query_of][:, None] + np.maximum(rankings, 0)
    chances = users.chances(queries, k)[rows, np.arange(k)]
    if users.halo:
        gains = item_gains(queries, "exponential")
        chances = users.lifted(chances, np.where(rankings >= 0, (gains / gains.max())[rows], 0.0))
    would = rng.random((n, k)) < chances
    would &= (rankings >= 0) & (rng.random(n_users) >= users.idle)[user_of][:, None]
    if users.model == "cascade":
        goes_on = rng.random((n, k)) < users.patience * (1 - users.satisfaction * would)
        would[:, 1:] &= np.logical_and.accumulate(goes_on[:, :-1], axis=1)
    return Simulated(queries, ranker, query_of, user_of, rankings, would)


def frequencies(n_queries: int, zipf: float = 10.0) -> FloatArray:
    """How often each query is asked, (n_queries,); which ones are frequent is fixed by a separate seed."""
    share = 1.0 / (zipf + np.arange(n_queries))
    return np.random.default_rng(5).permutation(share / share.sum())
