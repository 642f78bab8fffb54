"""Compiled loops of the metrics: a whole grid of rankers over a block of queries, in one pass.

What configurations share is computed once: the order of a query, its weights at a temperature, the exposure of an
admitted set (many thresholds admit the same one), and, where rankings are drawn, the noise.
"""

import numpy as np

from isrr.compiled import kernel, njit, part
from isrr.lanes import WIDTH, added_up, fma, load, splat
from isrr.noise import stream, uniform
from isrr.ranker._exposure_kernels import exact_exposure, smoothed_exposure
from isrr.ranker._kernels import admit, count_eligible, draw, weigh
from isrr.ranker._mixture_kernels import find_leading, mix_with_order


@part
def dot(x, y):
    # Σ x·y; what follows the last whole eight is added one by one, so that zeros at the end change nothing
    whole, sums = x.size // WIDTH * WIDTH, splat(0.0)
    for i in range(0, whole, WIDTH):
        sums = fma(load(x, i), load(y, i), sums)
    total = added_up(sums)
    for i in range(whole, x.size):
        total += x[i] * y[i]
    return total


@part
def squared_disparity(exposure_squares, gain_squares, product, n):
    # 2 × the mean over ordered pairs of (e_d g_d' − e_d' g_d)², as 4 (Σe² Σg² − (Σeg)²) / (n (n − 1))
    if n < 2:
        return 0.0
    return 4.0 * max(exposure_squares * gain_squares - product * product, 0.0) / (n * (n - 1))


@kernel
def disparity_of_queries(offsets, n_pools, exposure, deserved, out):
    # exposure, deserved (n_rows,)  of the pools, which are the first n_pools rows of each query
    for q in range(out.size):
        first, last = offsets[q], offsets[q] + n_pools[q]
        squares = dot(exposure[first:last], exposure[first:last])
        product = dot(exposure[first:last], deserved[first:last])
        gain_squares = dot(deserved[first:last], deserved[first:last])
        out[q] = squared_disparity(squares, gain_squares, product, last - first)


@kernel
def absolute_disparity_of_queries(offsets, n_pools, exposure, deserved, out):
    # Arguments as for `disparity_of_queries`, the rows of each query sorted by exposure / deserved: every pair's
    # difference then has one sign, and the sum over pairs needs running sums only.
    for q in range(out.size):
        n = n_pools[q]
        total, exposures, gain_sum = 0.0, 0.0, 0.0
        for i in range(offsets[q], offsets[q + 1]):
            total += exposure[i] * gain_sum - deserved[i] * exposures
            exposures += exposure[i]
            gain_sum += deserved[i]
        out[q] = 4.0 * max(total, 0.0) / (n * (n - 1)) if n > 1 else 0.0


@part
def _pool(exposure, pool, n_pools, pooled):
    # pooled (≥ n_pools,)  out: exposure added up by pool
    for p in range(n_pools):
        pooled[p] = 0.0
    for i in range(exposure.size):
        pooled[pool[i]] += exposure[i]


@part
def _take(values, order, taken):
    for i in range(order.size):
        taken[i] = values[np.uint32(order[i])]  # unsigned: a negative index would count from the end


@kernel
def gather(measured, q, first, order, values, deserved, pool, deserved_squares):
    # order (n,)                        the query's items by falling score
    # values, deserved, pool (…, ≥ n)   out: what is measured of the query, items by falling score; pools keep their own
    #                                   order, and their items' pool numbers go by falling score
    # deserved_squares (n_quadratic,)   out: Σ deserved² of items or pools
    stored, _, stored_deserved, stored_pool, pool_rows, n_pools, _ = measured
    n = order.size
    for m in range(values.shape[0]):
        _take(stored[m, first : first + n], order, values[m])
    for m in range(deserved.shape[0]):
        if pool_rows[m] < 0:
            _take(stored_deserved[m, first : first + n], order, deserved[m])
        else:
            for i in range(n):
                deserved[m, i] = stored_deserved[m, first + i]
        gains = deserved[m, : n_pools[m, q]]
        deserved_squares[m] = dot(gains, gains)
    for m in range(pool.shape[0]):
        _take(stored_pool[m, first : first + n], order, pool[m])


