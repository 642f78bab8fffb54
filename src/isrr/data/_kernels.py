"""Compiled loops of the LETOR reader. Bytes in, arrays out: no checks of arguments, no Python objects.

`isrr.data.letor` prepares the arguments. Every text ends in a line end, so a loop that stops at one needs no
other bound. A bad line is answered with one of the codes below and the byte at which it went wrong.
"""

import numpy as np

from isrr.compiled import njit

OK, LABEL, NEGATIVE_LABEL, NO_QID, EMPTY_QID, SPARE_QID = range(6)
PAIR, FIRST_INDEX, ORDER, LIMIT, VALUE, HUGE, UNMEASURED = range(6, 13)
NOT_TEXT = 13  # found when ids are decoded, not by a loop here

TAB, LINE_END, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO, COLON = 9, 10, 13, 32, 35, 43, 45, 46, 48, 58
UPPER_E, LOWER_E, EQUALS = 69, 101, 61
INFINITE = 3.4028235677973366e38  # the smallest double that rounds to an infinite float32
POWERS = np.array([float(f"1e{power}") for power in range(309)])
DIGITS = 18  # as many always fit an int64


@njit(cache=True, nogil=True)
def line_start(text, stop):
    """Where the line begins that byte `stop` belongs to."""
    while stop > 0 and text[stop - 1] != LINE_END:
        stop -= 1
    return stop


@njit(cache=True, nogil=True)
def _ends_token(c):
    return c == SPACE or c == LINE_END or c == HASH or c == TAB or c == RETURN


@njit(cache=True, nogil=True)
def _after_blanks(text, i):
    while text[i] == SPACE or text[i] == TAB or text[i] == RETURN:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _last_index(text, start, stop):
    """The feature index before the last colon of a line, −1 where there is none."""
    i = stop - 1
    while i > start and text[i] != COLON:
        i -= 1
    i -= 1
    index, power = 0, 1
    while i > start and ZERO <= text[i] <= ZERO + 9:
        if power < 10**12:  # digits further left are zeros, or the line is bad
            index += power * (text[i] - ZERO)
            power *= 10
        i -= 1
    return index if i > start and _ends_token(text[i]) else -1


@njit(cache=True, nogil=True)
def measure(text):
    """How many rows the text holds, and the largest feature index that ends one of them, −1 without any."""
    rows, largest, i = 0, -1, 0
    while i < text.size:
        i = _after_blanks(text, i)
        start = i
        while text[i] != LINE_END and text[i] != HASH:
            i += 1
        if i > start:
            rows += 1
            largest = max(largest, _last_index(text, start, i))
        while text[i] != LINE_END:
            i += 1
        i += 1
    return rows, largest


@njit(cache=True, nogil=True)
def _exponent(text, i):
    """A signed whole number, where it ends, and whether there was one."""
    negative = text[i] == MINUS
    if text[i] == MINUS or text[i] == PLUS:
        i += 1
    start, value = i, 0
    while ZERO <= text[i] <= ZERO + 9:
        if value < 10**15:
            value = value * 10 + (text[i] - ZERO)
        i += 1
    return -value if negative else value, i, i > start


@njit(cache=True, nogil=True)
def _scaled(mantissa, power):
    """mantissa · 10^power, without leaving the range of doubles on the way."""
    if mantissa == 0 or power < -400:
        return 0.0
    if power > 308:
        return np.inf
    if power >= 0:
        return mantissa * POWERS[power]
    if power >= -308:
        return mantissa / POWERS[-power]
    return mantissa / POWERS[308] / POWERS[-power - 308]


@njit(cache=True, nogil=True)
def _long_number(text, i, power):
    """An unsigned decimal of any length, by its first 18 significant digits, times 10^power."""
    mantissa, digits, seen_point = 0, 0, False
    while True:
        c = text[i]
        if c == POINT:
            seen_point = True
        elif ZERO <= c <= ZERO + 9:
            if digits < DIGITS:
                mantissa = mantissa * 10 + (c - ZERO)
                digits += mantissa > 0
                power -= seen_point
            else:
                power += not seen_point
        else:
            return _scaled(mantissa, power)
        i += 1


@njit(cache=True, nogil=True)
def _number(text, i):
    """A decimal number, where it ends, and OK, VALUE (not a number) or HUGE (beyond float32)."""
    negative = text[i] == MINUS
    if negative or text[i] == PLUS:
        i += 1
    start, mantissa, fraction = i, 0, 0
    digit = text[i] - ZERO
    while 0 <= digit <= 9:
        mantissa = mantissa * 10 + digit
        i += 1
        digit = text[i] - ZERO
    digits = i - start
    if text[i] == POINT:
        i += 1
        after = i
        digit = text[i] - ZERO
        while 0 <= digit <= 9:
            mantissa = mantissa * 10 + digit
            i += 1
            digit = text[i] - ZERO
        fraction = i - after
        digits += fraction
    if digits == 0:
        return 0.0, i, VALUE
    power = 0
    if text[i] == LOWER_E or text[i] == UPPER_E:
        power, i, found = _exponent(text, i + 1)
        if not found:
            return 0.0, i, VALUE
    if not _ends_token(text[i]):
        return 0.0, i, VALUE
    if digits > DIGITS:
        value = _long_number(text, start, power)
    elif power == 0:
        value = mantissa / POWERS[fraction]
    else:
        value = _scaled(mantissa, power - fraction)
    return -value if negative else value, i, HUGE if value >= INFINITE else OK


