"""Compiled loops of the losses, for the host. Arrays in, arrays out; `draws` and `gradient` beside it prepare them.

Items that are not placed share their sums over places, and what a placed item must not share is taken off again. Where
the mass left is far below the weight of an item, which must then have been placed, nothing is added to be taken off:
sums are kept by depth, 16 bits of mass each.
"""

import numpy as np

from isrr.compiled import kernel

LATER, FROM_HERE = 1, 2  # as in `isrr_paper.scorers.losses.gradient.Part`; all else is the whole
CELLS = 8  # cells an item: most searches end where they start
NEAR_SCORES = 14.0  # scores so near each other that sums of their weights keep ten digits in any order


@kernel
def fill_cells(upto, cell):
    # upto (n_items,)              cumulated weights, lightest item first, padding (weight 0) before it
    # cell (CELLS · n_items + 1,)  out: the first item whose cumulated weight exceeds c / (CELLS · n_items) of all
    n_items, item = upto.size, 0
    width = upto[n_items - 1] / (CELLS * n_items)
    for c in range(CELLS * n_items):
        while upto[item] <= c * width and item < n_items - 1:
            item += 1
        cell[c] = item
    cell[CELLS * n_items] = n_items - 1


@kernel
def place_one(upto, cell, per_weight, uniform, place, begins, ends):
    # per_weight   cells a unit of weight
    # begins, ends (k + 1,) the stretches between placed items, place + 1 of them, brought up to date
    # returns the item found and the weight of the items not yet placed
    n_items = upto.size
    left = 0.0
    for s in range(place + 1):
        left += ends[s] - begins[s]
    target, s = uniform * left, 0
    while s < place and target >= ends[s] - begins[s]:
        target -= ends[s] - begins[s]
        s += 1
    target += begins[s]
    c = min(int(target * per_weight), CELLS * n_items - 1)
    item, beyond = cell[c], cell[c + 1]
    while beyond - item > 8:  # many light items in one cell
        middle = (item + beyond) >> 1
        if upto[middle] <= target:
            item = middle + 1
        else:
            beyond = middle
    while item > 0 and upto[item - 1] > target:  # the cell was rounded up
        item -= 1
    while upto[item] <= target and item < n_items - 1:
        item += 1
    for t in range(place, s - 1, -1):
        begins[t + 1], ends[t + 1] = begins[t], ends[t]
    ends[s] = upto[item - 1] if item > 0 else 0.0
    begins[s + 1] = upto[item]
    return item, left


@kernel
def position_items(upto, uniforms, start, stop, placed, mass):
    # upto     (n_queries, n_items)     as above
    # uniforms (n_queries, k, n_draws)  fresh noise per place and draw
    # placed    (n_queries, k, n_draws)  out: rank of the item placed, among the items from light to heavy
    # mass     (n_queries, k, n_draws)  out: weight of the items not yet placed
    k, n_items = uniforms.shape[1], upto.shape[1]
    begins, ends, cell = np.empty(k + 1), np.empty(k + 1), np.empty(CELLS * n_items + 1, np.int64)
    for query in range(start, stop):
        row = upto[query]
        fill_cells(row, cell)
        per_weight = CELLS * n_items / row[n_items - 1]
        for draw in range(uniforms.shape[2]):
            begins[0], ends[0] = 0.0, row[n_items - 1]
            for place in range(k):
                uniform = uniforms[query, place, draw]
                item, left = place_one(row, cell, per_weight, uniform, place, begins, ends)
                placed[query, place, draw], mass[query, place, draw] = item, left


@kernel
def part_of(which, so_far, reward, whole):
    # the part of a ranking's reward that a place is weighed with; so_far includes the place's own reward
    if which == LATER:
        return whole - so_far
    if which == FROM_HERE:
        return whole - so_far + reward
    return whole


@kernel
def level_of(weight):
    # how many times 16 bits a weight lies below 1
    return 0 if weight > 2.0**-16 else int(-np.log2(weight) / 16)


@kernel
def sum_gradients(scores, gains, mask, discount, uniforms, rule, lightest, start, stop, out):
    # scores, gains, mask (n_queries, n_items)  padded queries
    # discount (k,)                             discount of each place
    # uniforms (n_queries, k, n_draws)          fresh noise per place and draw
    # rule     (3,)                             pull, credit, blame: see `gradient.Rule`
    # out      (n_queries, n_items)             out: sum over draws; 0 at the padding
    k, n_draws = uniforms.shape[1], uniforms.shape[2]
    begins, ends, cell = np.empty(k + 1), np.empty(k + 1), np.empty(CELLS * scores.shape[1] + 1, np.int64)
    items, rewards, chance, depth = np.empty(k, np.int64), np.empty(k), np.empty(k), np.zeros(k, np.int64)
    placing, losing = np.empty(k), np.empty(k)
    deepest = int(-lightest * 1.45 / 16) + 2
    all_placing, all_losing = np.empty(deepest), np.empty(deepest)
    pull, credit, blame = rule
    for query in range(start, stop):
        members = np.flatnonzero(mask[query])
        score = scores[query][members]
        best, n_items = score.max(), members.size
        near = best - score.min() <= NEAR_SCORES
        if not near:
            order = np.argsort(score)
            members, score = members[order], score[order]
        gain, upto, weight, own = np.empty(n_items), np.empty(n_items), np.empty(n_items), np.zeros(n_items)
        level, total = np.zeros(n_items, np.int64), 0.0
        for i in range(n_items):
            gain[i] = gains[query, members[i]]
            weight[i] = np.exp(max(score[i] - best, lightest))
            total += weight[i]
            upto[i] = total
            if not near:
                level[i] = level_of(weight[i] / 2)
        fill_cells(upto, cell)
        per_weight = CELLS * n_items / total
        all_placing[:], all_losing[:] = 0.0, 0.0
        places = min(k, n_items)
        for draw in range(n_draws):
            begins[0], ends[0], whole = 0.0, total, 0.0
            for j in range(places):
                uniform = uniforms[query, j, draw]
                items[j], left = place_one(upto, cell, per_weight, uniform, j, begins, ends)
                chance[j] = 1.0 / left
                depth[j] = 0 if near else level_of(left)
                rewards[j] = discount[j] * gain[items[j]]
                whole += rewards[j]
            so_far, p, q = 0.0, 0.0, 0.0
            for j in range(places):
                so_far += rewards[j]
                placed = pull * discount[j] * chance[j]
                lost = part_of(blame, so_far, rewards[j], whole) * chance[j]
                p, q = p + placed, q + lost
                placing[j], losing[j] = p, q
                all_placing[depth[j]] += placed
                all_losing[depth[j]] += lost
            so_far = 0.0
            for j in range(places):
                so_far += rewards[j]
                d, last = items[j], places - 1
                while depth[last] > level[d]:
                    last -= 1
                shared = gain[d] * (placing[j] - placing[last]) - (losing[j] - losing[last])
                own[d] += part_of(credit, so_far, rewards[j], whole) + weight[d] * shared
        for below in range(1, deepest):
            all_placing[below] += all_placing[below - 1]
            all_losing[below] += all_losing[below - 1]
        for i in range(n_items):
            shared = gain[i] * all_placing[level[i]] - all_losing[level[i]]
            out[query, members[i]] = own[i] + weight[i] * shared
