"""Compiled loops of the metrics: a whole grid of rankers over a block of queries, in one pass.

What configurations share is computed once: the order of a query, its weights at a temperature, the exposure of an
admitted set (many thresholds admit the same one), and, where rankings are drawn, the noise.
"""

import numpy as np

from isrr.compiled import njit
from isrr.data._order_kernels import longest_query
from isrr.noise import stream, uniform
from isrr.ranker._exact_kernels import dot, scratch_size
from isrr.ranker._exposure_kernels import exact_exposure, smoothed_exposure
from isrr.ranker._kernels import admit, count_eligible, draw, weigh


@njit(cache=True, nogil=True, error_model="numpy")
def squared_disparity(exposure_squares, gain_squares, product, n):
    # 2 × the mean over ordered pairs of (e_d g_d' − e_d' g_d)², as 4 (Σe² Σg² − (Σeg)²) / (n (n − 1))
    if n < 2:
        return 0.0
    return 4.0 * max(exposure_squares * gain_squares - product * product, 0.0) / (n * (n - 1))


@njit(cache=True, nogil=True, error_model="numpy")
def disparity_of_queries(offsets, exposure, gains, out):
    for q in range(out.size):
        first, last = offsets[q], offsets[q + 1]
        squares = dot(exposure[first:last], exposure[first:last])
        product = dot(exposure[first:last], gains[first:last])
        gain_squares = dot(gains[first:last], gains[first:last])
        out[q] = squared_disparity(squares, gain_squares, product, last - first)


@njit(cache=True, nogil=True, error_model="numpy")
def absolute_disparity_of_queries(offsets, exposure, gains, out):
    # Sorted by e/g, every pair's difference has one sign: the sum over pairs needs running sums only.
    for q in range(out.size):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        by_ratio = np.argsort(np.arctan2(exposure[first:last], gains[first:last]))
        total, exposures, gain_sum = 0.0, 0.0, 0.0
        for i in by_ratio:
            e, g = exposure[first + i], gains[first + i]
            total += e * gain_sum - g * exposures
            exposures += e
            gain_sum += g
        out[q] = 4.0 * max(total, 0.0) / (n * (n - 1)) if n > 1 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate_exactly(
    offsets, order, scores, gains, discounts, scales, scale_of, thresholds, decays, laguerre,
    keys, seed, n_draws, start, stop, dcg, disparity,
):  # fmt: skip
    # scales (n_scales,)              1 / (deviation · temperature), distinct
    # scale_of (n_grid,)              which of them a configuration has; configurations come sorted by it
    # thresholds (n_grid, k), decays (n_grid,)
    # dcg, disparity (n_queries, n_grid)  out
    longest, k, n_grid = longest_query(offsets, start, stop), discounts.size, scale_of.size
    weights, eligibility, exposure = np.empty(longest), np.empty(longest), np.empty(longest)
    sorted_gains, heads = np.empty(longest), np.empty(longest, np.int64)
    known, n_admitted = np.empty(longest + 1, np.int64), np.empty(k, np.int64)
    scratch, noise = np.empty(scratch_size(longest, k, 1)), np.empty(n_draws, np.uint64)
    shown, place_weights = exposure.reshape(1, longest), discounts.reshape(1, k)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        gain_squares = 0.0
        for i in range(n):
            sorted_gains[i] = gains[first + order[first + i]]
            gain_squares += sorted_gains[i] * sorted_gains[i]
        for d in range(n_draws):
            noise[d] = stream(seed, keys[q], d)
        weighed = -1
        for c in range(n_grid):
            if scale_of[c] != weighed:
                weighed = scale_of[c]
                weigh(
                    scores[first:last],
                    order[first:last],
                    scales[weighed],
                    weights[:n],
                    eligibility[:n],
                    heads[:n],
                )
                known[: n + 1] = -1
            if decays[c] == 1.0:
                admitted = max(count_eligible(eligibility[:n], thresholds[c, 0]), 1)
                if known[admitted] >= 0:
                    dcg[q, c], disparity[q, c] = dcg[q, known[admitted]], disparity[q, known[admitted]]
                    continue
                known[admitted] = c
                exact_exposure(
                    weights[:n],
                    heads[:n],
                    admitted,
                    place_weights,
                    laguerre[0],
                    laguerre[1],
                    scratch,
                    shown,
                )
            else:
                admit(eligibility[:n], thresholds[c], n_admitted)
                smoothed_exposure(weights[:n], heads[:n], n_admitted, place_weights, noise, shown)
            squares, product = dot(exposure[:n], exposure[:n]), dot(exposure[:n], sorted_gains[:n])
            dcg[q, c] = product
            disparity[q, c] = squared_disparity(squares, gain_squares, product, n)


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def _count(leaders, filled, index_bits, discounts, gains, exposure, dcg):
    # filled          how many places drawn items take; the others go to the items there by score
    # exposure (n,)   adds the discounts each item receives, over all draws
    # dcg (n_draws,)  out
    words, low = leaders.view(np.int64), (np.int64(1) << index_bits) - 1
    dcg[:] = 0.0
    for j in range(leaders.shape[0]):
        for d in range(dcg.size):
            item = words[j, d] & low if j < filled else j
            exposure[item] += discounts[j]
            dcg[d] += discounts[j] * gains[item]


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_each(weights, heads, n_admitted, noise, discounts, gains, ranking, exposure, dcg):
    # ranking (places,)  scratch
    # exposure (n,)      adds the discounts each item receives, over all draws
    # dcg (n_draws,)     out
    arrivals = np.empty(ranking.size)
    for d in range(noise.size):
        draw(weights, heads, n_admitted, noise[d], ranking.size, arrivals, ranking)
        dcg[d] = 0.0
        for j in range(ranking.size):
            exposure[ranking[j]] += discounts[j]
            dcg[d] += discounts[j] * gains[ranking[j]]


