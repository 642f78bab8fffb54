"""The exact integral: where Plackett–Luce puts each item, without sampling.

Give every item an exponential clock with its weight as rate; the order of arrival is Plackett–Luce. So

    P(item d is placed at j) = ∫ w_d e^{−w_d t} · P(exactly j − 1 of the other items arrive before t) dt.

The first two positions have closed forms. For the others the integral is a sum over a few nodes t, eight of which are
computed side by side (`isrr.ranker.simd`). At a node the number of arrivals is a product of factors q_i + p_i z,
with q_i = e^{−w_i t}; what matters is that product with one item left out, for every item.

* Late items, w_i t ≤ 2, are the many. With r_i = p_i / q_i = e^{w_i t} − 1 the product is Π q_i · Σ_j e_j(r) z^j; the
  symmetric sums e_j come from power sums (Newton), and leaving an item out is a polynomial in −r_i. As r_i < 7 neither
  loses digits that count beside a probability.
* Early items, w_i t > 2, are few. One pass forward through their factors and one back (reverse-mode differentiation:
  the weights of the positions carried through the factors that follow) leave each one out without dividing. What is
  carried is all that differs between one weighting of the positions and another: several cost little more than one.
* Faint items, w_i t ≤ 0.008, are taken together. Their power sums follow from Σ w, Σ w² and Σ w³, and what a node
  gives them is a polynomial in their weight: its three coefficients are added up over the nodes, and an item that a
  later node tells apart begins with what that polynomial gives it.
* Items that have arrived for sure take a place each.

Nodes. Terms decay at rates between R, the weight left when the k − 1 heaviest items are gone, and W, the whole
weight. When the two are close, Gauss–Laguerre nodes for t² e^{−t}, scaled by their harmonic mean, converge like
((W − R)/(W + R))^{2n}: eight nodes are plenty for a flat list. When they are far apart, a trapezoid rule in log t needs
a fixed number of nodes per octave of W/R; it begins where three items can have arrived.
"""

import math
from functools import cache

import numpy as np

from isrr.compiled import kernel
from isrr.data.queries import FloatArray, IntArray
from isrr.ranker.simd import (
    ROW,
    WIDTH,
    broadcast,
    broadcast_at,
    exp,
    exp_less_one,
    fma,
    hsum,
    hsum_rows,
    lane,
    larger,
    load,
    pointer,
    store,
    suffix_sums,
    with_first,
)

Memory = tuple[FloatArray, IntArray, FloatArray | None]
EARLY, EARLY_LONG = 2.0, 0.5  # w t above which an item counts as early, for up to five positions and for more …
SURE = 22.0  # … above which it has arrived for sure: e^−22 is below 1e-9 …
FAINT = 0.008  # … and up to which it is faint: the fourth power counts for nothing
ABSENT = 1e-10  # for more than five positions, Σ w t of items that cannot have arrived yet
LAGUERRE_MOST = 48  # nodes of the largest Gauss–Laguerre rule
UNROLLED = 5  # positions up to which polynomials stay in registers
LATER = 2 * UNROLLED  # positions that are looked up: those that items have taken for sure, and those that follow


