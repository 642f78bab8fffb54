"""Levels computed, not counted: every sequence of few losses from a law of two values, whose mean is exactly alpha."""

from itertools import product

import numpy as np
import pytest

from evidence_kinds import KINDS, VALID

pytestmark = pytest.mark.guarantee

N_QUERIES = 8
SEQUENCES = np.array(list(product([0, 1], repeat=N_QUERIES))).T  # one a column
VALUES = [(0.0, 1.0), (0.0, 0.1), (0.2, 1.0), (0.45, 0.55), (0.9, 1.0), (-5.0, 1.0)]
CHANCES = [0.02, 0.2, 0.3, 0.5, 0.8, 0.9, 0.98]  # of the higher value: rare large losses, and rare small ones


def largest_level(name, delta):
    """The largest probability with which a risk of exactly alpha is certified, over all the laws."""
    source, levels = KINDS[name], []
    higher = SEQUENCES.sum(axis=0)
    for (low, high), chance in product(VALUES, CHANCES):
        alpha = low + (high - low) * chance
        if 0 < alpha < 1:
            probability = chance**higher * (1 - chance) ** (N_QUERIES - higher)
            certified = source.certifies(np.where(SEQUENCES == 1, high, low), alpha, delta, 0.25)
            levels.append(probability @ certified)
    return max(levels)


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("name", VALID)
def test_eight_queries_certify_a_risk_of_alpha_with_probability_delta_at_most(name, delta):
    assert largest_level(name, delta) <= delta


def test_these_levels_are_nearly_reached_by_betting_and_far_exceeded_by_the_normal_approximation():
    assert largest_level("betting", 0.3) > 0.25
    assert largest_level("normal_approximation", 0.05) > 0.8
