"""The truth that guarantees are held against: by enumeration, beside a million draws and what isrr measures."""

import numpy as np
import pytest

import oracles
from isrr import GPLRanker, Promise, Queries, evaluate
from truth import Truth

RANKERS = [
    GPLRanker(k=3, temperature=0.7),
    GPLRanker(k=3, temperature=0.7, threshold=0.15),
    GPLRanker(k=3, temperature=0.7, boost={"new": 0.8}),
    GPLRanker(k=3, temperature=2.0, floor=0.8),
    GPLRanker.deterministic(3),
]
PROMISES = [
    "ndcg@3 >= 0.5", "precision@3 >= 0.5", "recall@3 >= 0.5", "value(margin)@3 >= 1 with bound 9",
    "exposure(new)@3 >= 20%", "normalized_disparity@3 <= 0.5", "disparity@3 <= 0.5 with bound 900",
    "group_disparity@3 <= 0.5", "rr@3 >= 0.5", "hit(rel=2)@2 >= 0.5",
]  # fmt: skip


@pytest.fixture(scope="module")
def queries():
    rng, n = np.random.default_rng(20230), 40 * 5
    return Queries.from_arrays(
        scores=rng.normal(size=n), relevance=rng.choice(4, n, p=[0.6, 0.2, 0.1, 0.1]), group=[5] * 40,
        item_groups=rng.choice(["new", "old"], n), values={"margin": rng.uniform(0, 9, n)},
    )  # fmt: skip


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_it_is_what_isrr_measures(queries, ranker):
    truth = Truth(queries)
    for text in PROMISES:
        promise = Promise.parse(text)
        found = evaluate(queries, [ranker], [promise.measure])[promise.measure][:, 0]
        np.testing.assert_allclose(found, truth.values(promise, ranker), atol=2e-7, rtol=1e-7, err_msg=text)


def test_it_is_what_a_million_draws_show():
    """Items in the order in which clocks of exponential times ring: Plackett–Luce."""
    scores = np.array([1.2, 0.7, 0.1, -0.4, 0.9])
    times = np.random.default_rng(20231).exponential(np.exp(-scores), (1_000_000, 5))
    lists = np.argsort(times, axis=1)[:, :3]
    drawn = np.stack([np.bincount(position, minlength=5) for position in lists.T], axis=1) / len(lists)
    placed = oracles.placement_in_lists(oracles.law_of_lists(scores[None], np.ones((1, 5), bool), 3), 5)[0]
    np.testing.assert_allclose(drawn, placed, atol=5 * np.sqrt(0.25 / len(lists)))


def test_a_promise_is_broken_as_it_is_written():
    queries = Queries.from_arrays(scores=[2.0, 1.0, 2.0, 1.0], relevance=[1, 0, 0, 1], group=[2, 2])
    truth, by_score = Truth(queries), GPLRanker.deterministic(2)
    assert truth.level(Promise.parse("ndcg@2 >= 0.5"), by_score) == pytest.approx((1 + 1 / np.log2(3)) / 2)
    assert truth.breaks(Promise.parse("ndcg@2 >= 0.82"), by_score)
    assert not truth.breaks(Promise.parse("ndcg@2 >= 0.81"), by_score)
    drawn = GPLRanker(k=2, temperature=1e3)
    assert truth.level(Promise.parse("ndcg@1 >= 50% of deterministic"), drawn) == pytest.approx(1.0, abs=1e-9)
