"""Exposure against enumeration: exact for decay 1, unbiased below, at any temperature."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from isrr import GPLRanker, Queries
from isrr.gains import discount

SPREADS = [0.1, 1.0, 5.0]
TEMPERATURES = [0.01, 0.1, 1.0, 3.0]


def one_query(scores):
    return Queries.from_arrays(scores=scores, query_ids=np.zeros(len(scores), int))


def thresholds_of_interest(scores, temperature):
    """0, three eligibilities met exactly, and one above them all."""
    eligibility = GPLRanker(temperature=temperature).eligibility(one_query(scores))
    return [0.0, *np.quantile(eligibility, [0.3, 0.7, 1.0], method="nearest"), 2.0]


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("with_ties", [False, True])
def test_exact_exposure_equals_the_sum_over_all_rankings(temperature, spread, with_ties):
    rng = np.random.default_rng(20231)
    for n, k in [(1, 3), (2, 1), (3, 5), (4, 2), (5, 5), (6, 3), (7, 4), (7, 5)]:
        scores = rng.normal(scale=spread, size=n)
        if with_ties:
            scores = np.round(scores / spread) * spread
        eligibility = GPLRanker(temperature=temperature).eligibility(one_query(scores))
        for threshold in thresholds_of_interest(scores, temperature):
            ranker = GPLRanker(k=k, threshold=threshold, temperature=temperature)
            expected = oracles.exposure(scores, k, threshold, 1.0, temperature, eligibility)
            np.testing.assert_allclose(ranker.exposure(one_query(scores)), expected, atol=1e-7)


@pytest.mark.parametrize("decay", [0.7, 0.3])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_sampled_exposure_is_unbiased_below_decay_one(decay, temperature):
    rng = np.random.default_rng(20232)
    for n, k in [(3, 3), (5, 4), (6, 5)]:
        scores = rng.normal(size=n)
        eligibility = GPLRanker(temperature=temperature).eligibility(one_query(scores))
        for threshold in [0.5 * eligibility.max(), eligibility.max(), np.median(eligibility)]:
            ranker = GPLRanker(k=k, threshold=threshold, decay=decay, temperature=temperature)
            expected = oracles.exposure(scores, k, threshold, decay, temperature, eligibility)
            found = ranker.exposure(one_query(scores), n_draws=20_000, seed=20232)
            np.testing.assert_allclose(found, expected, atol=4 / np.sqrt(20_000) / 2)


@pytest.mark.parametrize("scores", [[0.4, 0.0, -0.3, -0.5, -2.0], [0.0, -0.3, -23.0, -23.4, -46.0, -46.1, -69.0]])
def test_sampled_exposure_counts_the_rankings_that_sample_gives(scores):
    queries, k = one_query(scores), len(scores) - 1
    ranker = GPLRanker(k=k, threshold=1e-9 if scores[-1] < -5 else 0.1, decay=0.3)
    counted = np.zeros(len(scores))
    for half in (slice(0, None, 2), slice(1, None, 2)):
        rankings = ranker.sample(queries, n_draws=201, seed=7)[0, half]
        for ranking in rankings:
            counted[ranking] += discount(k) / len(rankings) / 2
    np.testing.assert_allclose(ranker.exposure(queries, n_draws=201, seed=7), counted, rtol=1e-12)
    assert counted.sum() == pytest.approx(discount(k).sum(), rel=1e-12)


def exposure_to_fifty_digits(scores, k):
    """Plackett–Luce by enumeration in extended precision."""
    with mpmath.workdps(50):
        weights = [mpmath.exp(mpmath.mpf(float(score))) for score in scores]
        law = {(): mpmath.mpf(1)}
        for _ in range(k):
            law = {
                (*placed, d): p * weights[d] / sum(w for e, w in enumerate(weights) if e not in placed)
                for placed, p in law.items()
                for d in range(len(scores))
                if d not in placed
            }
        shown = [mpmath.mpf(0)] * len(scores)
        for ranking, p in law.items():
            for j, d in enumerate(ranking):
                shown[d] += p / mpmath.log(2 + j, 2)
        return np.array([float(x) for x in shown])


@pytest.mark.parametrize(
    "log_weights",
    [
        [0, -35, -35.2, -69, -69, -70],  # weights spanning 1e30, in blocks
        [0, -6, -12, -18, -24, -30],  # no cut anywhere
        [0, -27, -27.5, -54, -80, -81],  # gaps just too small to cut
        [0, 0, 0, -400, -400, -401, -1900, -1900.5],  # beyond the range of floating point
        [0, -0.01, -0.02, -0.03, -0.04, -0.05, -0.06],  # flat
        [0, -3, -3, -3, -3, -3, -60],  # one dominates
    ],
)
def test_exact_exposure_loses_no_digits_over_huge_ranges_of_weight(log_weights):
    log_weights = np.array(log_weights, float)
    for k in (3, 5):
        for temperature in (1.0, 0.01):
            ranker = GPLRanker(k=k, temperature=temperature)
            found = ranker.exposure(one_query(log_weights * temperature))
            np.testing.assert_allclose(found, exposure_to_fifty_digits(log_weights, k), atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 5, 10, 20, 40])
def test_long_lists_agree_with_a_dense_integral(k):
    rng = np.random.default_rng(20234)
    for n in (k, k + 1, 60, 200):
        for spread in (0.01, 0.5, 1.0, 2.0, 4.0):
            scores = np.sort(rng.normal(scale=spread, size=n))[::-1]
            expected = oracles.exposure_by_dense_integral(scores, k)
            np.testing.assert_allclose(GPLRanker(k=k).exposure(one_query(scores)), expected, atol=1e-7)


@pytest.mark.parametrize("seed", [1, 18])  # 2.8e-8 and 3.9e-8 with a trapezoid step of 0.47 in place of 0.45
def test_the_integral_errs_by_a_tenth_of_what_is_promised(seed):
    scores = np.sort(np.random.default_rng(seed).normal(scale=1 / 0.3, size=200))[::-1]
    expected = oracles.exposure_by_dense_integral(scores, 5)
    np.testing.assert_allclose(GPLRanker().exposure(one_query(scores)), expected, atol=1e-8)


finite_scores = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(finite_scores, st.integers(1, 8), st.floats(0.0, 1.2), st.floats(0.01, 5.0))
def test_exposure_adds_up_to_the_discounts_of_the_places_there_are(scores, k, threshold, temperature):
    shown = GPLRanker(k=k, threshold=threshold, temperature=temperature).exposure(one_query(scores))
    assert shown.sum() == pytest.approx(discount(min(k, len(scores))).sum(), rel=1e-9)
    assert (shown >= 0).all()


@pytest.mark.parametrize("gap", [1.0, 10.0, 18.0, 20.2, 25.0])
def test_three_items_and_three_places_add_up_however_far_they_lie_apart(gap):
    scores = np.array([0.0, -gap, -gap - 0.4])
    found = GPLRanker(k=3).exposure(one_query(scores))
    assert found.sum() == pytest.approx(discount(3).sum(), rel=1e-14)
    np.testing.assert_allclose(found, exposure_to_fifty_digits(scores, 3), rtol=1e-9 if gap > 21 else 1e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-9, 9, width=32), min_size=2, max_size=9, unique=True),
    st.randoms(),
    st.sampled_from([1.0, 0.6]),
)
def test_the_order_of_items_changes_nothing(scores, random, decay):
    shuffled = random.sample(range(len(scores)), len(scores))
    ranker = GPLRanker(k=4, threshold=0.1, decay=decay)
    straight = ranker.exposure(one_query(scores), n_draws=10)
    turned = ranker.exposure(one_query([scores[i] for i in shuffled]), n_draws=10)
    assert (turned == straight[shuffled]).all()


def test_the_order_of_tied_items_with_ids_changes_nothing():
    scores, ids = np.array([1.0, 1.0, 0.5, 1.0]), np.array(["b", "a", "c", "10"])
    ranker = GPLRanker(k=2, threshold=0.3, decay=0.9)
    straight = ranker.exposure(Queries.from_arrays(scores=scores, item_ids=ids, query_ids=[1] * 4))
    for shuffle in ([3, 2, 1, 0], [1, 3, 0, 2]):
        turned = ranker.exposure(Queries.from_arrays(scores=scores[shuffle], item_ids=ids[shuffle], query_ids=[1] * 4))
        assert (turned == straight[shuffle]).all()


@pytest.mark.slow
def test_the_order_of_queries_and_the_number_of_threads_change_nothing(many_queries):
    from isrr.parallel import use_threads

    ranker = GPLRanker(threshold=0.05, decay=0.8)
    straight = [ranker.exposure(query, n_draws=20) for query in many_queries[:50]]
    turned = np.random.default_rng(20235).permutation(len(many_queries))
    for n_threads in (1, 2, 5):
        with use_threads(n_threads):
            parts = np.split(ranker.exposure(many_queries, n_draws=20), many_queries.offsets[1:-1])
            shuffled = many_queries[turned]
            moved = np.split(ranker.exposure(shuffled, n_draws=20), shuffled.offsets[1:-1])
        assert all((a == b).all() for a, b in zip(straight, parts, strict=False))
        assert all((moved[i] == parts[q]).all() for i, q in enumerate(turned))


@pytest.mark.parametrize("temperature", [0.02, 0.3, 1.0])
def test_any_weights_of_the_places_give_what_the_chances_of_the_places_say(temperature):
    rng = np.random.default_rng(20237)
    for n, k in [(2, 1), (3, 3), (6, 4), (7, 5), (40, 12)]:
        queries, weights = one_query(rng.normal(size=n)), rng.uniform(size=k)
        weights[rng.integers(k)] = 0.0
        ranker = GPLRanker(k=k, temperature=temperature, threshold=0.01)
        found = ranker.exposure(queries, weights=weights)
        np.testing.assert_allclose(found, ranker.placement(queries) @ weights, atol=1e-7)
        longer = GPLRanker(k=2, temperature=temperature, threshold=0.01).exposure(queries, weights=weights)
        assert (longer == found).all()  # the positions that count are those that have a weight, whatever the ranker's k
        sampled = GPLRanker(k=k, temperature=temperature, threshold=0.1, decay=0.5)
        np.testing.assert_allclose(
            sampled.exposure(queries, weights=weights), sampled.placement(queries) @ weights, atol=1e-12
        )


@pytest.mark.parametrize("weights", [[], [[1.0]], [1.0, -0.5], [np.nan], [np.inf]])
def test_weights_of_places_that_mean_nothing_are_refused(weights):
    with pytest.raises(ValueError, match="weights must hold finite numbers ≥ 0, one per position"):
        GPLRanker().exposure(one_query([1.0, 0.0]), weights=weights)


def test_placement_is_a_doubly_stochastic_table_whose_discounted_rows_are_the_exposure():
    queries = one_query([2.0, 1.0, 0.5, -1.0])
    ranker = GPLRanker(k=3, threshold=0.05)
    table = ranker.placement(queries)
    np.testing.assert_allclose(table.sum(axis=0), 1.0, atol=1e-9)
    expected = oracles.placement([2.0, 1.0, 0.5, -1.0], 3, 0.05, 1.0, 1.0, ranker.eligibility(queries))
    np.testing.assert_allclose(table, expected, atol=1e-7)
    np.testing.assert_allclose(table @ discount(3), ranker.exposure(queries), atol=1e-9)
