"""Compiled loops of the exact evaluation: where Plackett–Luce places each item, without sampling.

Give every item an exponential clock with its weight as rate; the order of arrival is Plackett–Luce. So

    P(item d is placed at j) = ∫ w_d e^{−w_d t} · P(exactly j − 1 of the other items arrive before t) dt.

The first two places have closed forms. For the others the integral is a weighted sum over a few nodes t, eight of which
are computed side by side (`isrr.lanes`). At a node the number of arrivals is a product of factors q_i + p_i z with
q_i = e^{−w_i t}; what matters is that product with one item left out, for every item.

* Late items, w_i t ≤ ½, are the many. With r_i = p_i / q_i = e^{w_i t} − 1 the product is Π q_i · Σ_j e_j(r) z^j; the
  symmetric sums e_j come from power sums (Newton), and leaving an item out is a polynomial in −r_i. As r_i < 1 neither
  loses digits that count beside a probability.
* Early items, w_i t > ½, are few. One pass forward through their factors and one back (reverse-mode differentiation:
  the weights of the places carried through the factors that follow) leave each one out without dividing. What is
  carried is all that differs between one weighting of the places and another: several cost little more than one.
* Items that have arrived for sure take a place each; items that cannot have arrived yet are left out.

Nodes. Terms decay at rates between R, the weight left when the k − 1 heaviest items are gone, and W, the whole
weight. When the two are close, Gauss–Laguerre nodes for t² e^{−t}, scaled by their harmonic mean, converge like
((W − R)/(W + R))^{2n}: eight nodes are plenty for a flat list. When they are far apart, a trapezoid rule in log t needs
a fixed number of nodes per octave of W/R; it begins where three items can have arrived.

Bits. A kernel may be compiled alone or inside the kernel that calls it. Every sum therefore names its own order, and no
compiler flag lets arithmetic be rearranged: results are bit-for-bit identical either way.
"""

import math

from isrr.compiled import kernel, part
from isrr.lanes import WIDTH, added_up, exp, exp_less_one, fma, larger, load, splat, store

EARLY, EARLY_LONG = 2.0, 0.5  # w t above which an item counts as early, for up to five places and for more …
SURE = 22.0  # … and above which it has arrived for sure: e^−22 is below 1e-9
ABSENT = 1e-10  # Σ w t of items that cannot have arrived yet
LAGUERRE_MOST = 48  # nodes of the largest Gauss–Laguerre rule
UNROLLED = 5  # places up to which polynomials stay in registers


@kernel
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


@part
def _trapezoid_step(k):
    return min(0.47, 1.05 / math.sqrt(k))  # the arrival of the k-th item is 1/√k wide in log t


@part
def _last_arrival(k):
    return k + 6.0 * math.sqrt(k) + 12.0  # by this time, k items have arrived at unit rate but for 1e-9


@part
def _choose_nodes(trailing, k, laguerre_nodes, laguerre_weights, times, measures):
    # trailing (≥ k,)                                    the weight of item i and all below it
    # laguerre_nodes (LAGUERRE_MOST + 1, LAGUERRE_MOST)  row n: the n nodes for t² e^{−t}, then zeros
    # times, measures (≥ n,)                             out: nodes and weights of the chosen rule, a multiple of eight
    total, slowest = trailing[0], trailing[k - 1]
    spread = max((total - slowest) / (total + slowest), 0.1)
    n = LAGUERRE_MOST + 1
    if spread < 0.99:
        n = _whole_rows(math.ceil(max(2.0 + 0.25 * k, 0.5 * k) + 4.8 / -math.log(spread)))
    low, high, n_trapezoid = 0.0, 0.0, n
    if n > 2 * WIDTH:  # the trapezoid rule never does with as few
        # P(three have arrived by t) ≤ t³ · trailing[0] · trailing[1] · trailing[2]
        three = math.log(total) + math.log(max(trailing[1], 1e-300)) + math.log(max(trailing[2], 1e-300))
        low = max(math.log(6e-3 / total), -5.81 - three / 3.0)
        high = math.log(_last_arrival(k) / slowest)
        n_trapezoid = _whole_rows(int((high - low) / _trapezoid_step(k)) + 2)
    if n <= min(LAGUERRE_MOST, n_trapezoid):
        stretch = (total + slowest) / (2.0 * total * slowest)
        for s in range(n):
            times[s] = laguerre_nodes[n, s] * stretch
            measures[s] = laguerre_weights[n, s] * stretch
        return n
    step = (high - low) / (n_trapezoid - 1)
    time, ratio = math.exp(low), math.exp(step)
    for s in range(n_trapezoid):
        times[s], measures[s] = time, step * time
        time *= ratio
    return n_trapezoid


@part
def _whole_rows(n):
    return (n + WIDTH - 1) // WIDTH * WIDTH


