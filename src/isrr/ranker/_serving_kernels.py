"""Compiled loops that serve one query of a ranker with a floor, an anchor or a boost.

The coin of a list is thrown before its share of the order is known: where it lies above the floor or below the anchor,
the share need not be computed, unless propensities are asked for.
"""

import numpy as np

from isrr.compiled import njit
from isrr.lanes import WIDTH
from isrr.noise import coin
from isrr.ranker._exact_kernels import polynomial_size, scratch_size
from isrr.ranker._exposure_kernels import exact_exposure
from isrr.ranker._kernels import admit, count_eligible, draw, sort_named, weigh
from isrr.ranker._mixture_kernels import find_leading, floor_share, mix_chances, sort_drawn
from isrr.ranker._propensity_kernels import place_chances


@njit(cache=True, nogil=True, error_model="numpy")
def share_of_list(weights, eligibility, heads, threshold, leading, floor, floor_weights, laguerre, longer):
    # floor_weights (n_weights, k)  weights of the places that the floor is promised for
    # longer                        None where they are five at most: loops for longer lists are then not compiled
    # Returns the share of the order by score that the floor takes.
    n, (n_weights, k) = weights.size, floor_weights.shape
    exposure, scratch = np.empty((n_weights, n + WIDTH)), np.empty(scratch_size(n, k, n_weights))
    admitted = max(count_eligible(eligibility, threshold, np.int64(0)), 1)
    polynomials = None if longer is None else np.empty(polynomial_size(n, k))
    exact_exposure(weights, heads, admitted, floor_weights, laguerre, scratch, polynomials, exposure)
    return floor_share(exposure, floor_weights, range(n_weights), leading, floor)


@njit(cache=True, nogil=True, error_model="numpy")
def _list(
    names, raw, scores, scale, thresholds, noise, boosted, floor, anchor, floor_weights, laguerre, longer, needs_share
):
    # raw, scores (n,)  raw scores give the order by score; the draw goes by the others, mapped and perhaps boosted
    # Returns order, by_score, weights, eligibility, heads, leading (n,), n_admitted and ranking (places,), items as the
    # draw has them, the share of the order, and whether two raw scores are equal.
    n, places = scores.size, thresholds.size
    by_score, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    tied = sort_named(raw, names, by_score)
    weights, eligibility, heads, leading = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
    order = by_score
    if boosted:
        order = np.empty(n, np.int32)
        sort_drawn(scores, by_score, weights, order)
    find_leading(order, by_score, spare, leading)
    weigh(scores, order, scale, weights, eligibility, heads)
    stream = np.uint64(noise)
    flip, share = coin(stream), anchor
    if anchor < floor and (needs_share or anchor <= flip < floor):
        found = share_of_list(
            weights, eligibility, heads, thresholds[0], leading, floor, floor_weights, laguerre, longer
        )
        share = max(anchor, found)
    n_admitted = np.empty(places, np.int64)
    admit(eligibility, thresholds, n_admitted)
    arrivals, ranking = np.empty(places), np.empty(places, np.int64)
    if flip < share:
        for j in range(places):
            ranking[j] = leading[j]
    else:
        draw(weights, heads, n_admitted, stream, places, arrivals, ranking)
    return order, by_score, weights, eligibility, heads, leading, n_admitted, ranking, share, tied


@njit(cache=True, nogil=True, error_model="numpy")
def rank_mixed(names, raw, scores, scale, thresholds, noise, boosted, floor, anchor, floor_weights, laguerre, longer):
    # As `isrr.ranker._kernels.rank_one`, for any ranker.
    for score in scores:
        if not np.isfinite(score):
            return (np.empty(0, np.int64),)
    order, _, _, _, _, _, _, ranking, _, tied = _list(
        names, raw, scores, scale, thresholds, noise, boosted, floor, anchor, floor_weights, laguerre, longer, False
    )
    if tied and names.size == 0:
        return (np.empty(0, np.int64),)
    for j in range(ranking.size):
        ranking[j] = order[ranking[j]]
    return (ranking,)


@njit(cache=True, nogil=True, error_model="numpy")
def rank_mixed_with_propensity(
    names, raw, scores, scale, thresholds, noise, boosted, floor, anchor, floor_weights, laguerre, longer
):
    # As `isrr.ranker._propensity_kernels.rank_one_with_propensity`, for any ranker.
    for score in scores:
        if not np.isfinite(score):
            return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), 0.0, 0.0, False
    order, by_score, weights, eligibility, heads, leading, n_admitted, ranking, share, tied = _list(
        names, raw, scores, scale, thresholds, noise, boosted, floor, anchor, floor_weights, laguerre, longer, True
    )
    if tied and names.size == 0:
        return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), 0.0, 0.0, True
    chances, first = np.empty(ranking.size), np.empty(ranking.size, np.int64)
    place_chances(weights, heads, n_admitted, ranking, chances)
    mix_chances(ranking, leading, share, chances)
    for j in range(ranking.size):
        ranking[j], first[j] = order[ranking[j]], by_score[j]
    return ranking, chances, first, eligibility[0], share, tied
