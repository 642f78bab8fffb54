"""Compiled loops of the ranker. Arrays in, arrays out: no checks, no Python objects.

Items come sorted by score, and eligibility rises with it, so the items a position admits are a prefix of the query and
one integer says how many. "The best unplaced item where none is admitted" needs no special case: it is what admitting
one item more than there are positions before does, so position j admits max(n_eligible, j + 1) items.

Clocks. An item's clock rings after Exp(1) / weight; the order of the rings is Plackett–Luce. An item first admitted at
position j starts its clock when position j − 1 was taken: racing it against noise already known to have lost would be
wrong, and fresh noise for everybody, which is right too, would cost k times as much.

Blocks. At a low temperature weights span hundreds of orders of magnitude. Where all items from one on weigh next to
nothing beside the item above, they can only come after it: the list is cut there, weights are taken relative to the
head of each block, and blocks are ranked one after the other.

Boosts reach these loops as scores; floors and anchors are applied to what they return: `mix_with_order` and
`mix_chances`.
"""

import math

import numpy as np

from isrr.compiled import kernel
from isrr.data._order_kernels import longest_query, sort_falling, sort_query
from isrr.noise import coin, stream, uniform
from isrr.ranker.exact import exact_exposure
from isrr.ranker.simd import WIDTH, broadcast, exp, hsum, lane, load, pointer, store

SPLIT = -21.0  # log of the weight, relative to the item above, below which a list is cut: e^−21 < 1e-9
SPLIT_WEIGHT = float(np.exp(SPLIT))
WIDEST = 600.0  # a block's weights span at most e^600, within reach of floating point


@kernel
def map_scores(raw, inputs, outputs, slopes, mapped):
    # raw (n,)                  raw scores
    # inputs, outputs (knots,)  the map at its knots; slopes (knots − 1,) between them, and beyond the outermost ones
    # mapped (n,)               out
    for i in range(raw.size):
        low, high = 0, slopes.size - 1
        while low < high:
            middle = (low + high + 1) // 2
            if inputs[middle] <= raw[i]:
                low = middle
            else:
                high = middle - 1
        mapped[i] = outputs[low] + (raw[i] - inputs[low]) * slopes[low]
        if low < slopes.size - 1 and mapped[i] > outputs[low + 1]:  # by rounding: the next segment begins there
            mapped[i] = outputs[low + 1]


@kernel
def weigh(scores, first, n, scale, weights, eligibility, heads):
    # scores              falling within a query, whose n items begin at `first`
    # scale               1 / (deviation · temperature)
    # weights (≥ n,)      out: exp(score · scale), each relative to the head of its block
    # eligibility (≥ n,)  out: the chance of first position, falling
    # heads (≥ n,)        out: for each item, where its block begins
    top, rows = broadcast(scores[first]), n // WIDTH * WIDTH
    stretch, sums = broadcast(scale), broadcast(0.0)
    for i in range(0, rows, WIDTH):
        row = exp((load(scores, first + i) - top) * stretch)
        store(weights, i, row)
        sums = sums + row
    total = hsum(sums)
    for i in range(rows, n):  # by the same function: equal scores weigh the same
        weights[i] = lane(exp(broadcast((scores[first + i] - scores[first]) * scale)), 0)
        total += weights[i]
    for i in range(n):
        eligibility[i], heads[i] = weights[i] / total, 0
    below, cut = 0.0, False  # weight of everything below, walking up
    if weights[n - 1] < SPLIT_WEIGHT:
        for i in range(n - 1, 0, -1):
            below += weights[i]
            if below < SPLIT_WEIGHT * weights[i - 1]:
                heads[i], cut = i, True
    if (scores[first] - scores[first + n - 1]) * scale > WIDEST:
        _weigh_widest(scores, first, n, scale, weights, heads)
    elif cut:
        _weigh_blocks(weights, n, heads)


@kernel
def _weigh_blocks(weights, n, heads):
    # heads (≥ n,)    in: where an item begins a block, its own position; out: for each item, where its block begins
    # weights (≥ n,)  in and out: relative to the first item, then to the head of each block
    head, relative = 0, 1.0
    for i in range(1, n):
        if heads[i] == i:
            head, relative = i, weights[i]
        heads[i] = head
        weights[i] /= relative


