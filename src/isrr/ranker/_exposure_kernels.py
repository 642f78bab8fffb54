"""Compiled loops for exposure, the expected weight of an item's place: exact where all positions admit the same items.

Elsewhere it is Rao–Blackwellised over draws: in each of them, every candidate of a position counts with its chance of
being drawn there. Items come by falling score, in blocks, as `isrr.ranker._kernels` says.
"""

import numpy as np

from isrr.compiled import kernel, njit, part
from isrr.noise import stream
from isrr.ranker._exact_kernels import exposure_of_block
from isrr.ranker._kernels import admit, count_eligible, draw, weigh
from isrr.ranker._mixture_kernels import find_leading, mix_with_order


@part
def exact_exposure(weights, heads, n_admitted, place_weights, laguerre, scratch, polynomials, exposure):
    # n_admitted                    one number: every position admits the same items (decay 1)
    # place_weights (n_weights, k)  what a place is worth, in several currencies
    # laguerre, scratch, polynomials    as for `exposure_of_block`
    # exposure (n_weights, ≥ n)     out: the expected weight of each item's place, items by falling score
    n, n_weights = weights.size, place_weights.shape[0]
    k = min(place_weights.shape[1], n)
    first = np.int64(0)  # not a literal, for which all of the exact evaluation would be compiled once more
    while first < min(n_admitted, k):
        last = first + 1
        while last < n_admitted and heads[last] == heads[first]:
            last += 1
        places = min(k, last) - first
        if last - first == 1:
            for m in range(n_weights):
                exposure[m, first] = place_weights[m, first]
        else:
            exposure_of_block(
                weights[first:last],
                place_weights,
                first,
                places,
                laguerre[0],
                laguerre[1],
                scratch,
                polynomials,
                exposure,
            )
        first = last
    for m in range(n_weights):
        for i in range(first, n):
            exposure[m, i] = place_weights[m, i] if i < k else 0.0


@kernel
def _mass_left(weights, placed, first, last, total):
    # weight of the unplaced items in [first, last), of which `total` is the sum; never by a difference that cancels
    left = total
    for i in placed:
        if first <= i < last:
            left -= weights[i]
    if left < 1e-6 * total:
        left = 0.0
        for i in range(first, last):
            taken = False
            for other in placed:
                taken = taken or other == i
            if not taken:
                left += weights[i]
    return left


@kernel
def _prospects(place_weights, n_admitted, k, prospects):
    # prospects (n_weights, k)  out: what an item that is passed over at a place may still expect, were all alike
    for m in range(place_weights.shape[0]):
        prospects[m, k - 1] = 0.0
        for j in range(k - 1, 0, -1):
            chance = 1.0 / (n_admitted[j] - j)
            prospects[m, j - 1] = chance * place_weights[m, j] + (1.0 - chance) * prospects[m, j]


