"""Items within their queries: in order of falling score, and no id twice.

Only the ids of queries with tied scores are hashed, and only queries in which hashes meet are searched for repeats.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.data import _order_kernels
from isrr.data.identifiers import Ids, identifier_keys
from isrr.noise import GOLDEN, mixed
from isrr.parallel import over_queries

Ties = Literal["trec"]  # orders of equal scores beside the usual one


def falling_order(
    offsets: NDArray[np.int64], scores: NDArray[np.float64], query_ids: NDArray[Any], items: Ids | None
) -> NDArray[np.int32]:
    """Return positions within the query by falling score, (n_rows,).

    Equal scores are ordered by a hash of the query's id, of all its scores and of the item's id, or of its position
    in the list where there are no item ids.

    Example:
        >>> falling_order(np.array([0, 3]), np.array([1.0, 3.0, 2.0]), np.array([7]), None)
        array([1, 2, 0], dtype=int32)
    """
    order, tied = np.empty(scores.size, np.int32), np.ones(query_ids.size, np.bool_)
    queries, names = np.zeros(query_ids.size, np.uint64), np.empty(0, np.uint64)
    sort = _order_kernels.sort_queries
    over_queries(lambda start, stop: sort(offsets, scores, queries, names, start, stop, order, tied), offsets)
    if tied.any():
        queries[tied] = identifier_keys(query_ids[tied])
        if items is not None:
            names, rows = np.zeros(scores.size, np.uint64), np.repeat(tied, np.diff(offsets))
            names[rows] = items.take(rows).hashes()
        over_queries(lambda start, stop: sort(offsets, scores, queries, names, start, stop, order, tied), offsets)
    return order


def repeats(offsets: NDArray[np.int64], items: Ids) -> NDArray[np.int64]:
    """Return the rows whose item appears earlier in the query, rising.

    Example:
        >>> repeats(np.array([0, 3]), Ids(np.array([5, 6, 5])))
        array([2])
    """
    names = items.values.view(np.uint64) if items.are_integers else items.hashes()
    _, suspect = _first_equal(offsets, names, np.zeros_like(offsets), np.empty(0, np.uint64))
    rows = np.flatnonzero(np.repeat(suspect, np.diff(offsets)))
    if not rows.size:
        return rows
    query = np.searchsorted(offsets, rows, side="right")
    distinct, codes = items.take(rows).by_appearance()
    _, first = np.unique(query * len(distinct) + codes, return_index=True)
    return np.delete(rows, first)


def first_equal(offsets: NDArray[np.int64], items: Ids, starts: NDArray[np.int64], others: Ids) -> NDArray[np.int64]:
    """Return for each of other items of the same queries the first row with that item, −1 for none.

    Integers are compared as they are; text by hash, then as text where hashes agree.

    Args:
        offsets: Where the items of each query begin and end.
        items: The items.
        starts: Where the other items of each query begin and end.
        others: The other items.

    Example:
        >>> first_equal(np.array([0, 2]), Ids(np.array([5, 6])), np.array([0, 3]), Ids(np.array([6, 6, 7])))
        array([ 1,  1, -1])
    """
    if items.are_integers and others.are_integers:
        return _first_equal(offsets, items.values.view(np.uint64), starts, others.values.view(np.uint64))[0]
    rows, _ = _first_equal(offsets, items.hashes(), starts, others.hashes())
    hits = np.flatnonzero(rows >= 0)
    if items.take(rows[hits]).texts.equals(others.take(hits).texts):
        return rows
    codes = Ids.joined([items, others]).by_appearance()[1].astype(np.uint64)  # two texts share a hash
    return _first_equal(offsets, codes[: len(items)], starts, codes[len(items) :])[0]


def _first_equal(
    offsets: NDArray[np.int64], names: NDArray[np.uint64], starts: NDArray[np.int64], others: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return what `first_equal` does of names of 64 bits, and which queries have a name twice."""
    rows, repeats = np.empty(others.size, np.int64), np.empty(offsets.size - 1, np.bool_)
    over_queries(
        lambda start, stop: _order_kernels.first_equal(offsets, names, starts, others, start, stop, rows, repeats),
        offsets if offsets[-1] > starts[-1] else starts,
    )
    return rows, repeats


def query_hashes(
    offsets: NDArray[np.int64], keys: NDArray[np.uint64], *columns: NDArray[np.float64] | None
) -> NDArray[np.uint64]:
    """Return two hashes per query, of its key and of its rows in any order, as some columns have them.

    They add up over rows and over queries, (n_queries, 2).
    """
    hashes = np.zeros((keys.size, 2), np.uint64)

    def hash_block(start: int, stop: int) -> None:
        rows, n_rows = slice(offsets[start], offsets[stop]), np.diff(offsets[start : stop + 1])
        names = mixed(np.repeat(keys[start:stop], n_rows) + GOLDEN)
        for column in columns:
            if column is not None:
                names = mixed(names ^ (column[rows] + 0.0).view(np.uint64)) + GOLDEN  # −0 and 0 are the same number
        filled = start + np.flatnonzero(n_rows)
        for part, of_rows in enumerate((mixed(names), mixed(names ^ GOLDEN))):
            if filled.size:
                hashes[filled, part] = np.add.reduceat(of_rows, offsets[filled] - offsets[start])

    over_queries(hash_block, offsets)
    return hashes


def sum_largest(
    offsets: NDArray[np.int64], values: NDArray[np.float64], factors: NDArray[np.float64], smallest: bool = False
) -> NDArray[np.float64]:
    """Return Σ_j factors[j] · (the j-th largest value of each list, or the j-th smallest), (n_lists,)."""
    out, sign = np.empty(offsets.size - 1), -1.0 if smallest else 1.0
    over_queries(
        lambda start, stop: _order_kernels.sum_largest(offsets, values, sign, factors, start, stop, out), offsets
    )
    return out
