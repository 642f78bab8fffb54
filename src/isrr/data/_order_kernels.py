"""Compiled passes over ragged columns: sorting each query's rows by falling score, moving them, naming their content,
finding those that repeat one or that another table has too.

Lists of up to a few hundred items are ranked by counting, for every item, the items that precede it: n² comparisons
without a branch, eight side by side, beat n·log n comparisons with one.

Equal scores are ordered by a hash. It depends on the query's id, on all of its scores (in any order) and on the item's
id, or its place in the list where items have no ids: on nothing that knows how relevant the item is. Were ties left in
the order of the rows, a table sorted by relevance would make the order by score look better than it is.
"""

import numpy as np

from isrr.compiled import kernel, njit, part
from isrr.lanes import WIDTH, any_above, chosen, lane, load, splat, spread
from isrr.noise import GOLDEN, mix, stream, uniform

COUNTING = 400  # lists up to this length are ranked by counting


@kernel
def longest_query(offsets, start, stop):
    longest = 0
    for q in range(start, stop):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def _sort_by_gaps(values, order):
    # As `sort_falling`, by Shell's method: numba compiles its own sorts for seconds.
    n = values.size
    for i in range(n):
        order[i] = i
    gap = n
    while gap > 1:
        gap = 1 if gap < 5 else gap * 5 // 11
        for i in range(gap, n):
            item, at = order[i], i
            value = values[item]
            while at >= gap:
                other = order[at - gap]
                if values[other] > value or (values[other] == value and other < item):
                    break
                order[at] = other
                at -= gap
            order[at] = item
    tied = False
    for i in range(1, n):
        tied |= values[order[i]] == values[order[i - 1]]
    return tied


@part
def _higher(values, own):
    # How many values are higher than each of eight.
    one, zero = splat(1.0), splat(0.0)
    a, b, c, d = zero, zero, zero, zero
    fours = values.size // 4 * 4
    for j in range(0, fours, 4):
        a, b = chosen(spread(values, j), own, a + one, a), chosen(spread(values, j + 1), own, b + one, b)
        c, d = chosen(spread(values, j + 2), own, c + one, c), chosen(spread(values, j + 3), own, d + one, d)
    for j in range(fours, values.size):
        a = chosen(spread(values, j), own, a + one, a)
    return (a + b) + (c + d)


@kernel
def sort_falling(values, order):
    # order (n,)  out: positions by falling value, equal ones in input order
    # Returns whether two values are equal.
    n, above = values.size, 0
    if n < WIDTH or n > COUNTING:
        return _sort_by_gaps(values, order)
    for i in range(n):
        order[i] = -1
    for i in range(0, n, WIDTH):
        begin = i if i + WIDTH <= n else n - WIDTH
        higher = _higher(values, load(values, begin))
        for item in range(i, begin + WIDTH):
            place = int(lane(higher, item - begin))
            above += place
            while order[place] >= 0:  # taken by an equal value that came before
                place += 1
            order[place] = item
    return above < n * (n - 1) // 2  # unequal values lie one above the other in every pair


@part
def _bits(number):
    return np.float64(number + 0.0).view(np.uint64)  # −0 and 0 are the same number


@part
def _lots_of(scores, query):
    # The name of the lots that are drawn between equal scores of a query.
    content = np.uint64(0)
    for score in scores:
        content += mix(_bits(score) + GOLDEN)
    return stream(query, content, 0)


@part
def _lot(lots, items, item):
    return uniform(lots, items[item] if items.size else np.uint64(item))


@kernel
def _sort_run(lots, items, run):
    # run  in: items with equal scores, in input order; out: by falling lot, by Shell's method
    gap = run.size
    while gap > 1:
        gap = 1 if gap < 5 else gap * 5 // 11
        for i in range(gap, run.size):
            item, at = run[i], i
            lot = _lot(lots, items, item)
            while at >= gap:
                other = run[at - gap]
                others = _lot(lots, items, other)
                if others > lot or (others == lot and other < item):
                    break
                run[at] = other
                at -= gap
            run[at] = item


@kernel
def sort_query(scores, query, items, order):
    # scores (n,)
    # query             64 bits that name the query, 0 where it has no id
    # items  (n,) or () 64 bits that name each item; empty where items have no ids
    # order  (n,)       out: positions by falling score, equal ones by a hash
    # Returns whether two scores are equal.
    if not sort_falling(scores, order):
        return False
    lots, head = _lots_of(scores, query), 0
    for i in range(1, scores.size + 1):
        if i < scores.size and scores[order[i]] == scores[order[head]]:
            continue
        if i - head > 1:
            _sort_run(lots, items, order[head:i])
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


