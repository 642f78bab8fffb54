"""Click tables: one row per click, with the list that was clicked on, the item, and when.

    list_id      names the list; `isrr serve` answers with it and logs it
    item_id      the item that was clicked
    time         seconds since 1970, a timestamp, or ISO 8601 text (UTC, unless it names a zone); tells early and late
                 clicks
    kind         optional: "click", "purchase", …
    any numbers  optional: a margin, a price, for promises such as value(margin)@5

Events of OpenSearch's User Behavior Insights (`ubi_events`) are read too, where their `query_id` is the `list_id` of
the answer: the item is `event_attributes.object.object_id`, the kind `action_name`, and clicks are counted unless
another kind is asked for. Where the engine made up `query_id`, give a folder that holds `ubi_queries` beside
`ubi_events`: the answer of a query is then its `query_response_id`.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isrr.data.formats import Table, reading
from isrr.data.identifiers import Ids
from isrr.data.queries import FloatArray
from isrr.data.tables import open_source
from isrr.errors import DataError

LIST_NAMES = ("list_id", "impression_id")
YEAR_2200 = 7_258_118_400.0  # in seconds since 1970


@dataclass(frozen=True, eq=False)
class Clicks:
    """Clicks, one per row.

    Attributes:
        list_ids, item_ids: The list and the item that was clicked, as Arrow text, (n_clicks,).
        times: Seconds since 1970, (n_clicks,); NaN where the table has none.
        value: What each click is worth, (n_clicks,).
        n_other: Rows of other kinds, left out.
    """

    list_ids: Any
    item_ids: Any
    times: FloatArray
    value: FloatArray
    n_other: int = 0

    def __len__(self) -> int:
        return len(self.list_ids)


def read_clicks(source: Any, *, value: str | None = None, kind: str | None = None) -> Clicks:
    """Read a click table.

    Args:
        source: A Parquet, CSV, JSONL or Arrow file, or a table of pandas, polars or pyarrow; `Clicks` are returned as
            they are. Or a folder with the files `ubi_events` and `ubi_queries`, of any of these formats.
        value: Column with what a click is worth, ≥ 0; by default every click counts 1.
        kind: Count only the rows of this `kind`.
    """
    if isinstance(source, Clicks):
        return source
    answers = None
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source, answers = (_file_in(Path(source), name) for name in ("ubi_events", "ubi_queries"))
    if isinstance(source, str | os.PathLike) and Path(source).suffix == ".jsonl" and Path(source).is_file():
        if not Path(source).stat().st_size:  # nobody has clicked yet
            return Clicks(pa.array([], pa.large_string()), pa.array([], pa.large_string()), np.empty(0), np.empty(0))
    table = open_source(source)
    if answers is not None or {"action_name", "event_attributes"} <= set(table.columns):
        table, kind = _from_ubi(table, answers), kind or "click"
    ids = [need(table, *LIST_NAMES), need(table, "item_id")]
    others = [need(table, name) for name in (kind and "kind", value) if name]
    others += [name for name in ("time",) if name in table.columns]
    rows = read_columns(table, [*ids, *others], ids)
    n_rows = rows.num_rows
    if kind is not None:
        rows = rows.filter(pc.equal(cast(rows["kind"], pa.string(), "text", "kind", table.name), kind))
    n = rows.num_rows
    return Clicks(
        text_ids(rows[ids[0]], ids[0], table.name),
        text_ids(rows[ids[1]], ids[1], table.name),
        seconds(rows["time"], table.name) if "time" in others else np.full(n, np.nan),
        np.ones(n) if value is None else numbers(rows[value], value, table.name),
        n_rows - n,
    )


def need(table: Table, *names: str) -> str:
    """Return the first of these columns that a table has."""
    for name in names:
        if name in table.columns:
            return name
    raise DataError(
        f"{table.name}: there is no column {' or '.join(map(repr, names))}; the columns are {', '.join(table.columns)}"
    )


def read_columns(table: Table, columns: list[str], ids: list[str]) -> Any:
    """Return columns of a table, in Arrow."""
    with reading(table.name):
        return table.read(list(dict.fromkeys(columns)), ids)


def text_ids(column: Any, name: str, source: str) -> Any:
    """Return a column of ids as checked Arrow text."""
    try:
        return Ids.of(column, name, len(column)).texts if len(column) else pa.array([], pa.large_string())
    except DataError as error:
        error.source = source
        raise


def numbers(column: Any, name: str, source: str) -> FloatArray:
    """Return a column of finite numbers ≥ 0."""
    values = np.asarray(cast(column, pa.float64(), "numbers", name, source).to_numpy(), np.float64)
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise DataError(f"{source}: row {bad[0] + 1}: {name} is {values[bad[0]]}; expected a finite number ≥ 0")
    return values


def cast(column: Any, kind: Any, expected: str, name: str, source: str) -> Any:
    """Return a column as another type, or refuse it."""
    try:
        return column.cast(kind)
    except pa.ArrowException:
        raise DataError(
            f"{source}: column {name!r} holds {str(column.type).replace('large_', '')}; expected {expected}"
        ) from None


def seconds(column: Any, source: str) -> FloatArray:
    """Return a column of times as seconds since 1970, in UTC unless it names a zone; NaN where there is none."""
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = pc.replace_substring_regex(column, r"^(\d+-\d+-\d+[T ][\d:.]+)$", r"\1Z")
            column = column.cast(pa.timestamp("us", tz="UTC"))
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us"), safe=False)  # pandas counts nanoseconds
            times = np.asarray(column.cast(pa.int64()).cast(pa.float64()).to_numpy()) / 1e6
        else:
            times = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException as error:
        said = str(error).partition("\n")[0].partition(": expected a zone")[0]
        raise DataError(
            f"{source}: column 'time' cannot be read: {said}; expected seconds since 1970, timestamps or ISO 8601 text"
        ) from None
    bad = np.flatnonzero(times > YEAR_2200)
    if bad.size:
        slips = {1e3: "milliseconds, as from `Date.now()`", 1e6: "microseconds", 1e9: "nanoseconds"}
        slip = next(
            (f"; these look like {name}" for unit, name in slips.items() if times[bad[0]] / unit < YEAR_2200), ""
        )
        raise DataError(
            f"{source}: row {bad[0] + 1}: time {times[bad[0]]:.0f} is after the year 2200; expected seconds since "
            f"1970{slip}"
        )
    return times


def _file_in(folder: Path, name: str) -> Path:
    """Return the file of that name in a folder, whatever its suffix."""
    files = sorted(file for file in folder.iterdir() if file.name.partition(".")[0] == name)
    if len(files) != 1:
        has = ", ".join(file.name for file in files) or "none"
        raise DataError(f"{folder}: found {has}; expected one file {name}.jsonl (or .parquet, .csv, .arrow)")
    return files[0]


def _from_ubi(table: Table, answers: Path | None) -> Table:
    """Return events of User Behavior Insights as a click table, without those that name no list or no item.

    Args:
        table: `ubi_events`.
        answers: `ubi_queries`, where the events do not name lists themselves.
    """
    names = [need(table, name) for name in ("query_id", "action_name", "timestamp", "event_attributes")]
    rows = read_columns(table, names, [])
    try:
        item = pc.struct_field(rows["event_attributes"], ["object", "object_id"])
    except pa.ArrowException:
        raise DataError(f"{table.name}: expected event_attributes.object.object_id, the item of each event") from None
    lists = rows["query_id"]
    if answers is not None:
        ids, responses = _responses(open_source(answers))
        lists = responses.take(
            pc.index_in(cast(lists, pa.string(), "text", "query_id", table.name), ids.combine_chunks())
        )
    events = pa.table({"list_id": lists, "item_id": item, "kind": rows["action_name"], "time": rows["timestamp"]})
    events = events.filter(pc.and_(events["list_id"].is_valid(), events["item_id"].is_valid()))
    return Table(table.name, events.column_names, lambda columns, _: events.select(columns))


def _responses(queries: Table) -> tuple[Any, Any]:
    """Return the ids of `ubi_queries` and their responses; two responses to one id are refused: clicks name the id."""
    names = ["query_id", "query_response_id"]
    rows = read_columns(queries, [need(queries, name) for name in names], [])
    rows = pa.table([cast(rows[name], pa.string(), "text", name, queries.name) for name in names], names)
    rows = rows.drop_null().group_by(names).aggregate([])
    again = rows.group_by("query_id").aggregate([("query_response_id", "count")])
    again = again.filter(pc.greater(again["query_response_id_count"], 1))
    if again.num_rows:
        query = again["query_id"][0]
        one, other, *_ = rows.filter(pc.equal(rows["query_id"], query))["query_response_id"].sort().to_pylist()
        raise DataError(
            f"{queries.name}: query_id {query.as_py()!r} has the responses {one!r} and {other!r}; expected one "
            "query_response_id for each query_id"
        )
    return rows["query_id"], rows["query_response_id"]