@njit(cache=True, nogil=True, error_model="numpy")
def _values_of_draws(exposure, dcg, gain_squares, discount_squares):
    # exposure (n,), dcg (n_draws,)  discounts added up over draws; DCG of each
    # discount_squares               of the places there are, to free disparity of its bias; NaN leaves it in
    # Returns the mean DCG and the disparity.
    n, n_draws = exposure.size, dcg.size
    mean, mean_square = 0.0, 0.0
    for d in range(n_draws):
        mean += dcg[d] / n_draws
        mean_square += dcg[d] * dcg[d] / n_draws
    value = squared_disparity(dot(exposure, exposure) / (n_draws * n_draws), gain_squares, mean, n)
    if n > 1 and not np.isnan(discount_squares):
        single = 4.0 * (discount_squares * gain_squares - mean_square) / (n * (n - 1))  # of single rankings
        value = (n_draws * value - single) / (n_draws - 1)
    return mean, value


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate_by_drawing(
    offsets, order, scores, gains, discounts, scales, scale_of, thresholds, decays,
    keys, seed, n_draws, debias, start, stop, dcg, disparity,
):  # fmt: skip
    # Arguments as for `evaluate_exactly`. Configurations of one scale come with decay 1 first, thresholds falling.
    # debias  whether disparity is freed of the bias that exposures averaged over few draws give it
    longest, k, n_grid = longest_query(offsets, start, stop), discounts.size, scale_of.size
    weights, eligibility, sorted_gains = np.empty(longest), np.empty(longest), np.empty(longest)
    heads, n_admitted = np.empty(longest, np.int64), np.empty(k, np.int64)
    clocks, leaders = np.empty((longest, n_draws)), np.empty((k, n_draws))
    spare, totals, noise = np.empty(n_draws), np.empty(n_draws), np.empty(n_draws, np.uint64)
    exposure, ranking = np.empty(longest), np.empty(k, np.int64)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        places = min(k, n)
        index_bits = 1
        while (1 << index_bits) < n:
            index_bits += 1
        gain_squares, discount_squares = 0.0, 0.0
        for i in range(n):
            sorted_gains[i] = gains[first + order[first + i]]
            gain_squares += sorted_gains[i] * sorted_gains[i]
        for j in range(places):
            discount_squares += discounts[j] * discounts[j]
        for d in range(n_draws):
            noise[d] = stream(seed, keys[q], d)
        weighed, n_clocks, arrived = -1, 0, 0
        for c in range(n_grid):
            if scale_of[c] != weighed:
                weighed, arrived = scale_of[c], 0
                weigh(scores[first:last], order[first:last], scales[weighed], weights[:n], eligibility[:n], heads[:n])
                leaders[:] = np.inf
            exposure[:n] = 0.0
            if decays[c] == 1.0:
                admitted = min(max(count_eligible(eligibility[:n], thresholds[c, 0]), 1), n)
                if c > 0 and scale_of[c - 1] == weighed and decays[c - 1] == 1.0 and arrived == admitted:
                    dcg[q, c], disparity[q, c] = dcg[q, c - 1], disparity[q, c - 1]
                    continue
                while n_clocks < admitted:  # one set of clocks serves all thresholds and temperatures
                    _fill_clocks(noise, n_clocks, clocks[n_clocks], spare)
                    n_clocks += 1
                while arrived < admitted:  # thresholds fall: what has arrived for one has for the next
                    if heads[arrived] < places:
                        head, weight = heads[arrived], weights[arrived]
                        _arrive(clocks[arrived], weight, arrived, index_bits, head, leaders[:places], spare)
                    arrived += 1
                filled = min(admitted, places)
                _count(leaders[:places], filled, index_bits, discounts, sorted_gains, exposure, totals)
            else:
                admit(eligibility[:n], thresholds[c], n_admitted)
                _draw_each(
                    weights[:n],
                    heads[:n],
                    n_admitted,
                    noise,
                    discounts,
                    sorted_gains,
                    ranking[:places],
                    exposure,
                    totals,
                )
            squares = discount_squares if debias else np.nan
            dcg[q, c], disparity[q, c] = _values_of_draws(exposure[:n], totals, gain_squares, squares)