@kernel
def _weigh_widest(scores, first, n, scale, weights, heads):
    # Blocks where weights span more than floating point does: by their logarithms.
    top = scores[first]
    below = -np.inf  # log weight of everything below, walking up
    for i in range(n - 1, 0, -1):
        here, above = (scores[first + i] - top) * scale, (scores[first + i - 1] - top) * scale
        below = max(here, below) + math.log1p(math.exp(-abs(here - below)))
        if below - above < SPLIT:
            heads[i] = i
    head = 0
    for i in range(1, n):
        if (scores[first + head] - scores[first + i]) * scale > WIDEST:
            heads[i] = i
        if heads[i] == i:
            head = i
        heads[i] = head
        weights[i] = math.exp((scores[first + i] - scores[first + head]) * scale)


@kernel
def count_eligible(eligibility, n, threshold, known):
    # eligibility (≥ n,)  falling
    # known               how many items are eligible for sure: where the search begins, in steps that double; not a
    #                     literal, for which the kernel would be compiled once more
    last = n - 1
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
def admit(eligibility, n, thresholds, n_admitted):
    # thresholds (k,), n_admitted (k,)  out: how many leading items each position draws from
    eligible = np.int64(0)
    for j in range(thresholds.size):  # which fall
        eligible = count_eligible(eligibility, n, thresholds[j], eligible)
        n_admitted[j] = min(max(eligible, j + 1), n)


@kernel
def prepare(scores, scale, thresholds):
    # Returns weights, eligibility and heads of items with these falling scores, and n_admitted of each position.
    n = scores.size
    weights, eligibility, heads = np.empty(n), np.empty(n), np.empty(n, np.int64)
    weigh(scores, np.int64(0), n, scale, weights, eligibility, heads)
    n_admitted = np.empty(thresholds.size, np.int64)
    admit(eligibility, n, thresholds, n_admitted)
    return weights, eligibility, heads, n_admitted


@kernel
def eligibility_of_queries(offsets, scores, scale, memory, own_heads, start, stop, out):
    # scores (n_rows,)     falling within each query
    # memory, own_heads    (≥ longest,) each, as pointers keep no array that is made here
    # out (n_rows,)        each item's chance of first position
    falling, weights, heads = pointer(scores, 0), pointer(memory, 0), pointer(own_heads, 0)
    for q in range(start, stop):
        first, n = offsets[q], offsets[q + 1] - offsets[q]
        weigh(falling, first, n, scale, weights, pointer(out, first), heads)


@kernel
def exposure_of_grid(
    offsets, scores, scales, scale_of, thresholds, position_weights, nodes, node_weights, memory, own_heads,
    longer, whole, start, stop, exposure, n_shown,
):  # fmt: skip
    # scores (n_rows,)              falling within each query
    # scales (n_scales,)            1 / (deviation · temperature), distinct
    # scale_of (n_grid,)            which of them a configuration has; configurations come sorted by it, those of one
    #                               scale by falling threshold
    # thresholds (n_grid,)          the same at all positions
    # position_weights (n_weights, k)  ways of weighting the positions
    # nodes, node_weights           `isrr.ranker.exact.laguerre_rules()`
    # memory, own_heads, longer     `isrr.ranker.exact.memory_for(longest, k, n_weights)`, as pointers keep no array
    #                               that is made here
    # whole                         whether exposures of 0 at the end of a list are written too
    # exposure (n_weights, n_grid, rows)  out: of the rows of queries start … stop − 1, by falling score
    # n_shown (n_grid, queries)     out: how many leading items of each have an exposure that is written
    longest, (n_weights, k) = longest_query(offsets, start, stop), position_weights.shape
    stride = exposure.shape[1] * exposure.shape[2]
    weights, eligibility, heads = pointer(memory, 0), pointer(memory, longest), pointer(own_heads, 0)
    inside, rule, rule_weights = pointer(memory, 2 * longest), pointer(nodes, 0), pointer(node_weights, 0)
    worth, falling, known = pointer(position_weights, 0), pointer(scores, 0), np.empty(longest + 1, np.int64)
    for q in range(start, stop):
        first, n = offsets[q] - offsets[start], offsets[q + 1] - offsets[q]
        weighed, admitted = -1, np.int64(0)
        for c in range(scale_of.size):
            if scale_of[c] != weighed:
                weighed, admitted = scale_of[c], np.int64(0)
                weigh(falling, offsets[q], n, scales[weighed], weights, eligibility, heads)
                for i in range(n + 1):
                    known[i] = -1
            admitted = max(count_eligible(eligibility, n, thresholds[c], admitted), np.int64(1))
            same = known[admitted]
            if same >= 0:  # another threshold that admits as many
                n_written = n_shown[same, q - start]
                for m in range(n_weights):
                    for i in range(n_written):
                        exposure[m, c, first + i] = exposure[m, same, first + i]
            else:
                known[admitted] = c
                shown = pointer(exposure, c * exposure.shape[2] + first)
                n_written = exact_exposure(
                    weights, heads, n, admitted, worth, n_weights, k, rule, rule_weights, inside, longer, shown, stride
                )
            if whole:
                for m in range(n_weights):
                    for i in range(n_written, n):
                        exposure[m, c, first + i] = 0.0
                n_written = n
            n_shown[c, q - start] = n_written


