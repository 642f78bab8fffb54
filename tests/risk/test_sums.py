"""Evidence from sums: slow twins, rounding, extreme sizes."""

import numpy as np
import pytest
from scipy.special import ndtr

import risk_oracles as oracles
from isrr.risk import mixture, vb


@pytest.mark.parametrize("n", [1, 40, 2000])
def test_mixture_agrees_with_the_products_it_stands_for(n):
    losses = np.random.default_rng(1).beta(2, 5, (n, 5)) - 0.1
    log_evidence = mixture.Summary.of(losses, 0.05).log_evidence(0.3)
    expected = [np.log(oracles.mixture_evidence(column, 0.3, 0.05)) for column in losses.T]
    np.testing.assert_allclose(log_evidence, expected, atol=n * 2.0**-31, rtol=1e-9)
    assert np.all(log_evidence <= np.array(expected) + 1e-9)  # rounding only weakens it


def test_sums_are_rounded_against_certifying():
    losses = np.random.default_rng(20230).beta(2, 5, (50, 2))
    log_sums = mixture.Summary.of(losses, 0.05).log_sums
    for sums, column in zip(log_sums, losses.T, strict=True):
        exact = oracles.log_sums(column, mixture.bet_shares(50, 0.05))
        assert max(abs(ours - theirs) for ours, theirs in zip(sums, exact, strict=True)) <= 1  # rounded up: 50 more
    assert vb.Summary.of(losses, 0.35, 0.05).loss_sums.tolist() == [oracles.loss_sum(column) for column in losses.T]


def test_sums_of_powers_never_claim_more_than_sums_of_logarithms():
    for n in (50, 500, 5_000):
        losses = np.random.default_rng(20230).beta(2, 5, (n, 3)) * [1, -1, 1] + [0, 0, 0.2 * (n > 50)]
        losses = np.minimum(losses, 1.0)
        powers = np.stack([(losses**power).sum(axis=0) for power in range(1, 9)], axis=1)
        direct, powered = (
            mixture.Summary.of(losses, 0.05).log_sums, mixture.Summary.of_powers(powers, n, 0.05).log_sums,
        )  # fmt: skip
        assert (powered <= direct).all()
        assert ((direct - powered)[:, -4:] < 0.01 * 2**40).all()  # tight where bets are small


def test_a_loss_above_one_by_rounding_counts_as_one():
    losses = np.array([[1 + 5e-10], [0.2]])
    assert vb.pvalue(losses, 0.5) == vb.pvalue(np.minimum(losses, 1.0), 0.5)


def test_vb_does_not_depend_on_its_blocks(monkeypatch):
    losses = np.random.default_rng(3).beta(2, 5, (700, 3))
    whole = vb.pvalue(losses, 0.35)
    monkeypatch.setattr(vb, "_BLOCK", 64)
    np.testing.assert_array_equal(vb.pvalue(losses, 0.35), whole)


@pytest.mark.parametrize("n", [3, 30, 200])
def test_variance_aware_bentkus_agrees_with_a_fine_grid(n):
    for mean, deviation, alpha in [(0.25, 0.2, 0.3), (0.0, 0.05, 0.1), (0.4, 0.45, 0.7), (0.29, 0.1, 0.3)]:
        slow = oracles.vb_bentkus(mean, deviation, alpha, n)
        fast = vb._bentkus(np.array([mean]), np.array([deviation]), np.array([alpha]), n)[0]
        assert fast <= slow * (1 + 1e-9)
        assert fast >= slow * (1 - 1e-2)


def test_vb_covers_the_supremum_of_its_formula():
    losses = np.random.default_rng(4).beta(2, 5, (900, 1))
    alpha, delta, n = 0.31, 0.05, 900
    summary = vb.Summary.of(losses, alpha, delta)
    top = max(alpha, 1 - alpha) * np.sqrt(summary.squares.upper_bound(delta / 10)[0])
    worst = 0.0
    for s in np.geomspace(top / 20, top, 60):
        ratio = max(alpha, 1 - alpha) / s
        constant = min(0.4690 * ratio, 0.3322 * (ratio + 0.429), 0.3031 * (ratio + 0.646))
        normal = ndtr(-np.sqrt(n) * (alpha - losses.mean()) / s)
        worst = max(worst, min(oracles.vb_bentkus(losses.mean(), s, alpha, n), normal + constant / np.sqrt(n)))
    p = summary.pvalue()[0]
    assert delta / 10 + worst <= p * (1 + 1e-3)
    assert p <= 1.15 * (delta / 10 + worst)


@pytest.mark.parametrize("n", [20, 46, 190])
def test_vb_is_never_below_its_formula_between_the_deviations_it_tries(n):
    losses = np.random.default_rng(n).beta(12, 3, (n, 1))
    for alpha in losses.mean() + losses.std() / np.sqrt(n) * np.linspace(0.1, 1.5, 8):
        summary = vb.Summary.of(losses, alpha, 0.05)
        level, mean = summary.alpha[0], summary.loss_sums[0] / (n * 2**40)
        top = level * np.sqrt(summary.squares.upper_bound(0.005)[0])
        s = np.geomspace(top / 20, top, 500)
        bentkus = vb._bentkus(np.full(s.size, mean), s, np.full(s.size, level), n)
        constant = np.min([0.4690 * level / s, 0.3322 * (level / s + 0.429), 0.3031 * (level / s + 0.646)], axis=0)
        berry_esseen = ndtr(-np.sqrt(n) * (level - mean) / s) + constant / np.sqrt(n)
        assert summary.pvalue()[0] >= min(1.0, 0.005 + np.minimum(bentkus, berry_esseen).max())


@pytest.mark.parametrize("n", [1, 5, 400])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, -0.5])
def test_constant_losses_have_answers(n, value):
    losses = np.full((n, 1), value)
    for p, bound in [
        (mixture.Summary.of(losses, 0.05).pvalue(0.3), mixture.Summary.of(losses, 0.05).upper_bound(0.05)),
        (vb.pvalue(losses, 0.3), vb.upper_bound(losses, 0.05)),
    ]:
        assert 0 <= p[0] <= 1
        assert max(value, 0) <= bound[0] <= 1
        assert (p[0] <= 0.05) == (bound[0] <= 0.3)
        assert value < 0.3 or p[0] == 1


def test_sums_at_a_hundred_million_queries_stay_finite():
    losses = np.random.default_rng(5).beta(2, 5, (1000, 2))
    powers = 1e5 * np.stack([(losses**power).sum(axis=0) for power in range(1, 9)], axis=1)
    summary = mixture.Summary.of_powers(powers, 10**8, 0.05)
    assert np.all(summary.pvalue(0.4) < 1e-300)
    assert np.all(np.abs(summary.upper_bound(0.05) - 2 / 7) < 0.02)


@pytest.mark.parametrize("n", [60, 900])
def test_p_at_most_delta_iff_bound_at_most_alpha_even_next_to_the_root(n):
    losses = np.random.default_rng(6).beta(2, 5, (n, 4))
    for bound, pvalue_at in [
        (
            mixture.Summary.of(losses, 0.05).upper_bound(0.05),
            lambda a: mixture.Summary.of(losses, 0.05).pvalue(a),
        ),
        (vb.upper_bound(losses, 0.05), lambda a: vb.pvalue(losses, a)),
    ]:
        assert np.all(pvalue_at(bound) <= 0.05)
        assert np.all(pvalue_at(np.nextafter(bound, 1)) <= 0.05)
        assert np.all(pvalue_at(np.nextafter(bound, 0)) > 0.05)
