"""Where the first relevant item comes, exactly: the relevant items are pooled into one.

Give every item an exponential clock with its weight as rate. The first of the relevant items to arrive does so like one
item with the sum of their weights, so the position of the first relevant item is that of this item among the others.
"""

import math

import numpy as np

from isrr.compiled import kernel
from isrr.data._order_kernels import longest_query
from isrr.ranker.exact import exact_exposure
from isrr.ranker.kernels import count_eligible, weigh
from isrr.ranker.simd import pointer


@kernel
def pool_relevant(scores, relevant, first, n, scale, best, pooled):
    # scores, relevant (n_rows,)  by falling score within the query, which begins at `first`; n items of it are drawn
    # best                        the first relevant item; it is one of these
    # pooled (≥ n,)               out: falling logs of weights, of the pooled item and of those that are not relevant
    # Returns how many items that leaves, and where the pooled one stands.
    top, total = scores[first], 0.0
    for i in range(best, n):
        if relevant[first + i]:
            total += math.exp((scores[first + i] - scores[first + best]) * scale)
    own = (scores[first + best] - top) * scale + math.log(total)
    size, position = np.int64(0), np.int64(-1)
    for i in range(n):
        if relevant[first + i]:
            continue
        other = (scores[first + i] - top) * scale
        if position < 0 and other < own:
            pooled[size], position, size = own, size, size + 1
        pooled[size], size = other, size + 1
    if position < 0:
        pooled[size], position, size = own, size, size + 1
    return size, position


@kernel
def first_relevant_of_grid(
    offsets, scores, relevant, scales, scale_of, thresholds, position_weights, nodes, node_weights, memory, own_heads,
    longer, scratch, start, stop, out,
):  # fmt: skip
    # relevant (n_rows,)                in the order of the scores
    # scratch (2 · longest,)            for the longest of these queries
    # out (n_weights, queries, n_grid)  out: the expected weight of the position of the first relevant item, 0 beyond
    #                                   the last position and where a query has none
    # All other arguments are those of `isrr.ranker.kernels.exposure_of_grid`.
    longest, (n_weights, k) = longest_query(offsets, start, stop), position_weights.shape
    weights, eligibility, heads = pointer(memory, 0), pointer(memory, longest), pointer(own_heads, 0)
    shown, inside = pointer(memory, 2 * longest), pointer(memory, (2 + n_weights) * longest)
    rule, rule_weights, worth = pointer(nodes, 0), pointer(node_weights, 0), pointer(position_weights, 0)
    falling, pooled, unused = pointer(scores, 0), pointer(scratch, 0), pointer(scratch, longest)
    known = np.empty(longest + 1, np.int64)
    for q in range(start, stop):
        first, n, best = offsets[q], offsets[q + 1] - offsets[q], np.int64(0)
        while best < n and not relevant[first + best]:
            best += 1
        if best == n:
            out[:, q - start] = 0.0
            continue
        weighed, admitted = -1, np.int64(0)
        for c in range(scale_of.size):
            if scale_of[c] != weighed:
                weighed, admitted, known[: n + 1] = scale_of[c], np.int64(0), -1
                if thresholds[c] > 0.0:  # else all are drawn, here and at the other thresholds of this scale
                    weigh(falling, first, n, scales[weighed], weights, eligibility, heads)
            if thresholds[c] > 0.0:
                admitted = max(count_eligible(eligibility, n, thresholds[c], admitted), np.int64(1))
            else:
                admitted = n
            same = known[admitted]
            if same >= 0:  # another threshold that admits as many
                out[:, q - start, c] = out[:, q - start, same]
                continue
            known[admitted] = c
            if admitted <= best:  # all that are drawn come before it
                for m in range(n_weights):
                    out[m, q - start, c] = position_weights[m, best] if best < k else 0.0
                continue
            size, position = pool_relevant(falling, relevant, first, admitted, scales[weighed], best, pooled)
            weigh(pooled, np.int64(0), size, 1.0, weights, unused, heads)
            n_written = exact_exposure(
                weights, heads, size, size, worth, n_weights, k, rule, rule_weights, inside, longer, shown, longest
            )
            for m in range(n_weights):
                out[m, q - start, c] = shown[longest * m + position] if position < n_written else 0.0
