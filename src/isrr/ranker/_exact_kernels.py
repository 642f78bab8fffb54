"""Compiled loops of the exact evaluation: where Plackett–Luce places each item, without sampling.

Give every item an exponential clock with its weight as rate; the order of arrival is Plackett–Luce. So

    P(item d is placed at j) = ∫ w_d e^{−w_d t} · P(exactly j − 1 of the other items arrive before t) dt.

The first two places have closed forms. For the others the integral is a weighted sum over a few nodes t. At a node the
number of arrivals is a product of factors q_i + p_i z with q_i = e^{−w_i t}; what matters is that product with one
item left out, for every item.

* Late items, w_i t ≤ ½, are the many. With r_i = p_i / q_i = e^{w_i t} − 1 the product is Π q_i · Σ_j e_j(r) z^j; the
  symmetric sums e_j come from power sums (Newton), and leaving an item out is a polynomial in −r_i. Both are loops over
  items without a branch, and as r_i < 1 neither loses digits that count beside a probability.
* Early items, w_i t > ½, are few. One pass forward through their factors and one back (reverse-mode differentiation:
  the weights of the places carried through the factors that follow) leave each one out without dividing. What is
  carried is all that differs between one weighting of the places and another: several cost little more than one.

Nodes. Terms decay at rates between R, the weight left when the k − 1 heaviest items are gone, and W, the whole
weight. When the two are close, Gauss–Laguerre nodes for t² e^{−t}, scaled by their harmonic mean, converge like
((W − R)/(W + R))^{2n}: four nodes give 1e-8 for a flat list. When they are far apart, a trapezoid rule in log t needs
a fixed number of nodes per octave of W/R.

Bits. A kernel may be compiled alone or inside the kernel that calls it. Sums therefore name their own order, in lanes
that suit vector registers, and no compiler flag lets arithmetic be rearranged: the same bits come out either way.
"""

import numpy as np

from isrr.compiled import njit

EARLY = 0.5  # w t above which an item counts as early …
SURE = 36.0  # … and above which it has arrived for sure: e^−36 is below rounding
LAGUERRE_MOST = 48  # nodes of the largest Gauss–Laguerre rule
NEGLIGIBLE = 1e-10  # a share of the weight that cannot matter at 1e-8


@njit(cache=True, nogil=True, error_model="numpy")
def _trapezoid_step(k):
    return min(0.47, 1.05 / np.sqrt(k))  # the arrival of the k-th item is 1/√k wide in log t


@njit(cache=True, nogil=True, error_model="numpy")
def _last_arrival(k):
    return k + 6.0 * np.sqrt(k) + 12.0  # by this time, k items have arrived at unit rate but for 1e-9


@njit(cache=True, nogil=True, error_model="numpy")
def _choose_nodes(total, slowest, k, laguerre_nodes, laguerre_weights, times, measures):
    # laguerre_nodes (LAGUERRE_MOST + 1, LAGUERRE_MOST)  row n: the n nodes for t² e^{−t}, then zeros
    # times, measures (≥ n,)                             out: nodes and weights of the chosen rule
    step = _trapezoid_step(k)
    low, high = np.log(6e-3 / total), np.log(_last_arrival(k) / slowest)
    n_trapezoid = int((high - low) / step) + 2
    spread = max((total - slowest) / (total + slowest), 0.1)
    n = int(np.ceil(max(2.0 + 0.25 * k, 0.5 * k) + 4.8 / -np.log(spread))) if spread < 0.99 else LAGUERRE_MOST + 1
    if n <= min(LAGUERRE_MOST, n_trapezoid):
        rate = 2.0 * total * slowest / (total + slowest)
        for s in range(n):
            times[s] = laguerre_nodes[n, s] / rate
            measures[s] = laguerre_weights[n, s] / rate
        return n
    for s in range(n_trapezoid):
        times[s] = np.exp(low + step * s)
        measures[s] = step * times[s]
    return n_trapezoid


@njit(cache=True, nogil=True, error_model="numpy")
def _late_odds(weights, time, odds):
    # odds (n,)  out: r = e^{w t} − 1 for w t ≤ ½
    for i in range(weights.size):
        x = weights[i] * time
        odds[i] = x + x * x * (
            1 / 2
            + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040 + x * (1 / 40320 + x / 362880))))))
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _power_sums(odds):
    # Σr, Σr², Σr³, Σr⁴, each in four lanes
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    d0, d1, d2, d3 = 0.0, 0.0, 0.0, 0.0
    whole = odds.size // 4 * 4
    for i in range(0, whole, 4):
        r0, r1, r2, r3 = odds[i], odds[i + 1], odds[i + 2], odds[i + 3]
        s0, s1, s2, s3 = r0 * r0, r1 * r1, r2 * r2, r3 * r3
        a0, a1, a2, a3 = a0 + r0, a1 + r1, a2 + r2, a3 + r3
        b0, b1, b2, b3 = b0 + s0, b1 + s1, b2 + s2, b3 + s3
        c0, c1, c2, c3 = c0 + s0 * r0, c1 + s1 * r1, c2 + s2 * r2, c3 + s3 * r3
        d0, d1, d2, d3 = d0 + s0 * s0, d1 + s1 * s1, d2 + s2 * s2, d3 + s3 * s3
    for i in range(whole, odds.size):
        r = odds[i]
        square = r * r
        a0, b0, c0, d0 = a0 + r, b0 + square, c0 + square * r, d0 + square * square
    return (a0 + a1) + (a2 + a3), (b0 + b1) + (b2 + b3), (c0 + c1) + (c2 + c3), (d0 + d1) + (d2 + d3)


