"""Queries: the one shape in which ranking data travels through isrr.

Columns are ragged: the rows of query q are `offsets[q] : offsets[q + 1]`. Input may come in any row order; rows are
grouped by query here (queries in order of first appearance, rows of a query in the order given), and `in_caller_order`
brings per-row results back. Everything is checked here, once, so that nothing downstream has to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.counting import counted
from isrr.errors import DataError
from isrr.parallel import over_queries

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Index = int | slice | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Queries:
    """Lists to rank: scores, and where known relevance, ids, segments, item groups and features.

    Made by `Queries.from_arrays` or `isrr.read_queries`; the fields hold rows grouped by query.

    Attributes:
        offsets: Where each query's rows begin and end, (n_queries + 1,).
        query_ids: One id a query, integers or text; 7 and "7" are the same id.
        scores: Raw scores, one a row, or None before scoring.
        relevance: Grades ≥ 0, one a row, or None when unjudged.
        item_ids: Ids of the items, one a row, distinct within a query.
        item_groups: Provider or group of the items, one a row.
        segments: Segment of the query, one a query.
        features: float32 matrix, (n_rows, n_features).
        rows: The caller's row number of each stored row; None when rows are stored as given.
        made_ids: Whether the query ids were made from positions because none were given.
        absent: What to say when a column is asked for that the source did not have, by its role.
    """

    offsets: IntArray
    query_ids: NDArray[Any]
    scores: FloatArray | None = None
    relevance: FloatArray | None = None
    item_ids: NDArray[Any] | None = None
    item_groups: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    features: NDArray[np.float32] | None = None
    rows: IntArray | None = None
    made_ids: bool = False
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        *,
        scores: ArrayLike | None = None,
        relevance: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
        group: ArrayLike | None = None,
        item_ids: ArrayLike | None = None,
        item_groups: ArrayLike | None = None,
        segments: ArrayLike | None = None,
        features: ArrayLike | None = None,
    ) -> "Queries":
        """Build queries from columns of equal length, one row an item.

        Args:
            scores: Raw scores of a ranking model, finite.
            relevance: Relevance grades, finite and ≥ 0.
            query_ids: The query each row belongs to; rows may come in any order.
            group: Sizes of consecutive queries (as LightGBM and XGBoost take them), in place of `query_ids`.
            item_ids: Ids of the items; they break ties between equal scores.
            item_groups: Provider or group of each item, for exposure by group.
            segments: Segment of the query, the same on all rows of a query.
            features: Matrix of numbers, one row an item.

        Example:
            >>> Queries.from_arrays(scores=[2.0, 1.0, 0.5], relevance=[1, 0, 2], query_ids=["a", "b", "a"])
            Queries(2 queries, 3 items; scores, relevance)
        """
        columns = {"scores": scores, "relevance": relevance, "features": features, "query_ids": query_ids}
        n_rows = next((len(np.asarray(c)) for c in columns.values() if c is not None), None)
        if n_rows is None:
            raise DataError("nothing to rank: give scores, relevance or features, one row an item")
        if n_rows == 0:
            raise DataError("nothing to rank: the columns have no rows")
        ids = _identifiers(query_ids, "query_ids", n_rows) if query_ids is not None else None
        offsets, heads, rows = _grouping(ids, group, n_rows)
        one_a_query = ids[heads] if ids is not None else np.arange(len(offsets) - 1)

        def column(values: ArrayLike, name: str) -> NDArray[Any]:
            array = _identifiers(values, name, n_rows)
            return array if rows is None else array[rows]

        def numbers(values: ArrayLike, name: str) -> FloatArray:
            array = _numbers(values, name, n_rows)
            bad = np.flatnonzero(~np.isfinite(array) | ((array < 0) if name == "relevance" else False))
            if bad.size:
                row = int(bad[0])
                query = str(one_a_query[_query_of_row(offsets, rows, row)])
                need = "a finite number ≥ 0" if name == "relevance" else "a finite number"
                found = f"{name} is {array[row]}"
                raise DataError(f"row {row} (query {query!r}): {found}; it must be {need}", query)
            return array if rows is None else array[rows]

        queries = cls(
            offsets=offsets,
            query_ids=one_a_query,
            scores=None if scores is None else numbers(scores, "scores"),
            relevance=None if relevance is None else numbers(relevance, "relevance"),
            item_ids=None if item_ids is None else column(item_ids, "item_ids"),
            item_groups=None if item_groups is None else column(item_groups, "item_groups"),
            segments=None if segments is None else _per_query(column(segments, "segments"), offsets, one_a_query),
            features=None if features is None else _matrix(features, n_rows, rows),
            rows=rows,
            made_ids=ids is None,
        )
        if (found := queries.repeated_item()) is not None:
            item, query = found
            raise DataError(
                f"item {item!r} stands twice in query {query!r}; an item can be ranked once per query", query
            )
        return queries

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator["Queries"]:
        return (self[q] for q in range(len(self)))

    def __repr__(self) -> str:
        names = ("scores", "relevance", "item_ids", "item_groups", "segments", "features")
        held = ", ".join(name for name in names if getattr(self, name) is not None)
        size = f"{counted(len(self), 'query')}, {counted(self.n_rows, 'item')}"
        return f"Queries({size}; {held or 'no columns'})"

    @property
    def n_rows(self) -> int:
        """Number of rows, the items of all queries together."""
        return int(self.offsets[-1])

    @property
    def n_items(self) -> IntArray:
        """Number of items of each query, (n_queries,)."""
        return np.diff(self.offsets)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """A 64-bit hash of each query id, the query's name in noise streams; 7 and "7" share it."""
        return np.array([identifier_key(query_id) for query_id in self.query_ids], np.uint64)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that name the query ids, scores and relevance, whatever order they come in."""
        from isrr.data._order_kernels import add_fingerprint

        nothing = np.empty(0)
        scores = nothing if self.scores is None else self.scores
        relevance = nothing if self.relevance is None else self.relevance
        sums = add_fingerprint(self.offsets, self.keys, scores, relevance)
        return "".join(f"{int(part):016x}" for part in sums)

    @cached_property
    def item_order(self) -> IntArray | None:
        """Integers that sort as the item ids do (shorter first, then by text), or None without ids."""
        return None if self.item_ids is None else _shortlex(self.item_ids)

    @cached_property
    def by_score(self) -> NDArray[np.int32]:
        """Each query's items by falling score, as positions within the query, (n_rows,).

        Equal scores go by item id where ids are given, else by input order.
        """
        return self.sorted_by(self.need_scores())

    def sorted_by(self, values: FloatArray) -> NDArray[np.int32]:
        """Positions within the query by falling value, ties as in `by_score`; values in query order."""
        from isrr.data._order_kernels import sort_queries

        ties = np.empty(0, np.int64) if self.item_order is None else self.item_order
        order = np.empty(self.n_rows, np.int32)
        over_queries(lambda start, stop: sort_queries(self.offsets, values, ties, start, stop, order), self.offsets)
        return order

    def sum_largest(self, values: FloatArray, factors: FloatArray) -> FloatArray:
        """Σ_j factors[j] · (the query's j-th largest value), (n_queries,); values in query order."""
        from isrr.data._order_kernels import sum_largest

        out = np.empty(len(self))
        over_queries(lambda start, stop: sum_largest(self.offsets, values, factors, start, stop, out), self.offsets)
        return out

    def __getitem__(self, index: Index) -> "Queries":
        """The chosen queries, in the order asked for; their rows stand in query order."""
        chosen = np.arange(len(self))[index if not isinstance(index, int) else [index]]
        if np.unique(chosen).size < chosen.size:
            raise DataError("a query is chosen twice; repeated queries are not independent evidence")
        if chosen.size == 0:
            raise DataError("no query is chosen; a selection must hold at least one")
        lengths = self.n_items[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        take = np.repeat(self.offsets[:-1][chosen], lengths) + within

        def rows_of(column: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if column is None else column[take]

        return Queries(
            offsets=offsets,
            query_ids=self.query_ids[chosen],
            scores=rows_of(self.scores),
            relevance=rows_of(self.relevance),
            item_ids=rows_of(self.item_ids),
            item_groups=rows_of(self.item_groups),
            segments=None if self.segments is None else self.segments[chosen],
            features=rows_of(self.features),
            made_ids=self.made_ids,
            absent=self.absent,
        )

    @staticmethod
    def concatenate(parts: Sequence["Queries"]) -> "Queries":
        """All queries of the parts, in order. A column is kept where every part has it."""
        if not parts:
            raise DataError("nothing to concatenate: the sequence of queries is empty")

        def joined(name: str) -> Any:
            columns = [getattr(part, name) for part in parts]
            return None if any(column is None for column in columns) else np.concatenate(columns)

        starts = np.cumsum([0, *(part.n_rows for part in parts)])
        offsets = np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts, strict=False))])
        made = all(part.made_ids for part in parts)
        ids = np.arange(len(offsets) - 1) if made else _joined_ids([part.query_ids for part in parts])
        texts, counts = np.unique(ids.astype(str), return_counts=True)
        if counts.max() > 1:
            raise DataError(f"query {str(texts[counts > 1][0])!r} stands in more than one part")
        per_row = ("scores", "relevance", "item_ids", "item_groups", "features")
        columns = {name: joined(name) for name in (*per_row, "segments")}
        return Queries(offsets=offsets, query_ids=ids, made_ids=made, **columns)

    def with_scores(self, scores: ArrayLike) -> "Queries":
        """The same queries with new scores, given in the caller's row order."""
        array = _numbers(scores, "scores", self.n_rows)
        bad = np.flatnonzero(~np.isfinite(array))
        if bad.size:
            row = int(bad[0])
            query = self.query_ids[_query_of_row(self.offsets, self.rows, row)]
            raise DataError(f"row {row} (query {str(query)!r}): scores is {array[row]}; it must be a finite number")
        return replace(self, scores=array if self.rows is None else array[self.rows])

    def in_caller_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Per-row values, moved from query order to the row order the caller gave."""
        if self.rows is None:
            return values
        moved = np.empty_like(values)
        moved[self.rows] = values
        return moved

    def in_query_order(self, values: ArrayLike, name: str) -> FloatArray:
        """Per-row numbers from the caller, moved to query order."""
        array = _numbers(values, name, self.n_rows)
        return array if self.rows is None else array[self.rows]

    def need_scores(self) -> FloatArray:
        """The scores, or an error that says they are missing."""
        if self.scores is None:
            raise DataError(self.absent.get("score", "these queries have no scores; give them some (`with_scores`)"))
        return self.scores

    def need_relevance(self) -> FloatArray:
        """The relevance grades, or an error that says they are missing."""
        if self.relevance is None:
            raise DataError(
                self.absent.get("relevance", "these queries are unjudged; relevance grades are needed here")
            )
        return self.relevance

    def repeated_item(self) -> tuple[str, str] | None:
        """An item that stands twice in a query, and that query; None where ids are missing or distinct."""
        order = self.item_order
        if order is None or self.item_ids is None:
            return None
        query = np.repeat(np.arange(len(self)), self.n_items)
        by_item = np.lexsort((order, query))
        same = (np.diff(order[by_item]) == 0) & (np.diff(query[by_item]) == 0)
        if not same.any():
            return None
        row = by_item[1:][same][0]
        return str(self.item_ids[row]), str(self.query_ids[query[row]])


def identifier_key(identifier: object) -> int:
    """A 64-bit hash of an id's text.

    Example:
        >>> identifier_key(7) == identifier_key("7")
        True
    """
    return int.from_bytes(blake2b(str(identifier).encode(), digest_size=8).digest(), "little")


def joint_fingerprint(ours: str, theirs: str) -> str:
    """The fingerprint of two sets of queries together, from theirs.

    Example:
        >>> joint_fingerprint("0000000000000001ffffffffffffffff", "00000000000000020000000000000001")
        '00000000000000030000000000000000'
    """
    sums = (int(ours[half], 16) + int(theirs[half], 16) for half in (slice(16), slice(16, None)))
    return "".join(f"{part % 2**64:016x}" for part in sums)


def _numbers(values: ArrayLike, name: str, n_rows: int) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers: {error}") from None
    if array.shape != (n_rows,):
        raise DataError(f"{name} has shape {array.shape}; needed is ({n_rows},), one number a row")
    return array


def _matrix(values: ArrayLike, n_rows: int, rows: IntArray | None) -> NDArray[np.float32]:
    try:
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"features must be numbers: {error}") from None
    if array.ndim != 2 or len(array) != n_rows:
        raise DataError(f"features have shape {array.shape}; needed is ({n_rows}, n_features)")
    return array if rows is None else array[rows]


def _identifiers(values: ArrayLike, name: str, n_rows: int) -> NDArray[Any]:
    """Ids as integers where they all are, else as text; so 7 and "7" mean the same wherever they meet."""
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise DataError(f"{name} has shape {array.shape}; needed is ({n_rows},), one id a row")
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(array) | (array != np.round(array)))
        if bad.size:
            row = int(bad[0])
            raise DataError(f"row {row}: {name} is {array[row]}; ids are integers or text, and none may be missing")
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array.astype(object)
    missing = np.flatnonzero([value is None or value != value for value in array])
    if missing.size:
        raise DataError(f"row {int(missing[0])}: {name} is missing; every row needs one")
    return np.array([str(value) for value in array], dtype=object)


def _joined_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str).astype(object) for part in parts])


def _grouping(
    ids: NDArray[Any] | None, group: ArrayLike | None, n_rows: int
) -> tuple[IntArray, IntArray, IntArray | None]:
    """Offsets of the queries, the row at which each first appears, and the order that groups rows (or None)."""
    if ids is not None and group is not None:
        raise DataError("give query_ids or group, not both")
    if ids is None and group is None:
        raise DataError("no query structure: give query_ids (one id a row) or group (sizes of consecutive queries)")
    if group is not None:
        sizes = np.asarray(group)
        if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu":
            raise DataError("group must be a non-empty list of whole numbers, the sizes of consecutive queries")
        if sizes.min() < 1:
            q = int(np.flatnonzero(sizes < 1)[0])
            raise DataError(f"group {q} has size {sizes[q]}; every query needs at least one item")
        if sizes.sum() != n_rows:
            raise DataError(f"group sizes add up to {sizes.sum()}; needed is the number of rows, {n_rows}")
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        return offsets, offsets[:-1], None
    assert ids is not None
    heads = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
    if len(set(ids[heads].tolist())) == heads.size:  # the rows of each query already stand together
        return np.concatenate((heads, [n_rows])).astype(np.int64), heads, None
    _, first, inverse, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
    by_appearance = np.argsort(first)
    place = np.empty_like(by_appearance)
    place[by_appearance] = np.arange(by_appearance.size)
    rows = np.argsort(place[inverse], kind="stable")
    offsets = np.concatenate(([0], np.cumsum(counts[by_appearance]))).astype(np.int64)
    return offsets, first[by_appearance], rows


def _query_of_row(offsets: IntArray, rows: IntArray | None, row: int) -> int:
    stored = row if rows is None else int(np.flatnonzero(rows == row)[0])
    return int(np.searchsorted(offsets, stored, side="right")) - 1


def _per_query(column: NDArray[Any], offsets: IntArray, query_ids: NDArray[Any]) -> NDArray[Any]:
    heads = column[offsets[:-1]]
    lengths = np.diff(offsets)
    differs = np.flatnonzero(column != np.repeat(heads, lengths))
    if differs.size:
        q = int(np.searchsorted(offsets, differs[0], side="right")) - 1
        found, query = f"{str(heads[q])!r} and {str(column[differs[0]])!r}", str(query_ids[q])
        raise DataError(f"query {query!r} has two segments, {found}; a query belongs to one", query)
    return heads


def _shortlex(ids: NDArray[Any]) -> IntArray:
    if ids.dtype.kind == "i" and ids.min() >= 0:
        return ids  # numbers without a sign sort alike by value and by (length, text)
    texts = [str(value) for value in ids]
    rank = {text: i for i, text in enumerate(sorted(set(texts), key=lambda text: (len(text), text)))}
    return np.array([rank[text] for text in texts], np.int64)
