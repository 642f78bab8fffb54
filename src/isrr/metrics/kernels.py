"""Compiled sums over exposures: a block of queries, all rankers of a family. Arrays in, arrays out.

Exposures of a query stand by falling score; of those beyond the first `n_shown` nothing is read, as they are 0.
"""

from isrr.compiled import kernel


@kernel
def weighted_sums(offsets, n_shown, exposure, values, start, stop, out):
    # n_shown (n_grid, queries), exposure (n_grid, ≥ rows)  of the queries start … stop − 1
    # values (n_rows,)                                      in the order of the exposures
    # out (queries, n_grid)                                 Σ exposure · value
    for q in range(start, stop):
        first = offsets[q]
        for c in range(exposure.shape[0]):
            total = 0.0
            for i in range(first, first + n_shown[c, q - start]):
                total += exposure[c, i - offsets[start]] * values[i]
            out[q - start, c] = total


@kernel
def products(offsets, n_shown, one, other, deserved, start, stop, out):
    # one, other (n_grid, ≥ rows)  two samples of the exposure, or twice the same
    # deserved (n_rows,)           g
    # out (3, queries, n_grid)     Σ e·e′, Σ e·g and Σ e′·g
    for q in range(start, stop):
        first = offsets[q]
        for c in range(one.shape[0]):
            both, mine, others = 0.0, 0.0, 0.0
            for i in range(first, first + n_shown[c, q - start]):
                e, f, g = one[c, i - offsets[start]], other[c, i - offsets[start]], deserved[i]
                both += e * f
                mine += e * g
                others += f * g
            out[0, q - start, c], out[1, q - start, c], out[2, q - start, c] = both, mine, others


@kernel
def pool_exposure(offsets, n_shown, exposure, pool, n_pools, start, stop, out):
    # pool (n_rows,)         pool that each item adds to, counted within the query
    # n_pools (n_queries,)   pools of each query
    # out (n_grid, rows)     exposure by pool; the first n_pools of each query's rows
    for q in range(start, stop):
        first = offsets[q] - offsets[start]
        for c in range(exposure.shape[0]):
            out[c, first : first + n_pools[q]] = 0.0
            for i in range(n_shown[c, q - start]):
                out[c, first + pool[offsets[q] + i]] += exposure[c, first + i]


@kernel
def absolute_disparity(offsets, n_pools, exposure, deserved, out):
    # exposure, deserved (n_rows,)  of the pools, the rows of each query sorted by exposure / deserved: every pair's
    #                               difference then has one sign, and the sum over pairs needs running sums only
    # out (n_queries,)
    for q in range(out.size):
        n = n_pools[q]
        total, exposures, gain_sum = 0.0, 0.0, 0.0
        for i in range(offsets[q], offsets[q + 1]):
            total += exposure[i] * gain_sum - deserved[i] * exposures
            exposures += exposure[i]
            gain_sum += deserved[i]
        out[q] = 4.0 * max(total, 0.0) / (n * (n - 1)) if n > 1 else 0.0