@kernel
def _choose_nodes(trailing, k, laguerre_nodes, laguerre_weights, times):
    # trailing (≥ k,)                                    the weight of item i and all below it
    # laguerre_nodes, laguerre_weights (rows of LAGUERRE_MOST)  row n: the n nodes for t² e^{−t}, then zeros
    # times (≥ 2 n,)                                     out: n nodes, then the weights, of the chosen rule; n is a
    #                                                    multiple of eight
    total, slowest = trailing[0], trailing[k - 1]
    spread = max((total - slowest) / (total + slowest), 0.1)
    n = LAGUERRE_MOST + 1
    if spread < 0.99:
        n = _whole_rows(math.ceil(max(2.0 + 0.25 * k, 0.5 * k) + 4.8 / -math.log(spread)))
    low, high, n_trapezoid = 0.0, 0.0, n
    if n > 2 * ROW:  # the trapezoid rule never does with as few
        # P(three have arrived by t) ≤ t³ · trailing[0] · trailing[1] · trailing[2]
        three = math.log(total * max(trailing[1], 1e-90) * max(trailing[2], 1e-90))
        low = max(math.log(6e-3 / total), -5.81 - three / 3.0)
        # by k + 6 √k + 12, k items have arrived at unit rate but for 1e-9; the k-th arrival is 1/√k wide in log t
        high = math.log((k + 6.0 * math.sqrt(k) + 12.0) / slowest)
        n_trapezoid = _whole_rows(int((high - low) / min(0.45, 1.05 / math.sqrt(k))) + 2)
    if n <= min(LAGUERRE_MOST, n_trapezoid):
        stretch = (total + slowest) / (2.0 * total * slowest)
        for s in range(n):
            times[s] = laguerre_nodes[LAGUERRE_MOST * n + s] * stretch
            times[n + s] = laguerre_weights[LAGUERRE_MOST * n + s] * stretch
        return n
    step = (high - low) / (n_trapezoid - 1)
    time, ratio = math.exp(low), math.exp(step)
    for s in range(WIDTH):
        times[s] = time
        time *= ratio
    row, leap = load(times, 0), broadcast(ratio**WIDTH)
    for s in range(0, n_trapezoid, WIDTH):
        store(times, s, row)
        store(times, n_trapezoid + s, row * broadcast(step))
        row = row * leap
    return n_trapezoid


@kernel
def _whole_rows(n):
    return (n + ROW - 1) // ROW * ROW


@kernel
def _tell_apart(weights, row, since, until, reached, faint, at):
    # Items that are faint no longer begin with what they have reached so far.
    c0, c1, c2 = load(faint, at), load(faint, at + 8), load(faint, at + 16)
    for i in range(since, until):
        w = broadcast_at(weights, i)
        store(reached, row + 8 * i, fma(w, fma(w, c2, c1), c0))


