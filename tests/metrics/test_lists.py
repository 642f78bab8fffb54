"""Single lists are worth what `evaluate` says of them on average, and those that fall short are counted one by one."""

import numpy as np
import pytest

import oracles
from isrr import GPLRanker, Queries, evaluate, metric
from isrr.data.production import with_production
from isrr.errors import PromiseError
from isrr.gains import discount
from isrr.metrics.lists import N_LISTS, GoodLists, order_values
from isrr.ranker.exposure import Family

QUERIES = Queries.from_arrays(
    scores=[0.3, 2.0, 1.1, 0.2, 0.9, -1.0, 0.4, 1.0, 3.0],
    relevance=[2, 0, 1, 0, 0, 0, 1, 1, 0],
    query_ids=["b", "a", "b", "c", "b", "a", "a", "d", "b"],  # rows in any order, lists shorter than k
)


def list_values(queries, lists, measure):
    return measure.metric.list_values(queries, lists, measure)


@pytest.mark.parametrize("name", ["ndcg", "dcg", "precision", "recall", "kept", "rr", "hit(rel=2)"])
def test_the_mean_over_drawn_lists_is_the_exact_expectation(name):
    measure, ranker = metric(name).at(3), GPLRanker(k=3, floor=0.4)
    by_score = GPLRanker.deterministic(3)
    exact = evaluate(QUERIES, [by_score, ranker], [measure])[measure]
    order = list_values(QUERIES, by_score.sample(QUERIES), measure)
    np.testing.assert_allclose(order[:, 0], exact[:, 0], atol=1e-12)
    drawn = list_values(QUERIES, ranker.sample(QUERIES, 40_000), measure)
    np.testing.assert_allclose(drawn.mean(axis=1), exact[:, 1], atol=0.015)
    assert np.isnan(drawn).all(axis=1).tolist() == np.isnan(exact[:, 0]).tolist()


COPIES = 2_000


