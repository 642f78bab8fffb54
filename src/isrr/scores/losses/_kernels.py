"""Compiled loop of the draws, for the host. Arrays in, arrays out; `isrr.scores.losses.draws` prepares them."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def place_items(upto, uniforms, start, stop, found, mass):
    # upto     (n_queries, n_items)      cumulated weights, lightest item first, padding (weight 0) before it
    # uniforms (n_queries, k, n_draws)   fresh noise per place and draw
    # found    (n_queries, k, n_draws)   out: rank of the item placed, among the items from light to heavy
    # mass     (n_queries, k, n_draws)   out: weight of the items not yet placed
    k, n_items = uniforms.shape[1], upto.shape[1]
    begins, ends = np.empty(k + 1), np.empty(k + 1)  # the stretches between placed items
    cell = np.empty(n_items + 1, np.int64)  # cell[c]: first item whose cumulated weight exceeds c / n_items of all
    for query in range(start, stop):
        row = upto[query]
        total = row[n_items - 1]
        item = 0
        for c in range(n_items):
            while row[item] <= c * total / n_items:
                item += 1
            cell[c] = item
        cell[n_items] = n_items - 1
        per_weight = n_items / total
        for draw in range(uniforms.shape[2]):
            begins[0], ends[0] = 0.0, total
            for place in range(k):
                left = 0.0
                for s in range(place + 1):
                    left += ends[s] - begins[s]
                mass[query, place, draw] = left
                target = uniforms[query, place, draw] * left
                s = 0
                while s < place and target >= ends[s] - begins[s]:
                    target -= ends[s] - begins[s]
                    s += 1
                target += begins[s]
                c = min(int(target * per_weight), n_items - 1)
                low, high = cell[c], cell[c + 1]
                while low < high:
                    middle = (low + high) >> 1
                    if row[middle] <= target:
                        low = middle + 1
                    else:
                        high = middle
                while low > 0 and row[low - 1] > target:  # the cell was rounded up
                    low -= 1
                while row[low] <= target and low < n_items - 1:  # or down
                    low += 1
                found[query, place, draw] = low
                before = row[low - 1] if low > 0 else 0.0
                for t in range(place, s - 1, -1):
                    begins[t + 1], ends[t + 1] = begins[t], ends[t]
                ends[s], begins[s + 1] = before, row[low]