@part
def _carried(place_weights, m, first, k, place):
    return place_weights[m, first + place] if 2 <= place < k else 0.0


@kernel
def _integrate(weights, trailing, place_weights, first, k, times, measures, n_nodes, odds, before, reached):
    # place_weights, first, k      as for `exposure_of_block`, k ≤ 5
    # odds (n rows of 8)           scratch: of a late item r, of an early one its chance to stay
    # before (n_early rows of 40)  scratch: of an early item the polynomial before it
    # reached (n_weights · n rows of 8)  adds each item's exposure at the third place and below, over its weight
    n = weights.size
    one, zero = splat(1.0), splat(0.0)
    n_sure, n_early, n_there = 0, 0, 1
    for g in range(0, n_nodes, WIDTH):
        while n_sure < n and weights[n_sure] * times[g] > SURE:
            n_sure += 1
        while n_early < n and weights[n_early] * times[g + WIDTH - 1] > EARLY:
            n_early += 1
        while n_there < n and trailing[n_there] * times[g + WIDTH - 1] > ABSENT:
            n_there += 1
        if n_sure >= k:
            return
        time, measure = load(times, g), load(measures, g)
        backward = zero - time
        e0, e1, e2, e3, e4 = one, zero, zero, zero, zero
        if n_early < n_there:
            s1, s2, s3, s4 = zero, zero, zero, zero
            for i in range(n_early, n_there):
                r = exp_less_one(time * splat(weights[i]))
                square = r * r
                store(odds, 8 * i, r)
                s1, s2, s3, s4 = s1 + r, s2 + square, fma(square, r, s3), fma(square, square, s4)
            e0 = exp(backward * splat(trailing[n_early]))  # Newton: j·e_j = Σ_i (−1)^{i−1} e_{j−i} s_i
            e1 = e0 * s1
            e2 = larger(e1 * s1 - e0 * s2, zero) * splat(1 / 2)
            e3 = larger(e2 * s1 - e1 * s2 + e0 * s3, zero) * splat(1 / 3)
            e4 = larger(e3 * s1 - e2 * s2 + e1 * s3 - e0 * s4, zero) * splat(1 / 4)
        p0, p1, p2, p3, p4 = e0, e1, e2, e3, e4
        for i in range(n_sure, n_early):
            at = 40 * (i - n_sure)
            stay = exp(backward * splat(weights[i]))
            come = one - stay
            store(odds, 8 * i, stay)
            store(before, at, p0)
            store(before, at + 8, p1)
            store(before, at + 16, p2)
            store(before, at + 24, p3)
            store(before, at + 32, p4)
            p4 = fma(p4, stay, p3 * come)
            p3 = fma(p3, stay, p2 * come)
            p2 = fma(p2, stay, p1 * come)
            p1 = fma(p1, stay, p0 * come)
            p0 = p0 * stay
        for m in range(place_weights.shape[0]):
            row = 8 * n * m
            c0 = measure * splat(_carried(place_weights, m, first, k, n_sure))
            c1 = measure * splat(_carried(place_weights, m, first, k, n_sure + 1))
            c2 = measure * splat(_carried(place_weights, m, first, k, n_sure + 2))
            c3 = measure * splat(_carried(place_weights, m, first, k, n_sure + 3))
            c4 = measure * splat(_carried(place_weights, m, first, k, n_sure + 4))
            for i in range(n_early - 1, n_sure - 1, -1):
                at = 40 * (i - n_sure)
                stay = load(odds, 8 * i)
                come = one - stay
                low = fma(load(before, at + 8), c1, load(before, at) * c0)
                high = fma(load(before, at + 32), c4, load(before, at + 24) * c3)
                value = fma(load(before, at + 16), c2, low) + high
                store(reached, row + 8 * i, fma(stay, value, load(reached, row + 8 * i)))
                c0 = fma(c0, stay, c1 * come)
                c1 = fma(c1, stay, c2 * come)
                c2 = fma(c2, stay, c3 * come)
                c3 = fma(c3, stay, c4 * come)
                c4 = c4 * stay
            if n_early < n_there:
                l0 = fma(c0, e0, fma(c1, e1, fma(c2, e2, fma(c3, e3, c4 * e4))))
                l1 = zero - fma(c1, e0, fma(c2, e1, fma(c3, e2, c4 * e3)))
                l2 = fma(c2, e0, fma(c3, e1, c4 * e2))
                l3 = zero - fma(c3, e0, c4 * e1)
                l4 = c4 * e0
                for i in range(n_early, n_there):
                    r = load(odds, 8 * i)
                    value = fma(r, fma(r, fma(r, fma(r, l4, l3), l2), l1), l0)
                    store(reached, row + 8 * i, load(reached, row + 8 * i) + value)