@njit(cache=True, nogil=True, error_model="numpy")
def dot(x, y):
    # Σ x·y in four lanes
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    whole = x.size // 4 * 4
    for i in range(0, whole, 4):
        a0, a1 = a0 + x[i] * y[i], a1 + x[i + 1] * y[i + 1]
        a2, a3 = a2 + x[i + 2] * y[i + 2], a3 + x[i + 3] * y[i + 3]
    for i in range(whole, x.size):
        a0 += x[i] * y[i]
    return (a0 + a1) + (a2 + a3)


@njit(cache=True, nogil=True, error_model="numpy")
def _symmetric_sums(power_sums, k, scale, sums):
    # Newton's identities: j·e_j = Σ_{i=1..j} (−1)^{i−1} e_{j−i} p_i, here times a common scale
    sums[0] = scale
    for j in range(1, k):
        total, sign = 0.0, 1.0
        for i in range(1, j + 1):
            total += sign * sums[j - i] * power_sums[i]
            sign = -sign
        sums[j] = max(total / j, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_late(weights, odds, left_out, reached):
    # left_out (5,)  coefficients in −r of "this item left out", for k ≤ 5
    a, b, c, d, e = left_out[0], left_out[1], left_out[2], left_out[3], left_out[4]
    for i in range(weights.size):
        r = odds[i]
        reached[i] += weights[i] * (a - r * (b - r * (c - r * (d - r * e))))


@njit(cache=True, nogil=True, error_model="numpy")
def _add_late_long(weights, odds, left_out, k, values, reached):
    values[:] = left_out[k - 1]
    for j in range(k - 2, -1, -1):
        coefficient = left_out[j]
        for i in range(weights.size):
            values[i] = coefficient - odds[i] * values[i]
    for i in range(weights.size):
        reached[i] += weights[i] * values[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_node(weights, trailing, place_weights, first, places, time, measure, odds, powers, room, reached):
    # trailing (n + 1,)           the weight of item i and all below it
    # place_weights, first, places  as for `exposure_of_block`
    # odds, powers (n,)           scratch
    # room (most_early + 4, k)    scratch for polynomials of degree < k
    # reached (n_weights, n)      adds each item's exposure at the third place and below
    n, most = weights.size, room.shape[0] - 4
    n_sure = 0
    while n_sure < n and weights[n_sure] * time > SURE:
        n_sure += 1
    n_early = n_sure
    while n_early < n and weights[n_early] * time > EARLY:
        n_early += 1
    k = places - n_sure  # places still open
    if k <= 0 or n_early > most:
        return
    leading, power_sums = room[: most + 1], room[most + 1]
    left_out, carried = room[most + 2], room[most + 3]
    late, late_odds = weights[n_early:], odds[n_early:n]
    _late_odds(late, time, late_odds)
    power_sums[1], power_sums[2], power_sums[3], power_sums[4] = _power_sums(late_odds)
    if k > 5:
        late_powers = powers[n_early:n]
        late_powers[:] = late_odds**4
        for j in range(5, k):
            power_sums[j] = dot(late_odds, late_powers)
            late_powers *= late_odds
    _symmetric_sums(power_sums, k, np.exp(-trailing[n_early] * time), leading[0])

    for i in range(n_sure, n_early):
        stay = np.exp(-weights[i] * time)
        come = 1.0 - stay
        odds[i] = stay
        before, after = leading[i - n_sure], leading[i - n_sure + 1]
        after[0] = before[0] * stay
        for j in range(1, k):
            after[j] = before[j] * stay + before[j - 1] * come
    for m in range(place_weights.shape[0]):
        mine, theirs = place_weights[m, first:], reached[m]
        for j in range(k):
            carried[j] = mine[n_sure + j] * measure if n_sure + j >= 2 else 0.0
        for i in range(n_early - 1, n_sure - 1, -1):
            stay = odds[i]
            come = 1.0 - stay
            value = 0.0
            for j in range(k):
                value += leading[i - n_sure, j] * carried[j]
            theirs[i] += weights[i] * stay * value
            for j in range(k - 1):
                carried[j] = carried[j] * stay + carried[j + 1] * come
            carried[k - 1] *= stay

        left_out[:] = 0.0
        for i in range(k):
            for j in range(i, k):
                left_out[i] += carried[j] * leading[0, j - i]
        if k <= 5:
            _add_late(late, late_odds, left_out, theirs[n_early:])
        else:
            _add_late_long(late, late_odds, left_out, k, powers[n_early:n], theirs[n_early:])


@njit(cache=True, nogil=True, error_model="numpy")
def _add_first_two(weights, trailing, place_weights, first, places, exposure):
    # exposure (n_weights, …)  out: each item's exposure at the first two places
    # Returns Σ w / (W − w).
    n, total = weights.size, trailing[0]
    second = 0.0
    for i in range(1, n):
        second += weights[i] / (total - weights[i])
    others = second
    second += weights[0] / trailing[1]
    for m in range(place_weights.shape[0]):
        mine = exposure[m, first:]
        for i in range(n):
            mine[i] = place_weights[m, first] * weights[i] / total
        if places > 1:
            factor = place_weights[m, first + 1]
            mine[0] += factor * others * weights[0] / total
            for i in range(1, n):
                mine[i] += factor * (second - weights[i] / (total - weights[i])) * weights[i] / total
    return second


@njit(cache=True, nogil=True, error_model="numpy")
def exposure_of_block(weights, place_weights, first, k, laguerre_nodes, laguerre_weights, scratch, exposure):
    # weights (n,)               falling, the first one 1
    # place_weights (n_weights, ≥ first + k), first, k ≤ n
    #                            the items compete for places first … first + k − 1
    # scratch                    `scratch_size(n, k, n_weights)` numbers
    # exposure (n_weights, ≥ first + n)  out: in columns first …, the expected weight of each item's place
    n, n_weights = weights.size, place_weights.shape[0]
    trailing = scratch[: n + 1]
    trailing[n] = 0.0
    for i in range(n - 1, -1, -1):  # from the smallest: nothing is ever subtracted from a larger sum
        trailing[i] = trailing[i + 1] + weights[i]
    total = trailing[0]
    second = _add_first_two(weights, trailing, place_weights, first, k, exposure)
    if k <= 2:
        return
    if k == 3 and n == 3:  # whoever is neither first nor second is third
        for i in range(3):
            others = total - weights[i] if i > 0 else trailing[1]
            taken = second - weights[i] / others
            third = max(1.0 - weights[i] / total * (1.0 + taken), 0.0)
            for m in range(n_weights):
                exposure[m, first + i] += place_weights[m, first + 2] * third
        return

    used = n
    while used > k and trailing[used - 1] < NEGLIGIBLE * trailing[k - 1]:
        used -= 1
    odds, powers = scratch[n + 1 : 2 * n + 1], scratch[2 * n + 1 : 3 * n + 1]
    at, most = 3 * n + 1, most_nodes(k)
    times, measures = scratch[at : at + most], scratch[at + most : at + 2 * most]
    at += 2 * most
    room = scratch[at : at + (most_early(k) + 4) * max(k, 5)].reshape(most_early(k) + 4, max(k, 5))
    at += room.size
    reached = scratch[at : at + n_weights * used].reshape(n_weights, used)
    n_nodes = _choose_nodes(total, trailing[k - 1], k, laguerre_nodes, laguerre_weights, times, measures)
    reached[:] = 0.0
    for s in range(n_nodes):
        _add_node(weights[:used], trailing, place_weights, first, k, times[s], measures[s], odds, powers, room, reached)
    for m in range(n_weights):
        found, wanted = 0.0, 0.0
        theirs, shown = reached[m], exposure[m, first:]
        for i in range(used):
            found += theirs[i]
        for j in range(2, k):
            wanted += place_weights[m, first + j]
        correction = wanted / found if found > 0.0 else 1.0  # every place is taken: this removes most of the error
        for i in range(used):
            shown[i] += theirs[i] * correction


@njit(cache=True, nogil=True, error_model="numpy")
def most_nodes(k):
    # A block's weights span at most e^600 (see `split_blocks`), so this many nodes always suffice.
    return max(int((600.0 + np.log(_last_arrival(k) / 6e-3)) / _trapezoid_step(k)) + 2, LAGUERRE_MOST)


@njit(cache=True, nogil=True, error_model="numpy")
def most_early(k):
    # Each early item has arrived with probability 0.39 or more; of this many, fewer than k have with P < 1e-10.
    return 80 + 4 * k


@njit(cache=True, nogil=True, error_model="numpy")
def scratch_size(longest, k, n_weights):
    return (3 + n_weights) * longest + 1 + 2 * most_nodes(k) + (most_early(k) + 4) * max(k, 5)
