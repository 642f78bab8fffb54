"""Normalisation of features by query."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isrr_paper.features import Featured, feature_matrix, normalized_by_query


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(0, 10_000))
def test_each_feature_fills_the_unit_interval_within_each_query(lengths, seed):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    features = np.random.default_rng(seed).integers(-5, 6, size=(offsets[-1], 3)).astype(np.float32)
    normalized = normalized_by_query(features, offsets)
    for start, stop in pairwise(offsets):
        mine = features[start:stop]
        span = np.ptp(mine, axis=0)
        expected = (mine - mine.min(axis=0)) / np.where(span > 0, span, 1)
        np.testing.assert_allclose(normalized[start:stop], expected, atol=1e-6)


def test_features_are_left_alone_unless_asked():
    queries = Featured.from_arrays(features=[[1.0], [3.0]], query_ids=[1, 1])
    np.testing.assert_array_equal(feature_matrix(queries, "none"), [[1], [3]])
    np.testing.assert_array_equal(feature_matrix(queries, "query"), [[0], [1]])
    with pytest.raises(ValueError, match="normalize must be one of none, query; got 'rows'"):
        feature_matrix(queries, "rows")


def test_a_missing_value_stays_missing_and_leaves_the_others_their_scale():
    gap = np.nan
    features = np.array([[1, 5, gap], [gap, 5, gap], [3, gap, gap], [2, 5, gap]], np.float32)
    expected = [[0, 0, gap], [gap, 0, gap], [1, gap, gap], [0.5, 0, gap]]
    np.testing.assert_array_equal(normalized_by_query(features, np.array([0, 4])), expected)
