"""Eight numbers side by side: what the vector functions return, against functions of one number."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from isrr.ranker.simd import (
    VECTORS,
    WIDTH,
    any_above,
    broadcast_at,
    exp,
    exp_less_one,
    fma,
    hsum,
    hsum_rows,
    lane,
    load,
    log,
    log_one_plus,
    root,
    select,
    store,
    suffix_sums,
    with_first,
)

pytestmark = pytest.mark.skipif(not VECTORS, reason="the plain twin is in use")


@njit
def each(x, exps, less_one, products, sums):
    for i in range(0, x.size, WIDTH):
        lanes = load(x, i)
        store(exps, i, exp(lanes))
        store(less_one, i, exp_less_one(lanes))
        store(products, i, fma(lanes, lanes, exp(lanes)))
        sums[i // WIDTH] = hsum(lanes)


def applied(x):
    found = [np.empty_like(x) for _ in range(3)]
    sums = np.empty(x.size // WIDTH)
    each(x, *found, sums)
    return *found, sums


def test_exponentials_are_right_to_the_last_digits():
    rng = np.random.default_rng(20235)
    x = np.concatenate([rng.uniform(-700, 0, 4_000), rng.uniform(0, 700, 4_000), -np.geomspace(1e-300, 1, 4_000)])
    np.testing.assert_allclose(applied(x)[0], np.exp(x), rtol=5e-16)


def test_exponentials_of_small_numbers_lose_nothing_beside_one():
    x = np.concatenate([np.linspace(0, 2, 4_000), np.geomspace(1e-300, 2, 4_000)])
    np.testing.assert_allclose(applied(x)[1], np.expm1(x), rtol=1e-11)


def test_exponentials_stay_where_floating_point_ends():
    x = np.full(WIDTH, -5_000.0)
    assert (applied(x)[0] == applied(np.full(WIDTH, -700.0))[0]).all()


@njit
def _within(x, by_row, from_here, replaced, everywhere):
    store(by_row, 0, hsum_rows(x, 0))
    store(from_here, 0, suffix_sums(load(x, 0)))
    store(replaced, 0, with_first(load(x, 0), lane(load(x, 0), 3)))
    store(everywhere, 0, broadcast_at(x, 5))


def test_sums_of_rows_and_of_the_lanes_that_follow_and_one_number_in_all_lanes():
    x = np.random.default_rng(20239).integers(0, 1_000, WIDTH * WIDTH).astype(float)  # sums are exact in any order
    by_row, from_here, replaced, everywhere = (np.empty(WIDTH) for _ in range(4))
    _within(x, by_row, from_here, replaced, everywhere)
    assert (by_row == x.reshape(WIDTH, WIDTH).sum(axis=1)).all()
    assert (from_here == np.cumsum(x[:WIDTH][::-1])[::-1]).all()
    assert (replaced == [x[3], *x[1:WIDTH]]).all()
    assert (everywhere == x[5]).all()


@njit
def _more(x, y, logs, roots, quotients, larger_ones):
    for i in range(0, x.size, WIDTH):
        a, b = load(x, i), load(y, i)
        store(logs, i, log(a))
        store(roots, i, root(a))
        store(quotients, i, a / b)
        store(larger_ones, i, select(a, b, a, b) if any_above(a, b) else b)


def test_logarithms_roots_and_choices_agree_with_those_of_one_number():
    rng = np.random.default_rng(20238)
    x = np.concatenate(
        [np.geomspace(1e-150, 1e150, 4_000), rng.uniform(0.5, 2, 4_000), 1 + np.geomspace(1e-15, 1, 800)]
    )
    y = rng.permutation(x)
    logs, roots, quotients, larger_ones = (np.empty_like(x) for _ in range(4))
    _more(x, y, logs, roots, quotients, larger_ones)
    np.testing.assert_allclose(logs, np.log(x), rtol=4e-16)
    assert (roots == np.sqrt(x)).all()
    assert (quotients == x / y).all()
    assert (larger_ones == np.maximum(x, y)).all()


@njit
def _log_one_plus(x, found):
    for i in range(0, x.size, WIDTH):
        store(found, i, log_one_plus(load(x, i)))


def test_logarithms_beside_one_keep_their_digits():
    x = np.concatenate([np.geomspace(1e-300, 1e300, 8_000), -np.geomspace(1e-300, 0.99, 4_000)])
    found = np.empty_like(x)
    _log_one_plus(x, found)
    np.testing.assert_allclose(found, np.log1p(x), rtol=4e-16, atol=3e-16)
    tiny = np.abs(x) < 1e-17
    np.testing.assert_allclose(found[tiny], x[tiny], rtol=1e-15)
    _log_one_plus(np.full(WIDTH, np.nan), found)
    assert np.isnan(found[:WIDTH]).all()


def test_lanes_are_loaded_from_arrays_of_floats_alone():
    with pytest.raises(TypingError, match="lanes are loaded from arrays of float64, not of float32"):
        _log_one_plus(np.zeros(WIDTH, np.float32), np.zeros(WIDTH))


def test_a_product_and_a_sum_are_rounded_once():
    x = np.random.default_rng(20236).uniform(1, 2, 800)
    exps, _, products, _ = applied(x)
    exact = [float(Fraction(value) ** 2 + Fraction(added)) for value, added in zip(x, exps, strict=True)]
    assert (products == exact).all()
    assert (products != x * x + exps).any()


def test_lanes_add_up_in_halves():
    x = np.random.default_rng(20237).normal(size=80)
    halves = x.reshape(-1, WIDTH)
    while halves.shape[1] > 1:
        half = halves.shape[1] // 2
        halves = halves[:, :half] + halves[:, half:]
    assert (applied(x)[3] == halves[:, 0]).all()
