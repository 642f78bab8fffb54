"""Survivors of a grid, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isrr.errors import PromiseError
from isrr.risk.select import SELECTIONS, bonferroni, fixed_sequence, holm, majorant, pointwise, split_mask

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


def test_the_split_depends_on_keys_and_size_alone():
    rng = np.random.default_rng(1)
    keys = rng.integers(2**62, size=101)
    order = rng.permutation(101)
    learns = split_mask(keys, 0.2)
    assert learns.sum() == 20
    np.testing.assert_array_equal(split_mask(keys[order], 0.2), learns[order])


def test_a_split_refuses_repeated_keys_and_whole_shares():
    with pytest.raises(PromiseError, match="share a key"):
        split_mask([3, 1, 3], 0.5)
    with pytest.raises(PromiseError, match=r"share must lie in \(0, 1\), got 1"):
        split_mask([1, 2], 1.0)


@given(LEVELS.filter(len))
def test_the_majorant_is_the_worst_of_the_safer_side(risk):
    expected = [max(risk[i:]) for i in range(len(risk))]
    np.testing.assert_array_equal(majorant(risk), expected)
    np.testing.assert_array_equal(majorant([risk, risk]), [expected, expected])
