"""Compiled loops of the mixture with the order by score.

With chance λ, the share of the order, a list is the order by score, else a draw. The floor ρ chooses λ for each query:
an item that the order by score puts at place j, worth θ_j, and that draws alone give an exposure of h, gets
λ·θ_j + (1 − λ)·h, and that is ρ·θ_j or more from

    λ = (ρ·θ_j − h) / (θ_j − h)        on.

Where it holds for every item of the order's first k places, the query keeps ρ of the order's utility, whatever the
items are worth.

Draws may go by other scores than the order does (a boost); `leading` says where the items of the order by score stand
among those of the draw.
"""

import numpy as np

from isrr.compiled import kernel, njit, part
from isrr.data._order_kernels import longest_query, sort_falling


@part
def floor_share(exposure, place_weights, promised, leading, floor):
    # exposure (n_weights, ≥ n)     of draws alone
    # place_weights (n_weights, k)  ways of weighting the places, zeros beyond a way's own k
    # promised                      which of these ways the floor is promised for
    # leading (n,)                  the column of exposure that belongs to each place of the order by score
    # Returns the least share of the order, 0 where draws alone keep the floor, never more than the floor.
    share = 0.0
    for m in promised:
        for j in range(min(place_weights.shape[1], leading.size)):
            weight, drawn = place_weights[m, j], exposure[m, leading[j]]
            if drawn < floor * weight:
                share = max(share, (floor * weight - drawn) / (weight - drawn))
    return share


@part
def mix_with_order(exposure, place_weights, promised, leading, floor, anchor):
    # Arguments as for `floor_share`; exposure is in and out: of draws alone, then of the mixture.
    # anchor  the least share of the order
    # Returns its share.
    share = max(floor_share(exposure, place_weights, promised, leading, floor), anchor) if floor > 0.0 else anchor
    if share == 0.0:
        return share
    for m in range(place_weights.shape[0]):
        for i in range(leading.size):
            exposure[m, i] *= 1.0 - share
        for j in range(min(place_weights.shape[1], leading.size)):
            exposure[m, leading[j]] += share * place_weights[m, j]
    return share


@kernel
def find_leading(order, by_score, where, leading):
    # order, by_score (n,)  positions within the query as the draw and as the order by score have them
    # where (n,)            scratch
    # leading (n,)          out: where the items of `by_score` stand in `order`
    for i in range(order.size):
        where[order[i]] = i
    for j in range(order.size):
        leading[j] = where[by_score[j]]


@kernel
def sort_drawn(scores, by_score, falling, order):
    # scores (n,)   what the draw goes by
    # falling (n,)  scratch
    # order (n,)    out: positions by falling score, equal ones as `by_score` has them
    for i in range(by_score.size):
        falling[i] = scores[by_score[i]]
    sort_falling(falling, order)
    for i in range(by_score.size):
        order[i] = by_score[order[i]]


@njit(cache=True, nogil=True, error_model="numpy")
def sort_drawn_queries(offsets, scores, by_score, start, stop, order):
    # scores, by_score, order (n_rows,)
    longest = longest_query(offsets, start, stop)
    falling = np.empty(longest)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        sort_drawn(scores[first:last], by_score[first:last], falling[:n], order[first:last])


@kernel
def mix_chances(ranking, order, share, chances):
    # ranking (places,), order (≥ places,)  items of a list, and of the order by score
    # chances (places,)                     in and out: chance of each placed item given those above it
    drawn = 1.0 - share  # the chance that the list is a draw, given the places so far
    for j in range(ranking.size):
        if drawn == 1.0:
            return
        if ranking[j] == order[j]:
            chance = (1.0 - drawn) + drawn * chances[j]
            drawn = drawn * chances[j] / chance
            chances[j] = chance
        else:
            chances[j] *= drawn
            drawn = 1.0


@kernel
def mix_log_chances(ranking, order, share, chances):
    # As `mix_chances`, with logarithms, for lists that are next to impossible; −1 in `ranking` ends a list.
    drawn, ordered = np.log1p(-share), np.log(share)  # of the places so far together with where the list comes from
    for j in range(ranking.size):
        if ranking[j] < 0 or share == 0.0:
            return
        before = max(drawn, ordered) + np.log1p(np.exp(-abs(drawn - ordered)))
        drawn += chances[j]
        if ranking[j] != order[j]:
            chances[j] = drawn - before
            return
        chances[j] = max(drawn, ordered) + np.log1p(np.exp(-abs(drawn - ordered))) - before
