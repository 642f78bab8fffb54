"""The hedge test agrees with its slow twin, and its three faces agree with each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.special import ndtri_exp

import risk_oracles as oracles
from isrr.ranker.simd import WIDTH, load, store
from isrr.risk import betting
from isrr.risk.kernels import hedge_ratio, normal_quantile
from isrr.risk.lattice import coarsen, smallest_yes


def losses_of(law, rng, shape):
    return {
        "beta": lambda: rng.beta(2, 5, shape),
        "coin": lambda: (rng.random(shape) < 0.3).astype(float),
        "rare": lambda: (rng.random(shape) < 0.01).astype(float),
        "negative": lambda: 1 - rng.exponential(0.7, shape),
        "constant": lambda: np.full(shape, 0.25),
    }[law]()


LAWS = ["beta", "coin", "rare", "negative", "constant"]


@pytest.mark.parametrize("law", LAWS)
def test_certifies_agrees_with_the_printed_recursion(law):
    losses = losses_of(law, np.random.default_rng(20230), (150, 40))
    for alpha, delta in [(0.3, 0.05), (0.35, 0.2), (0.02, 0.1), (0.9, 1e-6)]:
        expected = [oracles.hedge_certifies(column, alpha, delta) for column in losses.T]
        np.testing.assert_array_equal(betting.certifies(losses, alpha, delta), expected)


def test_a_prior_deviation_reaches_the_test():
    losses = losses_of("beta", np.random.default_rng(4), (60, 300))
    fast = betting.certifies(losses, 0.33, 0.05, prior_deviation=0.05)
    slow = [oracles.hedge_certifies(column, 0.33, 0.05, 0.05) for column in losses.T]
    np.testing.assert_array_equal(fast, slow)
    assert np.any(fast != betting.certifies(losses, 0.33, 0.05))


@njit
def _in_lanes(log_p, quantiles, ratios):
    for i in range(0, log_p.size, WIDTH):
        store(quantiles, i, normal_quantile(load(log_p, i)))
        store(ratios, i, hedge_ratio(load(log_p, i)))


def quantiles_and_ratios(log_p):
    """Of any number of logarithms of p; lanes beside the last are filled up."""
    n = len(log_p)
    padded = np.r_[log_p, np.full(-n % 8, -1.0)]
    found = np.empty((2, padded.size))
    _in_lanes(padded, *found)
    return found[:, :n]


def test_normal_quantile_is_exact_in_log_space():
    log_p = np.r_[-np.geomspace(1e-300, 0.1, 200), -np.geomspace(0.1, 700, 400)]
    np.testing.assert_allclose(quantiles_and_ratios(log_p)[0], ndtri_exp(log_p), rtol=2e-12, atol=1e-14)
    for x in (-1e-12, -0.3, -30.0, -699.0):
        assert quantiles_and_ratios([x])[0][0] == pytest.approx(oracles.normal_quantile(x), rel=1e-14)


def test_hedge_ratio_is_right_at_any_depth():
    log_p = [-1e-12, -0.07, -0.3, -2.0, -30.0, -699.0, -701.0, -249861.216]
    np.testing.assert_allclose(quantiles_and_ratios(log_p)[1], [oracles.hedge_ratio(x) for x in log_p], rtol=2e-12)


def test_hedge_ratio_joins_its_tail_series_smoothly():
    above, below, deep, least = quantiles_and_ratios([-699.999999, -700.000001, -1e7, -1e-200])[1]
    assert above == pytest.approx(below, rel=1e-8)
    assert deep == pytest.approx(np.sqrt(2e7), rel=1e-5)
    assert 0 < least < 1e-190


@pytest.mark.parametrize("n_grid", [1, 3, 8, 11])
def test_a_configuration_is_tested_alike_whatever_stands_beside_it(n_grid):
    losses = losses_of("beta", np.random.default_rng(20231), (130, n_grid))
    alone = [betting.pvalue(np.ascontiguousarray(losses[:, [c]]), 0.3)[0] for c in range(n_grid)]
    assert betting.pvalue(losses, 0.3).tolist() == alone


def test_losses_of_other_types_are_tested_as_the_numbers_they_are():
    losses = (np.random.default_rng(20232).random((200, 3)) < 0.4).astype(float)
    expected = betting.certifies(losses, [0.3, 0.5, 0.7], 0.05)
    for kind in (np.float32, np.int64, np.bool_):
        assert (betting.certifies(losses.astype(kind), [0.3, 0.5, 0.7], 0.05) == expected).all()
    assert expected.tolist() == [False, True, True]


def test_losses_above_1_or_no_number_certify_nothing():
    assert not betting.certifies(np.full((30, 2), 1.2), 0.5, 0.05, 1e-3).any()
    assert not betting.certifies(np.full((30, 2), 1 + 1e-9), 1 - 1e-8, 0.05, 1e-9).any()
    losses = np.random.default_rng(20233).random((400, 3))
    losses[3, 0] = np.nan
    assert betting.certifies(losses, 0.6, 0.05).tolist() == [False, True, True]


def test_configurations_may_have_deviations_and_levels_of_their_own():
    losses, alpha, deviations = (
        losses_of("beta", np.random.default_rng(20234), (90, 3)),
        [0.3, 0.35, 0.4],
        [0.05, 0.25, 0.4],
    )
    columns = [losses[:, [c]] for c in range(3)]
    alone = [betting.pvalue(*each)[0] for each in zip(columns, alpha, deviations, strict=True)]
    assert betting.pvalue(losses, alpha, deviations).tolist() == alone
    alone = [betting.upper_bound(column, 0.05, prior)[0] for column, prior in zip(columns, deviations, strict=True)]
    assert betting.upper_bound(losses, 0.05, deviations).tolist() == alone


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    law=st.sampled_from(LAWS),
    n_queries=st.integers(1, 300),
    alpha=st.floats(1e-6, 1 - 1e-9),
    delta=st.floats(1e-12, 1 - 1e-9),
)
def test_certified_iff_p_at_most_delta_iff_bound_at_most_alpha(seed, law, n_queries, alpha, delta):
    losses = losses_of(law, np.random.default_rng(seed), (n_queries, 5))
    certified = betting.certifies(losses, alpha, delta)
    np.testing.assert_array_equal(betting.pvalue(losses, alpha) <= delta, certified)
    np.testing.assert_array_equal(betting.upper_bound(losses, delta) <= alpha, certified)


@pytest.mark.parametrize("law", LAWS)
def test_pvalue_and_bound_are_themselves_the_last_levels_to_certify(law):
    losses = losses_of(law, np.random.default_rng(5), (120, 6))
    alpha, delta = 0.4, 0.05
    p, bound = betting.pvalue(losses, alpha), betting.upper_bound(losses, delta)
    for j in range(6):
        column = losses[:, j : j + 1]
        for level, certifies in [
            (p[j], lambda d, c=column: betting.certifies(c, alpha, d)),
            (bound[j], lambda a, c=column: betting.certifies(c, a, delta)),
        ]:
            if level < 1:
                assert certifies(level)[0]
                assert not certifies(np.nextafter(level, 0))[0]


def test_every_level_above_the_p_value_certifies():
    losses = np.random.default_rng(0).beta(2, 5, (200, 40))[:, 33:34].copy()
    level = betting.pvalue(losses, 0.35)[0]
    for _ in range(40):  # asked at every float, this sample says no at eleven of them
        level = np.nextafter(level, 1)
        assert betting.certifies(losses, 0.35, level)[0]


@pytest.mark.slow
def test_configurations_do_not_influence_each_other():
    losses = losses_of("beta", np.random.default_rng(6), (200, 30))
    whole = betting.pvalue(losses, 0.33)
    alone = [betting.pvalue(np.ascontiguousarray(losses[:, j : j + 1]), 0.33)[0] for j in range(30)]
    np.testing.assert_array_equal(whole, alone)


@pytest.mark.slow
def test_extremes_have_answers():
    for n_queries in (1, 2, 1000):
        for value in (0.0, 1.0, 0.3, -5.0):
            losses = np.full((n_queries, 1), value)
            p, bound = betting.pvalue(losses, 0.3), betting.upper_bound(losses, 0.05)
            assert 0 < p[0] <= 1
            assert 0 < bound[0] <= 1
            if value >= 0.3:
                assert p[0] == 1
                assert bound[0] > value or bound[0] == 1
    assert betting.pvalue(np.zeros((50, 1)), 1e-12)[0] == 1
    assert not betting.certifies(np.full((50, 1), -1.0), 1e-12, 0.5)[0]


@pytest.mark.parametrize("guess", [None, 1e-3])
@pytest.mark.parametrize("at_once", [1, 2, 16])
def test_the_search_finds_the_first_yes_however_many_points_it_asks_about_together(at_once, guess):
    turns = coarsen(np.geomspace(1e-300, 0.9, 40))
    guesses = None if guess is None else np.full(40, guess)
    asked = []

    def answers(points):
        asked.append(points.shape)
        return points >= turns

    assert smallest_yes(answers, 1e-308, 1.0, 40, guess=guesses, at_once=at_once).tolist() == turns.tolist()
    assert set(asked) == {(at_once, 40)}
    assert len(asked) < {1: 100, 2: 60, 16: 25}[at_once]


def test_lattice_rounds_down_by_little():
    values = np.random.default_rng(8).random(1000)
    assert np.all(coarsen(values) <= values)
    assert np.all(coarsen(values) >= values * (1 - 2.0**-31))
    np.testing.assert_array_equal(coarsen(coarsen(values)), coarsen(values))
