"""Click tables: one row per click, with the list that was clicked on, the item, and when.

    list_id      names the list; `isrr serve` answers with it and logs it
    item_id      the item that was clicked
    time         seconds since 1970, a timestamp, or ISO 8601 text; needed to tell early and late clicks
    kind         optional: "click", "purchase", …
    any numbers  optional: a margin, a price, for promises such as value(margin)@5

Events of OpenSearch's User Behavior Insights (`ubi_events`) are read too, where their `query_id` is the `list_id` of
the answer: the item is `event_attributes.object.object_id`, the kind `action_name`, and clicks are counted unless
another kind is asked for. Where the engine made up `query_id`, give a folder that holds `ubi_queries` beside
`ubi_events`: the answer of a query is then its `query_response_id`.

Which of the clicks count is decided when they meet the lists, in `isrr.clicks.impressions`.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.data.files import Table, from_frame, kind_of, open_table, reading
from isrr.data.identifiers import Ids
from isrr.data.queries import FloatArray
from isrr.errors import DataError

Keys = NDArray[np.uint64]
LIST_NAMES = ("list_id", "impression_id")
YEAR_2200 = 7_258_118_400.0  # in seconds since 1970


@dataclass(frozen=True, eq=False)
class Clicks:
    """Clicks, one per row, by list.

    Attributes:
        lists, items: Hashes of the list's and of the item's id, (n_clicks,).
        times: Seconds since 1970, (n_clicks,); NaN where the table has none.
        value: What each click is worth, (n_clicks,).
        n_other: Rows of other kinds, left out.
    """

    lists: Keys
    items: Keys
    times: FloatArray
    value: FloatArray = field(default_factory=lambda: np.empty(0))
    n_other: int = 0

    def __post_init__(self) -> None:
        if self.value.size == 0:
            object.__setattr__(self, "value", np.ones(self.lists.size))
        order = np.argsort(self.lists, kind="stable")
        for name in ("lists", "items", "times", "value"):
            object.__setattr__(self, name, getattr(self, name)[order])

    def __len__(self) -> int:
        return int(self.lists.size)


def read_clicks(source: Any, *, value: str | None = None, kind: str | None = None) -> Clicks:
    """Read a click table.

    Args:
        source: A Parquet, CSV, JSONL or Arrow file, or a table of pandas, polars or pyarrow; `Clicks` are returned as
            they are. Or a folder with the files `ubi_events` and `ubi_queries`, of any of these formats.
        value: Column with what a click is worth, ≥ 0; by default every click counts 1.
        kind: Count the rows of this `kind` alone.
    """
    if isinstance(source, Clicks):
        return source
    answers = None
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source, answers = (_file_in(Path(source), name) for name in ("ubi_events", "ubi_queries"))
    if isinstance(source, str | os.PathLike) and Path(source).suffix == ".jsonl" and Path(source).is_file():
        if not Path(source).stat().st_size:  # nobody has clicked yet
            return Clicks(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0))
    table = opened(source)
    if answers is not None or {"action_name", "event_attributes"} <= set(table.columns):
        table, kind = _from_ubi(table, answers), kind or "click"
    listed = need(table, *LIST_NAMES)
    item = need(table, "item_id")
    wanted = [listed, item, *(name for name in ("time", "kind", value) if name is not None and name in table.columns)]
    if value is not None:
        need(table, value)
    if kind is not None:
        need(table, "kind")
    rows = read(table, wanted, [listed, item])
    n_rows = rows.num_rows
    if kind is not None:
        rows = rows.filter(pc.equal(texts(rows["kind"], "kind", table.name), kind))
    n = rows.num_rows
    times = seconds(rows["time"], table.name) if "time" in wanted else np.full(n, np.nan)
    return Clicks(
        Ids.of(rows[listed], listed, n).hashes() if n else np.empty(0, np.uint64),
        Ids.of(rows[item], item, n).hashes() if n else np.empty(0, np.uint64),
        times,
        np.ones(n) if value is None else numbers(rows[value], value, table.name),
        n_rows - n,
    )


def looked_up(asked: Keys, known: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each key stands among those that are known, and whether it is known at all."""
    if not known.size:
        return np.zeros(asked.size, np.int64), np.zeros(asked.size, bool)
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, asked, sorter=order), known.size - 1)]
    return at, known[at] == asked