@njit(cache=True, nogil=True)
def mark_repeats(offsets, names, start, stop, repeats):
    # names   (n_rows,)     64 bits each
    # repeats (n_queries,)  out: whether two rows of the query have the same name
    size = 2
    while size < 2 * longest_query(offsets, start, stop):
        size *= 2
    owner, held = np.full(size, -1, np.int64), np.empty(size, np.uint64)  # a slot is free unless this query owns it
    for q in range(start, stop):
        repeats[q] = False
        size = 2
        while size < 2 * (offsets[q + 1] - offsets[q]):
            size *= 2
        for row in range(offsets[q], offsets[q + 1]):
            slot = np.int64(mix(names[row]) & np.uint64(size - 1))
            while owner[slot] == q and held[slot] != names[row]:
                slot = (slot + 1) & (size - 1)
            if owner[slot] == q:
                repeats[q] = True
                break
            owner[slot], held[slot] = q, names[row]


@part
def _slot_of(query, name, begins, names, owners):
    # Where a name of a query stands in its part of a hash table, or the free slot where it belongs.
    first, last = begins[query], begins[query + 1]
    slot = first + np.int64(mix(name) % np.uint64(last - first))
    while owners[slot] >= 0 and names[owners[slot]] != name:
        slot = slot + 1 if slot + 1 < last else first
    return slot


@njit(cache=True, nogil=True)
def match_rows(queries, names, other_queries, other_names, begins, owners, found, first):
    # queries, names (n_rows,), other_queries, other_names (n_others,)  rows of two tables, a query and 64 bits each
    # begins (n_queries + 1,)  a hash table for each query's others, twice as large as they are many: what is looked up
    #                          for a query lies close together
    # owners (begins[-1],)     in: −1; which of the others a slot belongs to
    # found (n_rows,)          out: the first of the others that is equal to each row, −1 for none
    # first (n_others,)        out: the same for each of the others
    for row in range(other_queries.size):
        slot = _slot_of(other_queries[row], other_names[row], begins, other_names, owners)
        if owners[slot] < 0:
            owners[slot] = row
        first[row] = owners[slot]
    for row in range(queries.size):
        judged = begins[queries[row]] < begins[queries[row] + 1]
        found[row] = owners[_slot_of(queries[row], names[row], begins, other_names, owners)] if judged else -1


@njit(cache=True, nogil=True)
def count_into_place(codes, free):
    # codes (n_rows,)     which query each row belongs to
    # free  (n_queries,)  in: where each query's rows begin; used up
    # Returns the rows by query, those of a query in the order given: a counting sort.
    rows = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        code = codes[row]
        rows[free[code]] = row
        free[code] += 1
    return rows


@kernel
def sum_largest(offsets, values, sign, factors, largest, start, stop, out):
    # sign              1, or −1 for the smallest values
    # largest (k,)      scratch
    # out (n_queries,)  Σ_j factors[j] · (the j-th largest value of the query), without sorting the rest
    k = factors.size
    for q in range(start, stop):
        filled, row, last = 0, offsets[q], offsets[q + 1]
        while row < last:
            if filled == k and row + WIDTH <= last:  # most values are passed over, eight at a time
                if not any_above(load(values, row) * splat(sign), splat(largest[k - 1])):
                    row += WIDTH
                    continue
            value, row = sign * values[row], row + 1
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
def hash_queries(offsets, keys, first, second, sums):
    # first, second (n_rows,)       columns of numbers; an empty one is left out
    # sums          (n_queries, 2)  adds hashes of (key, first, second) over its rows: the order of rows is no matter
    for q in range(keys.size):
        for row in range(offsets[q], offsets[q + 1]):
            name = mix(keys[q] + GOLDEN)
            if first.size > 0:
                name = mix(name ^ _bits(first[row])) + GOLDEN
            if second.size > 0:
                name = mix(name ^ _bits(second[row])) + GOLDEN
            sums[q, 0] += mix(name)
            sums[q, 1] += mix(name ^ GOLDEN)


@kernel
def hash_texts(letters, offsets, hashes):
    # letters (n_bytes,), offsets (n_texts + 1,)  texts end to end
    # hashes  (n_texts,)                          out: FNV-1a of each
    for text in range(hashes.size):
        name = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[text], offsets[text + 1]):
            name = (name ^ np.uint64(letters[at])) * np.uint64(0x100000001B3)
        hashes[text] = name


@njit(cache=True, nogil=True)
def _copy(row, into):
    # `into[:] = row` would compile numba's wording of shapes that differ, for seconds
    for i in range(row.size):
        into[i] = row[i]


@njit(cache=True, nogil=True)
def reorder_rows(matrix, rows):
    # matrix (n_rows, n_columns)  in and out: row r becomes what was row rows[r]
    # rows   (n_rows,)            a permutation; used up as a scratch (every entry ends as its own place)
    spare = np.empty(matrix.shape[1], matrix.dtype)
    for start in range(rows.size):
        if rows[start] == start:
            continue
        _copy(matrix[start], spare)
        here = start
        while rows[here] != start:
            there = rows[here]
            _copy(matrix[there], matrix[here])
            rows[here] = here
            here = there
        _copy(spare, matrix[here])
        rows[here] = here
