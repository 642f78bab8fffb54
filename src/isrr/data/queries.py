"""Queries: the one shape in which ranking data travels through isrr.

Columns are ragged: the rows of query q are `offsets[q] : offsets[q + 1]`. Input may come in any row order. It is
checked (`isrr.data.numbers`, `isrr.data.identifiers`) and brought together by query once, so that nothing downstream
has to, and `in_caller_order` brings per-row results back. Queries then stand in order of first appearance, rows of a
query in the order of the input. Columns are copied, so that writing to the caller's arrays changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.counting import counted
from isrr.data.groups import Coded, joined_groups
from isrr.data.identifiers import Ids, identifier_keys, joined_identifiers
from isrr.data.numbers import LARGEST, finite, numbers, such_rows
from isrr.data.ordering import Ties, falling_order, query_hashes, repeats
from isrr.data.ragged import Ragged, offsets_from, rows_within
from isrr.errors import DataError, did_you_mean

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Index = int | np.integer[Any] | slice | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Queries:
    """Lists to rank: scores and, if known, relevance, ids, segments and item groups.

    Made by `Queries.from_arrays` or `isrr.read_queries`; the fields hold rows grouped by query.

    Attributes:
        offsets: Where each query's rows begin and end, (n_queries + 1,).
        query_ids: One id per query, integers or text; 7 and "7" are the same id.
        scores: Raw scores, one per row, or None before scoring.
        relevance: Grades ≥ 0, one per row, or None when unjudged.
        items: Ids of the items, one per row, distinct within a query; `item_ids` has them as an array.
        item_groups: Provider or group of the items, one per row.
        segments: Segment of the query, one per query.
        rows: The caller's row number of each stored row; None when rows are stored as given.
        made_ids: Whether the query ids were made from positions because none were given.
        absent: What to say when a column is asked for that the source did not have, by its role.
        values: Further columns of numbers, one per row, by name: a margin, a price.
        production: Another ranking of the same queries, in the same order, to compare with; see `isrr.data.production`.
        unretrieved: Grades that count in the ideal beside those of the list, a list per query: relevant items that
            were judged but not retrieved.
        n_lacking: Judged queries of the source that production lacks, which count 0 there.
        judged: Whether an item was graded, one per row; None if all were.
        unjudged: How items without a grade count; see `isrr.data.unjudged`.
        tie_order: Items with equal scores are ordered by this, rising, one per row; None for the usual order.
        notes: What the reader should tell the user about the source, a sentence each.
        dropped: Rows of the source that were left out because the caller asked for it, by the option's name.
        grade_column: Name of the column that the relevance comes from; empty where it is not known.
        has_positions: Whether the source has a column with the position of each item.
    """

    offsets: IntArray
    query_ids: NDArray[Any]
    scores: FloatArray | None = None
    relevance: FloatArray | None = None
    items: Ids | None = None
    item_groups: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    rows: IntArray | None = None
    made_ids: bool = False
    absent: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, FloatArray] = field(default_factory=dict)
    unretrieved: Ragged | None = None
    production: "Queries | None" = None
    n_lacking: int = 0
    judged: NDArray[np.bool_] | None = None
    unjudged: str = "refuse"
    tie_order: IntArray | None = None
    notes: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    grade_column: str = ""
    has_positions: bool = False

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
        values: Mapping[str, ArrayLike] | None = None,
    ) -> "Queries":
        """Build queries from columns of equal length, one row per item.

        Args:
            scores: Raw scores of a ranking model, finite, within ±1e50.
            relevance: Relevance grades, finite, ≥ 0 and at most 1e50.
            query_ids: The query each row belongs to; rows may come in any order.
            group: Sizes of consecutive queries (as LightGBM and XGBoost take them), in place of `query_ids`.
            item_ids: Ids of the items. With ids, the order of rows matters nowhere, even where scores are equal.
            item_groups: Provider or group of each item, or a list of several groups, for exposure by group.
            segments: Segment of the query, the same on all rows of a query.
            values: Further columns of finite numbers by name, such as {"margin": [...]}.

        Example:
            >>> Queries.from_arrays(scores=[2.0, 1.0, 0.5], relevance=[1, 0, 2], query_ids=["a", "b", "a"])
            Queries(2 queries, 3 items; scores, relevance)
        """
        columns: dict[str, Any] = {"scores": scores, "relevance": relevance, "query_ids": query_ids}
        name, first = next(((name, column) for name, column in columns.items() if column is not None), ("", None))
        if first is None:
            raise DataError("nothing to rank: expected scores or relevance, one row per item")
        if not hasattr(first, "__len__") or getattr(first, "ndim", 1) == 0:
            raise DataError(f"{name} is {first!r}; expected a column, one value per row")
        if len(first) == 0:
            raise DataError("nothing to rank: the columns have no rows")
        offsets, names, rows = _grouped(query_ids, group, len(first))
        bare = cls(offsets, names, rows=rows, made_ids=query_ids is None)
        groups = None if item_groups is None else bare._ids(joined_groups(item_groups), "item_groups").array
        queries = replace(
            bare,
            scores=None if scores is None else bare._finite(scores, "scores"),
            relevance=None if relevance is None else bare._finite(relevance, "relevance", least=0),
            items=None if item_ids is None else bare._ids(item_ids, "item_ids"),
            item_groups=groups,
            segments=None if segments is None else bare._one_each(bare._ids(segments, "segments").array),
            values={name: bare._finite(column, name) for name, column in (values or {}).items()},
        )
        if queries.items is not None and (again := repeats(offsets, queries.items)).size:
            raise queries._repeated(queries.items, again)
        return queries

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Self]:
        return (self[q] for q in range(len(self)))

    def __repr__(self) -> str:
        names = ("scores", "relevance", "item_ids", "item_groups", "segments")
        columns = ", ".join([*(name for name in names if getattr(self, name) is not None), *self.values])
        size = f"{counted(len(self), 'query')}, {counted(self.n_rows, 'item')}"
        return f"Queries({size}; {columns or 'no columns'})"

    @property
    def item_ids(self) -> NDArray[Any] | None:
        """Ids of the items, one per row, integers or text."""
        return None if self.items is None else self.items.array

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
        return identifier_keys(self.query_ids)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that name the query ids, scores and relevance, whatever order they come in."""
        return self._fingerprint(self.scores, self.relevance)

    @cached_property
    def judgments(self) -> str:
        """32 hex digits that name the query ids, the item ids where there are any, and relevance, whatever the scores.

        Queries judged once keep it when they get new scores.
        """
        names = None if self.items is None else (self.items.hashes() >> np.uint64(11)).astype(np.float64)
        return self._fingerprint(names, self.relevance)

    @cached_property
    def scores_fingerprint(self) -> str:
        """32 hex digits that name the query ids and scores, whatever order they come in; blind to relevance."""
        return self._fingerprint(self.scores, None)

    def _fingerprint(self, column: FloatArray | None, relevance: FloatArray | None) -> str:
        """32 hex digits that name the query ids, a column of numbers and, with relevance, grades outside the list."""
        sums = query_hashes(self.offsets, self.keys, column, relevance).sum(axis=0)
        if relevance is not None and self.unretrieved is not None:
            offsets, grades = self.unretrieved
            sums = sums + query_hashes(offsets, self.keys, grades).sum(axis=0)
        return "".join(f"{int(part):016x}" for part in sums)

    def content_keys(self, *, judged: bool) -> NDArray[np.uint64]:
        """Return a 64-bit hash of each query's scores, and of its relevance where it is judged, but not of its id."""
        nameless = np.zeros(len(self), np.uint64)
        relevance = self.need_relevance() if judged else None
        return query_hashes(self.offsets, nameless, self.need_scores(), relevance)[:, 0]

    @cached_property
    def coded_groups(self) -> Coded:
        """The item groups by numbers, or an error that says they are missing."""
        if self.item_groups is None:
            unnamed = "these queries have no item groups; expected the provider or group of each item (`item_groups`)"
            raise DataError(self.absent.get("item_group", unnamed))
        return Coded.of(self.item_groups)

    @cached_property
    def by_score(self) -> NDArray[np.int32]:
        """Each query's items by falling score, as positions within the query, (n_rows,).

        Equal scores are ordered by a hash of the query's id, its scores and the item's id (or its position in the query
        where there are no item ids), which cannot know how relevant the item is. Serving orders them the same way.
        """
        if self.tie_order is not None:
            query = np.repeat(np.arange(len(self)), self.n_items)
            rows = np.lexsort((self.tie_order, -self.need_scores(), query))
            return (rows - np.repeat(self.offsets[:-1], self.n_items)).astype(np.int32)
        return falling_order(self.offsets, self.need_scores(), self.query_ids, self.items)

    def tied_positions(self, k: int) -> IntArray:
        """Return how many of each query's first k positions by score hold an item whose score another item shares.

        The scores do not say which item belongs there. Lists shorter than k are counted whole, (n_queries,).

        Example:
            >>> Queries.from_arrays(scores=[3.0, 1.0, 1.0, 0.0], group=[4]).tied_positions(2)
            array([1])
        """
        starts = np.repeat(self.offsets[:-1], self.n_items)
        ordered = self.need_scores()[starts + self.by_score]
        as_above = (ordered == np.roll(ordered, 1)) & (np.arange(self.n_rows) > starts)
        tied = as_above | np.append(as_above[1:], False)
        return np.add.reduceat(tied & (np.arange(self.n_rows) < starts + k), self.offsets[:-1], dtype=np.int64)

    def derived(self, name: str, derive: Callable[[], FloatArray]) -> FloatArray:
        """Return what `derive` makes of these queries; it is called once for each name."""
        cache: dict[str, Any] = vars(self)
        if name not in cache:
            cache[name] = derive()
        derived: FloatArray = cache[name]
        return derived

    def __getitem__(self, index: Index) -> Self:
        """Return the chosen queries, in the order asked for; their rows stand in query order."""
        chosen = np.atleast_1d(np.arange(len(self))[list(index) if isinstance(index, tuple) else index])
        if chosen.ndim != 1:
            raise DataError("queries are chosen by a number, a slice, a list of numbers or a mask of all of them")
        if np.bincount(chosen, minlength=1).max() > 1:
            raise DataError("a query is chosen twice; repeated queries are not independent evidence")
        if chosen.size == 0:
            raise DataError("no query is chosen; expected at least one")
        offsets, take = rows_within(self.offsets, chosen)
        unretrieved = self.unretrieved
        if unretrieved is not None:
            ends, rows = rows_within(unretrieved[0], chosen)
            unretrieved = ends, unretrieved[1][rows]
        part = self.of_rows(
            take,
            offsets,
            query_ids=self.query_ids[chosen],
            segments=None if self.segments is None else self.segments[chosen],
            unretrieved=unretrieved,
            production=None if self.production is None else self.production[chosen],
            notes=(),
        )
        if "keys" in vars(self):  # they take long to compute
            vars(part)["keys"] = self.keys[chosen]
        return part

    def of_rows(self, take: NDArray[Any], offsets: IntArray, **changes: Any) -> Self:
        """Return the same queries with some of their rows, by number or mask, and other changes to their fields."""
        names = ("scores", "relevance", "item_groups", "judged", "tie_order")
        columns = {name: column[take] for name in names if (column := getattr(self, name)) is not None}
        items = None if self.items is None else self.items.take(take)
        values = {name: column[take] for name, column in self.values.items()}
        return replace(
            self, **(columns | {"offsets": offsets, "items": items, "values": values, "rows": None} | changes)
        )

    @staticmethod
    def concatenate(parts: Sequence["Queries"]) -> "Queries":
        """All queries of the parts, in order. A column is kept where every part has it.

        Ids that were made from positions are made again if they clash.
        """
        if not parts:
            raise DataError("nothing to concatenate: expected at least one part")

        join: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys(("scores", "relevance", "tie_order"), np.concatenate),
            **dict.fromkeys(("item_groups", "segments"), joined_identifiers),
            "items": Ids.joined,
        }
        columns: dict[str, Any] = {}
        for name, joined in join.items():
            of_parts = [getattr(part, name) for part in parts]
            columns[name] = None if any(column is None for column in of_parts) else joined(of_parts)
        numbered = all(part.made_ids for part in parts)
        ids = joined_identifiers([part.query_ids for part in parts])
        texts, counts = np.unique(ids.astype(str), return_counts=True)
        if counts.max() > 1 and not numbered:
            raise DataError(f"query {str(texts[counts > 1][0])!r} appears in more than one part")
        policies = {part.unjudged for part in parts} - {"refuse"}
        if len(policies) > 1:
            raise DataError(f"unjudged items count differently in different parts: {', '.join(sorted(policies))}")
        shared = [name for name in parts[0].values if all(name in part.values for part in parts)]
        judged = [np.ones(part.n_rows, np.bool_) if part.judged is None else part.judged for part in parts]
        lists = [part.unretrieved or (np.zeros(len(part) + 1, np.int64), np.empty(0)) for part in parts]
        lengths, grades = [np.diff(ends) for ends, _ in lists], [values for _, values in lists]
        unretrieved = offsets_from(np.concatenate(lengths)), np.concatenate(grades)
        options = sorted({option for part in parts for option in part.dropped})
        return Queries(
            offsets=offsets_from(np.concatenate([part.n_items for part in parts])),
            query_ids=np.arange(len(ids)) if counts.max() > 1 else ids,
            made_ids=numbered,
            **columns,
            values={name: np.concatenate([part.values[name] for part in parts]) for name in shared},
            unretrieved=unretrieved if any(part.unretrieved for part in parts) else None,
            judged=None if all(part.judged is None for part in parts) else np.concatenate(judged),
            unjudged=next(iter(policies), "refuse"),
            dropped={option: sum(part.dropped.get(option, 0) for part in parts) for option in options},
            grade_column=parts[0].grade_column,
            has_positions=parts[0].has_positions,
        )

    def with_scores(self, scores: ArrayLike) -> Self:
        """Return the same queries with new scores, given in the caller's row order."""
        return replace(self, scores=self._finite(scores, "scores"))

    def with_ties(self, ties: Ties) -> "Queries":
        """Return the same queries with equal scores ordered as asked: "trec" as trec_eval does.

        trec_eval sorts a run by score, equal scores by document id, last ids first, and keeps scores as 32-bit floats:
        scores that agree in about seven digits are ties to it.
        """
        import pyarrow.compute as pc

        if ties != "trec":
            raise ValueError(f"`ties=` must be trec or left out, got {ties!r}")
        if self.items is None:
            raise DataError("`ties=trec` orders by item id; expected queries with item ids")
        names = self.items.texts.dictionary_encode()
        falling = pc.array_sort_indices(names.dictionary, order="descending").to_numpy()
        position = np.empty(falling.size, np.int64)
        position[falling] = np.arange(falling.size)
        scores = self.need_scores().astype(np.float32).astype(np.float64)
        return replace(self, scores=scores, tie_order=position[names.indices.to_numpy()])

    def in_caller_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Per-row values, moved from query order to the row order the caller gave."""
        if self.rows is None:
            return values
        moved = np.empty_like(values)
        moved[self.rows] = values
        return moved

    def in_query_order(self, values: ArrayLike, name: str) -> FloatArray:
        """Per-row numbers from the caller, moved to query order."""
        column = numbers(values, name, self.n_rows)
        return (column if self.rows is None else column[self.rows]).astype(np.float64)

    def need_scores(self) -> FloatArray:
        """Return the scores; refuse queries without."""
        if self.scores is None:
            raise DataError(self.absent.get("score", "these queries have no scores; expected scores (`with_scores`)"))
        return self.scores

    def need_relevance(self) -> FloatArray:
        """Return the relevance grades; refuse queries without."""
        if self.relevance is None:
            raise DataError(self.absent.get("relevance", "these queries are unjudged; expected relevance grades"))
        return self.relevance

    def need_production(self) -> "Queries":
        """Return the ranking to compare with; refuse queries without."""
        if self.production is None:
            raise DataError(
                "a promise 'of production' needs the order that is served today; expected the column of its scores as "
                "`reference=`, or its run (--reference-run)"
            )
        return self.production

    def need_segments(self) -> NDArray[Any]:
        """Return the segment of each query; refuse queries without."""
        if self.segments is None:
            unnamed = "these queries have none; expected its column as `segment=`"
            raise DataError(
                f"a promise per segment needs a segment for each query: {self.absent.get('segment', unnamed)}"
            )
        return self.segments

    def column(self, name: str) -> FloatArray:
        """Return one of the further columns of numbers, in query order."""
        if name not in self.values:
            have = f"they have {', '.join(map(repr, self.values))}" if self.values else "they have none"
            raise DataError(f"these queries have no value column {name!r}; {have}{did_you_mean(name, self.values)}")
        return self.values[name]

    def _ids(self, column: Any, name: str) -> Ids:
        """Return a column of ids from the caller, checked, in query order."""
        ids = Ids.of(column, name, self.n_rows)
        return ids if self.rows is None else ids.take(self.rows)

    def _finite(self, values: ArrayLike, name: str, least: float = -LARGEST) -> FloatArray:
        """Return a column of finite numbers from the caller, in query order."""
        try:
            column = finite(values, name, self.n_rows, least)
        except DataError as error:
            if error.row is not None:
                stored = error.row if self.rows is None else int(np.flatnonzero(self.rows == error.row)[0])
                error.query = self._query_of(stored)
            raise
        return column if self.rows is None else column[self.rows]

    def _one_each(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return one segment per query, from a column of them in query order."""
        heads = column[self.offsets[:-1]]
        differs = np.flatnonzero(column != np.repeat(heads, self.n_items))
        if differs.size:
            row = int(differs[0])
            query, first = self._query_of(row), np.repeat(heads, self.n_items)[row]
            segments = f"{str(first)!r} and {str(column[row])!r}{such_rows(differs.size)}"
            raise DataError(f"query {query!r} has two segments, {segments}; expected one per query", query)
        return heads

    def _query_of(self, row: int) -> str:
        """Return the query of a row in query order."""
        return str(self.query_ids[np.searchsorted(self.offsets, row, side="right") - 1])

    def _repeated(self, items: Ids, again: IntArray) -> DataError:
        """Return the error about rows whose item appears earlier in the query."""
        row = int(again[0])
        n_rows = f"{again.size:,} {'row repeats' if again.size == 1 else 'rows repeat'} an item"
        said = (
            f"item {str(items.take(again[:1]).array[0])!r} appears twice ({n_rows}); expected each item once per query"
        )
        callers_row = row if self.rows is None else int(self.rows[row])
        remedy = "to keep the first row of each: `duplicates=first`"
        return DataError(f"{said}; {remedy}", self._query_of(row), row=callers_row, column="item_ids")


