"""Rankings that callers give: positions within each query, checked before anything is read at them."""

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import IntArray, Queries
from isrr.errors import DataError


def checked_rankings(rankings: ArrayLike, queries: Queries) -> IntArray:
    """Rankings of the queries, or an error that names the first that cannot be.

    Args:
        rankings: Positions within the query, none twice, −1 where a list is shorter, (n_queries, …, places).
        queries: What is ranked.
    """
    try:
        given = np.asarray(rankings)
    except ValueError:
        raise DataError("expected rankings of equal length, filled up with -1") from None
    if given.dtype.kind not in "iu":
        raise DataError(f"rankings hold {given.dtype}; expected whole numbers, positions within the query")
    if given.ndim < 2 or len(given) != len(queries) or given.shape[-1] == 0:
        raise DataError(f"rankings have shape {given.shape}; expected ({len(queries)}, …, places)")
    lists = given.reshape(len(queries), -1, given.shape[-1])
    outside = (lists < -1) | (lists >= queries.n_items[:, None, None])
    ordered = np.sort(lists, axis=-1)
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    for bad, what in ((outside, "has an item that does not exist"), (twice, "has an item twice")):
        if bad.any():
            q, draw = (int(place) for place in np.argwhere(bad.any(axis=-1))[0])
            query = str(queries.query_ids[q])
            raise DataError(f"ranking {lists[q, draw].tolist()} of query {query!r} {what}", query)
    return given.astype(np.int64, copy=False)
