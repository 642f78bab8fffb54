"""Tables → Queries: `Columns` names the columns, `read_queries` is the one entrance for data of any kind.

A table has one row per item. `Queries.from_arrays` checks what its columns hold; an error names the row and the column,
and here the table is added, the column's own name and, for CSV, the line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data.columns import ROLES, VALUE, Columns, Roles
from isrr.data.copies import Stored
from isrr.data.formats import (
    File,
    Format,
    Table,
    What,
    from_frame,
    kind_by_name,
    kind_of,
    matching_files,
    open_table,
    reading,
)
from isrr.data.groups import joined_groups
from isrr.data.identifiers import Ids
from isrr.data.ordering import Ties
from isrr.data.parquet import ROWS, ParquetFiles
from isrr.data.queries import Queries
from isrr.data.runs import Judgments, joined
from isrr.data.trec import mapping_table, run_table
from isrr.data.unjudged import OPTIONS, Unjudged, checked_policy
from isrr.errors import DataError

MissingScore = Literal["refuse", "drop"]
Duplicates = Literal["refuse", "first"]


def read_queries(
    source: Any,
    columns: Columns | None = None,
    *,
    qrels: Any = None,
    group: Sequence[int] | None = None,
    unjudged: Unjudged | None = None,
    ties: Ties | None = None,
    missing_score: MissingScore = "refuse",
    duplicates: Duplicates = "refuse",
    format: Format | None = None,
    qrels_format: Format | None = None,
) -> Queries:
    """Read queries from a table, or from a run and its judgments.

    Tables are files (Parquet, Arrow, CSV, JSONL; CSV and JSONL also as .gz), on this machine or at an address such as
    s3://bucket/judged.parquet, a glob of Parquet files, and frames: pandas, polars, pyarrow and whatever else exports
    Arrow. Runs and judgments are tables, TREC text, BEIR's files or dicts `{query: {item: number}}`, also as JSON; they
    are joined as evaluation tools do. `Queries.notes` says what was left out.

    Args:
        source: Path, address, glob, frame or dict.
        columns: The names of columns that are not called as usual.
        qrels: The judgments, where `source` is a run.
        group: Sizes of consecutive queries, for data without a query column.
        unjudged: How items without a grade count: "refuse" (the default for tables), "zero" (the default for qrels),
            "drop" or "worst"; see `isrr.data.unjudged`.
        ties: "trec" orders equal scores as trec_eval does, to get the same figures.
        missing_score: "refuse" (the default) or "drop": leave out rows without a score.
        duplicates: "refuse" (the default) or "first": of rows with the same query and item, use the first.
        format: "trec", "table" or "json"; by default inferred from the name and the content.
        qrels_format: The same for the judgments.

    Example:
        >>> read_queries(pa.table({"qid": ["a", "b", "a"], "score": [2.0, 1.0, 0.5], "grade": [1, 0, 2]}))
        Queries(2 queries, 3 items; scores, relevance)
    """
    columns = columns or Columns()
    if missing_score not in get_args(MissingScore) or duplicates not in get_args(Duplicates):
        raise ValueError(
            f"`missing_score=` must be refuse or drop, and `duplicates=` refuse or first; got {missing_score!r} and "
            f"{duplicates!r}"
        )
    run, grouped = qrels is not None, group is not None
    table = open_source(source, columns, "run" if run else None, format)
    roles = Roles.of(table, columns, grouped=grouped, run=run)
    with reading(table.name):
        rows = table.read(roles.all, roles.ids)
    queries = queries_of(
        rows, roles, table.name, group, None if run else unjudged, missing_score=missing_score, duplicates=duplicates
    )
    if run:
        judgments = Judgments.of(open_source(qrels, columns, "qrels", qrels_format), columns)
        queries = joined(queries, table.name, judgments, unjudged or "zero")
    return queries if ties is None else queries.with_ties(ties)


def as_queries(
    data: Any, columns: Columns | None = None, unjudged: str = "refuse", roles: Sequence[str] = ()
) -> Queries:
    """Return queries as they are, or read from whatever `read_queries` takes.

    Args:
        data: `Queries`, or the source of some.
        columns: The names of columns, for data still to be read.
        unjudged: How items without a grade count, for data still to be read that does not say.
        roles: Roles to read beside the usual ones, such as "value:margin".
    """
    columns = (columns or Columns()).with_roles(roles)
    if not isinstance(data, Queries):
        return read_queries(data, columns, unjudged=None if unjudged == "refuse" else checked_policy(unjudged))
    for role in ROLES:
        if getattr(columns, role) is not None:
            raise DataError(f"`{role}=` is for tables; these queries are already in memory")
    for name in columns.values:
        data.column(name)
    return data


def open_source(
    source: Any, columns: Columns | None = None, what: What | None = None, format: Format | None = None
) -> Table:
    """Return the table, the run or the judgments that a caller names; its columns are read on demand."""
    if isinstance(source, Mapping):
        return mapping_table(source, what or "run", what or "run")
    if isinstance(source, Queries):
        raise DataError("these queries are already in memory; expected a table or a file to read")
    if not isinstance(source, str) and not hasattr(source, "__fspath__") and not isinstance(source, File):
        return from_frame(source)
    files = matching_files(source)
    if len(files) > 1:
        parts = ParquetFiles.of(files, columns or Columns())
        return Table(parts.name, parts.roles.all, lambda wanted, _: parts.rows(wanted), parts.values)
    kind = kind_of(files[0], format, what)
    if kind == "letor":
        raise DataError(
            f"{files[0]}: this is LETOR text, which has features but no scores; convert it and score it first: "
            f"isrr-paper convert {files[0]} judged.parquet"
        )
    return (
        open_table(files[0], kind)
        if kind in ("parquet", "arrow", "csv", "jsonl")
        else run_table(files[0], kind, what or "run")
    )


def queries_of(
    table: Any,
    roles: Roles,
    name: str,
    group: Any = None,
    unjudged: Unjudged | None = None,
    *,
    missing_score: MissingScore = "refuse",
    duplicates: Duplicates = "refuse",
) -> Queries:
    """Return queries from the columns of an Arrow table; arguments are as for `read_queries`."""
    if table.num_rows == 0:
        raise DataError(f"{name}: the table has no rows")
    rows: NDArray[np.int64] | None = None
    dropped: dict[str, int] = {}
    try:
        if group is None and (missing_score, duplicates) != ("refuse", "refuse"):
            rows, dropped = _chosen_rows(table, roles, missing_score, duplicates)
            table = table.take(pa.array(rows))
        stored = Stored.of(table, roles)
        policy = unjudged or stored.policy or "refuse"
        arguments = {}
        for role, column in roles.names.items():
            if role == "item_group":
                separator, missing = roles.columns.group_separator, roles.columns.missing_group
                arguments["item_groups"] = joined_groups(table[column], separator, missing)
            elif role == "relevance" and stored.judged is not None and policy != "refuse":
                arguments["relevance"] = _zero_elsewhere(table[column], stored.judged)
            elif role in ROLES:
                numbers = ROLES[role]["numbers"]
                arguments[ROLES[role]["argument"]] = as_array(table[column]) if numbers else table[column]
        values = {
            role.removeprefix(VALUE): as_array(table[of]) for role, of in roles.names.items() if role not in ROLES
        }
        choice = {"missing_score": missing_score, "duplicates": duplicates}
        notes = [f"{counted(n, 'row')} left out (`{option}={choice[option]}`)" for option, n in dropped.items()]
        if "item_group" in roles.names and (n_groupless := table[roles.names["item_group"]].null_count):
            notes.append(f"{counted(n_groupless, 'item')} without a group: in no group (`missing_group=none`)")
        queries = replace(
            Queries.from_arrays(**arguments, values=values, group=group),
            absent=roles.absent,
            grade_column=roles.names.get("relevance", ""),
            has_positions=roles.has_positions,
            notes=tuple(notes),
            dropped=dropped,
        )
        return stored.added_to(queries, policy)
    except DataError as error:
        role = next((role for role in ROLES if ROLES[role]["argument"] == error.column), "")
        said, missing_number = error.args[0], error.args[0].startswith(("no value", "nan"))
        if missing_number and role == "score":
            error.args = (f"{said}, or leave such rows out: `missing_score=drop`",)
        elif missing_number and role == "relevance":
            error.args = (f"{said.split(';')[0]}; every item needs a grade, or {OPTIONS}",)
        if error.row is not None and rows is not None:
            error.row = int(rows[error.row])
        raise located(error, name, roles.names.get(role, error.column)) from None


def _chosen_rows(
    table: Any, roles: Roles, missing_score: MissingScore, duplicates: Duplicates
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return which rows are used, and how many are left out by which option."""
    rows, dropped = np.arange(table.num_rows), {}
    if missing_score == "drop" and "score" in roles.names:
        missing = table[roles.names["score"]].is_null(nan_is_null=True)
        rows = np.flatnonzero(~np.asarray(missing.to_numpy(), bool))
        dropped["missing_score"] = table.num_rows - rows.size
    if duplicates == "first":
        if "item" not in roles.names:
            raise DataError(f"`duplicates=first` needs item ids; {roles.absent['item']}")
        names = roles.names["query"], roles.names["item"]
        query, item = (Ids.of(table[name], name, table.num_rows).take(rows).by_appearance() for name in names)
        first = np.unique(query[1].astype(np.int64) * len(item[0]) + item[1], return_index=True)[1]
        dropped["duplicates"] = rows.size - first.size
        rows = rows[np.sort(first)]
    if not rows.size:
        raise DataError("no row has a score, so none is left when rows without one are dropped")
    return rows, {option: n for option, n in dropped.items() if n}


