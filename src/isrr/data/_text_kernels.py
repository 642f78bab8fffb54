"""Compiled reading of words and decimal numbers. Every text ends in a line end, at which all of these loops stop.

Of a number in LETOR text, up to 18 digits are read as one integer and divided by a power of ten; a longer one is read
again, by its first 18 significant digits.
"""

import numpy as np

from isrr.compiled import kernel, njit

OK, VALUE, HUGE = range(3)  # what `number` says: a number, none, one beyond float32

TAB, LINE_END, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO, COLON = 9, 10, 13, 32, 35, 43, 45, 46, 48, 58
UPPER_E, LOWER_E, LOWER_N = 69, 101, 110
QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 34, 92, 91, 93, 123, 125
INFINITE = 3.4028235677973366e38  # the smallest double that rounds to an infinite float32
POWERS = np.array([float(f"1e{power}") for power in range(309)])
DIGITS = 18  # as many always fit an int64
ITEM = 2  # the field of TREC text with the item, in runs and qrels alike


@njit(cache=True, nogil=True)
def line_start(text, stop):
    """Where the line begins that byte `stop` belongs to."""
    while stop > 0 and text[stop - 1] != LINE_END:
        stop -= 1
    return stop


@njit(cache=True, nogil=True)
def ends_token(c):
    return c == SPACE or c == LINE_END or c == HASH or c == TAB or c == RETURN


@njit(cache=True, nogil=True)
def after_blanks(text, i):
    while text[i] == SPACE or text[i] == TAB or text[i] == RETURN:
        i += 1
    return i


@njit(cache=True, nogil=True)
def word_stop(text, i):
    while text[i] != SPACE and text[i] != TAB and text[i] != RETURN and text[i] != LINE_END:
        i += 1
    return i


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
def number(text, i):
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
    if not ends_token(text[i]):
        return 0.0, i, VALUE
    if digits > DIGITS:
        value = _long_number(text, start, power)
    elif power == 0:
        value = mantissa / POWERS[fraction]
    else:
        value = _scaled(mantissa, power - fraction)
    return -value if negative else value, i, HUGE if value >= INFINITE else OK


@njit(cache=True, nogil=True)
def pick_fields(text, n_fields, value_field, picked):
    # text        (n_bytes,)  whole lines of fields with blanks between them
    # n_fields                how many fields a line has
    # value_field             which of them holds a number, counted from 0
    # picked      (n_bytes,)  out: first field, item and number of each line, tabs between them; no + before a number
    # returns     how many bytes were picked; −1 where a line has more or fewer fields, a NUL, or surely no number
    i, to = 0, 0
    while i < text.size:
        i, field = after_blanks(text, i), 0
        while text[i] != LINE_END:
            start, i = i, word_stop(text, i)
            if field == value_field:
                first = text[start + 1] if text[start] == PLUS or text[start] == MINUS else text[start]
                if first != POINT and not ZERO <= first <= ZERO + 9:
                    return -1
                start += text[start] == PLUS
            if field == 0 or field == ITEM or field == value_field:
                for at in range(start, i):
                    if text[at] == 0:
                        return -1
                    picked[to] = text[at]
                    to += 1
                picked[to] = LINE_END if field == value_field else TAB
                to += 1
            field += 1
            i = after_blanks(text, i)
        if field != 0 and field != n_fields:
            return -1
        i += 1
    return to


@kernel
def find_fatal(text, most, in_lines):
    """Where Arrow's JSON parser would end the process, −1 if nowhere: beyond a depth, or, in JSON lines, at a null.

    No string goes on over a line end. Depth is counted on over line ends, as in one block of Arrow's, and never falls
    below 0, as another block may begin at any line.
    """
    depth, first, inside, escaped = 0, in_lines, False, False
    for i in range(text.size):
        c = text[i]
        if c == LINE_END:
            first, inside, escaped = in_lines, False, False
        elif escaped:
            escaped = False
        elif inside:
            inside, escaped = c != QUOTE, c == BACKSLASH
        elif c == QUOTE:
            first, inside = False, True
        elif c == OPEN_LIST or c == OPEN_OBJECT:
            first, depth = False, depth + 1
            if depth > most:
                return i
        elif c == CLOSE_LIST or c == CLOSE_OBJECT:
            depth = max(depth - 1, 0)
        elif first and c == LOWER_N:
            return i
    return -1
