"""Copies that isrr writes: `write_queries`, and what a copy says of its grades beside the grades.

Two columns say which items lack a grade, and which grades lie outside the lists: `unretrieved` is a list of grades on
any rows of a query; `unjudged` is null where an item was graded, otherwise it names how the item was counted. How ties
are broken, rows that were dropped, and a policy that no row shows, are schema metadata.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.data.columns import BESIDE_GRADES, OWN_NAMES, UNJUDGED, UNRETRIEVED
from isrr.data.files import VALUES, write_table
from isrr.data.numbers import unfit
from isrr.data.queries import Queries
from isrr.data.ragged import Ragged, lists_of, offsets_from
from isrr.data.unjudged import Unjudged, checked_policy, settled
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
    columns |= _beside_grades(queries)
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


def has_made_ids(schema: Any) -> bool:
    """Return whether a table says that its query ids were made from positions."""
    return bool((schema.metadata or {}).items() >= MADE_IDS.items())


def _beside_grades(queries: Queries) -> dict[str, Any]:
    """Return the columns that go with the grades of queries, where there is something to say."""
    columns = {}
    if queries.unretrieved is not None:
        offsets, grades = queries.unretrieved
        lengths = np.zeros(queries.n_rows, np.int32)
        lengths[queries.offsets[:-1]] = np.diff(offsets)
        columns[UNRETRIEVED] = pa.ListArray.from_arrays(offsets_from(lengths).astype(np.int32), grades)
    if queries.judged is not None:
        policy = pa.array([queries.unjudged], pa.string())
        codes = pa.array(np.zeros(queries.n_rows, np.int32), mask=queries.judged)
        columns[UNJUDGED] = pa.DictionaryArray.from_arrays(codes, policy)
    return columns


def _marks(table: Any, columns: Sequence[str]) -> Any:
    """Return the column that names how unjudged items were counted; None where there is none of the kind."""
    is_text = UNJUDGED in columns and pa.types.is_large_string(table[UNJUDGED].type)
    return table[UNJUDGED] if is_text else None


def stored_policy(table: Any, columns: Sequence[str]) -> Unjudged | None:
    """Return how the unjudged items of a table were counted; None where it doesn't say."""
    marks = _marks(table, columns)
    said = [] if marks is None else marks.drop_null().unique().to_pylist()
    if len(said) > 1:
        raise DataError(f"column {UNJUDGED!r} has several policies: {', '.join(said)}; expected one")
    stored = said[0] if said else (table.schema.metadata or {}).get(POLICY, b"").decode(errors="replace")
    try:
        return checked_policy(stored) if stored else None
    except ValueError:
        raise DataError(f"unjudged items are marked {stored!r}; expected {', '.join(get_args(Unjudged))}") from None


def judged_rows(table: Any, columns: Sequence[str], grades: str) -> NDArray[np.bool_] | None:
    """Return which rows were graded, in the table's order; None if all were.

    Args:
        table: The table.
        columns: Those of `BESIDE_GRADES` that it has.
        grades: The column with the grades; null and NaN are none.
    """
    judged = ~np.asarray(table[grades].is_null(nan_is_null=True).to_numpy(), bool)
    if (marks := _marks(table, columns)) is not None:
        judged &= np.asarray(marks.is_null().to_numpy(), bool)
    return None if judged.all() else judged


def with_grades(
    queries: Queries, table: Any, columns: Sequence[str], judged: NDArray[np.bool_] | None, policy: Unjudged
) -> Queries:
    """Return the queries of a table with all that it says of their grades.

    Args:
        queries: The queries; their relevance is 0 where an item is unjudged.
        table: The table they come from.
        columns: Those of `BESIDE_GRADES` that it has.
        judged: As `judged_rows` returns it.
        policy: How unjudged items count.
    """
    queries = replace(queries, unjudged=policy)
    if UNRETRIEVED in columns:
        queries = replace(queries, unretrieved=_unretrieved(table[UNRETRIEVED], queries))
    if judged is not None:
        judged = judged if queries.rows is None else judged[queries.rows]
        stored = stored_policy(table, columns)
        if stored == "worst" and policy != stored:
            raise DataError(f"unjudged items were counted as {stored} when this was written; expected `unjudged=worst`")
        counted_already = _marks(table, columns) is not None and stored == policy
        queries = replace(queries, judged=judged) if counted_already else settled(queries, judged, policy)
    metadata = table.schema.metadata or {}
    queries = replace(queries, dropped=_stored_counts(metadata.get(DROPPED, b"{}")) | dict(queries.dropped))
    return queries.with_ties("trec") if metadata.get(TIES) == b"trec" else queries


def _stored_counts(text: bytes) -> dict[str, int]:
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except (ValueError, RecursionError):
        raise DataError(f"the metadata {DROPPED.decode()!r} are damaged; expected numbers of rows by option") from None


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
