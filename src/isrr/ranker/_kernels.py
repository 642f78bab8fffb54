"""Compiled loops of the ranker. Arrays in, arrays out: no checks, no hidden state, no Python objects.

Items come sorted by score, and eligibility rises with it, so the items a position admits are a prefix of the query and
one integer says how many. "The best unplaced item where none is admitted" needs no special case: it is what admitting
one item more than there are places before does, so position j admits max(n_eligible, j + 1) items.

Clocks. An item's clock rings after Exp(1) / weight; the order of the rings is Plackett–Luce. An item first admitted at
position j starts its clock when position j − 1 was taken: racing it against noise already known to have lost would be
wrong, and fresh noise for everybody, which is right too, would cost k times as much.

Blocks. At a low temperature weights span hundreds of orders of magnitude. Where all items from one on weigh next to
nothing beside the item above, they can only come after it: the list is cut there, weights are taken relative to the
head of each block, and blocks are ranked one after the other.
"""

import numpy as np

from isrr.compiled import njit
from isrr.data._order_kernels import sort_query
from isrr.noise import stream, uniform
from isrr.ranker._exact_kernels import exposure_of_block, scratch_size

SPLIT = -21.0  # log of the weight, relative to the item above, below which a list is cut: e^−21 < 1e-9
WIDEST = 600.0  # a block's weights span at most e^600, within reach of floating point


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(scores, order, scale, weights, eligibility, heads):
    # scores (n,), order (n,)  raw scores of a query, and its items by falling score
    # scale                    1 / (deviation · temperature)
    # weights (n,)             out: exp(score · scale), each relative to the head of its block
    # eligibility (n,)         out: the chance of first place, falling
    # heads (n,)               out: for each item, where its block begins
    n = order.size
    top = scores[order[0]]
    total = 0.0
    for i in range(n):
        weights[i] = np.exp((scores[order[i]] - top) * scale)
        total += weights[i]
    for i in range(n):
        eligibility[i] = weights[i] / total
        heads[i] = 0
    if (top - scores[order[n - 1]]) * scale < -SPLIT - np.log(n):
        return
    below = -np.inf  # log weight of everything below, walking up
    cuts = 0
    for i in range(n - 1, 0, -1):
        here, above = (scores[order[i]] - top) * scale, (scores[order[i - 1]] - top) * scale
        below = max(here, below) + np.log1p(np.exp(-abs(here - below)))
        if below - above < SPLIT:
            heads[i] = i
            cuts += 1
    head = 0
    for i in range(1, n):
        if (scores[order[head]] - scores[order[i]]) * scale > WIDEST:
            heads[i] = i
        if heads[i] == i:
            head = i
        heads[i] = head
        weights[i] = np.exp((scores[order[i]] - scores[order[head]]) * scale)


@njit(cache=True, nogil=True, error_model="numpy")
def count_eligible(eligibility, threshold):
    low, high = 0, eligibility.size
    while low < high:
        middle = (low + high) // 2
        if eligibility[middle] >= threshold:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def admit(eligibility, thresholds, n_admitted):
    # thresholds (k,), n_admitted (k,)  out: how many leading items each position draws from
    n = eligibility.size
    for j in range(thresholds.size):
        n_admitted[j] = min(max(count_eligible(eligibility, thresholds[j]), j + 1), n)


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
def draw(weights, heads, n_admitted, noise, k, arrivals, ranking):
    # n_admitted (k,)  how many leading items each position draws from, rising
    # noise            name of the noise stream of this draw
    # arrivals (k,)    scratch
    # ranking (k,)     out: items (by falling score) at each position
    #
    # ranking[j:filled] holds the candidates for position j on, by block, then by arrival: the only ones that can
    # still be placed.
    filled, seen = 0, 0
    last_head, last_arrival = -1, 0.0
    for j in range(k):
        for i in range(seen, n_admitted[j]):
            head, weight = heads[i], weights[i]
            begin = last_arrival if head == last_head else 0.0
            full = filled == k
            if full and heads[ranking[k - 1]] != head:
                break  # every place is spoken for by an earlier block
            u = uniform(noise, i)
            # −log u ≥ 1 − u: most items are turned away without a logarithm
            if full and begin * weight + (1.0 - u) >= arrivals[k - 1] * weight:
                continue
            arrival = begin - np.log(u) / weight
            if full and arrival >= arrivals[k - 1]:
                continue
            at = k - 1 if full else filled
            while at > j and heads[ranking[at - 1]] == head and arrivals[at - 1] > arrival:
                arrivals[at], ranking[at] = arrivals[at - 1], ranking[at - 1]
                at -= 1
            arrivals[at], ranking[at] = arrival, i
            filled += not full
        seen = n_admitted[j]
        last_head, last_arrival = heads[ranking[j]], arrivals[j]


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
def place_probabilities(scores, order, scale, n_admitted, ranking, probabilities):
    # ranking (≤ k,)        positions within the query, −1 beyond the end of a list
    # probabilities (≤ k,)  out: log chance of each placed item given those above it, in log space throughout
    n = order.size
    placed = np.zeros(n, np.bool_)
    place_of = np.empty(n, np.int64)
    for i in range(n):
        place_of[order[i]] = i
    best = 0
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


