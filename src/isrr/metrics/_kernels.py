"""Compiled loops of the metrics: a whole grid of rankers over a block of queries, in one pass.

What configurations share is computed once: the order of a query, its weights at a temperature, the exposure of an
admitted set (many thresholds admit the same one), and, where rankings are drawn, the noise.
"""

import numpy as np
from numba import njit

from isrr.noise import stream, uniform
from isrr.ranker._exact_kernels import scratch_size
from isrr.ranker._kernels import (
    admit,
    count_eligible,
    draw,
    exact_exposure,
    longest_query,
    smoothed_exposure,
    weigh,
)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _sums(exposure, gains):
    squares, product = 0.0, 0.0
    for i in range(exposure.size):
        squares += exposure[i] * exposure[i]
        product += exposure[i] * gains[i]
    return squares, product


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
        squares, product = _sums(exposure[first:last], gains[first:last])
        gain_squares, _ = _sums(gains[first:last], gains[first:last])
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
    scratch, noise = np.empty(scratch_size(longest, k)), np.empty(n_draws, np.uint64)
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
                    discounts,
                    laguerre[0],
                    laguerre[1],
                    scratch,
                    exposure[:n],
                )
            else:
                admit(eligibility[:n], thresholds[c], n_admitted)
                smoothed_exposure(weights[:n], heads[:n], n_admitted, discounts, noise, exposure[:n])
            squares, product = _sums(exposure[:n], sorted_gains[:n])
            dcg[q, c] = product
            disparity[q, c] = squared_disparity(squares, gain_squares, product, n)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_uniforms(noise, uniforms):
    for i in range(uniforms.size):
        uniforms[i] = uniform(noise, i)


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_prefixes(weights, heads, prefixes, uniforms, k, arrivals, leaders, rankings):
    # prefixes (n_prefixes,)    sizes of admitted sets, rising; one set of clocks serves them all
    # rankings (n_prefixes, k)  out: items (by falling score) at each position
    filled, seen = 0, 0
    for p in range(prefixes.size):
        for i in range(seen, prefixes[p]):
            head, weight = heads[i], weights[i]
            full = filled == k
            if full and (heads[leaders[k - 1]] != head or 1.0 - uniforms[i] >= arrivals[k - 1] * weight):
                continue
            arrival = -np.log(uniforms[i]) / weight
            if full and arrival >= arrivals[k - 1]:
                continue
            at = k - 1 if full else filled
            while at > 0 and heads[leaders[at - 1]] == head and arrivals[at - 1] > arrival:
                arrivals[at], leaders[at] = arrivals[at - 1], leaders[at - 1]
                at -= 1
            arrivals[at], leaders[at] = arrival, i
            filled += not full
        seen = prefixes[p]
        for j in range(k):
            rankings[p, j] = leaders[j] if j < filled else j


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate_by_drawing(
    offsets, order, scores, gains, discounts, scales, scale_of, thresholds, decays,
    keys, seed, n_draws, debias, start, stop, dcg, disparity,
):  # fmt: skip
    # Arguments as for `evaluate_exactly`. Configurations of one scale come with decay 1 first, thresholds falling.
    # debias  whether disparity is freed of the bias that exposures averaged over few draws give it
    longest, k, n_grid = longest_query(offsets, start, stop), discounts.size, scale_of.size
    weights, eligibility, uniforms = np.empty(longest), np.empty(longest), np.empty(longest)
    sorted_gains, heads = np.empty(longest), np.empty(longest, np.int64)
    prefix_of, prefixes = np.empty(n_grid, np.int64), np.empty(n_grid, np.int64)
    n_admitted = np.empty((n_grid, k), np.int64)
    exposure, dcg_sum, dcg_squares = np.empty((n_grid, longest)), np.empty(n_grid), np.empty(n_grid)
    rankings, leaders, arrivals = np.empty((n_grid, k), np.int64), np.empty(k, np.int64), np.empty(k)
    for q in range(start, stop):
        first, last = offsets[q], offsets[q + 1]
        n = last - first
        places = min(k, n)
        gain_squares, discount_squares = 0.0, 0.0
        for i in range(n):
            sorted_gains[i] = gains[first + order[first + i]]
            gain_squares += sorted_gains[i] * sorted_gains[i]
        for j in range(places):
            discount_squares += discounts[j] * discounts[j]
        begin = 0
        while begin < n_grid:
            end = begin
            while end < n_grid and scale_of[end] == scale_of[begin]:
                end += 1
            scale = scales[scale_of[begin]]
            weigh(scores[first:last], order[first:last], scale, weights[:n], eligibility[:n], heads[:n])
            n_prefixes, n_lists = 0, 0
            for c in range(begin, end):
                if decays[c] == 1.0:
                    admitted = min(max(count_eligible(eligibility[:n], thresholds[c, 0]), 1), n)
                    if n_prefixes == 0 or prefixes[n_prefixes - 1] != admitted:
                        prefixes[n_prefixes] = admitted
                        n_prefixes += 1
                        n_lists += 1
                else:
                    admit(eligibility[:n], thresholds[c], n_admitted[n_lists])
                    n_lists += 1
                prefix_of[c] = n_lists - 1
            exposure[:n_lists, :n] = 0.0
            dcg_sum[:n_lists] = 0.0
            dcg_squares[:n_lists] = 0.0
            for d in range(n_draws):
                noise = stream(seed, keys[q], d)
                if n_prefixes > 0:
                    reach = prefixes[n_prefixes - 1]
                    _fill_uniforms(noise, uniforms[:reach])
                    _draw_prefixes(weights, heads, prefixes[:n_prefixes], uniforms, places, arrivals, leaders, rankings)
                for p in range(n_prefixes, n_lists):
                    draw(weights[:n], heads[:n], n_admitted[p], noise, places, arrivals, rankings[p])
                for p in range(n_lists):
                    total = 0.0
                    for j in range(places):
                        item = rankings[p, j]
                        total += discounts[j] * sorted_gains[item]
                        exposure[p, item] += discounts[j]
                    dcg_sum[p] += total
                    dcg_squares[p] += total * total
            for c in range(begin, end):
                p = prefix_of[c]
                squares, _ = _sums(exposure[p, :n], exposure[p, :n])
                mean = dcg_sum[p] / n_draws
                dcg[q, c] = mean
                squares /= n_draws * n_draws
                value = squared_disparity(squares, gain_squares, mean, n)
                if debias and n > 1:
                    rest = discount_squares * gain_squares - dcg_squares[p] / n_draws
                    single = 4.0 * rest / (n * (n - 1))  # mean disparity of the single rankings
                    value = (n_draws * value - single) / (n_draws - 1)
                disparity[q, c] = value
            begin = end