@njit(cache=True, nogil=True)
def _same_bytes(text, a, b, length):
    for j in range(length):
        if text[a + j] != text[b + j]:
            return False
    return True


# In these two, each comparison is reached only when the byte before was no line end.
@njit(cache=True, nogil=True)
def _is_qid(text, i):
    return text[i] == 113 and text[i + 1] == 105 and text[i + 2] == 100 and text[i + 3] == COLON


@njit(cache=True, nogil=True)
def _is_docid(text, i):
    return text[i] == 100 and text[i + 1] == 111 and text[i + 2] == 99 and text[i + 3] == 105 and text[i + 4] == 100


@njit(cache=True, nogil=True)
def parse(text, first_index, limit, with_qid, relevance, features, runs):
    # text        (n_bytes,)           whole lines
    # first_index                      the index of the first feature column, 0 or 1
    # limit                            the largest index allowed
    # with_qid                         whether lines name their query
    # relevance   (n_rows,)            out: the labels
    # features    (n_rows, n_columns)  out: zeros when called; a line with a larger index goes wrong later
    # runs        (n_rows, 3)          out: first row of each run of one query, start and stop of its id
    # returns     number of runs; code, byte and previous index of the first bad line
    n_columns = features.shape[1]
    row, n_runs, i = 0, 0, 0
    id_start, id_stop = 0, 0
    while i < text.size:
        i = _after_blanks(text, i)
        if text[i] != LINE_END and text[i] != HASH:
            label_at = i
            label, i, code = _number(text, i)
            if code != OK:
                return n_runs, LABEL, label_at, 0
            if label < 0:
                return n_runs, NEGATIVE_LABEL, label_at, 0
            relevance[row] = label
            i = _after_blanks(text, i)
            if _is_qid(text, i):
                if not with_qid:
                    return n_runs, SPARE_QID, i, 0
                i += 4
                start = i
                while not _ends_token(text[i]):
                    i += 1
                if i == start:
                    return n_runs, EMPTY_QID, i, 0
                same = i - start == id_stop - id_start and _same_bytes(text, start, id_start, i - start)
                if not same:
                    runs[n_runs, 0], runs[n_runs, 1], runs[n_runs, 2] = row, start, i
                    n_runs += 1
                    id_start, id_stop = start, i
                i = _after_blanks(text, i)
            elif with_qid:
                return n_runs, NO_QID, i, 0
            previous = first_index - 1
            while text[i] != LINE_END and text[i] != HASH:
                index_at, index = i, 0
                digit = text[i] - ZERO
                while 0 <= digit <= 9:
                    index = index * 10 + digit
                    if index > limit:
                        return n_runs, LIMIT, index_at, limit
                    i += 1
                    digit = text[i] - ZERO
                if i == index_at or text[i] != COLON:
                    return n_runs, PAIR, index_at, 0
                if index <= previous:
                    return n_runs, FIRST_INDEX if index < first_index else ORDER, index_at, previous
                value_at = i + 1
                value, i, code = _number(text, value_at)
                if code != OK:
                    return n_runs, code, value_at, index
                if index - first_index < n_columns:
                    features[row, index - first_index] = value
                previous = index
                i = _after_blanks(text, i)
            if previous - first_index >= n_columns:
                return n_runs, UNMEASURED, i, previous
            row += 1
        while text[i] != LINE_END:
            i += 1
        i += 1
    return n_runs, OK, 0, 0


@njit(cache=True, nogil=True)
def _word_stop(text, i):
    while text[i] != SPACE and text[i] != TAB and text[i] != RETURN and text[i] != LINE_END:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _comment_id(text, i):
    """Start and stop of the id in the comment that begins at i: the word after `docid =`, or the only word."""
    start = _after_blanks(text, i)
    stop = _word_stop(text, start)
    if _is_docid(text, start):
        sign = _after_blanks(text, start + 5)
        if text[sign] == EQUALS or text[sign] == COLON:
            start = _after_blanks(text, sign + 1)
            return start, _word_stop(text, start)
    return (start, stop) if text[_after_blanks(text, stop)] == LINE_END else (0, 0)


@njit(cache=True, nogil=True)
def find_comment_ids(text, spans):
    # text   (n_bytes,)   whole lines
    # spans  (n_rows, 2)  out: start and stop of the id in each row's comment, equal where there is none
    row, i = 0, 0
    while i < text.size:
        i = _after_blanks(text, i)
        start = i
        while text[i] != LINE_END and text[i] != HASH:
            i += 1
        if i > start:
            spans[row] = _comment_id(text, i + 1) if text[i] == HASH else (0, 0)
            row += 1
        while text[i] != LINE_END:
            i += 1
        i += 1


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
