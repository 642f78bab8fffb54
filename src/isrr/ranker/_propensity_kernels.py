"""Compiled loops for propensities: the chance of each placed item at its place, given those above it.

For rankings that somebody gives, logarithms are taken throughout, as any of them may be next to impossible. A list that
is served was drawn just now: there plain weights are enough, block by block as `isrr.ranker._kernels` says.
"""

import numpy as np

from isrr.compiled import njit
from isrr.data._order_kernels import longest_query
from isrr.ranker._kernels import admit, drawn_list, weigh
from isrr.ranker._mixture_kernels import mix_log_chances


@njit(cache=True, nogil=True, error_model="numpy")
def place_probabilities(scores, order, place_of, scale, n_admitted, ranking, placed, probabilities):
    # place_of (n,)         where each item stands in `order`
    # ranking (≤ k,)        positions within the query, −1 beyond the end of a list
    # placed (n,)           scratch, all False before and after
    # probabilities (≤ k,)  out: log chance of each placed item given those above it, in log space throughout
    n, best = order.size, 0
    for j in range(ranking.size):
        if ranking[j] < 0:
            probabilities[j] = 0.0
            continue
        pick = place_of[ranking[j]]
        top = scores[order[best]]
        mass = 0.0
        for i in range(best, n_admitted[j]):
            if not placed[i]:
                mass += np.exp((scores[order[i]] - top) * scale)
        if pick < n_admitted[j]:
            probabilities[j] = (scores[ranking[j]] - top) * scale - np.log(mass)
        else:
            probabilities[j] = -np.inf
        placed[pick] = True
        while best < n and placed[best]:
            best += 1
    for item in ranking:
        if item >= 0:
            placed[place_of[item]] = False


@njit(cache=True, nogil=True, error_model="numpy")
def place_probabilities_of_queries(
    offsets, order, scores, scale, thresholds, rankings, by_score, shares, start, stop, out
):
    # rankings, out (n_queries, n_draws, ≤ k)
    # by_score (n_rows,), shares (n_queries,)  the order by raw score, and its chance in place of a draw
    longest = longest_query(offsets, start, stop)
    weights, eligibility, heads = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_admitted, place_of = np.empty(thresholds.size, np.int64), np.empty(longest, np.int64)
    placed = np.zeros(longest, np.bool_)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, mine, drawn = last - first, scores[first:last], order[first:last]
        weigh(mine, drawn, scale, weights[:n], eligibility[:n], heads[:n])
        admit(eligibility[:n], thresholds, n_admitted)
        for i in range(n):
            place_of[drawn[i]] = i
        for d in range(rankings.shape[1]):
            place_probabilities(mine, drawn, place_of[:n], scale, n_admitted, rankings[q, d], placed[:n], out[q, d])
            mix_log_chances(rankings[q, d], by_score[first:last], shares[q], out[q, d])


@njit(cache=True, nogil=True, error_model="numpy")
def _cannot_follow(chances, first):
    for j in range(first, chances.size):
        chances[j] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def place_chances(weights, heads, n_admitted, ranking, chances):
    # ranking (places,)  items by falling score
    # chances (places,)  out: chance of each placed item given those above it; 0 from an item on that cannot be drawn
    #
    # The weight left is kept by adding who is admitted and subtracting who is placed, and summed again before the
    # differences cancel.
    placed = np.zeros(weights.size, np.bool_)
    head, end, left, peak = -1, 0, 0.0, 0.0
    for j in range(ranking.size):
        pick = ranking[j]
        if heads[pick] != head:
            head, end, left, peak = heads[pick], heads[pick], 0.0, 0.0
            if head != j:  # items of the blocks above are still to come
                _cannot_follow(chances, j)
                return
        while end < n_admitted[j] and heads[end] == head:
            left += weights[end]
            end += 1
        if pick >= end:
            _cannot_follow(chances, j)
            return
        peak = max(peak, left)
        if left < 1e-3 * peak:
            left = 0.0
            for i in range(head, end):
                if not placed[i]:
                    left += weights[i]
            peak = left
        chances[j] = min(weights[pick] / left, 1.0)
        left -= weights[pick]
        placed[pick] = True


@njit(cache=True, nogil=True, error_model="numpy")
def rank_one_with_propensity(names, raw, scores, scale, thresholds, noise):
    # Returns the ranking as `rank_one` does, the chance of each place given those above it, the first places of the
    # order by score, the best item's chance of first place, the share of the order by score (0), and whether two raw
    # scores are equal.
    for score in scores:
        if not np.isfinite(score):
            return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), 0.0, 0.0, False
    order, weights, eligibility, heads, n_admitted, ranking, tied = drawn_list(
        names, raw, scores, scale, thresholds, noise
    )
    if tied and names.size == 0:
        return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), 0.0, 0.0, True
    chances = np.empty(ranking.size)
    place_chances(weights, heads, n_admitted, ranking, chances)
    leading = np.empty(ranking.size, np.int64)
    for j in range(ranking.size):
        ranking[j], leading[j] = order[ranking[j]], order[j]
    return ranking, chances, leading, eligibility[0], 0.0, tied
