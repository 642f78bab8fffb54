"""Compiled loops over the lines of LETOR text. Bytes in, arrays out: no checks of arguments, no Python objects.

`isrr.data.letor` prepares the arguments. Every text ends in a line end, so a loop that stops at one needs no
other bound. A bad line is answered with a code and the byte at which it went wrong, which `isrr.data.letor` puts in
words.
"""

from isrr.compiled import njit
from isrr.data._text_kernels import COLON, HASH, LINE_END, OK, ZERO, after_blanks, ends_token, number

LABEL, NEGATIVE_LABEL, NO_QID, EMPTY_QID, SPARE_QID = range(3, 8)  # 0 to 2 are OK, VALUE and HUGE
PAIR, FIRST_INDEX, ORDER, LIMIT, UNMEASURED = range(8, 13)
NOT_TEXT = 13  # found when ids are decoded, not by a loop here


@njit(cache=True, nogil=True)
def _row_stop(text, i):
    while text[i] != LINE_END and text[i] != HASH:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _next_line(text, i):
    while text[i] != LINE_END:
        i += 1
    return i + 1


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
    return index if i > start and ends_token(text[i]) else -1


@njit(cache=True, nogil=True)
def measure(text):
    """How many rows the text holds, and the largest feature index that ends one of them, −1 without any."""
    rows, largest, i = 0, -1, 0
    while i < text.size:
        start = after_blanks(text, i)
        i = _row_stop(text, start)
        if i > start:
            rows += 1
            largest = max(largest, _last_index(text, start, i))
        i = _next_line(text, i)
    return rows, largest


@njit(cache=True, nogil=True)
def _same_bytes(text, a, b, length):
    for j in range(length):
        if text[a + j] != text[b + j]:
            return False
    return True


@njit(cache=True, nogil=True)
def _is_qid(text, i):
    # Each comparison is reached only when the byte before was no line end.
    return text[i] == 113 and text[i + 1] == 105 and text[i + 2] == 100 and text[i + 3] == COLON


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
        i = after_blanks(text, i)
        if text[i] != LINE_END and text[i] != HASH:
            label_at = i
            label, i, code = number(text, i)
            if code != OK:
                return n_runs, LABEL, label_at, 0
            if label < 0:
                return n_runs, NEGATIVE_LABEL, label_at, 0
            relevance[row] = label
            i = after_blanks(text, i)
            if _is_qid(text, i):
                if not with_qid:
                    return n_runs, SPARE_QID, i, 0
                i += 4
                start = i
                while not ends_token(text[i]):
                    i += 1
                if i == start:
                    return n_runs, EMPTY_QID, i, 0
                same = i - start == id_stop - id_start and _same_bytes(text, start, id_start, i - start)
                if not same:
                    runs[n_runs, 0], runs[n_runs, 1], runs[n_runs, 2] = row, start, i
                    n_runs += 1
                    id_start, id_stop = start, i
                i = after_blanks(text, i)
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
                value, i, code = number(text, value_at)
                if code != OK:
                    return n_runs, code, value_at, index
                if index - first_index < n_columns:
                    features[row, index - first_index] = value
                previous = index
                i = after_blanks(text, i)
            if previous - first_index >= n_columns:
                return n_runs, UNMEASURED, i, previous
            row += 1
        i = _next_line(text, i)
    return n_runs, OK, 0, 0
