"""Standardising: the score map and what is fitted; what has no deviation, or too small a one, is refused as that."""

from itertools import pairwise

import numpy as np
import pytest

import oracles
from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.ranker.scale import (
    ScoreMap,
    drawing_in,
    far_scores,
    fit_log_gain,
    mean_and_deviation,
)


def scored(scores, relevance=None):
    return Queries.from_arrays(scores=scores, relevance=relevance, query_ids=np.arange(len(scores)) // 2)


def test_equal_scores_and_scores_too_close_are_told_apart():
    with pytest.raises(DataError, match="all scores are equal"):
        mean_and_deviation(scored([0.1, 0.1, 0.1]))
    for tiny in (1e-300, 5e-324):
        with pytest.raises(DataError, match=r"between 0 and .*; a deviation below 1e-80 is too small to divide by"):
            mean_and_deviation(scored([0.0, tiny]))


@pytest.mark.parametrize("scores", [[0, 1e-310, 2e-310, 1.0], [-1e50, 0, 1e-70, 1e50]])
def test_the_ends_of_what_is_allowed_are_mapped_and_standardised(scores):
    queries = scored(scores, [0, 1, 2, 3])
    score_map = fit_log_gain(queries)
    mapped = score_map(queries.scores)
    assert (np.diff(mapped) >= 0).all()
    assert np.isfinite(mapped).all()
    assert np.isfinite(mean_and_deviation(queries, score_map)).all()


@pytest.mark.parametrize("n_knots", [2, 3, 12])
def test_a_score_map_is_the_line_through_the_knots_around_a_score(n_knots):
    rng = np.random.default_rng(20230)
    inputs, outputs = np.sort(rng.normal(size=(2, n_knots)))
    raw = np.concatenate((inputs, rng.normal(scale=2, size=200)))
    expected = [oracles.score_map(x, inputs, outputs) for x in raw]
    mapped = ScoreMap(tuple(inputs), tuple(outputs))(raw)
    np.testing.assert_allclose(mapped, expected, rtol=1e-12, atol=1e-12)
    assert (mapped[: n_knots - 1] == outputs[:-1]).all()
    assert np.isnan(ScoreMap(tuple(inputs), tuple(outputs))([np.nan])).all()


def test_a_score_map_never_turns_two_scores_round():
    rng = np.random.default_rng(3)
    for _ in range(2_000):
        inputs, outputs = np.sort(rng.normal(size=(2, 4)))
        knots = inputs[1:-1]
        around = np.stack((np.nextafter(knots, -9), knots, np.nextafter(knots, 9)), axis=1).ravel()
        assert (np.diff(ScoreMap(tuple(inputs), tuple(outputs))(around)) >= 0).all()


def test_the_log_gain_map_goes_through_the_means_of_pooled_neighbours():
    scores, relevance = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.array([0, 1, 0, 1, 2, 1, 3])
    fitted = fit_log_gain(scored(scores, relevance))
    # gains 0 | 1 0 | 1 | 3 1 | 7: neighbours out of order are pooled, no mean is below 2 % of the whole mean
    np.testing.assert_allclose(fitted.inputs, [0, 1.5, 3, 4.5, 6])
    np.testing.assert_allclose(np.exp(fitted.outputs), [0.02 * 13 / 7, 0.5, 1, 2, 7])
    assert fit_log_gain(scored(scores, relevance[::-1])) is None


def test_blocks_whose_logarithms_agree_are_one_knot():
    rng = np.random.default_rng(2059)
    n = int(rng.integers(20, 400))
    scores = np.sort(rng.normal(size=n))
    relevance = np.clip(np.round(rng.normal(scale=1.2, size=n) + scores + 1), 0, 4)
    fitted = fit_log_gain(scored(scores, relevance))
    assert all(low < high for knots in (fitted.inputs, fitted.outputs) for low, high in pairwise(knots))


def pool(seed=20230, n_queries=400, n_items=24):
    """Scores of unit deviation within queries whose levels differ, and grades that follow them."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(n_queries, n_items))
    relevance = np.clip(np.round(own + rng.normal(size=own.shape)), 0, 4)
    scores = own + rng.normal(scale=3, size=(n_queries, 1))
    return scores, relevance


def as_queries(scores, relevance):
    ids = np.arange(len(scores)).repeat(scores.shape[1])
    return Queries.from_arrays(scores=scores.ravel(), relevance=relevance.ravel(), query_ids=ids)


def test_the_deviation_is_that_within_queries():
    queries = as_queries(*pool())
    assert mean_and_deviation(queries)[1] == pytest.approx(1.0, rel=0.03)
    assert queries.scores.std() == pytest.approx(np.sqrt(10), rel=0.1)
    middles = np.median(queries.scores.reshape(400, 24), axis=1)
    assert mean_and_deviation(queries)[0] == pytest.approx(np.median(middles), abs=1e-12)


def spread_by_hand(scores):
    """The spread of one query, in plain words."""
    away = np.abs(scores - np.median(scores))
    near = away[away <= 5 * 1.4826 * np.median(away)]
    return np.sqrt((near**2).sum() / (len(near) - 1))


def test_the_deviation_is_the_median_of_the_spreads_of_queries():
    rng = np.random.default_rng(5)
    lists = [rng.standard_t(2, n) for n in rng.integers(2, 30, 31)]
    queries = Queries.from_arrays(scores=np.concatenate(lists), group=[len(scores) for scores in lists])
    assert mean_and_deviation(queries)[1] == pytest.approx(np.median([spread_by_hand(s) for s in lists]), rel=1e-12)


@pytest.mark.parametrize("n_promoted", [1, 4, 16, 200])
def test_promoted_items_move_neither_scale_nor_map(n_promoted):
    scores, relevance = pool()
    plain = as_queries(scores, relevance)
    promoted = scores.copy()
    promoted.ravel()[np.random.default_rng(1).choice(scores.size, n_promoted, replace=False)] += 1_000
    odd = as_queries(promoted, relevance)
    assert mean_and_deviation(odd)[1] == pytest.approx(mean_and_deviation(plain)[1], rel=0.03)
    usual = scores.ravel()
    before, after = fit_log_gain(plain), fit_log_gain(odd)
    assert np.abs(after(usual) - before(usual)).mean() < 0.1
    assert mean_and_deviation(odd, after)[1] == pytest.approx(mean_and_deviation(plain, before)[1], rel=0.1)
    assert after([1_000.0])[0] - after([np.quantile(usual, 0.99)])[0] < 20


@pytest.mark.parametrize("filled", [-100.0, -1e9])
@pytest.mark.parametrize(("share", "within"), [(0.01, 0.02), (0.1, 0.1), (0.3, 0.25)])
def test_missing_scores_that_were_filled_in_hardly_move_the_scale(filled, share, within):
    scores, relevance = pool()
    odd = np.where(np.random.default_rng(2).random(scores.shape) < share, filled, scores)
    found = mean_and_deviation(as_queries(odd, relevance))[1]
    assert found == pytest.approx(mean_and_deviation(as_queries(scores, relevance))[1], rel=within)
    assert np.isfinite(fit_log_gain(as_queries(odd, relevance))(odd)).all()


def test_coarse_scores_are_measured_by_the_differences_there_are():
    rare = np.zeros((50, 20))
    rare[:, 0] = 1.0
    assert mean_and_deviation(as_queries(rare, rare))[1] == pytest.approx(1.4826)
    between = np.repeat(np.arange(50.0)[:, None], 3, axis=1)  # no query ranks anything
    assert mean_and_deviation(as_queries(between, between))[1] > 0


def test_neither_the_order_of_rows_nor_of_queries_changes_a_bit_of_the_scale():
    scores, relevance = pool()
    shuffled = np.random.default_rng(3).permutation(scores.size)
    ids = np.arange(400).repeat(24)
    turned = Queries.from_arrays(scores=scores.ravel()[shuffled], query_ids=ids[shuffled])
    assert mean_and_deviation(turned) == mean_and_deviation(as_queries(scores, relevance))


def test_scores_far_from_their_query_are_counted():
    scores, relevance = pool()
    assert far_scores(as_queries(scores, relevance)) == (0, 0)
    odd = scores.copy()
    odd[:4, 5] += 1_000
    odd[:30, 0] = -1e9
    assert far_scores(as_queries(odd, relevance)) == (4, 30)


def test_far_scores_are_drawn_in_next_to_the_rest_and_keep_their_order():
    scores, relevance = pool()
    assert drawing_in(as_queries(scores, relevance)) is None
    odd = scores.copy()
    odd[:2, 5] = 1_000, 2_000
    odd[:3, 0] = -1e9
    drawn = drawing_in(as_queries(odd, relevance))
    usual = np.delete(odd, [0, 5], axis=1)
    np.testing.assert_allclose(drawn(usual), usual, atol=1e-12)
    assert drawn.in_words == "far scores drawn in"
    low, middle, high, highest = drawn([-1e9, usual.min(), 1_000.0, 2_000.0])
    assert low < middle < high < highest
    assert highest - low < 1.1 * np.ptp(usual)