@part
def _symmetric_sums(odds, n_early, n_there, scale, k, powers, sums, symmetric):
    # powers (n rows of 8), sums (k + 3 rows of 8)  scratch
    # symmetric (k rows of 8)                       out: e_0 … e_{k−1} of the late items' r, times a common scale
    one, zero = splat(1.0), splat(0.0)
    for i in range(n_early, n_there):
        store(powers, 8 * i, one)
    for j in range(1, k, 4):
        s1, s2, s3, s4 = zero, zero, zero, zero
        for i in range(n_early, n_there):
            r, power = load(odds, 8 * i), load(powers, 8 * i)
            square = r * r
            a, b = power * r, power * square
            c, d = a * square, b * square
            s1, s2, s3, s4 = s1 + a, s2 + b, s3 + c, s4 + d
            store(powers, 8 * i, d)
        store(sums, 8 * j, s1)
        store(sums, 8 * j + 8, s2)
        store(sums, 8 * j + 16, s3)
        store(sums, 8 * j + 24, s4)
    store(symmetric, 0, scale)
    for j in range(1, k):
        plus, minus = zero, zero
        for i in range(1, j + 1, 2):
            plus = plus + load(symmetric, 8 * (j - i)) * load(sums, 8 * i)
        for i in range(2, j + 1, 2):
            minus = minus + load(symmetric, 8 * (j - i)) * load(sums, 8 * i)
        store(symmetric, 8 * j, larger(plus - minus, zero) * splat(1.0 / j))


@kernel
def _integrate_long(weights, trailing, place_weights, first, k, times, measures, n_nodes, odds, before, reached, room):
    # As `_integrate`, for any k: polynomials are kept in memory.
    # before (n_early + 1 rows of 8·k)
    # room ((n + 4·k + 3) rows of 8)  scratch
    n = weights.size
    powers, sums = room[: 8 * n], room[8 * n : 8 * (n + k + 3)]
    symmetric, carried = room[8 * (n + k + 3) : 8 * (n + 2 * k + 3)], room[8 * (n + 2 * k + 3) : 8 * (n + 3 * k + 3)]
    left_out = room[8 * (n + 3 * k + 3) :]
    one, zero = splat(1.0), splat(0.0)
    n_sure, n_early, n_there = 0, 0, 1
    for g in range(0, n_nodes, WIDTH):
        while n_sure < n and weights[n_sure] * times[g] > SURE:
            n_sure += 1
        while n_early < n and weights[n_early] * times[g + WIDTH - 1] > EARLY_LONG:
            n_early += 1
        while n_there < n and trailing[n_there] * times[g + WIDTH - 1] > ABSENT:
            n_there += 1
        open_places = k - n_sure
        if open_places <= 0:
            return
        time, measure = load(times, g), load(measures, g)
        backward = zero - time
        for i in range(n_early, n_there):
            store(odds, 8 * i, exp_less_one(time * splat(weights[i])))
        scale = exp(backward * splat(trailing[n_early])) if n_early < n_there else one
        _symmetric_sums(odds, n_early, n_there, scale, open_places, powers, sums, symmetric)
        for j in range(open_places):
            store(before, 8 * j, load(symmetric, 8 * j))
        for i in range(n_sure, n_early):
            at = 8 * k * (i - n_sure)
            stay = exp(backward * splat(weights[i]))
            come = one - stay
            store(odds, 8 * i, stay)
            above = load(before, at)
            store(before, at + 8 * k, above * stay)
            for j in range(1, open_places):
                here = load(before, at + 8 * j)
                store(before, at + 8 * (k + j), here * stay + above * come)
                above = here
        for m in range(place_weights.shape[0]):
            row = 8 * n * m
            for j in range(open_places):
                store(carried, 8 * j, measure * splat(_carried(place_weights, m, first, k, n_sure + j)))
            for i in range(n_early - 1, n_sure - 1, -1):
                at = 8 * k * (i - n_sure)
                stay = load(odds, 8 * i)
                come = one - stay
                here = load(carried, 0)
                value = load(before, at) * here
                for j in range(1, open_places):
                    after = load(carried, 8 * j)
                    value = value + load(before, at + 8 * j) * after
                    store(carried, 8 * (j - 1), here * stay + after * come)
                    here = after
                store(carried, 8 * (open_places - 1), here * stay)
                store(reached, row + 8 * i, load(reached, row + 8 * i) + stay * value)
            if n_early < n_there:
                for i in range(open_places):
                    total = zero
                    for j in range(i, open_places):
                        total = total + load(carried, 8 * j) * load(symmetric, 8 * (j - i))
                    store(left_out, 8 * i, total)
                for i in range(n_early, n_there):
                    r, value = load(odds, 8 * i), load(left_out, 8 * (open_places - 1))
                    for j in range(open_places - 2, -1, -1):
                        value = load(left_out, 8 * j) - r * value
                    store(reached, row + 8 * i, load(reached, row + 8 * i) + value)