@kernel
def _integrate(weights, n, trailing, later, n_weights, k, times, measures, n_nodes, odds, before, faint, reached):
    # later (n_weights · LATER)    what the k ≤ 5 positions are worth from the third on, zeros before and after
    # odds (n rows of 8)           scratch: of a late item r, of an early one its chance to stay
    # before (n_early rows of 40)  scratch: of an early item the polynomial before it
    # reached (n_weights · whole rows of n, rows of 8)  out: each item's exposure from the third position on, over its
    #                              weight, of the items that were not faint throughout
    # faint (n_weights · 3 rows of 8)  out: the polynomial in an item's weight that gives the same for the others
    # Returns how many items were not faint throughout.
    stride = 8 * _whole_rows(n)
    one, zero = broadcast(1.0), broadcast(0.0)
    n_sure, n_early, n_told = 0, 0, 0
    for m in range(3 * n_weights):
        store(faint, 8 * m, zero)
    for g in range(0, n_nodes, WIDTH):
        earliest, latest, known = times[g], times[g + WIDTH - 1], n_told
        while n_sure < n and weights[n_sure] * earliest > SURE:
            n_sure += 1
        if n_sure >= k:
            break
        while n_early < n and weights[n_early] * latest > EARLY:
            n_early += 1
        while n_told < n and weights[n_told] * latest > FAINT:
            n_told += 1
        for m in range(n_weights):
            _tell_apart(weights, stride * m, known, n_early, reached, faint, 24 * m)
        time, measure = load(times, g), load(measures, g)
        backward = zero - time
        e0, e1, e2, e3, e4 = one, zero, zero, zero, zero
        if n_early < n:
            s1, s2, s3, s4 = zero, zero, zero, zero
            if n_told < n:
                squares, cubes = zero, zero
                for i in range(n_told, n, WIDTH):
                    w = load(weights, i)
                    square = w * w
                    squares, cubes = squares + square, fma(square, w, cubes)
                all2, all3 = broadcast(hsum(squares)), time * broadcast(hsum(cubes))
                s2, s3 = time * time * (all2 + all3), time * time * all3
                s1 = time * fma(
                    time, fma(all3, broadcast(1 / 6), all2 * broadcast(1 / 2)), broadcast_at(trailing, n_told)
                )
            for i in range(n_early, n_told):
                r = exp_less_one(time * broadcast_at(weights, i))
                square = r * r
                store(odds, 8 * i, r)
                s1, s2, s3, s4 = s1 + r, s2 + square, fma(square, r, s3), fma(square, square, s4)
            e0 = exp(backward * broadcast_at(trailing, n_early))  # Newton: j·e_j = Σ_i (−1)^{i−1} e_{j−i} s_i
            e1 = e0 * s1
            e2 = larger(e1 * s1 - e0 * s2, zero) * broadcast(1 / 2)
            e3 = larger(e2 * s1 - e1 * s2 + e0 * s3, zero) * broadcast(1 / 3)
            e4 = larger(e3 * s1 - e2 * s2 + e1 * s3 - e0 * s4, zero) * broadcast(1 / 4)
        p0, p1, p2, p3, p4 = e0, e1, e2, e3, e4
        for i in range(n_sure, n_early):
            at = 40 * (i - n_sure)
            stay = exp(backward * broadcast_at(weights, i))
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
        for m in range(n_weights):
            row = stride * m
            c0 = measure * broadcast_at(later, LATER * m + n_sure)
            c1 = measure * broadcast_at(later, LATER * m + n_sure + 1)
            c2 = measure * broadcast_at(later, LATER * m + n_sure + 2)
            c3 = measure * broadcast_at(later, LATER * m + n_sure + 3)
            c4 = measure * broadcast_at(later, LATER * m + n_sure + 4)
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
            if n_early < n:
                l0 = fma(c0, e0, fma(c1, e1, fma(c2, e2, fma(c3, e3, c4 * e4))))
                l1 = zero - fma(c1, e0, fma(c2, e1, fma(c3, e2, c4 * e3)))
                l2 = fma(c2, e0, fma(c3, e1, c4 * e2))
                l3 = zero - fma(c3, e0, c4 * e1)
                l4 = c4 * e0
                for i in range(n_early, known):
                    r = load(odds, 8 * i)
                    value = fma(r, fma(r, fma(r, fma(r, l4, l3), l2), l1), l0)
                    store(reached, row + 8 * i, load(reached, row + 8 * i) + value)
                f0, f1, f2 = load(faint, 24 * m), load(faint, 24 * m + 8), load(faint, 24 * m + 16)
                for i in range(max(known, n_early), n_told):
                    r, w = load(odds, 8 * i), broadcast_at(weights, i)
                    value = fma(r, fma(r, fma(r, fma(r, l4, l3), l2), l1), l0)
                    store(reached, row + 8 * i, fma(w, fma(w, f2, f1), f0) + value)
                if n_told < n:  # r = w t + (w t)² / 2
                    store(faint, 24 * m, f0 + l0)
                    store(faint, 24 * m + 8, fma(time, l1, f1))
                    store(faint, 24 * m + 16, fma(time * time, fma(l1, broadcast(1 / 2), l2), f2))
    return n_told


@kernel
def _symmetric_sums(odds, n_early, n_there, scale, k, powers, sums, symmetric):
    # powers (n rows of 8), sums (k + 3 rows of 8)  scratch
    # symmetric (k rows of 8)                       out: e_0 … e_{k−1} of the late items' r, times a common scale
    one, zero = broadcast(1.0), broadcast(0.0)
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
        store(symmetric, 8 * j, larger(plus - minus, zero) * broadcast(1.0 / j))


