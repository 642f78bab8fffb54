"""Scores against the quantiles of calibration."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from isrr.serve.drift import tally

WHOLE = st.integers(-12, 12).map(float)  # whole numbers, so that scores often stand on a quantile or at the end


@settings(deadline=None)
@given(arrays(float, st.integers(0, 20), elements=WHOLE), st.lists(WHOLE, min_size=5, max_size=5).map(sorted))
def test_scores_are_tallied_as_the_slow_twin_does(scores, quantiles):
    counts, why = tally(scores, np.array(quantiles))
    expected, far = oracles.score_tally(scores, quantiles)
    assert counts == expected
    assert ("lies far outside" in (why or "")) == (far is not None)
