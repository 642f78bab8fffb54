"""Simulated users of every kind, and simulated logs as the estimator reads them."""

from dataclasses import dataclass, fields, replace

import numpy as np

import isrr.clicks.simulate
from isrr.clicks.estimate import ITEM_POSITION
from isrr.clicks.impressions import Impressions, Rules
from isrr.clicks.simulate import Simulated
from isrr.clicks.simulate import Users as Examining
from isrr.gains import item_gains

estimated = ITEM_POSITION.estimate
EXAMINING = Examining()


@dataclass(frozen=True)
class Users(Examining):
    """Users who examine, trust, go down the list, never click, or look at what else is shown.

    Position-based users examine position j with a chance of j^−η and click on what they examine by its worth; with
    trust they also click on what is worthless, for its high position; in a cascade they go down the list, and stop
    after a good result. The first two keep the assumption of `isrr.clicks.estimate`, the third breaks it, and so does a
    halo: whoever clicks more where the other items are good.

    Attributes:
        model: "position", "trust" or "cascade".
        patience: In a cascade, the chance of going on to the next position.
        satisfaction: In a cascade, the share of clicks after which nothing more is looked at.
        idle: Share of users who never click.
        halo: How far a click takes good items around it: its chance is multiplied by 1 − halo + halo · (mean worth of
            the list's other items).
    """

    model: str = "position"
    patience: float = 0.8
    satisfaction: float = 0.6
    idle: float = 0.0
    halo: float = 0.0

    def chances(self, queries, k):
        """Chance of a click by users who are not idle; in a cascade, given that the position is reached."""
        if self.model == "cascade":
            return replace(self, model="position", examination=0.0).chances(queries, k)
        if self.model == "position":
            return super().chances(queries, k)
        position = np.arange(1.0, k + 1.0)  # the shape of Agarwal et al. 2019
        good = worth(queries)[:, None]
        return (good * (0.98 - position / 100) + (1 - good) * (0.65 / position)) * position**-self.examination

    def lifted(self, chances, good):
        """The chances of lists' positions by the halo of what else they show, (n_lists, k)."""
        others = (good.sum(axis=1, keepdims=True) - good) / max(good.shape[1] - 1, 1)
        return chances * (1 - self.halo + self.halo * others)

    def click(self, queries, rows, user_of, rng):
        n, k = rows.shape
        chances = self.lifted(self.chances(queries, k)[rows, np.arange(k)], worth(queries)[rows])
        clicked = rng.random((n, k)) < chances
        clicked &= (rng.random(user_of[-1] + 1) >= self.idle)[user_of][:, None]
        if self.model == "cascade":
            goes_on = rng.random((n, k)) < self.patience * (1 - self.satisfaction * clicked)
            clicked[:, 1:] &= np.logical_and.accumulate(goes_on[:, :-1], axis=1)
        return clicked


def worth(queries):
    """Gains as a share of the largest, (n_rows,)."""
    gains = item_gains(queries, "exponential")
    return gains / gains.max()


class Shown(Simulated):
    """Simulated lists that the estimator can read without a log."""

    def impressions(self, unit="impression"):
        """The same in the order given; of units other than impressions, each user's first one."""
        if unit != "impression":
            first = np.unique(self.user_of, return_index=True)[1]
            names = ("query_of", "user_of", "rankings", "clicked")
            return replace(
                replace(self, **{name: getattr(self, name)[first] for name in names}).impressions(), unit=unit
            )
        impression, position = np.nonzero(self.clicked)
        query, n = self.query_of[impression], self.query_of.size
        return Impressions(
            lists=replace(self.queries, relevance=None), loggers=(self.ranker,),
            logger_of=np.zeros(len(self.queries), np.int64), rules=Rules(self.ranker.k), unit=unit,
            list_of=self.query_of, times=np.arange(n, dtype=np.float64), shown=self.rankings, impression=impression,
            row=self.queries.offsets[query] + self.rankings[impression, position], position=position,
            value=np.ones(impression.size), counts={}, digest="simulated",
        )  # fmt: skip


def simulate(queries, ranker, n, users=EXAMINING, **options):
    """Simulated searches, as `isrr.clicks.simulate` draws them."""
    drawn = isrr.clicks.simulate.simulate(queries, ranker, n, users, **options)
    return Shown(*(getattr(drawn, name.name) for name in fields(drawn)))
