"""The compiled loop of exact sums."""

from isrr.compiled import kernel

N_LIMBS = 68
LOW = 0xFFFFFFFF


@kernel
def add(bits, row_of, limbs):
    # bits (n, m)                   finite floats as their bit patterns
    # row_of (n,)                   the row that each adds to
    # limbs (n_rows, m, N_LIMBS)    in and out
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            word = bits[i, j]
            exponent, mantissa = (word >> 52) & 0x7FF, word & 0x000FFFFFFFFFFFFF
            if exponent > 0:
                mantissa |= 1 << 52
                exponent -= 1  # subnormal numbers share the exponent of the smallest normal ones
            place, shift = exponent >> 5, exponent & 31
            low, high = (mantissa & LOW) << shift, (mantissa >> 32) << shift
            sign = -1 if word < 0 else 1
            row = limbs[row_of[i], j]
            row[place] += sign * (low & LOW)
            row[place + 1] += sign * ((low >> 32) + (high & LOW))
            row[place + 2] += sign * (high >> 32)
