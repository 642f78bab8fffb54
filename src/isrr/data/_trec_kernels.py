"""Compiled loops over TREC text, and the join of a run with its judgments. Arrays in, arrays out: no Python objects.

`isrr.data.trec` and `isrr.data.runs` prepare the arguments. Every text ends in a line end, so a loop that stops at one
needs no other bound. A bad line is answered with a code and the byte at which it went wrong.
"""

import numpy as np

from isrr.compiled import njit
from isrr.data._text_kernels import (
    LINE_END,
    LOWER_E,
    MINUS,
    PLUS,
    POINT,
    POWERS,
    UPPER_E,
    ZERO,
    after_blanks,
    word_stop,
)
from isrr.noise import GOLDEN, mix

OK, FIELDS, VALUE = range(3)
EXACT, LONG, NONE = range(3)  # what `_decimal` says: read exactly, too long to be, no number
EXACT_DIGITS, EXACT_POWER = 15, 22  # integers of so many digits, and powers of ten up to this, are exact as floats
ITEM = 2  # the field with the item, in runs and qrels alike


@njit(cache=True, nogil=True)
def _digits(text, i, mantissa, significant):
    while ZERO <= text[i] <= ZERO + 9:
        if significant > 0 or text[i] != ZERO:
            significant += 1
        if significant <= EXACT_DIGITS:
            mantissa = mantissa * 10 + (text[i] - ZERO)
        i += 1
    return i, mantissa, significant


@njit(cache=True, nogil=True)
def _decimal(text, i, stop):
    """The number that fills text[i:stop], and EXACT, LONG or NONE."""
    negative = text[i] == MINUS
    if negative or text[i] == PLUS:
        i += 1
    start = i
    i, mantissa, significant = _digits(text, i, 0, 0)
    digits, fraction = i - start, 0
    if text[i] == POINT:
        after = i + 1
        i, mantissa, significant = _digits(text, after, mantissa, significant)
        fraction = i - after
        digits += fraction
    if digits == 0:
        return 0.0, NONE
    power = 0
    if text[i] == LOWER_E or text[i] == UPPER_E:
        i += 1
        down = text[i] == MINUS
        if down or text[i] == PLUS:
            i += 1
        start = i
        while ZERO <= text[i] <= ZERO + 9:
            power = min(power * 10 + (text[i] - ZERO), 100_000)
            i += 1
        if i == start:
            return 0.0, NONE
        power = -power if down else power
    if i != stop:
        return 0.0, NONE
    power -= fraction
    if significant > EXACT_DIGITS or abs(power) > EXACT_POWER:
        return 0.0, LONG
    value = mantissa * POWERS[power] if power >= 0 else mantissa / POWERS[-power]
    return -value if negative else value, EXACT


@njit(cache=True, nogil=True)
def _same_bytes(text, a, b, length):
    for j in range(length):
        if text[a + j] != text[b + j]:
            return False
    return True


@njit(cache=True, nogil=True)
def count_rows(text):
    """How many lines are not blank."""
    rows, i = 0, 0
    while i < text.size:
        i = after_blanks(text, i)
        rows += text[i] != LINE_END
        while text[i] != LINE_END:
            i += 1
        i += 1
    return rows


@njit(cache=True, nogil=True)
def parse_lines(text, n_fields, value_field, items, values, runs, long):
    # text        (n_bytes,)     whole lines of fields with blanks between them
    # n_fields                   how many fields a line has
    # value_field                which of them holds the number, counted from 0
    # items       (n_rows, 2)    out: start and stop of the item
    # values      (n_rows,)      out: the number
    # runs        (n_rows, 3)    out: first row of each run of one query, start and stop of its id
    # long        (n_rows, 3)    out: row, start and stop of each number that has to be read with more care
    # returns     how many runs and long numbers there are; code, byte and fields of the first bad line
    row, n_runs, n_long, i = 0, 0, 0, 0
    id_start, id_stop = 0, 0
    while i < text.size:
        i = after_blanks(text, i)
        if text[i] == LINE_END:
            i += 1
            continue
        line, field = i, 0
        while text[i] != LINE_END:
            start = i
            i = word_stop(text, i)
            if field == 0:
                if i - start != id_stop - id_start or not _same_bytes(text, start, id_start, i - start):
                    runs[n_runs, 0], runs[n_runs, 1], runs[n_runs, 2] = row, start, i
                    n_runs += 1
                    id_start, id_stop = start, i
            elif field == ITEM:
                items[row, 0], items[row, 1] = start, i
            elif field == value_field:
                value_start, value_stop = start, i
            field += 1
            i = after_blanks(text, i)
        if field != n_fields:
            return n_runs, n_long, FIELDS, line, field
        value, how = _decimal(text, value_start, value_stop)
        if how == NONE:
            return n_runs, n_long, VALUE, value_start, field
        values[row] = value
        if how == LONG:
            first = value_start + 1 if text[value_start] == PLUS else value_start
            long[n_long, 0], long[n_long, 1], long[n_long, 2] = row, first, value_stop
            n_long += 1
        row += 1
        i += 1
    return n_runs, n_long, OK, 0, 0


