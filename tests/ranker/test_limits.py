"""The two limits of the generalized Plackett–Luce model, and what a ranker refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from isrr import GPLRanker, Queries
from isrr.gains import discount

scores_lists = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=15)


def one_query(scores):
    return Queries.from_arrays(scores=scores, query_ids=[0] * len(scores))


@settings(max_examples=100, deadline=None)
@given(scores_lists, st.floats(0.02, 4.0), st.sampled_from([1.0, 0.5]))
def test_a_threshold_above_every_eligibility_is_the_deterministic_order(scores, temperature, decay):
    queries = one_query(scores)
    k = 3
    threshold = 1.001 * GPLRanker(temperature=temperature).eligibility(queries).max() / decay**k
    ranker = GPLRanker(k=k, threshold=threshold, decay=decay, temperature=temperature)
    by_score = np.array(oracles.standard_order(scores, query_id=0))
    expected = np.zeros(len(scores))
    expected[by_score[:k]] = discount(k)[: len(scores)]
    np.testing.assert_allclose(ranker.exposure(queries), expected, rtol=1e-12)
    assert (ranker.sample(queries)[0, 0, : len(scores)] == by_score[:k]).all()
    assert (GPLRanker.deterministic(k).exposure(queries) == expected).all()


@settings(max_examples=50, deadline=None)
@given(scores_lists, st.floats(0.05, 4.0))
def test_threshold_zero_is_plackett_luce_whatever_the_decay(scores, temperature):
    queries = one_query(scores)
    plain = GPLRanker.plackett_luce(k=4, temperature=temperature)
    assert (GPLRanker(k=4, decay=0.3, temperature=temperature).exposure(queries) == plain.exposure(queries)).all()
    weights = np.exp((np.array(scores) - max(scores)) / temperature)
    np.testing.assert_allclose(plain.placement(queries)[:, 0], weights / weights.sum(), atol=1e-8)


def test_a_low_temperature_approaches_the_deterministic_order(many_queries):
    cold = GPLRanker(temperature=1e-6).exposure(many_queries)
    np.testing.assert_allclose(cold, GPLRanker.deterministic().exposure(many_queries), atol=1e-3)


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 2.5}, "k must be"),
        ({"k": True}, "k must be"),
        ({"threshold": -0.1}, "threshold must be"),
        ({"threshold": float("nan")}, "threshold must be"),
        ({"decay": 0.0}, "decay must be"),
        ({"decay": 1.1}, "decay must be"),
        ({"temperature": 0.0}, "temperature must be"),
        ({"deviation": -1.0}, "deviation must be"),
        ({"mean": float("inf")}, "mean must be"),
        ({"mean": np.float32("inf")}, "mean must be"),
        ({"decay": np.float32(0)}, "decay must be"),
        ({"threshold": "0.5"}, "threshold must be"),
        ({"boost": None}, "boost must map"),
        ({"temperature": 5e-324}, "times deviation 1 is 4.94066e-324; .* expected a normal number"),
        ({"temperature": 1e-200, "deviation": 1e-200}, "temperature 1e-200 times deviation 1e-200 is 0"),
        ({"temperature": 1e200, "deviation": 1e200}, "is inf"),
    ],
)
def test_a_ranker_refuses_settings_that_mean_nothing(settings_, said):
    with pytest.raises(ValueError, match=said):
        GPLRanker(**settings_)


def test_a_ranker_takes_numbers_of_any_width():
    assert GPLRanker(temperature=np.float32(0.5), mean=np.int64(3)) == GPLRanker(temperature=0.5, mean=3.0)


def test_standardising_equals_a_change_of_temperature(many_queries):
    wide = many_queries.with_scores(3.0 + 10.0 * many_queries.scores)
    standardised = GPLRanker(mean=3.0, deviation=10.0, temperature=0.5, threshold=0.1)
    np.testing.assert_allclose(
        standardised.exposure(wide),
        GPLRanker(temperature=0.5, threshold=0.1).exposure(many_queries),
        atol=1e-9,
    )