def located(error: DataError, name: str, column: str | None) -> DataError:
    """Return the same error with the file or table and its name of the column."""
    source = f"{name}: {error.source}" if error.source else name
    header = kind_by_name(name) == "csv"
    return DataError(error.args[0], error.query, row=error.row, column=column, source=source, header=header)


def ids_of(table: Any, column: str, name: str) -> Ids:
    """Return a column of ids of an Arrow table, which errors call by its name."""
    try:
        return Ids.of(table[column], column, table.num_rows)
    except DataError as error:
        raise located(error, name, column) from None


def as_array(column: Any) -> NDArray[Any]:
    """Return a column of Arrow as an array of numpy that loses nothing; masked where values are missing."""
    if column.null_count:
        missing = column.is_null().to_numpy()
        return np.ma.MaskedArray(np.zeros(missing.size), missing)
    if pa.types.is_decimal(column.type) and column.type.precision <= 15:
        # by way of text: the direct way turns 0.1 into 0.09999999999999999
        column = column.cast(pa.string()).cast(pa.float64())
    return np.asarray(column.to_numpy())


def _zero_elsewhere(column: Any, chosen: NDArray[np.bool_]) -> NDArray[Any]:
    """Return a column of numbers, 0 in all rows but the chosen ones."""
    numbers = as_array(column.filter(pa.array(chosen)))
    values = np.zeros(chosen.size, numbers.dtype)
    values[chosen] = numbers
    return values


def whole_queries(batches: Iterable[Any], roles: Roles, name: str, rows: int = ROWS) -> Iterator[Queries]:
    """Yield queries of about `rows` rows together, each of them whole.

    Rows of a query must be adjacent. A batch that ends inside a query waits with that query for the next one, so memory
    holds one block and the query cut by its end, however long the stream.

    Args:
        batches: Arrow tables with the same columns, as `plain` returns them.
        roles: Which column has which role.
        name: What errors call the stream.
        rows: How many rows a block should have; a query longer than that still comes whole.
    """
    column, done = roles.names["query"], 0
    waiting: list[Any] = []

    def where() -> str:
        return f"{name}, rows from {done + 1}"

    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) < rows:
            continue
        table = pa.concat_tables(waiting)
        cut = int(ids_of(table, column, where()).runs()[-1])
        if cut:
            yield queries_of(table.slice(0, cut), roles, where())
            done += cut
        waiting = [table.slice(cut)]
    if any(part.num_rows for part in waiting):
        yield queries_of(pa.concat_tables(waiting), roles, where())
