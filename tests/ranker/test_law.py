"""Drawn rankings follow the enumerated law; log probabilities are that law."""

import numpy as np
import pytest
from scipy.stats import chisquare

import oracles
from isrr import DataError, GPLRanker, Queries

CASES = [
    ([0.4, 0.0, -0.3, -0.5], 3, 0.0, 1.0, 1.0),
    ([0.4, 0.0, -0.3, -0.5], 3, 0.24, 1.0, 1.0),
    ([0.4, 0.0, -0.3, -0.5], 3, 0.3, 0.6, 1.0),
    ([0.4, 0.0, -0.3, -0.5], 4, 0.36, 0.8, 1.0),
    ([0.9, 0.3, 0.2, 0.0, -0.4], 5, 0.3, 0.3, 1.0),
    ([1.0, 1.0, 0.0, 0.0], 4, 0.5, 0.7, 0.1),
    ([9.0, 9.0, 0.0, 0.0, 0.0], 5, 0.0, 1.0, 0.01),
    ([9.0, 9.0, 0.0, 0.0, -9.0, -9.0], 6, 1e-300, 0.3, 0.01),
    ([0.03, 0.02, 0.0], 3, 0.2, 0.3, 3.0),
]


def one_query(scores):
    return Queries.from_arrays(scores=scores, query_ids=[0] * len(scores))


def law_of(scores, k, threshold, decay, temperature):
    ranker = GPLRanker(k=k, threshold=threshold, decay=decay, temperature=temperature)
    eligibility = ranker.eligibility(one_query(scores))
    return ranker, oracles.ranking_law(scores, k, threshold, decay, temperature, eligibility)


@pytest.mark.parametrize("case", CASES)
def test_sampled_rankings_follow_the_enumerated_law(case):
    ranker, law = law_of(*case)
    rankings = ranker.sample(one_query(case[0]), n_draws=50_000, seed=20230)[0]
    drawn, counts = np.unique(rankings, axis=0, return_counts=True)
    expected = {ranking: p * len(rankings) for ranking, p in law.items() if p > 1e-12}
    assert {tuple(row) for row in drawn.tolist()} <= set(expected)
    observed = dict(zip(map(tuple, drawn.tolist()), counts, strict=True))
    frequent = [ranking for ranking, count in expected.items() if count >= 5]
    if len(frequent) > 1:
        seen = np.array([observed.get(ranking, 0) for ranking in frequent], float)
        wanted = np.array([expected[ranking] for ranking in frequent])
        assert chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 1e-3


@pytest.mark.parametrize("case", CASES)
def test_log_prob_is_the_enumerated_law_and_sums_to_one(case):
    ranker, law = law_of(*case)
    queries, rankings = one_query(case[0]), np.array(list(law))[None]
    found = np.exp(ranker.log_prob(rankings, queries))[0]
    np.testing.assert_allclose(found, list(law.values()), atol=1e-12)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(ranker.propensity(rankings, queries).prod(axis=-1)[0], found, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_log_prob_sums_to_one_over_all_rankings(temperature, spread):
    rng = np.random.default_rng(20231)
    for n, k in [(3, 5), (6, 3), (7, 5)]:
        scores = np.round(rng.normal(scale=spread, size=n), 1)
        for decay in (1.0, 0.7, 0.3):
            for threshold in (0.0, 0.2, 2.0):
                ranker, law = law_of(scores, k, threshold, decay, temperature)
                total = np.exp(ranker.log_prob(np.array(list(law))[None], one_query(scores))).sum()
                assert total == pytest.approx(1.0, abs=1e-12)


def test_a_ranking_that_cannot_be_drawn_has_probability_zero():
    ranker = GPLRanker.deterministic(k=2)
    assert ranker.log_prob([[[0, 1], [1, 0]]], one_query([2.0, 1.0])).tolist() == [[0.0, -np.inf]]


def test_short_lists_are_ranked_whole_and_filled_with_minus_one():
    rankings = GPLRanker(k=4).sample(one_query([1.0, 0.0]), n_draws=3)
    assert sorted(rankings[0, 0, :2].tolist()) == [0, 1]
    assert (rankings[..., 2:] == -1).all()


def test_draws_of_one_query_do_not_depend_on_the_others(many_queries):
    ranker = GPLRanker(threshold=0.02, decay=0.9)
    together = ranker.sample(many_queries, n_draws=3, seed=7)
    assert (ranker.sample(many_queries[5:9], n_draws=3, seed=7) == together[5:9]).all()
    assert (ranker.sample(many_queries, n_draws=9, seed=7)[:, :3] == together).all()


def test_another_seed_gives_other_draws(many_queries):
    ranker = GPLRanker()
    assert (ranker.sample(many_queries, seed=1) != ranker.sample(many_queries, seed=2)).any()


@pytest.mark.parametrize(
    ("rankings", "said"),
    [
        ([[[0, 0]]], "twice"),
        ([[[0, 9]]], "does not exist"),
        ([[0, 1, 2]], "expected"),
        ([[[0]], [[0]]], "expected"),
    ],
)
def test_impossible_rankings_are_refused(rankings, said):
    with pytest.raises(DataError, match=said):
        GPLRanker(k=2).log_prob(rankings, one_query([2.0, 1.0, 0.0]))
