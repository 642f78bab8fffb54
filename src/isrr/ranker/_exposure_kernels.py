"""Compiled loops for exposure, the expected discount of each item: exact where every position admits the same items.

Elsewhere it is Rao–Blackwellised over draws: in each of them, every candidate of a position counts with its chance of
being drawn there. Items come by falling score, in blocks, as `isrr.ranker._kernels` says.
"""

import numpy as np

from isrr.compiled import njit
from isrr.data._order_kernels import longest_query
from isrr.noise import stream
from isrr.ranker._exact_kernels import exposure_of_block, scratch_size
from isrr.ranker._kernels import admit, count_eligible, draw, weigh


@njit(cache=True, nogil=True, error_model="numpy")
def exact_exposure(weights, heads, n_admitted, discounts, laguerre_nodes, laguerre_weights, scratch, exposure):
    # n_admitted    one number: every position admits the same items (decay 1)
    # exposure (n,) out: the expected discount of each item, items by falling score
    n = weights.size
    k = min(discounts.size, n)
    first = 0
    while first < min(n_admitted, k):
        last = first + 1
        while last < n_admitted and heads[last] == heads[first]:
            last += 1
        places = min(k, last) - first
        if last - first == 1:
            exposure[first] = discounts[first]
        else:
            exposure_of_block(
                weights[first:last],
                discounts[first : first + places],
                laguerre_nodes,
                laguerre_weights,
                scratch,
                exposure[first:last],
            )
        first = last
    for i in range(first, n):
        exposure[i] = discounts[i] if i < k else 0.0


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
def smoothed_exposure(weights, heads, n_admitted, discounts, noise_of_draw, exposure):
    # noise_of_draw (n_draws,)  stream names
    # exposure (n,)             out: Rao–Blackwellised: at each position every candidate counts with its chance of
    #                           being drawn there, given the items placed before
    n, k, n_draws = weights.size, min(discounts.size, weights.size), noise_of_draw.size
    exposure[:] = 0.0
    forced = 0
    while forced < k and n_admitted[forced] == forced + 1:
        exposure[forced] = discounts[forced]
        forced += 1
    if forced == k:  # the deterministic order, to the last bit
        return
    arrivals, ranking = np.empty(k), np.empty(k, np.int64)
    running = np.empty(n)  # weight of the block's items up to and including this one
    for i in range(n):
        running[i] = weights[i] + (running[i - 1] if heads[i] != i else 0.0)
    chances, kept = np.empty(k + 1), np.empty(k)
    exposure[:] = 0.0
    for d in range(n_draws):
        draw(weights, heads, n_admitted, noise_of_draw[d], k, arrivals, ranking)
        first = 0
        while first < k:  # positions first … last − 1 are filled from one block
            head = heads[ranking[first]]
            last, end = first, head
            chances[first] = 0.0
            while last < k and heads[ranking[last]] == head:
                end = max(end, head + 1)
                while end < n_admitted[last] and heads[end] == head:
                    end += 1
                left = _mass_left(weights, ranking[:last], head, end, running[end - 1])
                chances[last + 1] = chances[last] + discounts[last] / left
                last += 1
            for j in range(first, last):
                kept[j] = exposure[ranking[j]]
            begin = head
            for j in range(first, last):  # items admitted at j, or before if j is the block's first position
                until = min(end, n_admitted[j])
                chance = chances[last] - chances[j]
                for i in range(begin, until):
                    exposure[i] += weights[i] * chance
                begin = max(begin, until)
            for j in range(first, last):  # a placed item competes no longer
                item, since = ranking[j], first
                while n_admitted[since] <= item:
                    since += 1
                exposure[item] = kept[j] + weights[item] * (chances[j + 1] - chances[since])
            first = last
    for i in range(n):
        exposure[i] /= n_draws


@njit(cache=True, nogil=True, error_model="numpy")
def exposure_of_queries(
    offsets, order, scores, scale, thresholds, discounts, laguerre, keys, seed, n_draws, start, stop, out
):
    # laguerre (2, …)  nodes and weights for the exact integral
    # n_draws          0: exact, for equal thresholds; else Rao–Blackwellised over so many draws
    # out (n_rows,)    rows as stored
    longest, k = longest_query(offsets, start, stop), discounts.size
    weights, eligibility, exposure = np.empty(longest), np.empty(longest), np.empty(longest)
    heads, n_admitted = np.empty(longest, np.int64), np.empty(k, np.int64)
    scratch, noise = np.empty(scratch_size(longest, k)), np.empty(n_draws, np.uint64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
        if n_draws == 0:
            admitted = max(count_eligible(eligibility[:n], thresholds[0]), 1)
            exact_exposure(weights[:n], heads[:n], admitted, discounts, laguerre[0], laguerre[1], scratch, exposure[:n])
        else:
            admit(eligibility[:n], thresholds, n_admitted)
            for d in range(n_draws):
                noise[d] = stream(seed, keys[q], d)
            smoothed_exposure(weights[:n], heads[:n], n_admitted, discounts, noise, exposure[:n])
        for i in range(n):
            out[first + order[first + i]] = exposure[i]