@njit(cache=True, nogil=True)
def gather(text, spans, offsets, names):
    # spans   (n, 2)      start and stop of words
    # offsets (n + 1,)    where each word begins and ends among the names
    # names   (n_bytes,)  out: the words, one behind the other
    # returns a byte with the highest bit set where a word is not ASCII; whether a word holds a NUL
    seen, nul = np.uint8(0), False
    for row in range(spans.shape[0]):
        start, to = spans[row, 0], offsets[row]
        for j in range(spans[row, 1] - start):
            byte = text[start + j]
            names[to + j] = byte
            seen |= byte
            nul |= byte == 0
    return seen, nul


@njit(cache=True, nogil=True)
def hash_words(text, offsets, hashes):
    # text    (n_bytes,)
    # offsets (n + 1,)  where each word begins and ends
    # hashes  (n,)      out: a hash of each word's bytes
    for word in range(hashes.size):
        state = np.uint64(offsets[word + 1] - offsets[word])
        for i in range(offsets[word], offsets[word + 1]):
            state = (state ^ np.uint64(text[i])) * GOLDEN
        hashes[word] = np.int64(mix(state))


@njit(cache=True, nogil=True)
def whole_numbers(text, offsets, numbers):
    # text    (n_bytes,)
    # offsets (n + 1,)  where each word begins and ends
    # numbers (n,)      out: the integer that each word writes
    # returns whether every word is an integer of up to 18 digits, written as one would write it
    for word in range(numbers.size):
        i, stop = offsets[word], offsets[word + 1]
        negative = i < stop and text[i] == MINUS
        i += negative
        digits, number = stop - i, 0
        if digits < 1 or digits > 18 or (text[i] == ZERO and (digits > 1 or negative)):
            return False
        while i < stop:
            if text[i] < ZERO or text[i] > ZERO + 9:
                return False
            number = number * 10 + (text[i] - ZERO)
            i += 1
        numbers[word] = -number if negative else number
    return True


@njit(cache=True, nogil=True)
def _size_for(n):
    size = 2
    while size < 2 * n:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def find_judgments(offsets, items, judged_offsets, judged_items, start, stop, found, first):
    # offsets        (n_queries + 1,)  rows of each query of the run
    # items          (n_rows,)         a number for the item of each row
    # judged_offsets (n_queries + 1,)  judgments of each query
    # judged_items   (n_judgments,)    the same number for the item of each judgment
    # found          (n_rows,)         out: the judgment of each row, −1 for none
    # first          (n_judgments,)    out: the first judgment of the query on the same item
    most = 0
    for q in range(start, stop):
        most = max(most, judged_offsets[q + 1] - judged_offsets[q])
    held = np.empty(_size_for(most), np.int64)
    for q in range(start, stop):
        size = _size_for(judged_offsets[q + 1] - judged_offsets[q])
        mask = np.uint64(size - 1)
        held[:size] = -1
        for judgment in range(judged_offsets[q], judged_offsets[q + 1]):
            slot = mix(np.uint64(judged_items[judgment])) & mask
            while held[slot] >= 0 and judged_items[held[slot]] != judged_items[judgment]:
                slot = (slot + np.uint64(1)) & mask
            if held[slot] < 0:
                held[slot] = judgment
            first[judgment] = held[slot]
        for row in range(offsets[q], offsets[q + 1]):
            slot = mix(np.uint64(items[row])) & mask
            while held[slot] >= 0 and judged_items[held[slot]] != items[row]:
                slot = (slot + np.uint64(1)) & mask
            found[row] = held[slot]
