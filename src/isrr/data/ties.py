"""Equal scores in an order of the caller's choosing.

trec_eval sorts a run by score, equal scores by document id, last ids first, and keeps scores as 32-bit floats: scores
that agree in about seven digits are ties to it.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.errors import DataError

if TYPE_CHECKING:
    from isrr.data.queries import Queries

Ties = Literal["trec"]


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


def with_ties(queries: "Queries", ties: Ties | None) -> "Queries":
    """The queries with equal scores ordered as asked: "trec" as trec_eval does, None in the usual order."""
    import pyarrow.compute as pc

    if ties is None:
        return queries
    if ties != "trec":
        raise ValueError(f"`ties=` must be trec or left out, got {ties!r}")
    if queries.items is None:
        raise DataError("`ties=trec` orders by item id; expected queries with item ids")
    names = queries.items.texts.dictionary_encode()
    falling = pc.array_sort_indices(names.dictionary, order="descending").to_numpy()
    place = np.empty(falling.size, np.int64)
    place[falling] = np.arange(falling.size)
    scores = queries.need_scores().astype(np.float32).astype(np.float64)
    return replace(queries, scores=scores, tie_order=place[names.indices.to_numpy()])
