"""Compiled loops for exposure, the expected weight of an item's place: exact where all positions admit the same items.

Elsewhere it is Rao–Blackwellised over draws: in each of them, every candidate of a position counts with its chance of
being drawn there. Items come by falling score, in blocks, as `isrr.ranker._kernels` says.
"""

import numpy as np

from isrr.compiled import njit
from isrr.data._order_kernels import longest_query
from isrr.noise import stream
from isrr.ranker._exact_kernels import exposure_of_block, scratch_size
from isrr.ranker._kernels import admit, count_eligible, draw, weigh
from isrr.ranker._mixture_kernels import find_leading, floor_share, mix_with_order


@njit(cache=True, nogil=True, error_model="numpy")
def exact_exposure(weights, heads, n_admitted, place_weights, laguerre_nodes, laguerre_weights, scratch, exposure):
    # n_admitted                    one number: every position admits the same items (decay 1)
    # place_weights (n_weights, k)  what a place is worth, in several currencies
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
                laguerre_nodes,
                laguerre_weights,
                scratch,
                exposure,
            )
        first = last
    for m in range(n_weights):
        for i in range(first, n):
            exposure[m, i] = place_weights[m, i] if i < k else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def exposure_of_queries(
    offsets, order, scores, scale, thresholds, place_weights, laguerre, keys, seed, n_draws,
    by_score, floor, anchor, start, stop, shares, out,
):  # fmt: skip
    # place_weights (n_weights, k')   those asked for, then those that the floor is promised for
    # laguerre (2, …)                 nodes and weights for the exact integral
    # n_draws                         0: exact, for equal thresholds; else Rao–Blackwellised over so many draws
    # by_score (n_rows,)              as `order`, by raw score
    # shares (n_queries,)             out: chance of the order by score in place of a draw
    # out (≤ n_weights, n_rows)       out: of the weightings asked for, rows as stored
    longest, (n_weights, k) = longest_query(offsets, start, stop), place_weights.shape
    asked = out.shape[0]
    weights, eligibility, exposure = np.empty(longest), np.empty(longest), np.empty((n_weights, longest))
    heads, n_admitted = np.empty(longest, np.int64), np.empty(thresholds.size, np.int64)
    where, leading = np.empty(longest, np.int64), np.empty(longest, np.int64)
    scratch, noise = np.empty(scratch_size(longest, k, n_weights)), np.empty(n_draws, np.uint64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
        if n_draws == 0:
            admitted = max(count_eligible(eligibility[:n], thresholds[0]), 1)
            exact_exposure(weights[:n], heads[:n], admitted, place_weights, laguerre[0], laguerre[1], scratch, exposure)
        else:
            admit(eligibility[:n], thresholds, n_admitted)
            for d in range(n_draws):
                noise[d] = stream(seed, keys[q], d)
            smoothed_exposure(weights[:n], heads[:n], n_admitted, place_weights, noise, exposure)
        find_leading(order[first:last], by_score[first:last], where, leading[:n])
        shares[q] = max(floor_share(exposure[asked:], place_weights[asked:], leading[:n], floor), anchor)
        mix_with_order(exposure[:asked], place_weights[:asked], leading[:n], shares[q])
        for m in range(asked):
            for i in range(n):
                out[m, first + order[first + i]] = exposure[m, i]