def copies(scores, relevance, now):
    """The same query many times, under ids of its own each time, so that the noise differs."""
    scores, relevance, now = (np.tile(column, COPIES) for column in (scores, relevance, now))
    ids = np.repeat(np.arange(COPIES), len(scores) // COPIES)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=ids, values={"now": now})
    return with_production(queries, "now")


@pytest.mark.parametrize(
    ("target", "of"),
    [(0.8, "deterministic"), (1.0, "deterministic"), (0.9, "production"), (1.3, "production"), (0.7, None)],
)
@pytest.mark.parametrize(
    "dials", [{}, {"threshold": 0.2}, {"threshold": 0.4, "decay": 0.3}, {"anchor": 0.4}, {"floor": 0.9}]
)
@pytest.mark.parametrize("n_items", [3, 4, 5])
def test_good_lists_come_as_often_as_the_enumeration_of_all_lists_says(n_items, dials, target, of):
    rng = np.random.default_rng([20231, n_items])
    relevance = rng.permutation([2.0, 1.0, 0.0, 1.0, 0.0][:n_items])
    scores, now = relevance + rng.normal(size=n_items), relevance + rng.normal(size=n_items)
    queries = copies(scores, relevance, now)
    ranker, k = GPLRanker(k=2, temperature=0.7, **dials), 2
    eligibility = oracles.softmax(scores / 0.7)
    law = oracles.ranking_law(scores, k, ranker.threshold, ranker.decay, 0.7, eligibility)
    order = np.argsort(-scores)
    share = max(ranker.anchor, oracles.order_share(law, order, ranker.floor, [discount(k)]) if ranker.floor else 0.0)
    law = oracles.mixed_law(law, order, share)
    orders = {"deterministic": order, "production": np.argsort(-now)}
    least = target * (1.0 if of is None else oracles.ndcg(relevance, tuple(orders[of]), k))
    expected = sum(chance for ranking, chance in law.items() if oracles.ndcg(relevance, ranking, k) >= least - 1e-9)
    error = np.sqrt(max(expected * (1 - expected), 0.0) / (COPIES * N_LISTS))
    good = GoodLists(metric("ndcg"), target, of).at(k)
    shares = evaluate(queries, [GPLRanker.deterministic(k), ranker], [good])[good]
    assert abs(shares[:, 1].mean() - expected) <= 4.5 * error + 1e-9
    assert set(shares[:, 0]) == {float(oracles.ndcg(relevance, tuple(order), k) >= least - 1e-9)}


def test_shares_are_those_of_the_lists_that_sample_draws():
    rng = np.random.default_rng(20232)
    queries = Queries.from_arrays(scores=rng.normal(size=600), relevance=rng.choice(3, 600), group=[4, 8, 12] * 25)
    good, rankers = GoodLists(metric("recall"), 0.5).at(3), [GPLRanker(3, temperature=t, floor=0.6) for t in (2.0, 0.2)]
    shares = evaluate(queries, rankers, ["ndcg", good], seed=5)[good]
    for ranker, column in zip(rankers, shares.T, strict=True):
        worth = list_values(queries, ranker.sample(queries, N_LISTS, seed=5), metric("recall").at(3))
        np.testing.assert_array_equal(column, np.where(np.isnan(worth[:, 0]), np.nan, (worth >= 0.5).mean(axis=1)))


def test_a_list_that_equals_the_reference_does_not_fall_short_of_all_of_it():
    rng = np.random.default_rng(20230)
    queries = Queries.from_arrays(scores=rng.normal(size=3_000), relevance=rng.choice(3, 3_000), group=[10] * 300)
    measure, good = metric("ndcg").at(5), GoodLists(metric("ndcg"), 1.0, "deterministic")
    worth = evaluate(queries, [GPLRanker.deterministic(5)], [measure])[measure]
    reference = order_values(queries, measure)
    assert good.judged(worth, reference).all()
    assert not good.judged(worth, reference + 1e-6).any()


def test_of_a_value_below_zero_a_list_may_lose_a_share_of_its_size():
    good = GoodLists(metric("value(margin)"), 0.8, "deterministic")
    values, reference = np.array([[-10.0, -12.0, -12.1, -8.0]]), np.array([-10.0])
    assert good.judged(values, reference).tolist() == [[1, 1, 0, 1]]


def test_queries_without_a_relevant_item_count_as_the_policy_says():
    queries = Queries.from_arrays(scores=[1.0, 0.0], relevance=[0, 0], query_ids=[1, 1])
    for of, share in ((None, {"skip": np.nan, "zero": 0.0, "one": 1.0}), ("deterministic", {"zero": 1.0, "one": 1.0})):
        for policy, expected in share.items():
            good = GoodLists(metric("ndcg"), 0.8, of).at(2, policy)
            np.testing.assert_equal(evaluate(queries, [GPLRanker(2)], [good])[good], [[expected]])


def test_a_disparity_has_no_value_of_a_single_list():
    with pytest.raises(PromiseError, match="disparity has no value of a single list"):
        list_values(QUERIES, np.zeros((4, 1, 5), np.int64), metric("disparity").at(5))


@pytest.mark.parametrize(
    "dials",
    [{}, {"decay": 0.5}, {"anchor": 0.3}, {"floor": 0.8, "floor_weights": ((1.0, 0.5),)}, {"boost": {"new": 1.0}}],
)
def test_a_family_draws_the_lists_that_sample_draws_for_each_ranker(dials):
    rng = np.random.default_rng(20231)
    groups = rng.choice(["new", "old"], 41)
    queries = Queries.from_arrays(scores=rng.normal(size=41), group=[1, 2, 7, 11, 20], item_groups=groups)
    rankers = [GPLRanker(k=4, temperature=t, threshold=c, **dials) for t in (1.0, 0.1, 3.0) for c in (0.0, 0.2)]
    family, prepared = Family.of(rankers, np.ones((1, 4))), rankers[0].prepare(queries)
    shares = family.exposure(prepared, 1, 5, n_draws=2).shares
    lists = family.lists(prepared, 1, 5, 50, shares, seed=9)
    for ranker, drawn in zip(family.rankers, lists.swapaxes(0, 1), strict=True):
        np.testing.assert_array_equal(drawn, ranker.sample(queries, 50, seed=9)[1:5])
