"""Splits by query: complete, disjoint, the same in any order, different with another seed."""

import numpy as np
import pytest
from scipy.stats import binomtest

from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr_paper.split import split


def queries(ids):
    return Queries.from_arrays(scores=np.arange(2.0 * len(ids)), query_ids=np.repeat(ids, 2))


def test_every_query_is_in_exactly_one_part_with_its_rows():
    whole = queries(np.arange(1000))
    parts = split(whole, seed=3)
    assert len(parts) == 3
    assert sorted(np.concatenate([part.query_ids for part in parts])) == list(range(1000))
    for part in parts:
        np.testing.assert_array_equal(part.scores[::2], 2.0 * part.query_ids)


def test_order_and_company_do_not_move_a_query():
    ids = np.random.default_rng(20230).permutation(500)
    first = split(queries(np.arange(500)), seed=1)
    for other in (split(queries(ids), seed=1), split(queries(ids[:300].astype(str)), seed=1)):
        for part, same in zip(first, other, strict=True):
            assert {str(query) for query in same.query_ids} <= {str(query) for query in part.query_ids}


def test_seeds_divide_differently_and_shares_are_kept_on_average():
    whole = queries(np.arange(4000))
    one, two = split(whole, (0.3, 0.7), seed=1)[0], split(whole, (0.3, 0.7), seed=2)[0]
    both = len(np.intersect1d(one.query_ids, two.query_ids))
    assert binomtest(len(one), 4000, 0.3).pvalue > 1e-3
    assert binomtest(both, 4000, 0.09).pvalue > 1e-3


def test_shares_may_be_an_array():
    whole = queries(np.arange(40))
    for part, same in zip(split(whole, np.array([0.5, 0.5])), split(whole, (0.5, 0.5)), strict=True):
        assert part.query_ids.tolist() == same.query_ids.tolist()


def test_impossible_splits_are_refused():
    for none in ((), np.array([])):
        with pytest.raises(ValueError, match="shares must be positive and sum to 1"):
            split(queries([1, 2]), none)
    with pytest.raises(ValueError, match="shares must be positive and sum to 1"):
        split(queries([1, 2]), (0.5, 0.6))
    with pytest.raises(DataError, match=r"part 1 \(a share of 0.001\) gets none of the 2 queries"):
        split(queries([1, 2]), (0.999, 0.001))
