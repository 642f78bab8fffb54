"""NDCG of given orders, against enumeration and against scikit-learn."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import oracles
from isrr import DataError, GPLRanker, Queries
from isrr.gains import dcg, discount, gain_of, ideal_dcg, ndcg
from isrr.metrics.disparity import disparity

grades = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(grades, st.integers(1, 7), st.randoms())
def test_ndcg_of_a_ranking_equals_the_enumerated_one(relevance, k, random):
    ranking = random.sample(range(len(relevance)), len(relevance))
    queries = Queries.from_arrays(relevance=relevance, query_ids=[0] * len(relevance))
    found = ndcg(queries, np.array([ranking]), k=k)[0]
    if max(relevance) == 0:
        assert np.isnan(found)
    else:
        assert 0.0 <= found <= 1.0 + 1e-12
        assert found == pytest.approx(oracles.ndcg(relevance, ranking, k), abs=1e-12)


def test_linear_gain_agrees_with_scikit_learn_where_no_scores_tie(many_queries):
    found = ndcg(many_queries, k=5, gain="linear", empty_query="zero")
    for q in range(300):
        query = many_queries[q]
        if query.n_rows > 1:
            expected = ndcg_score([query.relevance], [query.scores], k=5)
            assert found[q] == pytest.approx(expected, abs=1e-12)


def test_the_order_by_score_is_the_deterministic_ranking(many_queries):
    drawn = GPLRanker.deterministic().sample(many_queries)
    np.testing.assert_allclose(ndcg(many_queries, drawn)[:, 0], ndcg(many_queries), atol=1e-12)


def test_an_empty_query_counts_as_the_policy_says():
    queries = Queries.from_arrays(scores=[2, 1], relevance=[0, 0], query_ids=[1, 1])
    assert np.isnan(ndcg(queries)[0])
    assert ndcg(queries, empty_query="zero")[0] == 0.0
    assert ndcg(queries, empty_query="one")[0] == 1.0
    with pytest.raises(ValueError, match="empty_query must be one of skip, zero, one"):
        ndcg(queries, empty_query="drop")


def test_gains_and_ideals():
    queries = Queries.from_arrays(scores=[1, 2, 3], relevance=[2, 0, 1], query_ids=[1, 1, 1])
    assert ideal_dcg(queries, k=2)[0] == pytest.approx(3.0 + 1.0 / np.log2(3))
    assert dcg(queries, k=2)[0] == pytest.approx(1.0)
    assert gain_of([0, 2], "linear").tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="gain must be one of"):
        gain_of([1], "square")


@pytest.mark.parametrize(
    ("rankings", "said"),
    [
        ([[3, 4, 5], [0, 1, 2]], r"ranking \[3, 4, 5\] of query 'a' has an item that does not exist"),
        ([[0, 1, 2], [0, -2, 1]], r"ranking \[0, -2, 1\] of query 'b' has an item that does not exist"),
        ([[0, 1, 2], [2, 1, 2]], r"ranking \[2, 1, 2\] of query 'b' has an item twice"),
        ([[[0, 1], [1, 1]], [[0, 1], [1, 0]]], r"ranking \[1, 1\] of query 'a' has an item twice"),
        ([[0.9, 1.9], [0.0, 1.0]], "rankings hold float64; expected whole numbers, positions within the query"),
        ([[True, False], [True, False]], "rankings hold bool; expected whole numbers"),
        ([0, 1], r"rankings have shape \(2,\); expected \(2, …, positions\)"),
        ([[0, 1, 2]], r"rankings have shape \(1, 3\); expected \(2, …, positions\)"),
        ([[0, 1], [0]], "expected rankings of equal length, filled up with -1"),
    ],
)
def test_rankings_that_cannot_be_are_refused(rankings, said):
    queries = Queries.from_arrays(scores=[3, 2, 1] * 2, relevance=[0, 1, 0, 2, 2, 2], query_ids=list("aaabbb"))
    for use in (lambda: dcg(queries, rankings), lambda: ndcg(queries, rankings, k=1)):
        with pytest.raises(DataError, match=said):
            use()
    with pytest.raises(DataError, match=said):
        GPLRanker(k=3).log_prob(rankings, queries)


def test_a_short_list_is_filled_up_with_minus_one():
    queries = Queries.from_arrays(relevance=[1, 0, 2], group=[1, 2])
    assert dcg(queries, [[0, -1], [1, 0]], k=2).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("k", [0, 5.5, 5.0, True, "5", None])
def test_a_length_that_is_none_is_refused(k):
    with pytest.raises(ValueError, match="k must be a whole number ≥ 1"):
        discount(k)


def test_gains_that_are_a_column_of_a_matrix_count_like_any_others():
    rng = np.random.default_rng(20230)
    queries = Queries.from_arrays(scores=rng.normal(size=90), relevance=rng.integers(0, 4, 90), group=[30] * 3)

    def column(grades):
        return np.stack([2.0 * grades, -grades], axis=1)[:, 0]

    for measured in (ideal_dcg, partial(disparity, np.arange(90.0))):
        np.testing.assert_array_equal(
            measured(queries, gain=column), measured(queries, gain=lambda grades: 2.0 * grades)
        )