def _grouped(query_ids: Any, group: ArrayLike | None, n_rows: int) -> tuple[IntArray, NDArray[Any], IntArray | None]:
    """Return offsets of queries, their ids, and the caller's row of each stored row, None if rows stay where they are.

    Rows are grouped by the id of each, or by the sizes of consecutive queries, which are then numbered.
    """
    if (query_ids is None) == (group is None):
        if group is not None:
            raise DataError("give query_ids or group, not both")
        raise DataError("no query structure: give query_ids (one id per row) or group (sizes of consecutive queries)")
    if group is None:
        ids = Ids.of(query_ids, "query_ids", n_rows)
        runs = ids.runs()
        names, codes = ids.take(runs).by_appearance()
        lengths = np.diff(runs, append=n_rows)
        adjacent = (np.diff(codes) >= 0).all()
        rows = None if adjacent else np.argsort(np.repeat(codes, lengths), kind="stable")
        return offsets_from(np.bincount(codes, lengths)), names.array, rows
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu":
        raise DataError("group must be a non-empty list of whole numbers, the sizes of consecutive queries")
    if sizes.min() < 1:
        q = int(np.flatnonzero(sizes < 1)[0])
        raise DataError(f"group {q} has size {sizes[q]}; every query needs at least one item")
    if sizes.sum() != n_rows:
        raise DataError(f"group sizes add up to {sizes.sum()}; expected the number of rows, {n_rows}")
    return offsets_from(sizes), np.arange(sizes.size), None
