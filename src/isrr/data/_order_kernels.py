"""Compiled passes over ragged columns: sorting each query's rows by falling value, moving them, naming their content.

Short lists are ranked by counting, for every item, the items that precede it: n² comparisons without a branch beat
n·log n comparisons with one up to a few hundred items. Longer lists are sorted by merging.
"""

import numpy as np

from isrr.compiled import njit
from isrr.noise import GOLDEN, mix

COUNTING = 400  # lists up to this length are ranked by counting
RUN = 12  # merging starts from runs of this length, sorted by insertion


@njit(cache=True, nogil=True, error_model="numpy")
def longest_query(offsets, start, stop):
    longest = 0
    for q in range(start, stop):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(cache=True, nogil=True)
def _rank_by_counting(values, order):
    order[:] = -1
    for i in range(values.size):
        value, place = values[i], 0
        for j in range(values.size):
            place += 1 if values[j] > value else 0
        while order[place] >= 0:  # taken by an equal value that came before
            place += 1
        order[place] = i


@njit(cache=True, nogil=True)
def _merge_sort(values, order, spare):
    n = values.size
    for start in range(0, n, RUN):
        for i in range(start, min(start + RUN, n)):
            j = i
            while j > start and values[order[j - 1]] < values[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    width = RUN
    while width < n:
        for start in range(0, n - width, 2 * width):
            right, stop = start + width, min(start + 2 * width, n)
            spare[:width] = order[start:right]
            left, out = 0, start
            while left < width and right < stop:
                if values[spare[left]] >= values[order[right]]:
                    order[out] = spare[left]
                    left += 1
                else:
                    order[out] = order[right]
                    right += 1
                out += 1
            order[out : out + width - left] = spare[left:width]
        width *= 2


@njit(cache=True, nogil=True)
def _break_ties(values, ties, order):
    for i in range(1, order.size):
        item, j = order[i], i
        while j > 0 and values[order[j - 1]] == values[item] and ties[order[j - 1]] > ties[item]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@njit(cache=True, nogil=True)
def sort_query(values, order, spare):
    # order (n,)  out: positions by falling value, equal ones in input order
    if values.size <= COUNTING:
        _rank_by_counting(values, order)
    else:
        _merge_sort(values, order, spare)


@njit(cache=True, nogil=True)
def sort_queries(offsets, values, ties, start, stop, order):
    # values (n_rows,)  sorted by falling value, equal ones in input order …
    # ties   (n_rows,)  … or, unless this is empty, by rising tie value
    # order  (n_rows,)  out: positions within the query
    spare = np.empty(longest_query(offsets, start, stop), np.int32)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        sort_query(values[first:last], order[first:last], spare)
        if ties.size > 0:
            _break_ties(values[first:last], ties[first:last], order[first:last])


@njit(cache=True, nogil=True, error_model="numpy")
def sum_largest(offsets, values, factors, start, stop, out):
    # out (n_queries,)  Σ_j factors[j] · (the j-th largest value of the query), without sorting the rest
    k = factors.size
    largest = np.empty(k)
    for q in range(start, stop):
        filled = 0
        for row in range(offsets[q], offsets[q + 1]):
            value = values[row]
            if filled == k and value <= largest[k - 1]:
                continue
            at = min(filled, k - 1)
            while at > 0 and largest[at - 1] < value:
                largest[at] = largest[at - 1]
                at -= 1
            largest[at] = value
            filled = min(filled + 1, k)
        total = 0.0
        for j in range(filled):
            total += factors[j] * largest[j]
        out[q] = total


@njit(cache=True, nogil=True, error_model="numpy")
def hash_queries(offsets, keys, first, second):
    # first, second (n_rows,)       columns of numbers; an empty one is left out
    # sums          (n_queries, 2)  over its rows, of hashes of (key, first, second): the order of rows is no matter
    sums = np.zeros((keys.size, 2), np.uint64)
    bits = np.empty(1, np.float64)
    word = bits.view(np.uint64)
    for q in range(keys.size):
        for row in range(offsets[q], offsets[q + 1]):
            name = mix(keys[q] + GOLDEN)
            if first.size > 0:
                bits[0] = first[row] + 0.0  # −0 and 0 are the same number
                name = mix(name ^ word[0]) + GOLDEN
            if second.size > 0:
                bits[0] = second[row] + 0.0
                name = mix(name ^ word[0]) + GOLDEN
            sums[q, 0] += mix(name)
            sums[q, 1] += mix(name ^ GOLDEN)
    return sums


@njit(cache=True, nogil=True)
def reorder_rows(matrix, rows):
    # matrix (n_rows, n_columns)  in and out: row r becomes what was row rows[r]
    # rows   (n_rows,)            a permutation; used up as a scratch (every entry ends as its own place)
    spare = np.empty(matrix.shape[1], matrix.dtype)
    for start in range(rows.size):
        if rows[start] == start:
            continue
        spare[:] = matrix[start]
        here = start
        while rows[here] != start:
            there = rows[here]
            matrix[here] = matrix[there]
            rows[here] = here
            here = there
        matrix[here] = spare
        rows[here] = here
