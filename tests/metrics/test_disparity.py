"""Disparity by sums equals disparity by pairs; its bound is the worst ranking."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from isrr import GPLRanker, PromiseError, Queries, evaluate
from isrr.metrics.disparity import Disparity, Pools, disparity, fairness_gain, pooled, share_of_bound

pairs = st.lists(st.tuples(st.floats(0, 2), st.integers(0, 4)), min_size=1, max_size=7)


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_disparity_by_sums_equals_the_mean_over_pairs(rows):
    exposure, relevance = [e for e, _ in rows], [r for _, r in rows]
    queries = Queries.from_arrays(relevance=relevance, query_ids=[0] * len(rows))
    squared = disparity(exposure, queries)[0]
    absolute = disparity(exposure, queries, error="absolute")[0]
    assert squared >= 0
    assert squared == pytest.approx(oracles.disparity(exposure, oracles.gain(relevance)), abs=1e-9)
    by_pairs = oracles.disparity(exposure, oracles.gain(relevance), lambda a, b: abs(a - b))
    assert absolute == pytest.approx(by_pairs, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 6))
def test_the_bound_is_the_disparity_of_the_worst_ranking(relevance, k):
    queries = Queries.from_arrays(relevance=relevance, query_ids=[0] * len(relevance))
    expected = oracles.disparity_bound(oracles.gain(relevance), k)
    assert Disparity().largest(queries, k)[0] == pytest.approx(expected, abs=1e-12, rel=1e-12)


def test_one_query_above_the_declared_bound_is_refused():
    queries = Queries.from_arrays(scores=[2, 1] * 3, relevance=[1, 0, 2, 0, 1, 0], group=[2, 2, 2])
    largest = [oracles.disparity_bound(oracles.gain(relevance), 2) for relevance in ([1, 0], [2, 0])]
    assert largest[0] < largest[1]
    assert Disparity().check_bound(queries, 2, (0.0, 1.25 * largest[1])) == pytest.approx(0.8)
    with pytest.raises(PromiseError, match="above the declared bound"):
        Disparity().check_bound(queries, 2, (0.0, (largest[0] + largest[1]) / 2))


@pytest.mark.parametrize(
    ("gain", "by_hand"),
    [("exponential", oracles.gain), ("linear", np.asarray), ("equal", np.ones_like), (np.sqrt, np.sqrt)],
)
def test_disparity_takes_the_gain_it_is_given(gain, by_hand):
    exposure, relevance = [1.0, 0.2, 0.5], np.array([1.0, 4.0, 2.0])
    queries = Queries.from_arrays(relevance=relevance, query_ids=[0, 0, 0])
    found = disparity(exposure, queries, gain=gain)[0]
    assert found == pytest.approx(oracles.disparity(exposure, by_hand(relevance)))
    assert found != pytest.approx(oracles.disparity(exposure, relevance**2 + 1))


def test_normalized_disparity_is_a_share_for_every_ranker(many_queries):
    grid = [GPLRanker.deterministic(), GPLRanker(), GPLRanker(temperature=0.1, threshold=0.2)]
    share = evaluate(many_queries, grid, empty_query="zero")["normalized_disparity"]
    assert ((share >= 0) & (share <= 1 + 1e-6)).all()
    for column, ranker in enumerate(grid):
        given = share_of_bound(
            disparity(ranker.exposure(many_queries), many_queries), Disparity().largest(many_queries, 5)
        )
        np.testing.assert_allclose(given, share[:, column], atol=1e-12)


def test_exposure_proportional_to_gain_is_fair():
    queries = Queries.from_arrays(relevance=[1, 2, 0], query_ids=[0, 0, 0])
    assert disparity([1.0, 3.0, 0.0], queries)[0] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="error must be one of squared, absolute"):
        disparity([1.0, 3.0, 0.0], queries, error="cubed")


def test_fairness_gain_leaves_out_skipped_queries():
    assert fairness_gain([0.1, np.nan], [0.2, np.nan]) == pytest.approx(0.5)
    assert fairness_gain([0.0], [0.0]) == 0.0


def test_groups_pool_the_exposure_and_gain_of_their_items():
    queries = Queries.from_arrays(
        relevance=[1, 0, 2, 1], query_ids=["a", "b", "a", "a"], item_groups=["x", "x", "y", "x"]
    )
    pools = Pools.of(queries, "exponential", between_groups=True)
    exposure = queries.in_query_order([0.5, 1.0, 0.25, 0.25], "exposure")
    assert pools.n_pools.tolist() == [2, 1]
    assert pooled(exposure, queries, pools.pool)[[0, 1, 3]].tolist() == [0.75, 0.25, 1.0]
    assert pools.deserved[[0, 1, 3]].tolist() == [2.0, 3.0, 0.0]
    found = disparity([0.5, 1.0, 0.25, 0.25], queries, groups=True)
    assert found[0] == pytest.approx(oracles.disparity([0.75, 0.25], [2.0, 3.0]))
    assert found[1] == 0.0