def opened(source: Any) -> Table:
    """A table that is read when asked, from a file or a frame."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        kind = kind_of(path)
        if kind == "letor":
            raise DataError(f"{path}: this is LETOR text; expected a click table: Parquet, CSV, JSONL or Arrow")
        return open_table(path, kind)
    return from_frame(source)


def need(table: Table, *names: str) -> str:
    """The first of these columns that a table has."""
    for name in names:
        if name in table.columns:
            return name
    raise DataError(
        f"{table.name}: there is no column {' or '.join(map(repr, names))}; the columns are {', '.join(table.columns)}"
    )


def read(table: Table, columns: list[str], ids: list[str]) -> Any:
    """Columns of a table, in Arrow."""
    with reading(table.name):
        return table.read(list(dict.fromkeys(columns)), ids)


def numbers(column: Any, name: str, source: str) -> FloatArray:
    """A column of finite numbers ≥ 0."""
    try:
        found = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException:
        raise DataError(f"{source}: column {name!r} holds {column.type}; expected numbers") from None
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if bad.size:
        raise DataError(f"{source}: row {bad[0]}: {name} is {found[bad[0]]}; expected a finite number ≥ 0")
    return found


def texts(column: Any, name: str, source: str) -> Any:
    """A column as text, of numbers as they are written."""
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise DataError(f"{source}: column {name!r} holds {column.type}; expected text") from None


def seconds(column: Any, source: str) -> FloatArray:
    """A column of times as seconds since 1970; NaN where there is none."""
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.timestamp("us", tz="UTC"))
        if pa.types.is_timestamp(column.type):
            found = np.asarray(column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()).to_numpy()) / 1e6
        else:
            found = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException as error:
        said = str(error).partition("\n")[0]
        raise DataError(
            f"{source}: column 'time' cannot be read: {said}; expected seconds since 1970, timestamps or ISO 8601 text"
        ) from None
    bad = np.flatnonzero(found > YEAR_2200)
    if bad.size:
        slips = {1e3: "milliseconds, as from `Date.now()`", 1e6: "microseconds", 1e9: "nanoseconds"}
        slip = next(
            (f"; these look like {name}" for unit, name in slips.items() if found[bad[0]] / unit < YEAR_2200), ""
        )
        raise DataError(
            f"{source}: row {bad[0]}: time {found[bad[0]]:.0f} is after the year 2200; expected seconds since "
            f"1970{slip}"
        )
    return found


def _file_in(folder: Path, name: str) -> Path:
    """The file of that name in a folder, whatever its suffix."""
    found = sorted(file for file in folder.iterdir() if file.name.partition(".")[0] == name)
    if len(found) != 1:
        has = ", ".join(file.name for file in found) or "none"
        raise DataError(f"{folder}: found {has}; expected one file {name}.jsonl (or .parquet, .csv, .arrow)")
    return found[0]


def _from_ubi(table: Table, answers: Path | None) -> Table:
    """Events of User Behavior Insights as a click table; events that name no list or no item are no clicks.

    Args:
        table: `ubi_events`.
        answers: `ubi_queries`, where the events do not name lists themselves.
    """
    rows = read(table, [need(table, name) for name in ("query_id", "action_name", "timestamp", "event_attributes")], [])
    try:
        item = pc.struct_field(rows["event_attributes"], ["object", "object_id"])
    except pa.ArrowException:
        raise DataError(f"{table.name}: expected event_attributes.object.object_id, the item of each event") from None
    lists = rows["query_id"]
    if answers is not None:
        ids, responses = _responses(opened(answers))
        lists = responses.take(pc.index_in(texts(lists, "query_id", table.name), ids.combine_chunks()))
    named = {"list_id": lists, "item_id": item, "kind": rows["action_name"], "time": rows["timestamp"]}
    made = pa.table(named)
    made = made.filter(pc.and_(made["list_id"].is_valid(), made["item_id"].is_valid()))
    return Table(table.name, made.column_names, lambda columns, _: made.select(columns))


def _responses(queries: Table) -> tuple[Any, Any]:
    """The ids of `ubi_queries` and their responses; two responses to one id are refused, as clicks name only the id."""
    names = ["query_id", "query_response_id"]
    rows = read(queries, [need(queries, name) for name in names], [])
    rows = pa.table([texts(rows[name], name, queries.name) for name in names], names)
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
