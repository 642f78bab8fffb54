"""Rows brought together by query: what every column goes through, checked, before `Queries` holds it.

Rows may come in any order. Queries then stand in order of first appearance, rows of a query in the order given. What
the caller could still write to is copied: orders and names that were derived from it must stay true.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.identifiers import identifiers
from isrr.data.numbers import FEATURE_NEED, LARGEST, as_numbers, large_features, needed, unfit
from isrr.errors import DataError


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which rows make which query.

    Attributes:
        offsets: Where each query's rows begin and end, (n_queries + 1,).
        query_ids: One id a query.
        rows: The caller's row number of each stored row; None when rows are stored as given.
    """

    offsets: NDArray[np.int64]
    query_ids: NDArray[Any]
    rows: NDArray[np.int64] | None

    @classmethod
    def of(cls, query_ids: ArrayLike | None, group: ArrayLike | None, n_rows: int) -> "Grouping":
        """By the id of each row, or by the sizes of consecutive queries, which are then numbered."""
        ids = None if query_ids is None else identifiers(query_ids, "query_ids", n_rows)
        if ids is not None and group is not None:
            raise DataError("give query_ids or group, not both")
        if ids is not None:
            return cls._by_id(ids)
        if group is None:
            raise DataError("no query structure: give query_ids (one id a row) or group (sizes of consecutive queries)")
        offsets = offsets_of(group, n_rows)
        return cls(offsets, np.arange(offsets.size - 1), None)

    @classmethod
    def _by_id(cls, ids: NDArray[Any]) -> "Grouping":
        heads = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
        if len(set(ids[heads].tolist())) == heads.size:  # the rows of each query already stand together
            return cls(np.concatenate((heads, [ids.size])).astype(np.int64), ids[heads], None)
        _, first, inverse, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
        by_appearance = np.argsort(first)
        place = np.empty_like(by_appearance)
        place[by_appearance] = np.arange(by_appearance.size)
        rows = np.argsort(place[inverse], kind="stable")
        offsets = np.concatenate(([0], np.cumsum(counts[by_appearance]))).astype(np.int64)
        return cls(offsets, ids[first[by_appearance]], rows)

    @property
    def n_rows(self) -> int:
        """Number of rows, the items of all queries together."""
        return int(self.offsets[-1])

    def _moved(self, values: NDArray[Any]) -> NDArray[Any]:
        """Per-row values, from the row order the caller gave to query order."""
        return values if self.rows is None else values[self.rows]

    def numbers(self, values: ArrayLike, name: str) -> NDArray[np.float64]:
        """One number a row."""
        return self._moved(self._numbers(values, name)).astype(np.float64)

    def finite(self, values: ArrayLike, name: str, least: float = -LARGEST) -> NDArray[np.float64]:
        """One finite number a row, none below the least and none too large."""
        array = self._numbers(values, name)
        bad = np.flatnonzero(unfit(array, least))
        if bad.size:
            row = int(bad[0])
            query = str(self.query_ids[self._query_of(row)])
            found, need = array[row], needed(array[row], least)
            raise DataError(f"row {row + 1} (query {query!r}): {name} is {found}; {need}", query)
        return self._moved(array).astype(np.float64) + 0.0  # −0 and 0 are the same number

    def matrix(self, values: ArrayLike) -> NDArray[np.float32]:
        """The features of each row; not copied where nobody can write to them."""
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise DataError(f"features must be numbers: {error}") from None
        array = array if array.dtype.kind in "biuf" else as_numbers(array, "features")
        if array.ndim != 2 or len(array) != self.n_rows:
            raise DataError(f"features have shape {array.shape}; needed is ({self.n_rows}, n_features)")
        if (large := large_features(array)).size:
            row, feature = divmod(int(large[0]), array.shape[1])
            raise DataError(f"row {row + 1}: feature {feature} is {array[row, feature]}; {FEATURE_NEED}")
        moved = self._moved(array)
        return moved.astype(np.float32, copy=moved is array and _writable(array))

    def identifiers(self, values: ArrayLike, name: str) -> NDArray[Any]:
        """One id a row."""
        return self._moved(identifiers(values, name, self.n_rows))

    def segments(self, values: ArrayLike) -> NDArray[Any]:
        """One segment a query, given on each of its rows."""
        column = self.identifiers(values, "segments")
        heads = column[self.offsets[:-1]]
        differs = np.flatnonzero(column != np.repeat(heads, np.diff(self.offsets)))
        if differs.size:
            q = int(np.searchsorted(self.offsets, differs[0], side="right")) - 1
            found, query = f"{str(heads[q])!r} and {str(column[differs[0]])!r}", str(self.query_ids[q])
            raise DataError(f"query {query!r} has two segments, {found}; a query belongs to one", query)
        return heads

    def _numbers(self, values: ArrayLike, name: str) -> NDArray[Any]:
        """One number a row, integers as they are, all others as float64."""
        array = as_numbers(values, name)
        if array.shape != (self.n_rows,):
            raise DataError(f"{name} has shape {array.shape}; needed is ({self.n_rows},), one number a row")
        return array

    def _query_of(self, row: int) -> int:
        stored = row if self.rows is None else int(np.flatnonzero(self.rows == row)[0])
        return int(np.searchsorted(self.offsets, stored, side="right")) - 1


def offsets_of(group: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Where the rows of consecutive queries begin and end, from the sizes of the queries.

    Example:
        >>> offsets_of([1, 2], 3)
        array([0, 1, 3])
    """
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu":
        raise DataError("group must be a non-empty list of whole numbers, the sizes of consecutive queries")
    if sizes.min() < 1:
        q = int(np.flatnonzero(sizes < 1)[0])
        raise DataError(f"group {q} has size {sizes[q]}; every query needs at least one item")
    if sizes.sum() != n_rows:
        raise DataError(f"group sizes add up to {sizes.sum()}; needed is the number of rows, {n_rows}")
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _writable(array: NDArray[Any]) -> bool:
    """Whether somebody could write to the array, directly or where its memory comes from."""
    memory: Any = array
    while isinstance(memory, np.ndarray):
        if memory.flags.writeable:
            return True
        memory = memory.base
    return False
