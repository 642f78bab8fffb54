"""The score map, compiled: isotonic regression, which it is fitted by, and the map itself."""

from isrr.compiled import kernel


@kernel
def pool_falling(values, weights, starts):
    # values, weights (n,)  in: in the order in which values should rise; out: the mean and the weight of each block
    # starts (n + 1,)       out: where each block begins, then where the last one ends
    # Returns how many blocks there are. Blocks that do not rise are pooled: upwards first, then downwards.
    block, i = 0, 1
    starts[0], starts[1] = 0, 1
    while i < values.size:
        value, weight = values[i], weights[i]
        if values[block] < value:
            block += 1
        else:
            total = weights[block] * values[block] + weight * value
            weight += weights[block]
            value = total / weight
            while i + 1 < values.size and value >= values[i + 1]:
                i += 1
                total += weights[i] * values[i]
                weight += weights[i]
                value = total / weight
            while block > 0 and values[block - 1] >= value:
                block -= 1
                total += weights[block] * values[block]
                weight += weights[block]
                value = total / weight
        i += 1
        values[block], weights[block], starts[block + 1] = value, weight, i
    return block + 1


@kernel
def map_scores(raw, inputs, outputs, slopes, mapped):
    # raw (n,)                  raw scores
    # inputs, outputs (knots,)  the map at its knots; slopes (knots − 1,) between them, and beyond the outermost ones
    # mapped (n,)               out
    for i in range(raw.size):
        low, high = 0, slopes.size - 1
        while low < high:
            middle = (low + high + 1) // 2
            if inputs[middle] <= raw[i]:
                low = middle
            else:
                high = middle - 1
        mapped[i] = outputs[low] + (raw[i] - inputs[low]) * slopes[low]
        if low < slopes.size - 1 and mapped[i] > outputs[low + 1]:  # by rounding: the next segment begins there
            mapped[i] = outputs[low + 1]
