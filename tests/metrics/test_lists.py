"""Single lists are worth what `evaluate` says of them on average, and those that fall short are counted one by one."""

import numpy as np
import pytest

import oracles
from isrr import GPLRanker, Queries, evaluate, metric
from isrr.errors import PromiseError
from isrr.metrics.lists import share_below
from isrr.metrics.measure import Block
from isrr.ranker.exposure import Family

QUERIES = Queries.from_arrays(
    scores=[0.3, 2.0, 1.1, 0.2, 0.9, -1.0, 0.4, 1.0, 3.0],
    relevance=[2, 0, 1, 0, 0, 0, 1, 1, 0],
    query_ids=["b", "a", "b", "c", "b", "a", "a", "d", "b"],  # rows in any order, lists shorter than k
)


def list_values(queries, lists, measure):
    return measure.metric.list_values(queries, lists, measure)


@pytest.mark.parametrize("name", ["ndcg", "dcg", "precision", "recall", "kept"])
def test_the_mean_over_drawn_lists_is_the_exact_expectation(name):
    measure, ranker = metric(name).at(3), GPLRanker(k=3, floor=0.4)
    by_score = GPLRanker.deterministic(3)
    exact = evaluate(QUERIES, [by_score, ranker], [measure])[measure]
    order = list_values(QUERIES, by_score.sample(QUERIES), measure)
    np.testing.assert_allclose(order[:, 0], exact[:, 0], atol=1e-12)
    drawn = list_values(QUERIES, ranker.sample(QUERIES, 40_000), measure)
    np.testing.assert_allclose(drawn.mean(axis=1), exact[:, 1], atol=0.015)
    assert np.isnan(drawn).all(axis=1).tolist() == np.isnan(exact[:, 0]).tolist()


def test_lists_that_fall_short_come_as_often_as_the_law_says():
    queries = Queries.from_arrays(scores=[1.5, 1.0, 0.5, 0.0], relevance=[2, 0, 1, 0], query_ids=[7] * 4)
    measure, ranker = metric("ndcg").at(2), GPLRanker(k=2, temperature=1.0)
    law = oracles.ranking_law(queries.scores, 2, 0.0, 1.0, 1.0, np.ones(4))
    gain, reference = np.array([3.0, 0.0, 1.0, 0.0]), 3.0
    short = sum(p for ranking, p in law.items() if gain[list(ranking)] @ [1, 1 / np.log2(3)] < 0.5 * reference)
    worth = list_values(queries, GPLRanker.deterministic(2).sample(queries), measure)[:, 0]
    drawn = share_below(queries, ranker.sample(queries, 50_000), measure, 0.5, worth)
    assert drawn[0] == pytest.approx(short, abs=0.01)


def test_a_list_that_equals_the_reference_does_not_fall_short_of_all_of_it():
    rng = np.random.default_rng(20230)
    queries = Queries.from_arrays(scores=rng.normal(size=3_000), relevance=rng.choice(3, 3_000), group=[10] * 300)
    measure = metric("ndcg").at(5)
    order = GPLRanker.deterministic(5).sample(queries, 3)
    worth = evaluate(queries, [GPLRanker.deterministic(5)], [measure])[measure][:, 0]
    assert not share_below(queries, order, measure, 1.0, worth).any()
    assert share_below(queries, order, measure, 1.0, worth + 1e-6).all()


def test_a_disparity_has_no_value_of_a_single_list():
    with pytest.raises(PromiseError, match="disparity has no value of a single list"):
        list_values(QUERIES, np.zeros((4, 1, 5), np.int64), metric("disparity").at(5))


@pytest.mark.parametrize(
    "dials",
    [{}, {"decay": 0.5}, {"anchor": 0.3}, {"floor": 0.8, "floor_weights": ((1.0, 0.5),)}, {"boost": {"new": 1.0}}],
)
def test_a_block_holds_the_lists_that_sample_draws_for_each_ranker(dials):
    rng = np.random.default_rng(20231)
    groups = rng.choice(["new", "old"], 41)
    queries = Queries.from_arrays(scores=rng.normal(size=41), group=[1, 2, 7, 11, 20], item_groups=groups)
    rankers = [GPLRanker(k=4, temperature=t, threshold=c, **dials) for t in (1.0, 0.1, 3.0) for c in (0.0, 0.2)]
    family, prepared = Family.of(rankers, np.ones((1, 4))), rankers[0].prepare(queries)
    exposure = family.exposure(prepared, 1, 5, n_draws=2)
    lists = Block(prepared, 1, 5, exposure, family, {}, seed=9).lists(50)
    for ranker, drawn in zip(family.rankers, lists.swapaxes(0, 1), strict=True):
        np.testing.assert_array_equal(drawn, ranker.sample(queries, 50, seed=9)[1:5])
