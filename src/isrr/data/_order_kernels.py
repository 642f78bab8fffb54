"""Compiled passes over ragged columns: each query's rows by falling score, the largest values of lists, hashes of text.

Equal scores are ordered by a hash. It depends on the query's id, on all of its scores (in any order) and on the item's
id, or its position in the list where items have no ids: on nothing that knows how relevant the item is. Were ties left
in the order of the rows, a table sorted by relevance would make the order by score look better than it is.
"""

import numpy as np

from isrr.compiled import kernel
from isrr.noise import GOLDEN, mix, stream, uniform

RUN = 128  # values that are sorted by counting


@kernel
def longest_query(offsets, start, stop):
    longest = 0
    for q in range(start, stop):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def sort_falling(values, order):
    # values (n,)  finite
    # order (n,)   out: positions by falling value, equal ones in input order
    # Returns whether two values are equal.
    # Runs of values are sorted by counting those that come before, then merged in pairs: numba's `argsort` takes five
    # times as long to compile.
    n, width = values.size, RUN
    for first in range(0, n, RUN):
        run = values[first : first + RUN]
        uncounted = run.size * (run.size - 1) // 2
        for i in range(run.size):
            value, larger = run[i], 0
            for j in range(run.size):
                larger += run[j] > value
            order[first + larger], uncounted = i + first, uncounted - larger
        if uncounted > 0:  # some are equal
            for i in range(run.size):
                value, larger, equal = run[i], 0, 0
                for j in range(run.size):
                    larger += run[j] > value
                for j in range(i):
                    equal += run[j] == value
                order[first + larger + equal] = i + first
    left = np.empty(n if n > RUN else 0, np.int64)
    while width < n:
        for first in range(0, n - width, 2 * width):
            middle, last = first + width, min(first + 2 * width, n)
            for i in range(width):
                left[i] = order[first + i]
            i, j = 0, middle
            for at in range(first, last):
                if i < width and (j == last or values[left[i]] >= values[order[j]]):
                    order[at], i = left[i], i + 1
                else:
                    order[at], j = order[j], j + 1
        width *= 2
    tied = False
    for i in range(1, n):
        tied |= values[order[i]] == values[order[i - 1]]
    return tied


@kernel
def sort_query(scores, query, items, order):
    # scores (n,)
    # query             64 bits that name the query, 0 where it has no id
    # items  (n,) or () 64 bits that name each item; empty where items have no ids
    # order  (n,)       out: positions by falling score, equal ones by a hash
    # Returns whether two scores are equal.
    if not sort_falling(scores, order):
        return False
    content = np.uint64(0)
    for score in scores:
        content += mix(np.float64(score + 0.0).view(np.uint64) + GOLDEN)  # −0 and 0 are the same number
    lots, head = np.empty(scores.size), 0
    name, tied, by_lot = stream(query, content, 0), np.empty_like(order), np.empty_like(order)
    for i in range(1, scores.size + 1):
        if i < scores.size and scores[order[i]] == scores[order[head]]:
            continue
        n = i - head
        if n > 1:
            for j in range(n):
                tied[j] = order[head + j]
                lots[j] = uniform(name, items[tied[j]] if items.size else np.uint64(tied[j]))
            sort_falling(lots[:n], by_lot)
            for j in range(n):
                order[head + j] = tied[by_lot[j]]
        head = i
    return True


@kernel
def sort_queries(offsets, scores, queries, items, start, stop, order, tied):
    # queries (n_queries,), items (n_rows,) or ()  names, as for `sort_query`
    # order   (n_rows,)     out: positions within the query by falling score, equal ones by a hash
    # tied    (n_queries,)  in: which queries to sort; out: in which of them two scores are equal
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        if tied[q]:
            tied[q] = sort_query(scores[first:last], queries[q], items[first:last], order[first:last])


@kernel
def slot_of(name, names, slots, size):
    # Returns the slot with a row of this name, or the free one for it; size is a power of two.
    at = np.int64(mix(name) >> np.uint64(1)) & (size - 1)
    while slots[at] >= 0 and names[slots[at]] != name:
        at = (at + 1) & (size - 1)
    return at


@kernel
def first_equal(offsets, names, starts, others, start, stop, rows, repeats):
    # names   (n_rows,)     64 bits each, those of query q at offsets[q] : offsets[q + 1]
    # others  (n_others,)   64 bits each, those of query q at starts[q] : starts[q + 1]
    # rows    (n_others,)   out: the first row of the query with the same name, −1 for none
    # repeats (n_queries,)  out: whether two rows of the query have the same name
    size = 2
    while size < 2 * longest_query(offsets, start, stop):
        size *= 2
    slots = np.empty(size, np.int64)  # a hash table with open addressing; −1 is free
    for q in range(start, stop):
        size = 2
        while size < 2 * (offsets[q + 1] - offsets[q]):
            size *= 2
        slots[:size], repeats[q] = -1, False
        for row in range(offsets[q], offsets[q + 1]):
            at = slot_of(names[row], names, slots, size)
            repeats[q] |= slots[at] >= 0
            if slots[at] < 0:
                slots[at] = row
        for other in range(starts[q], starts[q + 1]):
            rows[other] = slots[slot_of(others[other], names, slots, size)]


@kernel
def sum_largest(offsets, values, sign, factors, start, stop, out):
    # sign              1, or −1 for the smallest values
    # out (n_queries,)  Σ_j factors[j] · (the j-th largest value of the query), without sorting the rest
    k = factors.size
    largest = np.empty(k)
    for q in range(start, stop):
        filled = 0
        for row in range(offsets[q], offsets[q + 1]):
            value = sign * values[row]
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
        out[q] = sign * total


@kernel
def hash_texts(letters, offsets, hashes):
    # letters (n_bytes,), offsets (n_texts + 1,)  texts end to end
    # hashes  (n_texts,)                          out: FNV-1a of each
    for text in range(hashes.size):
        name = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[text], offsets[text + 1]):
            name = (name ^ np.uint64(letters[at])) * np.uint64(0x100000001B3)
        hashes[text] = name
