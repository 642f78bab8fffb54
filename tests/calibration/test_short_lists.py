"""Lists no longer than k: beyond some temperature, more noise is less useful and less fair."""

import numpy as np
import pytest

from isrr import Abstention, Certificate, Queries, calibrate


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(20235)
    sizes = rng.integers(3, 11, 2_000)
    relevance = rng.choice([0, 0, 1, 2, 3], sizes.sum()).astype(float)
    scores = 0.6 * relevance + rng.normal(size=relevance.size)
    return Queries.from_arrays(query_ids=np.repeat(np.arange(2_000), sizes), scores=scores, relevance=relevance)


@pytest.mark.parametrize("path", ["auto", "temperature"])
def test_the_fairest_certified_ranker_is_chosen_not_the_hottest(judged, path):
    outcome = calibrate(judged, "ndcg@10 >= 0.5", path=path)
    certified = [point for point in outcome.curve if point.certified]
    assert certified[-1].fairness_gain.value < -0.05
    assert outcome.fairness_gain == max((point.fairness_gain for point in certified), key=lambda gain: gain.value)
    assert outcome.fairness_gain.low > 0
    assert not outcome.warnings


def test_a_promise_of_fairness_starts_at_the_fairest_ranker(judged):
    outcome = calibrate(judged, "normalized_disparity@10 <= 98% of deterministic")
    assert isinstance(outcome, Certificate)
    assert outcome.curve[0].fairness_gain.value > 0.02
    assert outcome.utility.value > outcome.curve[0].utility.value


def test_fairness_out_of_reach_is_told_with_what_is_within_it(judged):
    outcome = calibrate(judged, "normalized_disparity@10 <= 80% of deterministic")
    assert isinstance(outcome, Abstention)
    assert "is not met even by the fairest ranker, at 9" in outcome.reason
    assert "limit        these queries prove at most normalized_disparity@10 <= 9" in str(outcome)


def test_a_ranker_that_is_no_fairer_says_so():
    relevance = np.tile([4.0, 0.0], 600)
    right = Queries.from_arrays(query_ids=np.repeat(np.arange(600), 2), scores=relevance, relevance=relevance)
    outcome = calibrate(right, "ndcg@2 >= 0.8")
    assert outcome.fairness_gain.low <= 0
    assert "these queries do not show that the ranker is any fairer than the order by score" in str(outcome)
