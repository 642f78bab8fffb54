"""Survivors of a grid, by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evidence_kinds import SELECTIONS
from isrr.risk.select import fixed_sequence, holm
from isrr_paper.further_evidence import bonferroni, pointwise

LEVELS = st.lists(st.floats(0, 1), max_size=30)


@given(LEVELS)
def test_stricter_procedures_keep_subsets(pvalues):
    kept = {name: set(select(pvalues, 0.1)) for name, select in SELECTIONS.items()}
    assert kept["bonferroni"] <= kept["holm"] <= kept["pointwise"]
    assert kept["fixed_sequence"] == set(range(len(kept["fixed_sequence"]))) <= kept["pointwise"]


def test_a_p_value_equal_to_delta_survives():
    for select in (fixed_sequence, pointwise):
        np.testing.assert_array_equal(select([0.05, 0.0500001], 0.05), [0])


def test_nothing_survives_an_empty_or_unknown_p_value():
    for select in SELECTIONS.values():
        assert select([], 0.05).size == 0
        assert select([np.nan, 0.2], 0.05).size == 0
        assert select([0.01], 0.05).dtype == np.int64


def test_holm_stops_at_the_first_failure():
    np.testing.assert_array_equal(holm([0.04, 0.012, 0.03], 0.05), [1])
    np.testing.assert_array_equal(bonferroni([0.04, 0.012, 0.03], 0.05), [1])
    np.testing.assert_array_equal(holm([0.04, 0.012, 0.02], 0.05), [0, 1, 2])
