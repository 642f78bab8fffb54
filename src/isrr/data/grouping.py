"""Rows brought together by query.

Rows may come in any order. Queries then stand in order of first appearance, rows of a query in the order given.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.identifiers import Ids
from isrr.data.numbers import such_rows
from isrr.data.ragged import offsets_from
from isrr.errors import DataError


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which rows make which query.

    Attributes:
        offsets: Where each query's rows begin and end, (n_queries + 1,).
        query_ids: One id per query.
        rows: The caller's row number of each stored row; None when rows are stored as given.
    """

    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    rows: NDArray[np.int64] | None

    @classmethod
    def of(cls, query_ids: Any, group: ArrayLike | None, n_rows: int) -> "Grouping":
        """Group rows by the id of each, or by the sizes of consecutive queries, which are then numbered."""
        if query_ids is not None and group is not None:
            raise DataError("give query_ids or group, not both")
        if query_ids is None and group is None:
            raise DataError(
                "no query structure: give query_ids (one id per row) or group (sizes of consecutive queries)"
            )
        if group is not None:
            offsets = _offsets_of(group, n_rows)
            return cls(offsets, np.arange(offsets.size - 1), None)
        ids = Ids.of(query_ids, "query_ids", n_rows)
        runs = ids.runs()
        names, codes = ids.take(runs).by_appearance()
        lengths = np.diff(runs, append=n_rows)
        offsets = offsets_from(np.bincount(codes, lengths))
        adjacent = (np.diff(codes) >= 0).all()
        return cls(offsets, names.array, None if adjacent else np.argsort(np.repeat(codes, lengths), kind="stable"))

    def moved(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return per-row values, moved from the row order the caller gave to query order."""
        return values if self.rows is None else values[self.rows]

    def query_of(self, row: int) -> str:
        """Return the query that a row of the caller belongs to."""
        stored = row if self.rows is None else int(np.flatnonzero(self.rows == row)[0])
        return str(self.query_ids[np.searchsorted(self.offsets, stored, side="right") - 1])

    def heads(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return one segment per query, from a column of them in query order."""
        heads = column[self.offsets[:-1]]
        differs = np.flatnonzero(column != np.repeat(heads, np.diff(self.offsets)))
        if differs.size:
            q = int(np.searchsorted(self.offsets, differs[0], side="right")) - 1
            segments, query = f"{str(heads[q])!r} and {str(column[differs[0]])!r}", str(self.query_ids[q])
            said = f"query {query!r} has two segments, {segments}{such_rows(differs.size)}; expected one per query"
            raise DataError(said, query)
        return heads


def _offsets_of(group: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return where the rows of consecutive queries begin and end, from the sizes of the queries."""
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu":
        raise DataError("group must be a non-empty list of whole numbers, the sizes of consecutive queries")
    if sizes.min() < 1:
        q = int(np.flatnonzero(sizes < 1)[0])
        raise DataError(f"group {q} has size {sizes[q]}; every query needs at least one item")
    if sizes.sum() != n_rows:
        raise DataError(f"group sizes add up to {sizes.sum()}; expected the number of rows, {n_rows}")
    return offsets_from(sizes)