@njit(cache=True, nogil=True, error_model="numpy")
def longest_query(offsets, start, stop):
    longest = 0
    for q in range(start, stop):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def eligibility_of_queries(offsets, order, scores, scale, start, stop, out):
    # out (n_rows,)  each item's chance of first place, rows as stored
    longest = longest_query(offsets, start, stop)
    weights, eligibility, heads = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
        for i in range(n):
            out[first + order[first + i]] = eligibility[i]


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


@njit(cache=True, nogil=True, error_model="numpy")
def sample_queries(offsets, order, scores, scale, thresholds, noise, start, stop, out):
    # noise (n_queries, n_draws)   stream names
    # out (n_queries, n_draws, k)  positions within the query, −1 beyond the end of a list
    longest, k = longest_query(offsets, start, stop), thresholds.size
    weights, eligibility = np.empty(longest), np.empty(longest)
    heads, n_admitted = np.empty(longest, np.int64), np.empty(k, np.int64)
    arrivals, ranking = np.empty(k), np.empty(k, np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        places = min(k, n)
        weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
        admit(eligibility[:n], thresholds, n_admitted)
        for d in range(out.shape[1]):
            draw(weights[:n], heads[:n], n_admitted, noise[q, d], places, arrivals, ranking)
            for j in range(k):
                out[q, d, j] = order[first + ranking[j]] if j < places else -1


@njit(cache=True, nogil=True, error_model="numpy")
def place_probabilities_of_queries(offsets, order, scores, scale, thresholds, rankings, start, stop, out):
    # rankings, out (n_queries, n_draws, ≤ k)
    longest = longest_query(offsets, start, stop)
    weights, eligibility, heads = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_admitted = np.empty(thresholds.size, np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
        admit(eligibility[:n], thresholds, n_admitted)
        for d in range(rankings.shape[1]):
            place_probabilities(scores[first:last], order[first:last], scale, n_admitted, rankings[q, d], out[q, d])


@njit(cache=True, nogil=True, error_model="numpy")
def _drawn_list(scores, scale, threshold, decay, k, noise):
    # Returns order, weights, eligibility and heads (n,), n_admitted and ranking (places,), items by falling score.
    n = scores.size
    places = min(k, n)
    order, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    sort_query(scores, order, spare)
    weights, eligibility, heads = np.empty(n), np.empty(n), np.empty(n, np.int64)
    weigh(scores, order, scale, weights, eligibility, heads)
    thresholds, n_admitted = np.empty(places), np.empty(places, np.int64)
    for j in range(places):
        thresholds[j] = threshold * decay**j
    admit(eligibility, thresholds, n_admitted)
    arrivals, ranking = np.empty(places), np.empty(places, np.int64)
    draw(weights, heads, n_admitted, noise, places, arrivals, ranking)
    return order, weights, eligibility, heads, n_admitted, ranking


@njit(cache=True, nogil=True, error_model="numpy")
def rank_one(scores, scale, threshold, decay, k, noise):
    # Returns k positions within the query, or none at all when a score is not finite.
    for score in scores:
        if not np.isfinite(score):
            return np.empty(0, np.int64)
    order, _, _, _, _, ranking = _drawn_list(scores, scale, threshold, decay, k, noise)
    for j in range(ranking.size):
        ranking[j] = order[ranking[j]]
    return ranking


@njit(cache=True, nogil=True, error_model="numpy")
def place_chances(weights, heads, n_admitted, ranking, chances):
    # ranking (places,)  items by falling score
    # chances (places,)  out: chance of each placed item given those above it
    #
    # The weight left is kept by adding who is admitted and subtracting who is placed, and summed afresh before the
    # differences cancel.
    placed = np.zeros(weights.size, np.bool_)
    head, end, left, peak = -1, 0, 0.0, 0.0
    for j in range(ranking.size):
        pick = ranking[j]
        if heads[pick] != head:
            head, end, left, peak = heads[pick], heads[pick], 0.0, 0.0
        while end < n_admitted[j] and heads[end] == head:
            left += weights[end]
            end += 1
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
def rank_one_with_propensity(scores, scale, threshold, decay, k, noise):
    # Returns what `rank_one` does, the chance of each place given those above it, the first places of the order by
    # score, whether scores tie, and the best item's chance of first place.
    for score in scores:
        if not np.isfinite(score):
            return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), False, 0.0
    order, weights, eligibility, heads, n_admitted, ranking = _drawn_list(scores, scale, threshold, decay, k, noise)
    chances = np.empty(ranking.size)
    place_chances(weights, heads, n_admitted, ranking, chances)
    leading = np.empty(ranking.size, np.int64)
    for j in range(ranking.size):
        ranking[j], leading[j] = order[ranking[j]], order[j]
    tied = False
    for i in range(1, order.size):
        tied = tied or scores[order[i]] == scores[order[i - 1]]
    return ranking, chances, leading, tied, eligibility[0]