@kernel
def _integrate_long(
    weights, n, trailing, worth, n_weights, width, k, times, measures, n_nodes, odds, before, reached, room
):
    # As `_integrate`, for any k: polynomials are kept in memory, and no item counts as faint.
    # before (n_early + 1 rows of 8·k)
    # room ((n + 4·k + 3) rows of 8)  scratch
    stride = 8 * _whole_rows(n)
    powers, sums, symmetric = room, pointer(room, 8 * n), pointer(room, 8 * (n + k + 3))
    carried, left_out = pointer(room, 8 * (n + 2 * k + 3)), pointer(room, 8 * (n + 3 * k + 3))
    one, zero = broadcast(1.0), broadcast(0.0)
    for i in range(stride * n_weights):
        reached[i] = 0.0
    n_sure, n_early, n_there = 0, 0, 1
    for g in range(0, n_nodes, WIDTH):
        while n_sure < n and weights[n_sure] * times[g] > SURE:
            n_sure += 1
        while n_early < n and weights[n_early] * times[g + WIDTH - 1] > EARLY_LONG:
            n_early += 1
        while n_there < n and trailing[n_there] * times[g + WIDTH - 1] > ABSENT:
            n_there += 1
        open_positions = k - n_sure
        if open_positions <= 0:
            return
        time, measure = load(times, g), load(measures, g)
        backward = zero - time
        for i in range(n_early, n_there):
            store(odds, 8 * i, exp_less_one(time * broadcast_at(weights, i)))
        scale = exp(backward * broadcast_at(trailing, n_early)) if n_early < n_there else one
        _symmetric_sums(odds, n_early, n_there, scale, open_positions, powers, sums, symmetric)
        for j in range(open_positions):
            store(before, 8 * j, load(symmetric, 8 * j))
        for i in range(n_sure, n_early):
            at = 8 * k * (i - n_sure)
            stay = exp(backward * broadcast_at(weights, i))
            come = one - stay
            store(odds, 8 * i, stay)
            above = load(before, at)
            store(before, at + 8 * k, above * stay)
            for j in range(1, open_positions):
                here = load(before, at + 8 * j)
                store(before, at + 8 * (k + j), here * stay + above * come)
                above = here
        for m in range(n_weights):
            row = stride * m
            for j in range(open_positions):
                later = worth[width * m + n_sure + j] if n_sure + j >= 2 else 0.0
                store(carried, 8 * j, measure * broadcast(later))
            for i in range(n_early - 1, n_sure - 1, -1):
                at = 8 * k * (i - n_sure)
                stay = load(odds, 8 * i)
                come = one - stay
                here = load(carried, 0)
                value = load(before, at) * here
                for j in range(1, open_positions):
                    after = load(carried, 8 * j)
                    value = value + load(before, at + 8 * j) * after
                    store(carried, 8 * (j - 1), here * stay + after * come)
                    here = after
                store(carried, 8 * (open_positions - 1), here * stay)
                store(reached, row + 8 * i, load(reached, row + 8 * i) + stay * value)
            if n_early < n_there:
                for i in range(open_positions):
                    total = zero
                    for j in range(i, open_positions):
                        total = total + load(carried, 8 * j) * load(symmetric, 8 * (j - i))
                    store(left_out, 8 * i, total)
                for i in range(n_early, n_there):
                    r, value = load(odds, 8 * i), load(left_out, 8 * (open_positions - 1))
                    for j in range(open_positions - 2, -1, -1):
                        value = load(left_out, 8 * j) - r * value
                    store(reached, row + 8 * i, load(reached, row + 8 * i) + value)


@kernel
def _first_two(weights, n, trailing, worth, n_weights, width, k, shares, shown):
    # worth (n_weights rows of `width`)     weights of the positions, from the one on that these items compete for
    # shares (whole rows of n)              out: w / (W − w)
    # shown (n_weights · whole rows of n,)  out: each item's exposure at the first two positions
    # Returns Σ w / (W − w) over all items but the first.
    whole, others, share = broadcast_at(trailing, 0), broadcast(0.0), broadcast(1.0) / broadcast_at(trailing, 0)
    for i in range(0, n, WIDTH):
        w = load(weights, i)
        left = whole - w
        if i == 0:
            left = with_first(left, trailing[1])
        odds = w / left
        store(shares, i, odds)
        others = others + (with_first(odds, 0.0) if i == 0 else odds)
    rest, stride = hsum(others), _whole_rows(n)
    for m in range(n_weights):
        at_first, at_second = broadcast(worth[width * m]), broadcast(worth[width * m + 1] if k > 1 else 0.0)
        for i in range(0, n, WIDTH):
            before = broadcast(rest + shares[0]) - load(shares, i)
            if i == 0:
                before = with_first(before, rest)
            store(shown, stride * m + i, fma(at_second, before, at_first) * (load(weights, i) * share))
    return rest


