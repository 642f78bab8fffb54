"""What rankers do on a pool of short lists, and whether they keep a promise as it is written.

Nothing here is computed by what is tested: lists are enumerated, metrics written out, means compared with the target.
Queries have equally many items, scores no ties, rankers a decay of 1.
"""

from functools import cache
from itertools import permutations

import numpy as np

import oracles


class Truth:
    """The truth about a pool.

    Args:
        queries: The pool, all of it one query per segment, group and value that promises speak of.
    """

    def __init__(self, queries):
        def table(column):
            return None if column is None else np.asarray(column).reshape(len(queries), -1)

        self.queries = queries
        self.scores, self.relevance = table(queries.scores), table(queries.relevance)
        self.groups = table(queries.item_groups)
        self.value_of = {name: table(column) for name, column in queries.values.items()}
        self.gains = oracles.gain(self.relevance)
        self._laws, self._values = {}, {}

    def law(self, ranker):
        """Chance of every list, {ranking: (n_queries,)}."""
        if ranker not in self._laws:
            self._laws[ranker] = self._law(ranker)
        return self._laws[ranker]

    def _law(self, ranker):
        assert ranker.decay == 1
        k, nobody = min(ranker.k, self.scores.shape[1]), np.zeros(self.scores.shape, bool)
        by_score = oracles.law_of_lists(self.scores, nobody, k)
        if ranker.is_deterministic:
            return by_score
        scores = ranker.mapped(self.queries.scores).reshape(self.scores.shape) / ranker.deviation
        for group, addition in dict(ranker.boost).items():
            scores = scores + addition * (self.groups == group)
        scores = scores / ranker.temperature
        first_position = np.exp(scores - scores.max(axis=1, keepdims=True))
        first_position /= first_position.sum(axis=1, keepdims=True)
        drawn = oracles.law_of_lists(scores, first_position >= ranker.threshold * (1 - 1e-9), k)
        share = self._share_of_order(ranker, by_score, drawn)
        return {ranking: share * by_score[ranking] + (1 - share) * drawn[ranking] for ranking in drawn}

    def _share_of_order(self, ranker, by_score, drawn):
        """The least chance of the order by score that keeps the floor for each of its items, (n_queries,)."""
        assert ranker.anchor == 0
        by_score, drawn = (oracles.placement_in_lists(law, self.scores.shape[1]) for law in (by_score, drawn))
        share = np.zeros(len(self.scores))
        for weights in ranker.floor_weights or [discounts(ranker.k)] if ranker.floor else []:
            k = min(len(weights), by_score.shape[2])
            full, shown = (placed[:, :, :k] @ np.array(weights[:k]) for placed in (by_score, drawn))
            missing = np.maximum(ranker.floor * full - shown, 0.0)
            needed = np.divide(missing, full - shown, out=np.zeros_like(missing), where=missing > 0)
            share = np.maximum(share, needed.max(axis=1))
        return share

    def values(self, promise, ranker):
        """The promised metric of each query, (n_queries,); NaN where it has nothing to measure and is left out."""
        if (promise.measure, ranker) not in self._values:
            self._values[promise.measure, ranker] = self._measured(promise, ranker)
        return self._values[promise.measure, ranker]

    def _measured(self, promise, ranker):
        law, k = self.law(ranker), promise.k
        placed = oracles.placement_in_lists(law, self.scores.shape[1])[:, :, :k]
        name, _, column = promise.metric.name.removesuffix(")").partition("(")
        relevant = self.relevance >= (int(column.removeprefix("rel=")) if column.startswith("rel=") else 1)
        seen = placed @ discounts(placed.shape[2])
        empty = {"skip": np.nan, "zero": 0.0, "one": 1.0}[promise.empty_query]
        judged, one = relevant.any(axis=1), np.ones(len(self.scores))
        whole = np.where(judged, one, np.nan)
        match name:
            case "ndcg":
                ideal = -np.sort(-self.gains)[:, :k] @ discounts(k)
                found = (self.gains * seen).sum(axis=1) / (ideal * whole)
            case "precision":
                found = (relevant * placed.sum(axis=2)).sum(axis=1) / k * whole
            case "recall":
                found = (relevant * placed.sum(axis=2)).sum(axis=1) / np.where(judged, relevant.sum(axis=1), np.nan)
            case "rr" | "hit":
                first = oracles.first_relevant_in_lists(law, relevant)[:, :k]
                found = (first / np.arange(1, k + 1) if name == "rr" else first).sum(axis=1) * whole
            case "value":
                return (self.value_of[column] * seen).sum(axis=1)
            case "exposure":
                return ((self.groups == column) * seen).sum(axis=1) / discounts(k).sum()
            case "disparity" | "normalized_disparity":
                bound = self._worst_disparity(k) if name == "normalized_disparity" else one
                found = _disparity(seen, self.gains) / bound * whole
            case "group_disparity":
                found = self._between_groups(seen, k) * whole
        return np.where(judged, found, empty)

    @cache  # noqa: B019 — pools live as long as the tests do
    def _worst_disparity(self, k):
        worst, n_items = np.full(len(self.scores), 1e-300), self.scores.shape[1]
        for order in permutations(range(n_items), min(k, n_items)):
            shown = np.zeros(n_items)
            shown[list(order)] = discounts(len(order))
            worst = np.maximum(worst, _disparity(np.broadcast_to(shown, self.scores.shape), self.gains))
        return worst

    def _between_groups(self, seen, k):
        """Disparity of exposure added up by group, as a share of 4 (Σθ)² Σg² / (n (n − 1)), query by query."""
        found = np.zeros(len(self.scores))
        for q, groups in enumerate(self.groups):
            names = sorted(set(groups))
            shown, gains = (np.array([of[q][groups == name].sum() for name in names]) for of in (seen, self.gains))
            if len(names) > 1 and gains.any():
                largest = 4 * discounts(k).sum() ** 2 * (gains**2).sum() / (len(names) * (len(names) - 1))
                found[q] = oracles.disparity(shown, gains) / largest
        return found

    def level(self, promise, ranker):
        """What a ranker keeps where it keeps least: the mean in a segment, or its share of what it is compared with."""
        new, old = self.values(promise, ranker), np.ones(len(self.scores))
        if promise.of == "deterministic":
            old = self.values(promise, type(ranker).deterministic(promise.k))
        if promise.of == "merit":
            total = self.gains.sum(axis=1)
            old = (self.gains * (self.groups == promise.group)).sum(axis=1) / np.where(total > 0, total, 1.0)
        segments = self.queries.segments if promise.per else np.full(len(self.scores), "all")
        levels = [np.nanmean(new[segments == name]) / np.nanmean(old[segments == name]) for name in set(segments)]
        return min(levels) if promise.at_least is not None else max(levels)

    def breaks(self, promise, ranker):
        """Whether a ranker breaks the promise as it is written: mean(new) ≥ target, or ≥ share · mean(old)."""
        level = self.level(promise, ranker)
        return level < promise.at_least if promise.at_least is not None else level > promise.at_most


def discounts(k):
    return 1 / np.log2(np.arange(2, k + 2))


def _disparity(exposure, gains):
    """2 × the mean over ordered pairs of distinct items of each query, (n_queries,)."""
    differences = exposure[:, :, None] * gains[:, None, :] - exposure[:, None, :] * gains[:, :, None]
    n = gains.shape[1]
    return 2.0 * (differences**2).sum(axis=(1, 2)) / (n * (n - 1))
