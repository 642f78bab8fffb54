"""Items within their queries: in order of falling score, and no id twice.

Only the ids of queries with tied scores are hashed, and only queries in which hashes meet are searched for repeats:
text costs far more than everything else that is done to a row.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.data import _order_kernels
from isrr.data.identifiers import Ids, identifier_keys
from isrr.parallel import over_queries

Ties = Literal["trec"]  # orders of equal scores beside the usual one
NO_IDS = np.empty(0, np.uint64)  # names of items that have no ids


def falling_order(
    offsets: NDArray[np.int64], scores: NDArray[np.float64], query_ids: NDArray[Any], items: Ids | None
) -> NDArray[np.int32]:
    """Positions within the query by falling score, (n_rows,).

    Equal scores are ordered by a hash of the query's id, of all its scores and of the item's id, or of its place
    in the list where there are no item ids.

    Example:
        >>> falling_order(np.array([0, 3]), np.array([1.0, 3.0, 2.0]), np.array([7]), None)
        array([1, 2, 0], dtype=int32)
    """
    order, tied = np.empty(scores.size, np.int32), np.ones(query_ids.size, np.bool_)
    queries, names = np.zeros(query_ids.size, np.uint64), NO_IDS

    def sort(start: int, stop: int) -> None:
        _order_kernels.sort_queries(offsets, scores, queries, names, start, stop, order, tied)

    over_queries(sort, offsets)
    if tied.any():
        queries[tied] = identifier_keys(query_ids[tied])
        if items is not None:
            names, rows = np.zeros(scores.size, np.uint64), np.repeat(tied, np.diff(offsets))
            names[rows] = items.take(rows).hashes()
        over_queries(sort, offsets)
    return order


def order_with_ties(
    offsets: NDArray[np.int64], values: NDArray[np.float64], tie_order: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Positions within the query by falling value, equal values by rising tie order, (n_rows,).

    Example:
        >>> order_with_ties(np.array([0, 3]), np.array([1.0, 2.0, 1.0]), np.array([5, 0, 3]))
        array([1, 2, 0], dtype=int32)
    """
    n_items = np.diff(offsets)
    rows = np.lexsort((tie_order, -values, np.repeat(np.arange(n_items.size), n_items)))
    return (rows - np.repeat(offsets[:-1], n_items)).astype(np.int32)


def repeats(offsets: NDArray[np.int64], items: Ids) -> NDArray[np.int64]:
    """Rows whose item stands in the query before, rising.

    Example:
        >>> repeats(np.array([0, 3]), Ids(np.array([5, 6, 5])))
        array([2])
    """
    names = items.held.view(np.uint64) if isinstance(items.held, np.ndarray) else items.hashes()
    suspect = np.empty(offsets.size - 1, np.bool_)
    over_queries(lambda start, stop: _order_kernels.mark_repeats(offsets, names, start, stop, suspect), offsets)
    rows = np.flatnonzero(np.repeat(suspect, np.diff(offsets)))
    if rows.size == 0:
        return rows
    different, codes = items.take(rows).by_appearance()
    query = np.searchsorted(offsets, rows, side="right")
    _, first = np.unique(query * len(different) + codes, return_index=True)
    return np.delete(rows, first)


def query_hashes(
    offsets: NDArray[np.int64], keys: NDArray[np.uint64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.uint64]:
    """Two hashes per query, of its key and of its rows in any order, (n_queries, 2); an empty column is left out."""
    sums = np.zeros((keys.size, 2), np.uint64)
    _order_kernels.hash_queries(offsets, keys, first, second, sums)
    return sums


def sum_largest(
    offsets: NDArray[np.int64], values: NDArray[np.float64], factors: NDArray[np.float64], smallest: bool = False
) -> NDArray[np.float64]:
    """Σ_j factors[j] · (the j-th largest value of each list, or the j-th smallest), (n_lists,)."""
    out, sign = np.empty(offsets.size - 1), -1.0 if smallest else 1.0

    def add_up(start: int, stop: int) -> None:
        _order_kernels.sum_largest(offsets, values, sign, factors, np.empty(factors.size), start, stop, out)

    over_queries(add_up, offsets)
    return out