@part
def _first_two(weights, trailing, place_weights, first, k, shares, exposure):
    # shares (n,)              out: w / (W − w)
    # exposure (n_weights, …)  out: each item's exposure at the first two places
    # Returns Σ w / (W − w) over all items but the first.
    n, total = weights.size, trailing[0]
    rest = 0.0
    for i in range(1, n):
        shares[i] = weights[i] / (total - weights[i])
        rest += shares[i]
    shares[0] = weights[0] / trailing[1]
    for m in range(place_weights.shape[0]):
        shown = exposure[m, first:]
        at_first, at_second = place_weights[m, first], place_weights[m, first + 1] if k > 1 else 0.0
        shown[0] = (at_first + at_second * rest) * (weights[0] / total)
        for i in range(1, n):
            shown[i] = (at_first + at_second * (rest + shares[0] - shares[i])) * (weights[i] / total)
    return rest


@kernel
def exposure_of_block(
    weights, place_weights, first, k, laguerre_nodes, laguerre_weights, scratch, polynomials, exposure
):
    # weights (n,)                          falling, the first one 1; n ≥ 2
    # place_weights (n_weights, ≥ first + k), first, k ≤ n   items compete for the places first … first + k − 1
    # scratch                               `scratch_size(n, k, n_weights)` numbers
    # polynomials                           None where k ≤ 5, else `polynomial_size(n, k)` numbers: for None, the kernel
    #                                       is compiled without the loops for longer lists
    # exposure (n_weights, ≥ first + n)     out: in columns first …, the expected weight of each item's place
    n, n_weights = weights.size, place_weights.shape[0]
    trailing, shares = scratch[: n + 1], scratch[n + 1 : 2 * n + 1]
    trailing[n] = 0.0
    for i in range(n - 1, -1, -1):  # from the smallest: nothing is ever subtracted from a larger sum
        trailing[i] = trailing[i + 1] + weights[i]
    rest = _first_two(weights, trailing, place_weights, first, k, shares, exposure)
    if k <= 2:
        return
    if k == 3 and n == 3:  # whoever is neither first nor second is third
        for i in range(3):
            others = rest + shares[0] - shares[i] if i > 0 else rest
            third = max(1.0 - weights[i] / trailing[0] * (1.0 + others), 0.0)
            for m in range(n_weights):
                exposure[m, first + i] += place_weights[m, first + 2] * third
        return
    at, most = 2 * n + 1, most_nodes(k)
    times, measures = scratch[at : at + most], scratch[at + most : at + 2 * most]
    at += 2 * most
    odds, reached = scratch[at : at + 8 * n], scratch[at + 8 * n : at + 8 * n * (n_weights + 1)]
    at += 8 * n * (n_weights + 1)
    n_nodes = _choose_nodes(trailing, k, laguerre_nodes, laguerre_weights, times, measures)
    for i in range(reached.size):
        reached[i] = 0.0
    if polynomials is None:
        before = scratch[at:]
        _integrate(weights, trailing, place_weights, first, k, times, measures, n_nodes, odds, before, reached)
    else:
        n_room = 8 * (n + 4 * k + 3)
        room, before = polynomials[:n_room], polynomials[n_room:]
        _integrate_long(
            weights, trailing, place_weights, first, k, times, measures, n_nodes, odds, before, reached, room
        )
    for m in range(n_weights):
        shown = exposure[m, first:]
        found, wanted = 0.0, 0.0
        for i in range(n):
            shares[i] = weights[i] * added_up(load(reached, 8 * (n * m + i)))
            found += shares[i]
        for j in range(2, k):
            wanted += place_weights[m, first + j]
        correction = wanted / found if found > 0.0 else 1.0  # every place is taken: this removes most of the error
        for i in range(n):
            shown[i] += shares[i] * correction


@part
def most_nodes(k):
    # A block's weights span at most e^600 (see `isrr.ranker._kernels`), so this many nodes always suffice.
    return _whole_rows(max(int(650.0 / _trapezoid_step(k)), LAGUERRE_MOST)) + 2 * WIDTH


@part
def _most_early(longest, k):
    # The items from the k-th on weigh `slowest` together, and no node lies beyond 177 / slowest and the last arrival.
    return min(longest, int(2.0 * max(_last_arrival(k), 177.0)) + k) + 1


@kernel
def scratch_size(longest, k, n_weights):
    return (2 + 8 * (n_weights + 1)) * longest + 1 + 2 * most_nodes(k) + 8 * UNROLLED * _most_early(longest, UNROLLED)


@kernel
def polynomial_size(longest, k):
    return 8 * (longest + 4 * k + 3) + 8 * k * _most_early(longest, k)
