"""Isotonic regression, beside SciPy's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from isrr.ranker.isotonic import isotonic_blocks

VALUES = st.one_of(st.integers(0, 4).map(float), st.floats(-1e6, 1e6))


def assert_same(values, weights):
    ours, theirs = isotonic_blocks(values, weights), isotonic_regression(values, weights=weights)
    np.testing.assert_array_equal(ours.fitted, theirs.x)
    np.testing.assert_array_equal(ours.edges, theirs.blocks)
    np.testing.assert_array_equal(ours.levels, theirs.x[theirs.blocks[:-1]])


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.tuples(VALUES, st.floats(0.01, 100.0)), min_size=1, max_size=40))
def test_it_is_bit_for_bit_that_of_scipy(pairs):
    values, weights = np.array(pairs).T
    assert_same(values, weights)
    assert_same(values, None)


def test_long_sequences_are_bit_for_bit_those_of_scipy():
    rng = np.random.default_rng(20230)
    trend = np.linspace(0.0, 3.0, 20_000)
    assert_same(trend + rng.normal(size=trend.size), rng.uniform(0.1, 5.0, trend.size))
    assert_same((trend + rng.normal(size=trend.size)).round(), None)


def test_what_it_is_given_stays_as_it_is():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    isotonic_blocks(values, weights)
    assert values.tolist() == [3.0, 1.0, 2.0]
    assert weights.tolist() == [1.0, 2.0, 3.0]