def memory_for(longest: int, k: int = 1, n_weights: int = 1) -> Memory:
    """Return memory for lists up to some length: weights, eligibility, exposures and what the integral works in; the
    heads of blocks; and more for the integral where there are more than five positions.
    """
    n_nodes = max(int(650.0 / min(0.45, 1.05 / math.sqrt(k))), LAGUERRE_MOST) + 3 * ROW  # a block spans at most e^600
    whole = longest + 2 * ROW
    by_item = (11 + 9 * n_weights) * whole + (24 + LATER) * n_weights
    by_item += (2 + n_weights) * longest
    # The items from the j-th on weigh `slowest` together; no node lies beyond 177 / slowest and the last arrival.
    latest = [max(j + 6.0 * math.sqrt(j) + 12.0, 177.0) for j in (UNROLLED, k)]
    early, early_long = (min(longest, int(2.0 * t) + j) + 1 for t, j in zip(latest, (UNROLLED, k), strict=True))
    items = np.empty(by_item + 2 * n_nodes + 8 * UNROLLED * early)
    longer = None if k <= UNROLLED else np.empty(8 * (longest + 4 * k + 3) + 8 * k * early_long)
    return items, np.empty(longest, np.int64), longer


@kernel
def exact_exposure(
    weights,
    heads,
    n,
    n_admitted,
    position_weights,
    n_weights,
    n_positions,
    nodes,
    node_weights,
    memory,
    longer,
    out,
    stride,
):
    # weights, heads (≥ n,)             as `isrr.ranker.kernels.weigh` leaves them; arrays come as pointers but the last
    # n_admitted                        one number: every position admits the same items (decay 1)
    # position_weights (n_weights · n_positions,)  what a position is worth, in several currencies
    # nodes, node_weights               `laguerre_rules()`
    # memory, longer                    of `memory_for(n, k, n_weights)`; for None, loops for more than five positions
    #                                   are not compiled
    # out (n_weights · stride,)         the expected weight of each item's position, by falling score, of the first
    #                                   items; returns how many. The others are never shown
    width, n_positions, last = n_positions, min(n_positions, n), np.int64(0)
    while last < min(n_admitted, n_positions):  # items first … last − 1 compete for as many positions
        first, last = last, last + 1
        while last < n_admitted and heads[last] == heads[first]:
            last += 1
        size, k = last - first, min(n_positions, last) - first
        worth = pointer(position_weights, first)
        if size == 1:
            for m in range(n_weights):
                out[stride * m + first] = worth[width * m]
            continue
        whole, at = _whole_rows(size), _whole_rows(size) + 8
        own, trailing, shares, shown = memory, pointer(memory, at), pointer(memory, 2 * at), pointer(memory, 3 * at)
        for i in range(size):
            own[i] = weights[first + i]
        for i in range(size, whole + 8):
            own[i], trailing[i] = 0.0, 0.0
        below = 0.0
        for i in range(whole - WIDTH, -1, -WIDTH):  # from the smallest: nothing is ever subtracted from a larger sum
            sums = suffix_sums(load(own, i)) + broadcast(below)
            store(trailing, i, sums)
            below = lane(sums, 0)
        rest = _first_two(own, size, trailing, worth, n_weights, width, k, shares, shown)
        if k == 3 and size == 3:  # whoever is neither first nor second is third
            for i in range(3):
                others = rest + shares[0] - shares[i] if i > 0 else rest
                third = max(1.0 - own[i] / trailing[0] * (1.0 + others), 0.0)
                for m in range(n_weights):
                    shown[whole * m + i] += worth[width * m + 2] * third
        elif k > 2:
            odds = pointer(shown, n_weights * whole)
            faint = pointer(odds, 8 * whole)
            reached = pointer(faint, 24 * n_weights)
            later = pointer(reached, 8 * whole * n_weights)
            times = pointer(later, LATER * n_weights)
            n_nodes = _choose_nodes(trailing, k, nodes, node_weights, times)
            measures = pointer(times, n_nodes)
            if longer is None:
                for m in range(n_weights):
                    for j in range(LATER):
                        later[LATER * m + j] = worth[width * m + j] if 2 <= j < k else 0.0
                before = pointer(measures, n_nodes)
                n_told = _integrate(
                    own, size, trailing, later, n_weights, k, times, measures, n_nodes, odds, before, faint, reached
                )
            else:
                before = pointer(longer, 8 * (size + 4 * k + 3))
                _integrate_long(
                    own, size, trailing, worth, n_weights, width, k, times, measures, n_nodes, odds, before, reached,
                    longer,
                )  # fmt: skip
                n_told = whole
            _add_later(own, n_told, whole, worth, n_weights, width, k, faint, reached, shares, shown)
        for m in range(n_weights):
            for i in range(size):
                out[stride * m + first + i] = shown[whole * m + i]
    for m in range(n_weights):
        for i in range(last, n_positions):
            out[stride * m + i] = position_weights[width * m + i]
    return max(last, n_positions)


