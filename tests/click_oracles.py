"""What simulated users would click on, exactly: expectations and enumerations that simulation is held against."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from isrr.clicks.estimate import order_placement
from isrr.clicks.simulate import frequencies
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.gains import item_gains
from isrr.ranker.gpl import GPLRanker
from simulated_users import Users


def expected_clicks(queries: Queries, ranker: GPLRanker, users: Users) -> float:
    """Clicks per impression that a ranker gets from users who keep the assumption, exactly."""
    if users.model == "cascade" or users.halo:
        raise ValueError("in a cascade or with a halo, clicks depend on the whole list; simulate them")
    k = ranker.k
    placed = order_placement(queries, k) if ranker.is_deterministic else ranker.placement(replace(queries, rows=None))
    asked = np.repeat(frequencies(len(queries)), queries.n_items)[:, None]
    return float((asked * placed * users.chances(queries, k)).sum() * (1 - users.idle))


def shares_by_enumeration(
    queries: Queries, logger: GPLRanker, rankers: Sequence[GPLRanker], users: Users
) -> tuple[FloatArray, FloatArray]:
    """What clicks on a logger's lists say of rankers, and what is true: shares of the clicks of the order by score.

    Every list that may be shown is weighed by its chance, so that there is no noise; for few items per query. Where
    users keep the assumption of `isrr.clicks.estimate`, the two are equal; otherwise their difference is its bias.

    Returns:
        Estimated and true shares, (n_rankers,) each.
    """
    k, asked = logger.k, frequencies(len(queries))
    every = (GPLRanker.deterministic(k), *rankers)
    said, true, chances = np.zeros(len(every)), np.zeros(len(every)), users.chances(queries, k)
    worth = item_gains(queries, "exponential")
    worth /= worth.max()
    for query in range(len(queries)):
        one = queries[[query]]
        by_score = one.by_score.astype(np.int64)
        lists = by_score[np.array(list(permutations(range(by_score.size), min(k, by_score.size))))]
        position = np.arange(lists.shape[1])
        clicks = chances[queries.offsets[query] :][lists, position]  # idle users leave shares as they are
        clicks = users.lifted(clicks, worth[queries.offsets[query] :][lists])
        if users.model == "cascade":
            goes_on = users.patience * (1 - users.satisfaction * clicks[:, :-1])
            clicks[:, 1:] *= np.cumprod(goes_on, axis=1)
        logged = _law(logger, one, lists)[:, None] * clicks
        seen = _placed(_law(logger, one, lists), lists)
        for g, ranker in enumerate(every):
            law = _law(ranker, one, lists)
            ratio = np.divide(_placed(law, lists), seen, out=np.zeros_like(seen), where=seen > 0)
            said[g] += asked[query] * (logged * ratio).sum()
            true[g] += asked[query] * (law[:, None] * clicks).sum()
    return said[1:] / said[0], true[1:] / true[0]


def _law(ranker: GPLRanker, one: Queries, lists: IntArray) -> FloatArray:
    """The chance of each list, (n_lists,); the first one is the order by score."""
    by_score = (np.arange(len(lists)) == 0).astype(np.float64)
    if ranker.is_deterministic:
        return np.asarray(by_score)
    scores = ranker.mapped(one.need_scores()) * ranker.scale
    weights = np.exp(scores - scores.max())
    free, drawn = np.ones((len(lists), weights.size)), np.ones(len(lists))
    for column in lists.T:  # what is left is added up, not subtracted: it may be tiny
        drawn *= weights[column] / (free @ weights)
        free[np.arange(len(lists)), column] = 0.0
    share = float(ranker.order_share(one)[0])
    return np.asarray(share * by_score + (1 - share) * drawn)


def _placed(law: FloatArray, lists: IntArray) -> FloatArray:
    """The chance of each list's item at its position, over all lists, (n_lists, k)."""
    return np.stack([np.bincount(column, law)[column] for column in lists.T], axis=1)