@kernel
def sampled_exposure_of_grid(
    offsets, scores, scales, scale_of, thresholds, position_weights, keys, seed, n_draws, start, stop, exposure
):
    # thresholds (n_grid, ≥ k)
    # keys (n_queries,), seed  name the noise; it is the same for all configurations
    # exposure (2, n_weights, n_grid, rows)  out: averages over the even draws, and over the odd ones
    longest, (n_weights, k) = longest_query(offsets, start, stop), position_weights.shape
    weights, eligibility, heads = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_admitted, arrivals, ranking = np.empty(k, np.int64), np.empty(k), np.empty(k, np.int64)
    exposure[:] = 0.0
    for q in range(start, stop):
        first, n = offsets[q] - offsets[start], offsets[q + 1] - offsets[q]
        for c in range(scale_of.size):
            weigh(scores, offsets[q], n, scales[scale_of[c]], weights, eligibility, heads)
            admit(eligibility, n, thresholds[c, :k], n_admitted)
            for d in range(n_draws):
                draw(weights, heads, n_admitted, stream(seed, keys[q], d), min(k, n), arrivals, ranking)
                share = 1.0 / ((n_draws + 1 - d % 2) // 2)
                for m in range(n_weights):
                    for j in range(min(k, n)):
                        exposure[d % 2, m, c, first + ranking[j]] += share * position_weights[m, j]


@kernel
def floor_share(exposure, position_weights, promised, leading, floor):
    # exposure (n_weights, ≥ n)     of draws alone
    # position_weights (n_weights, k)  ways of weighting the positions, zeros beyond a way's own k
    # promised                      which of these ways the floor is promised for
    # leading (n,)                  the column of exposure that belongs to each position of the order by score
    # Returns the least share of the order, 0 where draws alone keep the floor, never more than the floor.
    share = 0.0
    for m in promised:
        for j in range(min(position_weights.shape[1], leading.size)):
            weight, drawn = position_weights[m, j], exposure[m, leading[j]]
            if drawn < floor * weight:
                share = max(share, (floor * weight - drawn) / (weight - drawn))
    return share


@kernel
def share_of_list(
    falling, order, by_score, scale, threshold, floor, floor_weights, nodes, node_weights, memory, own_heads, longer
):
    # falling (n,)                  scores in the order of the draw
    # floor_weights (n_weights, k)  weights of the positions that the floor is promised for
    # Returns the share of the order by score that the floor takes of one query.
    n, (n_weights, k) = falling.size, floor_weights.shape
    weights, eligibility, heads = pointer(memory, 0), pointer(memory, n), pointer(own_heads, 0)
    shown, inside = pointer(memory, 2 * n), pointer(memory, (2 + n_weights) * n)
    weigh(falling, np.int64(0), n, scale, weights, eligibility, heads)
    admitted = max(count_eligible(eligibility, n, threshold, np.int64(0)), np.int64(1))
    n_written = exact_exposure(
        weights, heads, n, admitted, pointer(floor_weights, 0), n_weights, k, pointer(nodes, 0),
        pointer(node_weights, 0), inside, longer, shown, n,
    )  # fmt: skip
    exposure = np.zeros((n_weights, n))
    for m in range(n_weights):
        for i in range(n_written):
            exposure[m, i] = shown[n * m + i]
    position_of, leading = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        position_of[order[i]] = i
    for i in range(n):
        leading[i] = position_of[by_score[i]]
    return floor_share(exposure, floor_weights, range(n_weights), leading, floor)


@kernel
def mix_with_order(offsets, leading, position_weights, promised, floors, anchors, start, stop, exposure, shares):
    # With chance λ, the share of the order, a list is the order by score, else a draw. The floor ρ chooses λ for each
    # query: an item that the order by score puts at position j, worth θ_j, and that draws alone give an exposure of h,
    # gets λ·θ_j + (1 − λ)·h, and that is ρ·θ_j or more from
    #
    #     λ = (ρ·θ_j − h) / (θ_j − h)        on.
    #
    # Where it holds for every item of the order's first k positions, the query keeps ρ of the order's utility, whatever
    # the items are worth.
    #
    # leading (n_rows,)             where the items of the order by score stand in the order of the draw
    # position_weights (n_weights, k)  ways of weighting the positions, zeros beyond a way's own k
    # promised                      which of these ways floors are promised for
    # floors, anchors (n_grid,)     ρ, and the least λ
    # exposure (n_weights, n_grid, rows)  in: of draws alone, all rows; out: of the mixture
    # shares (n_grid, queries)      out: λ
    for q in range(start, stop):
        first, n = offsets[q] - offsets[start], offsets[q + 1] - offsets[q]
        lead, k = leading[offsets[q] : offsets[q + 1]], min(position_weights.shape[1], n)
        for c in range(floors.size):
            share = anchors[c]
            if floors[c] > share:  # which the share never exceeds
                share = max(share, floor_share(exposure[:, c, first:], position_weights, promised, lead, floors[c]))
            shares[c, q - start] = share
            if share > 0.0:
                for m in range(position_weights.shape[0]):
                    for i in range(first, first + n):
                        exposure[m, c, i] *= 1.0 - share
                    for j in range(k):
                        exposure[m, c, first + lead[j]] += share * position_weights[m, j]


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
                break  # every position is spoken for by an earlier block
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


@kernel
def sample_queries(offsets, order, scores, scale, thresholds, noise, memory, own_heads, start, stop, out):
    # order, scores (n_rows,)      positions within the query by falling score, and these scores
    # memory, own_heads            (≥ 2 · longest,) and (≥ longest,)
    # noise (n_queries, n_draws)   stream names
    # out (n_queries, n_draws, k)  positions within the query, −1 beyond the end of a list
    longest, k = longest_query(offsets, start, stop), thresholds.size
    falling, heads = pointer(scores, 0), pointer(own_heads, 0)
    weights, eligibility = pointer(memory, 0), pointer(memory, longest)
    n_admitted, arrivals, ranking = np.empty(k, np.int64), np.empty(k), np.empty(k, np.int64)
    for q in range(start, stop):
        first, n = offsets[q], offsets[q + 1] - offsets[q]
        weigh(falling, first, n, scale, weights, eligibility, heads)
        admit(eligibility, n, thresholds, n_admitted)
        for d in range(out.shape[1]):
            draw(weights, heads, n_admitted, noise[q, d], min(k, n), arrivals, ranking)
            for j in range(k):
                out[q, d, j] = order[first + ranking[j]] if j < n else -1


@kernel
def lists_of_grid(
    offsets, order, scores, scales, scale_of, thresholds, by_score, shares, keys, seed, start, stop, lists
):
    # order, scores (n_rows,)    positions within the query by falling score, and these scores
    # scale_of (n_grid,)         which of the scales a configuration has; configurations come sorted by it
    # thresholds (n_grid, k)
    # by_score (n_rows,), shares (n_grid, queries)  the order by raw score, and its chance in place of a draw
    # keys (n_queries,), seed    name the noise; it is the same for all configurations
    # lists (queries, n_grid, n_lists, k)  out: positions within the query, −1 beyond its last item
    longest, k = longest_query(offsets, start, stop), thresholds.shape[1]
    weights, eligibility, heads = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_admitted, arrivals, ranking = np.empty(k, np.int64), np.empty(k), np.empty(k, np.int64)
    lists[:] = -1
    for q in range(start, stop):
        first, n, weighed = offsets[q], offsets[q + 1] - offsets[q], -1
        for c in range(scale_of.size):
            if scale_of[c] != weighed:
                weighed = scale_of[c]
                weigh(scores, first, n, scales[weighed], weights, eligibility, heads)
            admit(eligibility, n, thresholds[c], n_admitted)
            for d in range(lists.shape[2]):
                noise = stream(seed, keys[q], d)
                if shares[c, q - start] > 0.0 and coin(noise) < shares[c, q - start]:
                    for j in range(min(k, n)):
                        lists[q - start, c, d, j] = by_score[first + j]
                    continue
                draw(weights, heads, n_admitted, noise, min(k, n), arrivals, ranking)
                for j in range(min(k, n)):
                    lists[q - start, c, d, j] = order[first + ranking[j]]


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


@kernel
def sort_drawn_queries(offsets, scores, by_score, start, stop, order):
    # scores, by_score, order (n_rows,)
    falling = np.empty(longest_query(offsets, start, stop))
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        sort_drawn(scores[first:last], by_score[first:last], falling[: last - first], order[first:last])


@kernel
def log_chances(scores, position_of, scale, n_admitted, ranking, placed, chances):
    # scores (n,)     falling
    # position_of (n,)   where each item stands among them
    # ranking (≤ k,)  positions within the query, −1 beyond the end of a list; somebody gave it, and any of its items
    #                 may be next to impossible: logarithms are taken throughout
    # placed (n,)     scratch, all False before and after
    # chances (≤ k,)  out: log chance of each placed item given those above it
    n, best = scores.size, 0
    for j in range(ranking.size):
        if ranking[j] < 0:
            chances[j] = 0.0
            continue
        pick = position_of[ranking[j]]
        top = scores[best]
        mass = 0.0
        for i in range(best, n_admitted[j]):
            if not placed[i]:
                mass += np.exp((scores[i] - top) * scale)
        if pick < n_admitted[j]:
            chances[j] = (scores[pick] - top) * scale - np.log(mass)
        else:
            chances[j] = -np.inf
        placed[pick] = True
        while best < n and placed[best]:
            best += 1
    for item in ranking:
        if item >= 0:
            placed[position_of[item]] = False


@kernel
def mix_log_chances(ranking, order, share, chances):
    # As `mix_chances`, with logarithms, for lists that are next to impossible; −1 in `ranking` ends a list.
    drawn, ordered = np.log1p(-share), np.log(share)  # of the positions so far together with where the list comes from
    for j in range(ranking.size):
        if ranking[j] < 0 or share == 0.0:
            return
        before = max(drawn, ordered) + np.log1p(np.exp(-abs(drawn - ordered)))
        drawn += chances[j]
        if ranking[j] != order[j]:
            chances[j] = drawn - before
            return
        chances[j] = max(drawn, ordered) + np.log1p(np.exp(-abs(drawn - ordered))) - before


@kernel
def log_chances_of_queries(offsets, order, scores, scale, thresholds, rankings, by_score, shares, start, stop, out):
    # rankings, out (n_queries, n_draws, ≤ k)
    # by_score (n_rows,), shares (n_queries,)  the order by raw score, and its chance in place of a draw
    longest = longest_query(offsets, start, stop)
    weights, eligibility, heads = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_admitted, position_of = np.empty(thresholds.size, np.int64), np.empty(longest, np.int64)
    placed = np.zeros(longest, np.bool_)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, mine, drawn = last - first, scores[first:last], order[first:last]
        weigh(scores, first, n, scale, weights, eligibility, heads)
        admit(eligibility, n, thresholds, n_admitted)
        for i in range(n):
            position_of[drawn[i]] = i
        for d in range(rankings.shape[1]):
            log_chances(mine, position_of[:n], scale, n_admitted, rankings[q, d], placed[:n], out[q, d])
            mix_log_chances(rankings[q, d], by_score[first:last], shares[q], out[q, d])


@kernel
def chances_of_list(weights, heads, n_admitted, ranking, chances):
    # ranking (positions,)  items by falling score, of a list that was drawn just now: plain weights are enough
    # chances (positions,)  out: chance of each placed item given those above it; 0 from an item on that cannot be drawn
    #
    # The weight left is kept by adding who is admitted and subtracting who is placed, and summed again before the
    # differences cancel.
    placed = np.zeros(weights.size, np.bool_)
    head, end, left, peak = -1, 0, 0.0, 0.0
    chances[:] = 0.0
    for j in range(ranking.size):
        pick = ranking[j]
        if heads[pick] != head:
            head, end, left, peak = heads[pick], heads[pick], 0.0, 0.0
            if head != j:  # items of the blocks above are still to come
                return
        while end < n_admitted[j] and heads[end] == head:
            left += weights[end]
            end += 1
        if pick >= end:
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


@kernel
def mix_chances(ranking, by_score, share, chances):
    # ranking (positions,), by_score (≥ positions,)  items of a list, and of the order by score
    # chances (positions,)                        in and out: chance of each placed item given those above it
    drawn = 1.0 - share  # the chance that the list is a draw, given the positions so far
    for j in range(ranking.size):
        if drawn == 1.0:
            return
        if ranking[j] == by_score[j]:
            chance = (1.0 - drawn) + drawn * chances[j]
            drawn = drawn * chances[j] / chance
            chances[j] = chance
        else:
            chances[j] *= drawn
            drawn = 1.0


@kernel
def sort_named(raw, scores, names, order):
    # raw, scores (n,)  before and after the score map, which may round two raw scores to one
    # names             64 bits for the query and each of its items, (1 + n,), for the query alone, (1,), or none
    # order (n,)        out: positions by falling raw score, equal ones by a hash of the names
    # Returns whether the list can be ranked: all scores are finite, and equal ones have names to tell them apart; and
    # whether two raw scores are equal.
    for score in scores:
        if not np.isfinite(score):
            return False, False
    tied = sort_query(raw, names[0] if names.size else np.uint64(0), names[1:], order)
    return names.size > 0 or not tied, tied


@kernel
def draw_list(scores, order, scale, thresholds, noise):
    # thresholds (positions,)
    # noise                 name of a noise stream, a signed number as Python hands it over fastest
    # Returns positions by falling score, and what `prepare` returns.
    weights, eligibility, heads, n_admitted = prepare(scores[order], scale, thresholds)
    arrivals, ranking = np.empty(thresholds.size), np.empty(thresholds.size, np.int64)
    draw(weights, heads, n_admitted, np.uint64(np.int64(noise)), thresholds.size, arrivals, ranking)
    return ranking, weights, eligibility, heads, n_admitted


@kernel
def rank_one(raw, scores, scale, thresholds, noise):
    # Returns the drawn list of a ranker without dials; an empty one where `sort_named` says it cannot be ranked.
    order = np.empty(raw.size, np.int32)
    if not sort_named(raw, scores, np.empty(0, np.uint64), order)[0]:
        return np.empty(0, np.int64)
    ranking = draw_list(scores, order, scale, thresholds, noise)[0]
    for j in range(ranking.size):
        ranking[j] = order[ranking[j]]
    return ranking


@kernel
def serve_one(
    raw, scores, names, boosted, propensities, scale, thresholds, noise, floor, anchor, floor_weights, nodes,
    node_weights, memory, own_heads, longer,
):  # fmt: skip
    # raw (n,)       raw scores
    # scores (n,)    what the draw goes by: mapped, and boosted
    # propensities   whether more than the list is of interest
    # floor, anchor  of the ranker; the other arguments are those of `share_of_list`, not looked at where floor is 0
    # Returns the fields of `isrr.ranker.serving.ServedList`; empty lists where `sort_named` says it cannot be ranked.
    by_score, n_positions, share = np.empty(raw.size, np.int32), thresholds.size, anchor
    ready, tied = sort_named(raw, scores, names, by_score)
    if not ready:
        nothing = np.empty(0, np.int64)
        return nothing, np.empty(0), nothing, 0.0, 0.0, tied
    order = by_score
    if boosted:
        order = np.empty_like(by_score)
        sort_drawn(scores, by_score, np.empty(raw.size), order)
    flip = coin(noise)
    if share < floor and (propensities or share <= flip < floor):
        of_floor = share_of_list(
            scores[order], order, by_score, scale, thresholds[0], floor, floor_weights, nodes, node_weights, memory,
            own_heads, longer,
        )  # fmt: skip
        share = max(share, of_floor)
    ranking, weights, eligibility, heads, n_admitted = draw_list(scores, order, scale, thresholds, noise)
    if flip < share:  # the order by score
        position_of = np.empty(raw.size, np.int64)
        for i in range(raw.size):
            position_of[order[i]] = i
        for j in range(n_positions):
            ranking[j] = position_of[by_score[j]]
    chances, deterministic = np.empty(n_positions), np.empty(n_positions, np.int64)
    chances_of_list(weights, heads, n_admitted, ranking, chances)
    for j in range(n_positions):
        ranking[j], deterministic[j] = order[ranking[j]], by_score[j]
    mix_chances(ranking, by_score, share, chances)
    return ranking, chances, deterministic, eligibility[0], share, tied