@njit(cache=True, nogil=True, error_model="numpy")
def smoothed_exposure(weights, heads, n_admitted, place_weights, noise_of_draw, exposure):
    # noise_of_draw (n_draws,)   stream names
    # place_weights (n_weights, k), exposure (n_weights, ≥ n)  as for `exact_exposure`, exposure now an average
    #
    # The item placed at j counts with its prospects v_j; every candidate counts with (weight of the place − v_j) times
    # its chance of being drawn there, given the items placed before. Any v_j is right on average. With v = 0, an item
    # that is passed over early counts again and again as a likely candidate, and the long lists of small queries come
    # out noisier than if nothing were smoothed; the true prospects would leave no noise at all.
    n, n_draws, n_weights = weights.size, noise_of_draw.size, place_weights.shape[0]
    k = min(place_weights.shape[1], n)
    forced = 0
    while forced < k and n_admitted[forced] == forced + 1:
        forced += 1
    for m in range(n_weights):
        for i in range(n):
            exposure[m, i] = place_weights[m, i] if forced == k and i < k else 0.0
    if forced == k:  # the deterministic order, to the last bit
        return
    arrivals, ranking, prospects = np.empty(k), np.empty(k, np.int64), np.empty((n_weights, k))
    _prospects(place_weights, n_admitted, k, prospects)
    running = np.empty(n)  # weight of the block's items up to and including this one
    for i in range(n):
        running[i] = weights[i] + (running[i - 1] if heads[i] != i else 0.0)
    left, chances, kept = np.empty(k), np.empty(k + 1), np.empty(k)
    for d in range(n_draws):
        draw(weights, heads, n_admitted, noise_of_draw[d], k, arrivals, ranking)
        first = 0
        while first < k:  # positions first … last − 1 are filled from one block
            head = heads[ranking[first]]
            last, end = first, head
            while last < k and heads[ranking[last]] == head:
                end = max(end, head + 1)
                while end < n_admitted[last] and heads[end] == head:
                    end += 1
                left[last] = _mass_left(weights, ranking[:last], head, end, running[end - 1])
                last += 1
            for m in range(n_weights):
                chances[first] = 0.0
                for j in range(first, last):
                    chances[j + 1] = chances[j] + (place_weights[m, j] - prospects[m, j]) / left[j]
                    kept[j] = exposure[m, ranking[j]]
                begin = head
                for j in range(first, last):  # items admitted at j, or before if j is the block's first position
                    until = min(end, n_admitted[j])
                    chance = chances[last] - chances[j]
                    for i in range(begin, until):
                        exposure[m, i] += weights[i] * chance
                    begin = max(begin, until)
                for j in range(first, last):  # a placed item competes no longer
                    item, since = ranking[j], first
                    while n_admitted[since] <= item:
                        since += 1
                    exposure[m, item] = kept[j] + weights[item] * (chances[j + 1] - chances[since]) + prospects[m, j]
            first = last
    for m in range(n_weights):
        for i in range(n):
            exposure[m, i] /= n_draws


@kernel
def _hand_out(first, order, exposure, out):
    # out (≤ n_weights, n_rows)  out: of the first ways of weighting, rows as stored
    for m in range(out.shape[0]):
        for i in range(order.size):
            out[m, first + order[i]] = exposure[m, i]


@kernel
def exposure_of_queries(
    offsets, order, scores, scale, threshold, place_weights, promised, laguerre, by_score, floor, anchor, room,
    start, stop, shares, out,
):  # fmt: skip
    # place_weights (n_weights, k)    ways of weighting the places, those asked for first
    # promised                        which of them the floor is promised for
    # laguerre (2, …)                 nodes and weights for the exact integral
    # by_score (n_rows,)              as `order`, by raw score
    # shares (n_queries,)             out: chance of the order by score in place of a draw
    # out (≤ n_weights, n_rows)       out: of the weightings asked for, rows as stored
    weights, eligibility, heads, exposure, leading, where, _, scratch, polynomials = room
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, falling = last - first, order[first:last]
        weigh(scores[first:last], falling, scale, weights[:n], eligibility[:n], heads[:n])
        admitted = max(count_eligible(eligibility[:n], threshold, np.int64(0)), 1)
        exact_exposure(weights[:n], heads[:n], admitted, place_weights, laguerre, scratch, polynomials, exposure)
        find_leading(falling, by_score[first:last], where, leading[:n])
        shares[q] = mix_with_order(exposure, place_weights, promised, leading[:n], floor, anchor)
        _hand_out(first, falling, exposure, out)


@njit(cache=True, nogil=True, error_model="numpy")
def smoothed_exposure_of_queries(
    offsets, order, scores, scale, thresholds, place_weights, keys, seed, n_draws, by_score, anchor, room,
    start, stop, shares, out,
):  # fmt: skip
    # As `exposure_of_queries`, averaged over draws; a floor is promised for none of them.
    weights, eligibility, heads, exposure, leading, where, n_admitted, _, _ = room
    noise, promised = np.empty(n_draws, np.uint64), np.empty(0, np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, falling = last - first, order[first:last]
        weigh(scores[first:last], falling, scale, weights[:n], eligibility[:n], heads[:n])
        admit(eligibility[:n], thresholds, n_admitted)
        for d in range(n_draws):
            noise[d] = stream(seed, keys[q], d)
        smoothed_exposure(weights[:n], heads[:n], n_admitted, place_weights, noise, exposure)
        find_leading(falling, by_score[first:last], where, leading[:n])
        shares[q] = mix_with_order(exposure, place_weights, promised, leading[:n], 0.0, anchor)
        _hand_out(first, falling, exposure, out)