@kernel
def _add_later(own, n_told, whole, worth, n_weights, width, k, faint, reached, shares, shown):
    # shown (n_weights · whole,)  in and out: adds each item's exposure at the third position and below
    end = _whole_rows(n_told)
    for m in range(n_weights):
        row = 8 * whole * m
        _tell_apart(own, row, n_told, end, reached, faint, 24 * m)
        f0 = broadcast(hsum(load(faint, 24 * m)))
        f1 = broadcast(hsum(load(faint, 24 * m + 8)))
        f2 = broadcast(hsum(load(faint, 24 * m + 16)))
        sums, wanted = broadcast(0.0), 0.0
        for i in range(0, whole, WIDTH):
            w = load(own, i)
            if i < end:
                share = w * hsum_rows(reached, row + 8 * i)
            else:
                share = w * fma(w, fma(w, f2, f1), f0)
            store(shares, i, share)
            sums = sums + share
        for j in range(2, k):
            wanted += worth[width * m + j]
        total = hsum(sums)
        correction = broadcast(wanted / total if total > 0.0 else 1.0)  # every position is taken: removes most errors
        for i in range(0, whole, WIDTH):
            store(shown, whole * m + i, fma(load(shares, i), correction, load(shown, whole * m + i)))


@cache
def laguerre_rules() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the rules with 8, 16, … 48 points for t² e^{−t}, those of n points in row n.

    The weights already carry e^t / t², so that Σ weight · f(node) ≈ ∫ f(t) dt for f(t) like t² e^{−t}.
    """
    nodes = np.zeros((LAGUERRE_MOST + 1, LAGUERRE_MOST))
    weights = np.zeros_like(nodes)
    for n in range(ROW, LAGUERRE_MOST + 1, ROW):
        # the polynomials p_i that are orthonormal for t² e^{−t}: b_{i+1} p_{i+1}(t) = (t − a_i) p_i(t) − b_i p_{i−1}(t)
        a, b = 2.0 * np.arange(n) + 3.0, np.sqrt(np.arange(n) * (np.arange(n) + 2.0))
        t = np.linalg.eigvalsh(np.diag(a) + np.diag(b[1:], 1) + np.diag(b[1:], -1))
        polynomials = [np.zeros(n), np.full(n, math.sqrt(0.5))]
        for i in range(n - 1):
            polynomials.append(((t - a[i]) * polynomials[-1] - b[i] * polynomials[-2]) / b[i + 1])
        nodes[n, :n], weights[n, :n] = t, np.exp(t) / t**2 / np.square(polynomials).sum(axis=0)
    return nodes.ravel(), weights.ravel()
