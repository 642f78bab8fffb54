"""Where the paper's wording and its figures part, in the smallest example that shows it."""

import numpy as np

from isrr import GPLRanker, Queries, evaluate
from isrr_paper.plugin import plugin_disparity


def test_the_smallest_certified_threshold_can_be_less_fair_than_the_deterministic_order():
    """One relevant item, ranked first: every draw that moves it adds disparity."""
    queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[1, 0, 0], query_ids=[1, 1, 1])
    found = evaluate(queries, [GPLRanker(k=1), GPLRanker.deterministic(k=1)])
    stochastic, deterministic = found["disparity"][0]
    assert deterministic == 0.0
    assert stochastic > 0.01


def test_plug_in_disparity_overstates_what_exact_exposures_have(many_queries):
    few = many_queries[:300]
    exact = evaluate(few, [GPLRanker()])["disparity"][:, 0]
    plugin = plugin_disparity(few, GPLRanker(), n_draws=100)
    assert 1.02 < plugin.sum() / np.nansum(exact) < 1.2


def test_an_expected_utility_is_not_a_bound_on_each_list():
    """The certificate speaks of the mean over draws: single lists fall below it."""
    queries = Queries.from_arrays(scores=[1.0, 0.0], relevance=[1, 0], query_ids=[1, 1])
    ranker = GPLRanker(k=1)
    drawn = ranker.sample(queries, n_draws=200)[0, :, 0] == 0
    expected = evaluate(queries, [ranker])["ndcg"][0, 0]
    assert np.ptp(drawn.astype(float)) == 1.0
    assert abs(drawn.mean() - expected) < 0.1
