"""Items within their queries: in order of falling value, ties by item id, and no id twice.

Only the ids of tied items are put in order, and only queries in which hashes meet are searched for repeats: both cost
far more by text than everything else that is done to a row.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.identifiers import hashes, shortlex
from isrr.parallel import over_queries


def falling_order(
    offsets: NDArray[np.int64], values: NDArray[np.float64], item_ids: NDArray[Any] | None
) -> NDArray[np.int32]:
    """Positions within the query by falling value, (n_rows,); ties by id, shorter ones first, else by input order.

    Example:
        >>> falling_order(np.array([0, 3]), np.array([1.0, 2.0, 1.0]), np.array(["10", "x", "9"], object))
        array([1, 2, 0], dtype=int32)
    """
    from isrr.data._order_kernels import break_ties, mark_tied, sort_queries

    order = np.empty(values.size, np.int32)
    over_queries(lambda start, stop: sort_queries(offsets, values, start, stop, order), offsets)
    if item_ids is None:
        return order
    tied = np.empty(values.size, np.bool_)
    over_queries(lambda start, stop: mark_tied(offsets, values, order, start, stop, tied), offsets)
    if tied.any():
        ties = np.zeros(values.size, np.int64)
        ties[tied] = shortlex(item_ids[tied])
        over_queries(lambda start, stop: break_ties(offsets, values, ties, start, stop, order), offsets)
    return order


def repeats(offsets: NDArray[np.int64], item_ids: NDArray[Any]) -> NDArray[np.int64]:
    """Rows whose item stands in the query before, queries in order, within a query in order of the ids.

    Example:
        >>> repeats(np.array([0, 3]), np.array(["a", "b", "a"], object))
        array([2])
    """
    from isrr.data._order_kernels import mark_repeats

    codes, suspect = hashes(item_ids), np.empty(offsets.size - 1, np.bool_)
    over_queries(lambda start, stop: mark_repeats(offsets, codes, start, stop, suspect), offsets)
    n_items = np.diff(offsets)
    rows = np.flatnonzero(np.repeat(suspect, n_items))
    if rows.size == 0:
        return rows
    order, query = shortlex(item_ids[rows]), np.repeat(np.flatnonzero(suspect), n_items[suspect])
    by_item = np.lexsort((order, query))
    same = (np.diff(order[by_item]) == 0) & (np.diff(query[by_item]) == 0)
    found: NDArray[np.int64] = rows[by_item[1:][same]]
    return found


def sum_largest(
    offsets: NDArray[np.int64], values: NDArray[np.float64], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Σ_j factors[j] · (the j-th largest value of each list), (n_lists,)."""
    from isrr.data import _order_kernels

    out = np.empty(offsets.size - 1)
    over_queries(lambda start, stop: _order_kernels.sum_largest(offsets, values, factors, start, stop, out), offsets)
    return out
