"""Standardising: what has no deviation, or too small a one, is refused as that."""

import numpy as np
import pytest

from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.scores.standardize import fit_log_gain, mean_and_deviation


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