@part
def measure(exposure, n, measured, q, values, deserved, pool, deserved_squares, pooled, linear, quadratic):
    # exposure (n_weights, ≥ n)                      by falling score
    # values, deserved, pool, deserved_squares       as `gather` leaves them
    # pooled (≥ n,)                                  scratch
    # linear (n_linear,), quadratic (n_quadratic,)   out
    _, value_weights, _, _, pool_rows, n_pools, pair_weights = measured
    for m in range(value_weights.size):
        linear[m] = dot(exposure[value_weights[m], :n], values[m, :n])
    for m in range(pair_weights.size):
        shown, n_shown = exposure[pair_weights[m], :n], n_pools[m, q]
        if pool_rows[m] >= 0:
            _pool(shown, pool[pool_rows[m]], n_shown, pooled)
            shown = pooled[:n_shown]
        product = dot(shown, deserved[m, :n_shown])
        quadratic[m] = squared_disparity(dot(shown, shown), deserved_squares[m], product, n_shown)


@kernel
def evaluate_exactly(
    offsets, order, scores, by_score, places, promised, measured, scales, scale_of, columns, thresholds, floors,
    anchors, laguerre, room, measuring, start, stop, linear, quadratic,
):  # fmt: skip
    # order, by_score (n_rows,)         positions within the query as draws and as the order by score have them
    # places (n_weights, k)             weight of each place, one row for each distinct way of weighting them
    # promised                          which of these ways floors are promised for
    # measured                          values (n_linear, n_rows), value_weights (n_linear,): the way of each
    #                                   deserved (n_quadratic, n_rows) of items or pools, pool (n_pooled, n_rows) of
    #                                   each item, pool_rows (n_quadratic,): which of them, −1 where items are not
    #                                   pooled, n_pools (n_quadratic, n_queries), pair_weights (n_quadratic,)
    # scales (n_scales,)                1 / (deviation · temperature), distinct
    # scale_of (n_grid,)                which of them a configuration has; configurations come sorted by it, those of
    #                                   one scale by falling threshold
    # columns (n_grid,)                 where its results go
    # thresholds, floors, anchors (n_grid,)
    # linear, quadratic (n_queries, ≥ n_grid, …)  out
    # room, measuring                           arrays to work in: `isrr.ranker.given.room`, `isrr.metrics.evaluate`
    weights, eligibility, heads, exposure, leading, where, known, scratch, polynomials = room
    values, deserved, pool, deserved_squares, pooled = measuring
    mixed = False
    for c in range(scale_of.size):
        mixed = mixed or floors[c] > 0.0 or anchors[c] > 0.0
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, falling, own = last - first, order[first:last], scores[first:last]
        weight, eligible, head, lead = weights[:n], eligibility[:n], heads[:n], leading[:n]
        gather(measured, q, first, falling, values, deserved, pool, deserved_squares)
        if mixed:
            find_leading(falling, by_score[first:last], where, lead)
        weighed, admitted = -1, np.int64(0)
        for c in range(scale_of.size):
            if scale_of[c] != weighed:
                weighed, admitted = scale_of[c], np.int64(0)
                weigh(own, falling, scales[weighed], weight, eligible, head)
                for i in range(n + 1):
                    known[i] = -1
            admitted = max(count_eligible(eligible, thresholds[c], admitted), np.int64(1))
            same = known[admitted]
            if same >= 0 and floors[same] == floors[c] and anchors[same] == anchors[c]:
                for m in range(linear.shape[2]):
                    linear[q, columns[c], m] = linear[q, columns[same], m]
                for m in range(quadratic.shape[2]):
                    quadratic[q, columns[c], m] = quadratic[q, columns[same], m]
                continue
            known[admitted] = c
            shown = n
            if floors[c] == 0.0 and anchors[c] == 0.0:  # nobody below is ever shown; eights, as `dot` adds them up
                shown = min(n, (max(admitted, places.shape[1]) + WIDTH - 1) // WIDTH * WIDTH)
            exact_exposure(weight[:shown], head[:shown], admitted, places, laguerre, scratch, polynomials, exposure)
            mix_with_order(exposure, places, promised, lead, floors[c], anchors[c])
            measure(
                exposure, shown, measured, q, values, deserved, pool, deserved_squares, pooled,
                linear[q, columns[c]], quadratic[q, columns[c]],
            )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate_smoothed(
    offsets, order, scores, by_score, places, measured, scales, scale_of, columns, thresholds, anchors,
    keys, seed, n_draws, room, measuring, start, stop, linear, quadratic,
):  # fmt: skip
    # As `evaluate_exactly`, for decays below 1: averaged over draws, and a floor is promised for none of them.
    # thresholds (n_grid, k)
    weights, eligibility, heads, exposure, leading, where, n_admitted, _, _ = room
    values, deserved, pool, deserved_squares, pooled = measuring
    noise, promised = np.empty(n_draws, np.uint64), np.empty(0, np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, falling = last - first, order[first:last]
        gather(measured, q, first, falling, values, deserved, pool, deserved_squares)
        find_leading(falling, by_score[first:last], where, leading[:n])
        for d in range(n_draws):
            noise[d] = stream(seed, keys[q], d)
        for c in range(scale_of.size):
            if c == 0 or scale_of[c] != scale_of[c - 1]:
                weigh(scores[first:last], falling, scales[scale_of[c]], weights[:n], eligibility[:n], heads[:n])
            admit(eligibility[:n], thresholds[c], n_admitted)
            smoothed_exposure(weights[:n], heads[:n], n_admitted, places, noise, exposure)
            mix_with_order(exposure, places, promised, leading[:n], 0.0, anchors[c])
            measure(
                exposure, n, measured, q, values, deserved, pool, deserved_squares, pooled,
                linear[q, columns[c]], quadratic[q, columns[c]],
            )  # fmt: skip


@kernel
def _fill_clocks(noise, item, clocks, spare):
    # noise (n_draws,)   stream names
    # clocks (n_draws,)  out: −log of the streams' uniforms for one item; spare (n_draws,) scratch
    # The logarithm is written out (2·artanh of (m − 1)/(m + 1) for the mantissa m, to 1e-13) so that it vectorises.
    for d in range(noise.size):
        clocks[d] = uniform(noise[d], item)
    bits, mantissa = clocks.view(np.int64), spare.view(np.int64)
    for d in range(noise.size):
        mantissa[d] = (bits[d] & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000
    for d in range(noise.size):
        m, exponent = spare[d], np.float64((bits[d] >> 52) - 1023)
        high = m > 1.4142135623730951
        m = 0.5 * m if high else m
        exponent = exponent + 1.0 if high else exponent
        s = (m - 1.0) / (m + 1.0)
        t = s * s
        series = 1 + t * (1 / 3 + t * (1 / 5 + t * (1 / 7 + t * (1 / 9 + t * (1 / 11 + t * (1 / 13 + t / 15))))))
        clocks[d] = -(exponent * 0.6931471805599453 + 2.0 * s * series)


@kernel
def _arrive(clocks, weight, item, index_bits, first, leaders, keys):
    # leaders (k, n_draws)  in and out: the earliest arrivals of each draw, rising; an item's number stands in the low
    #                       bits of its arrival time, so that sorting times sorts items, without a branch
    # first                 where this item's block begins: it cannot come before
    words, low = keys.view(np.int64), (np.int64(1) << index_bits) - 1
    for d in range(clocks.size):
        keys[d] = clocks[d] / weight
    for d in range(clocks.size):
        words[d] = (words[d] & ~low) | item
    for j in range(first, leaders.shape[0]):
        place = leaders[j]
        for d in range(clocks.size):
            earlier, later = min(place[d], keys[d]), max(place[d], keys[d])
            place[d] = earlier
            keys[d] = later


@kernel
def _count(leaders, filled, index_bits, places, ranking, exposure):
    # filled                 how many places drawn items take; the others go to the items there by score
    # ranking (n_draws, k)   out: items by falling score
    # exposure (n_weights, n)  adds the weights each item receives, over all draws
    words, low = leaders.view(np.int64), (np.int64(1) << index_bits) - 1
    for j in range(leaders.shape[0]):
        for d in range(leaders.shape[1]):
            ranking[d, j] = words[j, d] & low if j < filled else j
    for w in range(places.shape[0]):
        for j in range(leaders.shape[0]):
            weight = places[w, j]
            for d in range(leaders.shape[1]):
                exposure[w, ranking[d, j]] += weight


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_each(weights, heads, n_admitted, noise, places, n_places, ranking, exposure):
    # Arguments as for `_count`.
    arrivals = np.empty(n_places)
    for d in range(noise.size):
        draw(weights, heads, n_admitted, noise[d], n_places, arrivals, ranking[d, :n_places])
        for w in range(places.shape[0]):
            for j in range(n_places):
                exposure[w, ranking[d, j]] += places[w, j]


@kernel
def _single_disparity(ranking, weights, deserved, pool, pool_row, n_pools, gain_squares, pooled):
    # The mean disparity of single rankings (n_draws, places), which is what averaging few draws adds to disparity.
    # pool (n_pooled, ≥ n), pool_row  which of them; −1 where items are not pooled
    n_draws, n_places = ranking.shape
    squares = 0.0
    for j in range(n_places):
        squares += weights[j] * weights[j]
    total = 0.0
    for d in range(n_draws):
        product = 0.0
        if pool_row >= 0:
            squares = 0.0
            for j in range(n_places):
                pooled[pool[pool_row, ranking[d, j]]] = 0.0
            for j in range(n_places):
                p = pool[pool_row, ranking[d, j]]
                squares += weights[j] * (2.0 * pooled[p] + weights[j])  # (a + w)² − a²
                pooled[p] += weights[j]
                product += weights[j] * deserved[p]
        else:
            for j in range(n_places):
                product += weights[j] * deserved[ranking[d, j]]
        total += squares * gain_squares - product * product
    return 4.0 * total / n_draws / (n_pools * (n_pools - 1)) if n_pools > 1 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate_by_drawing(
    offsets, order, scores, places, measured, scales, scale_of, columns, thresholds, decays,
    keys, seed, n_draws, debias, room, measuring, start, stop, linear, quadratic,
):  # fmt: skip
    # Arguments as for `evaluate_smoothed`. Configurations of one scale come with decay 1 first, thresholds falling.
    # debias  whether disparity is freed of the bias that exposures averaged over few draws give it
    weights, eligibility, heads, exposure, _, _, n_admitted, _, _ = room
    values, deserved, pool, deserved_squares, pooled = measuring
    pool_rows, n_pools, pair_weights = measured[4:]
    n_weights, k = places.shape
    clocks, leaders = np.empty((weights.size, n_draws)), np.empty((k, n_draws))
    spare, noise, ranking = np.empty(n_draws), np.empty(n_draws, np.uint64), np.empty((n_draws, k), np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n, by_score = last - first, order[first:last]
        filled_places = min(k, n)
        index_bits = 1
        while (1 << index_bits) < n:
            index_bits += 1
        gather(measured, q, first, by_score, values, deserved, pool, deserved_squares)
        for d in range(n_draws):
            noise[d] = stream(seed, keys[q], d)
        weighed, n_clocks, arrived = -1, 0, 0
        for c in range(scale_of.size):
            if scale_of[c] != weighed:
                weighed, arrived = scale_of[c], 0
                weigh(scores[first:last], by_score, scales[weighed], weights[:n], eligibility[:n], heads[:n])
                leaders[:] = np.inf
            if decays[c] == 1.0:
                admitted = min(max(count_eligible(eligibility[:n], thresholds[c, 0], np.int64(0)), 1), n)
                if c > 0 and scale_of[c - 1] == weighed and decays[c - 1] == 1.0 and arrived == admitted:
                    for m in range(linear.shape[2]):
                        linear[q, columns[c], m] = linear[q, columns[c - 1], m]
                    for m in range(quadratic.shape[2]):
                        quadratic[q, columns[c], m] = quadratic[q, columns[c - 1], m]
                    continue
            for w in range(n_weights):
                for i in range(n):
                    exposure[w, i] = 0.0
            if decays[c] == 1.0:
                while n_clocks < admitted:  # one set of clocks serves all thresholds and temperatures
                    _fill_clocks(noise, n_clocks, clocks[n_clocks], spare)
                    n_clocks += 1
                while arrived < admitted:  # thresholds fall: what has arrived for one has for the next
                    if heads[arrived] < filled_places:
                        head, weight = heads[arrived], weights[arrived]
                        _arrive(clocks[arrived], weight, arrived, index_bits, head, leaders[:filled_places], spare)
                    arrived += 1
                filled = min(admitted, filled_places)
                _count(leaders[:filled_places], filled, index_bits, places, ranking, exposure)
            else:
                admit(eligibility[:n], thresholds[c], n_admitted)
                _draw_each(weights[:n], heads[:n], n_admitted, noise, places, filled_places, ranking, exposure)
            for w in range(n_weights):
                for i in range(n):
                    exposure[w, i] /= n_draws
            measure(
                exposure, n, measured, q, values, deserved, pool, deserved_squares, pooled,
                linear[q, columns[c]], quadratic[q, columns[c]],
            )  # fmt: skip
            if debias:
                for m in range(quadratic.shape[2]):
                    single = _single_disparity(
                        ranking[:, :filled_places], places[pair_weights[m]], deserved[m], pool, pool_rows[m],
                        n_pools[m, q], deserved_squares[m], pooled,
                    )  # fmt: skip
                    at = columns[c]
                    quadratic[q, at, m] = (n_draws * quadratic[q, at, m] - single) / (n_draws - 1)
