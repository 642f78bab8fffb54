"""P-values and bounds from means: exact twins, extreme sizes, the order between them."""

import numpy as np
import pytest

import risk_oracles as oracles
from isrr.risk import binomial
from isrr.risk.evidence import OfMean
from isrr.risk.hoeffding_bentkus import _ceiling, hoeffding_bentkus
from isrr_paper import further_evidence as evidence

FROM_MEANS = [
    evidence.HOEFFDING,
    evidence.BENTKUS,
    OfMean("hoeffding_bentkus", hoeffding_bentkus),
    evidence.HB_PLUS,
]


@pytest.mark.parametrize("n", [1, 2, 7, 60, 200])
@pytest.mark.parametrize("alpha", [0.01, 0.3, 0.77])
def test_hoeffding_bentkus_agrees_with_exact_fractions(n, alpha):
    counts = np.unique(np.linspace(0, n, 12).astype(int))
    expected = [oracles.hoeffding_bentkus(int(count), n, alpha) for count in counts]
    np.testing.assert_allclose(hoeffding_bentkus(counts / n, n, alpha), expected, rtol=1e-10)


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.3), (2, 0.9), (13, 0.02), (60, 0.3), (90, 0.77)])
def test_hb_plus_agrees_with_every_integer_tried(n, alpha):
    means = np.r_[0.0, np.random.default_rng(3).random(8) * alpha, 0.9]
    expected = [oracles.hb_plus(mean, n, alpha) for mean in means]
    np.testing.assert_allclose(evidence.hb_plus(means, n, alpha), expected, rtol=1e-9)


def test_every_m_over_n_is_rounded_up_to_m():
    for n in [*range(1, 400), 9_999, 99_991]:
        counts = np.arange(n + 1) if n < 400 else np.unique(np.linspace(0, n, 5000).astype(int))
        np.testing.assert_array_equal(_ceiling(counts / n, n), counts)
    assert _ceiling(np.array([0.2500001]), 1000)[0] == 251
    assert np.ceil(100 * 0.29) == 29
    assert np.ceil(25 * (7 / 25)) == 8  # what floats make of it


@pytest.mark.parametrize("n", [1, 2, 1000, 10**6, 10**8])
@pytest.mark.parametrize("alpha", [1e-6, 0.02, 0.3, 0.98])
def test_extreme_sizes_and_risks_have_answers(n, alpha):
    deviation = np.sqrt(alpha * (1 - alpha) / n)
    means = np.clip(alpha + deviation * np.array([-40, -10, -3, -1, -1e-9, 0, 1, 40]), 0, 1)
    means = np.r_[0.0, means, 1.0]
    for kind in FROM_MEANS:
        p = kind.of_mean(means, n, alpha)
        assert np.all((p >= 0) & (p <= 1))
        assert np.all(np.diff(p) >= -1e-9)  # a larger loss never speaks for certifying
        assert np.all(p[means >= alpha] == 1)
        bound = kind.bound_of_mean(means, n, 0.05)
        assert np.all((bound >= means * (1 - 1e-9)) & (bound <= 1))
        np.testing.assert_array_equal(bound <= alpha, p <= 0.05)


def test_binomial_tails_keep_ten_digits_at_a_hundred_million():
    n, q = 10**8, 0.3
    for k in (29_999_000, 29_990_000, 29_977_000):
        exact = oracles.large_binomial_cdf(k, n, q)
        assert binomial.cdf(np.float64(k), n, q) == pytest.approx(exact, rel=1e-10)
        below = oracles.large_binomial_cdf(k - 1, n, q)
        assert binomial.pmf(np.float64(k), n, q) == pytest.approx(exact - below, rel=1e-8)


def test_lower_moments_are_the_sums_they_stand_for():
    n, q = 50, 0.3
    t, counts = np.arange(1.0, 56.0), np.arange(n + 1.0)
    mass = np.diff([0.0, *(float(oracles.binomial_cdf(int(k), n, q)) for k in counts)])
    gaps = np.maximum(t[:, None] - counts, 0)
    below, first, second = binomial.lower_moments(t, n, q)
    np.testing.assert_allclose(below, (gaps > 0) @ mass, rtol=1e-9)
    np.testing.assert_allclose(first, gaps @ mass, rtol=1e-9)
    np.testing.assert_allclose(second, gaps**2 @ mass, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 40, 1000, 10**5])
def test_hb_plus_is_never_above_hoeffding_bentkus(n):
    means = np.linspace(0, 0.5, 200)
    plus, paper = evidence.hb_plus(means, n, 0.3), hoeffding_bentkus(means, n, 0.3)
    assert np.all(plus <= paper)
    assert n < 1000 or np.any(plus < 0.95 * paper)


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.3])
def test_bounds_are_roots_of_their_pvalues(delta):
    mean, variance, n = np.array([0.0, 0.1, 0.25]), np.array([1e-4, 0.02, 0.05]), 800
    for kind in (evidence.HOEFFDING, evidence.HB_PLUS):
        bound = kind.bound_of_mean(mean, n, delta)
        assert kind.of_mean(mean, n, bound) == pytest.approx(delta, rel=1e-6)
    assert evidence.dkwm(mean, n, evidence.dkwm_bound(mean, n, delta)) == pytest.approx(delta, rel=1e-6)
    for kind in (evidence.EMPIRICAL_BERNSTEIN, evidence.NORMAL_APPROXIMATION):
        bound = kind.bound_of(mean, variance, n, delta)
        assert kind.p_of(mean, variance, n, bound) == pytest.approx(delta, rel=1e-6)


def test_dkwm_is_looser_than_hoeffding_at_span_one():
    mean = np.linspace(0, 0.9, 10)
    hoeffding = evidence.HOEFFDING.bound_of_mean(mean, 500, 0.05)
    assert np.all(evidence.dkwm_bound(mean, 500, 0.05) >= hoeffding - 1e-12)
    assert evidence.dkwm_bound([0.2], 200, 0.1, loss_span=0.5)[0] == pytest.approx(
        0.2 + 0.5 * np.sqrt(np.log(20) / 400)
    )


def test_one_query_proves_nothing_about_a_variance():
    for kind in (evidence.EMPIRICAL_BERNSTEIN, evidence.NORMAL_APPROXIMATION):
        assert kind.p_of([0.0], [0.0], 1, 0.3)[0] == kind.bound_of([0.0], [0.0], 1, 0.3)[0] == 1


def test_wsr_agrees_with_the_products_it_stands_for():
    losses = np.random.default_rng(9).beta(2, 5, (80, 6))
    expected = [oracles.wsr_pvalue(column, 0.35, 0.05) for column in losses.T]
    p = evidence.wsr(losses, 0.35, 0.05)
    np.testing.assert_allclose(p, expected, rtol=1e-10)
    np.testing.assert_array_equal(evidence.WSR.upper_bound(losses, 0.05, 0.25) <= 0.35, p <= 0.05)
