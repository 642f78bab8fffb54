"""Compiled passes over ragged columns: sorting each query's rows by falling value, moving them, naming their content,
finding those that repeat one.

Short lists are ranked by counting, for every item, the items that precede it: n² comparisons without a branch beat
n·log n comparisons with one up to a few hundred items. Longer lists are sorted by merging.
"""

import numpy as np

from isrr.compiled import njit
from isrr.noise import GOLDEN, mix

COUNTING = 400  # lists up to this length are ranked by counting
RUN = 12  # merging starts from runs of this length, sorted by insertion
TIED = 32  # ties of up to as many items are broken by insertion


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
def sort_query(values, order, spare):
    # order (n,)  out: positions by falling value, equal ones in input order
    if values.size <= COUNTING:
        _rank_by_counting(values, order)
    else:
        _merge_sort(values, order, spare)


@njit(cache=True, nogil=True)
def sort_queries(offsets, values, start, stop, order):
    # values (n_rows,)
    # order  (n_rows,)  out: positions within the query by falling value, equal ones in input order
    spare = np.empty(longest_query(offsets, start, stop), np.int32)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        sort_query(values[first:last], order[first:last], spare)


@njit(cache=True, nogil=True)
def mark_tied(offsets, values, order, start, stop, tied):
    # values (n_rows,)
    # order  (n_rows,)  as `sort_queries` leaves it
    # tied   (n_rows,)  out: whether another row of the query has the same value
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        tied[first:last] = False
        for i in range(first + 1, last):
            above, here = first + order[i - 1], first + order[i]
            if values[above] == values[here]:
                tied[above] = tied[here] = True


@njit(cache=True, nogil=True)
def _sort_tied(ties, run, spare):
    # run (n_tied,)  in and out: positions, sorted by rising tie value
    if run.size <= TIED:
        for i in range(1, run.size):
            item, j = run[i], i
            while j > 0 and ties[run[j - 1]] > ties[item]:
                run[j] = run[j - 1]
                j -= 1
            run[j] = item
        return
    falling, places, before = np.empty(run.size, np.int64), np.empty(run.size, np.int32), run.copy()
    for i in range(run.size):
        falling[i] = -ties[run[i]]
    sort_query(falling, places, spare)
    for i in range(run.size):
        run[i] = before[places[i]]


@njit(cache=True, nogil=True)
def break_ties(offsets, values, ties, start, stop, order):
    # values (n_rows,)
    # ties   (n_rows,)  ≥ 0, read where values are equal
    # order  (n_rows,)  in and out: positions within the query by falling value, now equal ones by rising tie value
    spare = np.empty(longest_query(offsets, start, stop), np.int32)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        head = first
        for i in range(first + 1, last + 1):
            if i == last or values[first + order[i]] != values[first + order[head]]:
                if i - head > 1:
                    _sort_tied(ties[first:last], order[head:i], spare)
                head = i


@njit(cache=True, nogil=True)
def mark_repeats(offsets, codes, start, stop, repeats):
    # codes   (n_rows,)
    # repeats (n_queries,)  out: whether two rows of the query have the same code
    size = 2
    while size < 2 * longest_query(offsets, start, stop):
        size *= 2
    owner, held = np.full(size, -1, np.int64), np.empty(size, np.int64)  # a slot is free unless this query owns it
    for q in range(start, stop):
        repeats[q] = False
        size = 2
        while size < 2 * (offsets[q + 1] - offsets[q]):
            size *= 2
        for row in range(offsets[q], offsets[q + 1]):
            slot = np.int64(mix(np.uint64(codes[row])) & np.uint64(size - 1))
            while owner[slot] == q and held[slot] != codes[row]:
                slot = (slot + 1) & (size - 1)
            if owner[slot] == q:
                repeats[q] = True
                break
            owner[slot], held[slot] = q, codes[row]


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
