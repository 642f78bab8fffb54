"""Standardising: the score map and what is fitted; what has no deviation, or too small a one, is refused as that."""

from itertools import pairwise

import numpy as np
import pytest

import oracles
from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.scores.standardize import ScoreMap, fit_log_gain, mean_and_deviation


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
