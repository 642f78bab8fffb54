"""Copies that isrr writes: `write_queries`, and what a copy says of its grades beside the grades.

Two columns say which items lack a grade, and which grades lie outside the lists: `unretrieved` is a list of grades on
any rows of a query; `unjudged` is null where an item was graded, otherwise it names how the item was counted. How ties
are broken, rows that were dropped, and a policy that no row shows, are schema metadata.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.data.columns import BESIDE_GRADES, OWN_NAMES, UNJUDGED, UNRETRIEVED, Roles
from isrr.data.formats import VALUES, write_table
from isrr.data.numbers import unfit
from isrr.data.queries import Queries
from isrr.data.ragged import Ragged, lists_of, offsets_from
from isrr.data.unjudged import Unjudged, settled
from isrr.errors import DataError

WRITTEN = {".parquet": "parquet", ".arrow": "arrow"}
MADE_IDS = {b"isrr.made_ids": b"true"}  # schema metadata of queries whose ids were made from positions
POLICY, TIES, DROPPED = b"isrr.unjudged", b"isrr.ties", b"isrr.dropped"


def write_queries(queries: Queries, path: str | os.PathLike[str]) -> None:
    """Write queries to Parquet or Arrow, atomically.

    `read_queries` reads the same queries back, rows in query order. Arrow (.arrow) loads fastest.

    Args:
        queries: What to write.
        path: The file; its suffix decides the format.
    """
    file = Path(path)
    kind = WRITTEN.get(file.suffix.lower())
    if not file.parent.is_dir():
        raise DataError(f"{file}: the folder {file.parent} does not exist")
    if kind is None:
        raise DataError(f"{file}: queries are written to {' or '.join(WRITTEN)}, inferred from the file name")
    try:
        table = table_of(queries)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    write_table(table, file, kind)


def table_of(queries: Queries) -> Any:
    """Return queries as an Arrow table, one row per item, with the usual column names."""

    def per_query(values: NDArray[Any]) -> Any:
        if values.dtype.kind == "i":
            return pa.array(np.repeat(values, queries.n_items))
        codes = np.repeat(np.arange(len(queries), dtype=np.int32), queries.n_items)
        return pa.DictionaryArray.from_arrays(codes, pa.array(values, pa.string()))

    columns = {"query_id": per_query(queries.query_ids)}
    for name, column in (("item_id", queries.item_ids), ("item_group", queries.item_groups)):
        if column is not None:
            columns[name] = pa.array(column)
    for name, numbers in (("score", queries.scores), ("relevance", queries.relevance)):
        if numbers is not None:
            columns[name] = pa.array(numbers)
    if queries.segments is not None:
        columns["segment"] = per_query(queries.segments)
    if queries.unretrieved is not None:
        offsets, grades = queries.unretrieved
        lengths = np.zeros(queries.n_rows, np.int32)
        lengths[queries.offsets[:-1]] = np.diff(offsets)
        columns[UNRETRIEVED] = pa.ListArray.from_arrays(offsets_from(lengths).astype(np.int32), grades)
    if queries.judged is not None:
        codes = pa.array(np.zeros(queries.n_rows, np.int32), mask=queries.judged)
        columns[UNJUDGED] = pa.DictionaryArray.from_arrays(codes, pa.array([queries.unjudged], pa.string()))
    for name, numbers in queries.values.items():
        taken = name in OWN_NAMES or name in BESIDE_GRADES
        if taken and not (name in columns and columns[name].equals(pa.array(numbers))):
            raise DataError(f"a value column cannot be called {name!r}, as another column is; rename it")
        columns[name] = pa.array(numbers)
    metadata = {VALUES: json.dumps([*queries.values]).encode()} | (MADE_IDS if queries.made_ids else {})
    if queries.unjudged != "refuse":
        metadata[POLICY] = queries.unjudged.encode()
    if queries.tie_order is not None:
        metadata[TIES] = b"trec"
    if queries.dropped:
        metadata[DROPPED] = json.dumps(dict(queries.dropped)).encode()
    return pa.table(columns).replace_schema_metadata(metadata)


@dataclass(frozen=True)
class Stored:
    """What a table says of its queries beside their columns, where isrr wrote it.

    Attributes:
        policy: How unjudged items were counted; None where it doesn't say.
        marked: Whether it says so of each of them.
        judged: Which rows were graded, in the table's order; None if all were. Null and NaN are no grades.
        unretrieved: The column with grades outside the lists; None where there is none.
        made_ids: Whether the query ids were made from positions.
        ties: How equal scores are ordered.
        dropped: How many rows were left out, by option.
    """

    policy: Unjudged | None
    marked: bool
    judged: NDArray[np.bool_] | None
    unretrieved: Any
    made_ids: bool
    ties: str
    dropped: dict[str, int]

    @classmethod
    def of(cls, table: Any, roles: Roles) -> "Stored":
        """Return what an Arrow table says; what cannot be true is refused."""
        metadata = table.schema.metadata or {}
        judged, marks = None, None
        if UNJUDGED in roles.beside and str(table[UNJUDGED].type).endswith("string"):
            marks = table[UNJUDGED]
        if "relevance" in roles.names:
            missing = table[roles.names["relevance"]].is_null(nan_is_null=True)
            missing = missing if marks is None else pc.or_(missing, marks.is_valid())
            judged = ~np.asarray(missing.to_numpy(), bool)
        policies = [] if marks is None else marks.drop_null().unique().to_pylist()
        if len(policies) > 1:
            raise DataError(f"column {UNJUDGED!r} has several policies: {', '.join(policies)}; expected one")
        policy = policies[0] if policies else metadata.get(POLICY, b"").decode(errors="replace")
        if policy and policy not in get_args(Unjudged):
            raise DataError(f"unjudged items are marked {policy!r}; expected {', '.join(get_args(Unjudged))}")
        try:
            dropped = msgspec.json.decode(metadata.get(DROPPED, b"{}"), type=dict[str, int])
        except (ValueError, RecursionError):
            said = f"the metadata {DROPPED.decode()!r} are damaged; expected numbers of rows by option"
            raise DataError(said) from None
        return cls(
            policy=policy or None,
            marked=marks is not None,
            judged=None if judged is None or judged.all() else judged,
            unretrieved=table[UNRETRIEVED] if UNRETRIEVED in roles.beside else None,
            made_ids=metadata.items() >= MADE_IDS.items(),
            ties=metadata.get(TIES, b"").decode(errors="replace"),
            dropped=dropped,
        )

    def added_to(self, queries: Queries, policy: Unjudged) -> Queries:
        """Return the queries of the table with all this.

        Args:
            queries: The queries; their relevance is 0 where an item is unjudged.
            policy: How unjudged items count.
        """
        queries = replace(queries, unjudged=policy, made_ids=self.made_ids or queries.made_ids)
        if self.unretrieved is not None:
            queries = replace(queries, unretrieved=_unretrieved(self.unretrieved, queries))
        if self.judged is not None:
            judged = self.judged if queries.rows is None else self.judged[queries.rows]
            if self.policy == "worst" != policy:
                raise DataError("unjudged items were counted as worst when this was written; expected `unjudged=worst`")
            counted_already = self.marked and self.policy == policy
            queries = replace(queries, judged=judged) if counted_already else settled(queries, judged, policy)
        queries = replace(queries, dropped=self.dropped | dict(queries.dropped))
        return queries.with_ties("trec") if self.ties == "trec" else queries


def _unretrieved(column: Any, queries: Queries) -> Ragged | None:
    """Return the grades outside each query's list, from lists that any rows of the query have."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise DataError(f"column {UNRETRIEVED!r} holds {kind}; expected lists of grades")
    rows = np.asarray(pc.list_parent_indices(column).to_numpy())
    grades = np.asarray(pc.list_flatten(column).cast(pa.float64()).to_numpy())
    bad = unfit(grades, 0.0)
    if bad.any():
        raise DataError(f"column {UNRETRIEVED!r} holds {grades[bad][0]}; expected finite grades ≥ 0, at most 1e50")
    stored = np.repeat(np.arange(len(queries)), queries.n_items)
    query_of = stored if queries.rows is None else stored[np.argsort(queries.rows)]
    return lists_of(query_of[rows], grades, len(queries)) if grades.size else None
