"""Queries: the one shape in which ranking data travels through isrr.

Columns are ragged: the rows of query q are `offsets[q] : offsets[q + 1]`. Input may come in any row order; it is
checked and brought together by query once, in `isrr.data.grouping`, so that nothing downstream has to, and
`in_caller_order` brings per-row results back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.counting import counted
from isrr.data.grouping import Grouping
from isrr.data.identifiers import Coded, identifier_checksums, identifier_key, joined_identifiers
from isrr.data.ordering import falling_order, repeats, sum_largest
from isrr.data.ragged import Ragged, chosen_lists, joined_lists
from isrr.data.ties import order_with_ties
from isrr.errors import DataError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Index = int | np.integer[Any] | slice | Sequence[int] | NDArray[Any]


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
        feature_names: Names of the feature columns, (n_features,); empty where they have none.
        unretrieved: Grades that count in the ideal beside those of the list, a list per query: relevant items that
            were judged but not retrieved.
        judged: Whether an item has a grade of its own, one per row; None where all have.
        unjudged: How items without a grade count; see `isrr.data.unjudged`.
        tie_order: Items with equal scores are ordered by this, rising, one per row; None for the usual order.
        notes: What the reader should tell the user about the source, a sentence each.
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
    feature_names: tuple[str, ...] = ()
    unretrieved: Ragged | None = None
    judged: NDArray[np.bool_] | None = None
    unjudged: str = "refuse"
    tie_order: IntArray | None = None
    notes: tuple[str, ...] = ()

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
            scores: Raw scores of a ranking model, finite, within ±1e50.
            relevance: Relevance grades, finite, ≥ 0 and at most 1e50.
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
        grouping = Grouping.of(query_ids, group, n_rows)
        queries = cls(
            offsets=grouping.offsets,
            query_ids=grouping.query_ids,
            scores=None if scores is None else grouping.finite(scores, "scores"),
            relevance=None if relevance is None else grouping.finite(relevance, "relevance", least=0),
            item_ids=None if item_ids is None else grouping.identifiers(item_ids, "item_ids"),
            item_groups=None if item_groups is None else grouping.identifiers(item_groups, "item_groups"),
            segments=None if segments is None else grouping.segments(segments),
            features=None if features is None else grouping.matrix(features),
            rows=grouping.rows,
            made_ids=query_ids is None,
        )
        if (found := queries.repeated_item()) is not None:
            item, query, n_rows = found
            raise DataError(
                f"item {item!r} stands twice in query {query!r}; an item can be ranked once per query, and "
                f"{counted(n_rows, 'row')} {'repeats' if n_rows == 1 else 'repeat'} one",
                query,
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
        return self._fingerprint(self.scores)

    @cached_property
    def judgments(self) -> str:
        """32 hex digits that name the query ids, the item ids where there are any, and relevance, whatever the scores.

        Queries judged once keep it when they are scored anew.
        """
        return self._fingerprint(None if self.item_ids is None else identifier_checksums(self.item_ids))

    def _fingerprint(self, column: FloatArray | None) -> str:
        """32 hex digits that name the query ids, a column of numbers, relevance, and grades outside the list."""
        from isrr.data._order_kernels import hash_queries

        sums = self._hashes(self.keys, column, self.relevance).sum(axis=0)
        if self.unretrieved is not None:
            offsets, grades = self.unretrieved
            sums = sums + hash_queries(offsets, self.keys, grades, np.empty(0)).sum(axis=0)
        return "".join(f"{int(part):016x}" for part in sums)

    def content_keys(self, *, judged: bool) -> NDArray[np.uint64]:
        """A 64-bit hash of each query's scores, and of its relevance where it is judged, whatever the query's id."""
        nameless = np.zeros(len(self), np.uint64)
        return self._hashes(nameless, self.need_scores(), self.need_relevance() if judged else None)[:, 0]

    def _hashes(
        self, keys: NDArray[np.uint64], first: FloatArray | None, second: FloatArray | None
    ) -> NDArray[np.uint64]:
        """Two hashes a query, of its key and of two columns, (n_queries, 2); they add up over queries."""
        from isrr.data._order_kernels import hash_queries

        columns = (np.empty(0) if column is None else column for column in (first, second))
        hashes: NDArray[np.uint64] = hash_queries(self.offsets, keys, *columns)
        return hashes

    @cached_property
    def coded_groups(self) -> Coded:
        """The item groups by numbers, or an error that says they are missing."""
        if self.item_groups is None:
            unnamed = "these queries have no item groups; give them some, the provider of each item (`item_groups`)"
            raise DataError(self.absent.get("item_group", unnamed))
        return Coded.of(self.item_groups)

    @cached_property
    def by_score(self) -> NDArray[np.int32]:
        """Each query's items by falling score, as positions within the query, (n_rows,).

        Equal scores go by item id where ids are given (shorter ones first, then by text), else by input order.
        """
        if self.tie_order is not None:
            return order_with_ties(self.offsets, self.need_scores(), self.tie_order)
        return self.sorted_by(self.need_scores())

    def sorted_by(self, values: FloatArray) -> NDArray[np.int32]:
        """Positions within the query by falling value, ties as in `by_score`; values in query order."""
        return falling_order(self.offsets, values, self.item_ids)

    def sum_largest(self, values: FloatArray, factors: FloatArray) -> FloatArray:
        """Σ_j factors[j] · (the query's j-th largest value), (n_queries,); values in query order."""
        return sum_largest(self.offsets, values, factors)

    def __getitem__(self, index: Index) -> "Queries":
        """The chosen queries, in the order asked for; their rows stand in query order."""
        chosen = np.atleast_1d(np.arange(len(self))[list(index) if isinstance(index, tuple) else index])
        if chosen.ndim != 1:
            raise DataError("queries are chosen by a number, a slice, a list of numbers or a mask of all of them")
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
            feature_names=self.feature_names,
            unretrieved=None if self.unretrieved is None else chosen_lists(self.unretrieved, chosen),
            judged=rows_of(self.judged),
            unjudged=self.unjudged,
            tie_order=rows_of(self.tie_order),
        )

    @staticmethod
    def concatenate(parts: Sequence["Queries"]) -> "Queries":
        """All queries of the parts, in order. A column is kept where every part has it.

        Ids that were made from positions are made anew where they meet.
        """
        if not parts:
            raise DataError("nothing to concatenate: the sequence of queries is empty")
        names = next((part.feature_names for part in parts if part.feature_names), ())
        parts = [part.with_features(names) for part in parts]

        def joined(name: str) -> Any:
            columns = [getattr(part, name) for part in parts]
            if any(column is None for column in columns):
                return None
            return np.concatenate(columns) if name in numbers else joined_identifiers(columns)

        starts = np.cumsum([0, *(part.n_rows for part in parts)])
        offsets = np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts, strict=False))])
        made = all(part.made_ids for part in parts)
        ids = joined_identifiers([part.query_ids for part in parts])
        texts, counts = np.unique(ids.astype(str), return_counts=True)
        if counts.max() > 1 and not made:
            raise DataError(f"query {str(texts[counts > 1][0])!r} stands in more than one part")
        if counts.max() > 1:
            ids = np.arange(len(ids))
        numbers = ("scores", "relevance", "features", "tie_order")
        columns = {name: joined(name) for name in (*numbers, "item_ids", "item_groups", "segments")}
        policies = {part.unjudged for part in parts} - {"refuse"}
        if len(policies) > 1:
            raise DataError(f"unjudged items count differently in different parts: {', '.join(sorted(policies))}")
        judged = [np.ones(part.n_rows, np.bool_) if part.judged is None else part.judged for part in parts]
        return Queries(
            offsets=offsets,
            query_ids=ids,
            made_ids=made,
            feature_names=names,
            unretrieved=joined_lists([part.unretrieved for part in parts], [len(part) for part in parts]),
            judged=None if all(part.judged is None for part in parts) else np.concatenate(judged),
            unjudged=next(iter(policies), "refuse"),
            **columns,
        )

    def with_scores(self, scores: ArrayLike) -> "Queries":
        """The same queries with new scores, given in the caller's row order."""
        return replace(self, scores=self._grouping.finite(scores, "scores"))

    def with_features(self, names: Sequence[str]) -> "Queries":
        """The same queries with these features alone, in this order; the same where their features have no names."""
        if not self.feature_names or self.feature_names == tuple(names):
            return self
        missing = [name for name in names if name not in self.feature_names]
        if missing:
            raise DataError(
                f"features {', '.join(map(repr, missing))} are needed and missing; these queries have "
                f"{', '.join(self.feature_names)}"
            )
        chosen = [self.feature_names.index(name) for name in names]
        features = None if self.features is None else np.ascontiguousarray(self.features[:, chosen])
        return replace(self, features=features, feature_names=tuple(names))

    def in_caller_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Per-row values, moved from query order to the row order the caller gave."""
        if self.rows is None:
            return values
        moved = np.empty_like(values)
        moved[self.rows] = values
        return moved

    def in_query_order(self, values: ArrayLike, name: str) -> FloatArray:
        """Per-row numbers from the caller, moved to query order."""
        return self._grouping.numbers(values, name)

    @property
    def _grouping(self) -> Grouping:
        return Grouping(self.offsets, self.query_ids, self.rows)

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

    def repeated_item(self) -> tuple[str, str, int] | None:
        """An item that stands twice in a query, that query, and how many rows repeat an item of their query.

        None where ids are missing or distinct.
        """
        if self.item_ids is None or (found := repeats(self.offsets, self.item_ids)).size == 0:
            return None
        query = int(np.searchsorted(self.offsets, found[0], side="right")) - 1
        return str(self.item_ids[found[0]]), str(self.query_ids[query]), found.size


def joint_fingerprint(ours: str, theirs: str) -> str:
    """The fingerprint of two sets of queries together, from theirs.

    Example:
        >>> joint_fingerprint("0000000000000001ffffffffffffffff", "00000000000000020000000000000001")
        '00000000000000030000000000000000'
    """
    sums = (int(ours[half], 16) + int(theirs[half], 16) for half in (slice(16), slice(16, None)))
    return "".join(f"{part % 2**64:016x}" for part in sums)
