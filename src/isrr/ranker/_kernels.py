"""Compiled loops of the ranker: who is admitted, and who is drawn. Arrays in, arrays out: no checks, no Python objects.

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

import math

import numpy as np

from isrr.compiled import kernel, njit
from isrr.data._order_kernels import longest_query, sort_query
from isrr.lanes import WIDTH, added_up, exp, load, splat, store
from isrr.noise import coin, uniform

SPLIT = -21.0  # log of the weight, relative to the item above, below which a list is cut: e^−21 < 1e-9
SPLIT_WEIGHT = float(np.exp(SPLIT))
WIDEST = 600.0  # a block's weights span at most e^600, within reach of floating point


@kernel
def weigh(scores, order, scale, weights, eligibility, heads):
    # scores (n,), order (n,)  raw scores of a query, and its items by falling score
    # scale                    1 / (deviation · temperature)
    # weights (n,)             out: exp(score · scale), each relative to the head of its block
    # eligibility (n,)         out: the chance of first place, falling
    # heads (n,)               out: for each item, where its block begins
    n, top = order.size, scores[order[0]]
    for i in range(n):
        eligibility[i], heads[i] = (scores[np.uint32(order[i])] - top) * scale, 0  # unsigned: never from the end
    widest, whole, sums = -eligibility[n - 1], n // WIDTH * WIDTH, splat(0.0)
    for i in range(0, whole, WIDTH):
        weight = exp(load(eligibility, i))
        store(weights, i, weight)
        sums = sums + weight
    if 0 < whole < n:
        store(weights, n - WIDTH, exp(load(eligibility, n - WIDTH)))
    total = added_up(sums)
    for i in range(whole, n):
        if whole == 0:
            weights[i] = math.exp(eligibility[i])
        total += weights[i]
    below, cut = 0.0, False  # weight of everything below, walking up
    if weights[n - 1] < SPLIT_WEIGHT:
        for i in range(n - 1, 0, -1):
            below += weights[i]
            if below < SPLIT_WEIGHT * weights[i - 1]:
                heads[i], cut = i, True
    for i in range(n):
        eligibility[i] = weights[i] / total
    if widest > WIDEST:
        _weigh_widest(scores, order, scale, weights, heads)
    elif cut:
        _weigh_blocks(weights, heads)


@kernel
def _weigh_blocks(weights, heads):
    # heads (n,)    in: where an item begins a block, its own place; out: for each item, where its block begins
    # weights (n,)  in and out: relative to the first item, then to the head of each block
    head, relative = 0, 1.0
    for i in range(1, weights.size):
        if heads[i] == i:
            head, relative = i, weights[i]
        heads[i] = head
        weights[i] /= relative


@kernel
def _weigh_widest(scores, order, scale, weights, heads):
    # Blocks where weights span more than floating point does: by their logarithms.
    n, top = order.size, scores[order[0]]
    below = -np.inf  # log weight of everything below, walking up
    for i in range(n - 1, 0, -1):
        here, above = (scores[order[i]] - top) * scale, (scores[order[i - 1]] - top) * scale
        below = max(here, below) + math.log1p(math.exp(-abs(here - below)))
        if below - above < SPLIT:
            heads[i] = i
    head = 0
    for i in range(1, n):
        if (scores[order[head]] - scores[order[i]]) * scale > WIDEST:
            heads[i] = i
        if heads[i] == i:
            head = i
        heads[i] = head
        weights[i] = math.exp((scores[order[i]] - scores[order[head]]) * scale)


@kernel
def count_eligible(eligibility, threshold, known):
    # eligibility (n,)  falling
    # known             how many items are eligible for sure: where the search begins, in steps that double; not a
    #                   literal, for which the kernel would be compiled once more
    last = eligibility.size - 1
    if eligibility[last] >= threshold:
        return last + 1
    low, high, step = known, known, 1
    while eligibility[high] >= threshold:
        low, high = high + 1, min(high + step, last)
        step *= 2
    while low < high:
        middle = (low + high) // 2
        if eligibility[middle] >= threshold:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def admit(eligibility, thresholds, n_admitted):
    # thresholds (k,), n_admitted (k,)  out: how many leading items each position draws from
    n, eligible = eligibility.size, np.int64(0)
    for j in range(thresholds.size):  # which fall
        eligible = count_eligible(eligibility, thresholds[j], eligible)
        n_admitted[j] = min(max(eligible, j + 1), n)


@kernel
def eligibility_of_queries(offsets, order, scores, scale, room, start, stop, out):
    # room           arrays to work in: `isrr.ranker.given.room`
    # out (n_rows,)  each item's chance of first place, rows as stored
    weights, eligibility, heads = room[:3]
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
        for i in range(n):
            out[first + order[first + i]] = eligibility[i]


@kernel
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
def sample_queries(offsets, order, scores, scale, thresholds, noise, by_score, shares, start, stop, out):
    # noise (n_queries, n_draws)   stream names
    # by_score (n_rows,)           as `order`, by raw score
    # shares (n_queries,)          chance of the order by score in place of a draw
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
            ordered = shares[q] > 0.0 and coin(noise[q, d]) < shares[q]
            if not ordered:
                draw(weights[:n], heads[:n], n_admitted, noise[q, d], places, arrivals, ranking)
            for j in range(k):
                if j >= places:
                    out[q, d, j] = -1
                else:
                    out[q, d, j] = by_score[first + j] if ordered else order[first + ranking[j]]


@njit(cache=True, nogil=True, error_model="numpy")
def sort_named(scores, names, order):
    # As `sort_query`, with `names` of the query and its items, (1 + n,), of the query alone, (1,), or none.
    return sort_query(scores, names[0] if names.size else np.uint64(0), names[1:], order)


@njit(cache=True, nogil=True, error_model="numpy")
def drawn_list(names, raw, scores, scale, thresholds, noise):
    # names                as for `sort_named`
    # raw, scores (n,)     before and after the score map, which may round two raw scores to one
    # thresholds (places,)
    # noise                name of a noise stream
    # Returns order, weights, eligibility and heads (n,), n_admitted and ranking (places,), items by falling raw score,
    # and whether two raw scores are equal.
    n, places = scores.size, thresholds.size
    order = np.empty(n, np.int32)
    tied = sort_named(raw, names, order)
    weights, eligibility, heads = np.empty(n), np.empty(n), np.empty(n, np.int64)
    weigh(scores, order, scale, weights, eligibility, heads)
    n_admitted = np.empty(places, np.int64)
    admit(eligibility, thresholds, n_admitted)
    arrivals, ranking = np.empty(places), np.empty(places, np.int64)
    draw(weights, heads, n_admitted, np.uint64(noise), places, arrivals, ranking)
    return order, weights, eligibility, heads, n_admitted, ranking, tied


@njit(cache=True, nogil=True, error_model="numpy")
def rank_one(names, raw, scores, scale, thresholds, noise):
    # Returns a position within the query for each threshold; none at all where a score is not finite, or where two raw
    # scores are equal and there are no names to tell them apart.
    for score in scores:
        if not np.isfinite(score):
            return (np.empty(0, np.int64),)
    order, _, _, _, _, ranking, tied = drawn_list(names, raw, scores, scale, thresholds, noise)
    if tied and names.size == 0:
        return (np.empty(0, np.int64),)
    for j in range(ranking.size):
        ranking[j] = order[ranking[j]]
    return (ranking,)
