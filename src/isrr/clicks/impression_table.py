"""Tables of impressions, with one row per impression and candidate: the lists that were served, and their clicks."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isrr.clicks.click_table import LIST_NAMES, Clicks, cast, need, numbers, read_columns, seconds, text_ids
from isrr.clicks.served import Served, codes, drawn_lists, first_of, list_column, one_array
from isrr.data.log import ServedLists
from isrr.data.queries import IntArray
from isrr.data.tables import open_source
from isrr.errors import DataError


def served_of_table(source: Any, k: int, *, value: str | None = None, unit: str | None = None) -> tuple[Served, Clicks]:
    """Read a table with one row per impression and candidate, as lists and the clicks on them.

    Args:
        source: A file or a frame: impression_id (or list_id), query_id, item_id, score, position (from 1; nothing
            where the candidate was not shown) and click; time, session and user where there are any.
        k: Positions that every impression must show.
        value: Column with what a clicked row is worth; by default 1.
        unit: "session" or "user", a column that is needed then.
    """
    table = open_source(source)
    listed = need(table, *LIST_NAMES)
    ids = [listed, "query_id", "item_id"]
    needed = [*ids, "score", "position", "click", *([value] if value else [])]
    needed += [unit] if unit in ("session", "user") else []
    optional = [name for name in ("session", "user", "time") if name in table.columns]
    texts = [*ids, *(name for name in optional if name != "time")]
    rows = read_columns(table, [*(need(table, name) for name in needed), *optional], texts)
    click = pc.fill_null(cast(rows["click"], pa.float64(), "numbers", "click", table.name), 0.0)
    click = numbers(click, "click", table.name)
    worth = np.ones(rows.num_rows) if value is None else numbers(rows[value], value, table.name)
    for name in ids:
        rows = rows.set_column(rows.column_names.index(name), name, text_ids(rows[name], name, table.name))
    list_codes = codes(rows[listed])
    order = np.argsort(list_codes, kind="stable")
    rows = rows.take(pa.array(order))
    heads = np.flatnonzero(first_of(list_codes[order]))
    offsets = np.append(heads, rows.num_rows)
    owner = np.repeat(np.arange(heads.size), np.diff(offsets))
    again = np.flatnonzero(~first_of(owner * rows.num_rows + codes(rows["item_id"])))
    if again.size:
        name, item = (rows[column][int(again[0])].as_py() for column in (listed, "item_id"))
        raise DataError(
            f"{table.name}: {listed} {name!r} has item {item!r} twice; expected one row per impression and candidate"
        )
    position = _checked_positions(rows, owner, offsets, table.name)
    shown = np.flatnonzero(position >= 0)
    shown = shown[np.lexsort((position[shown], owner[shown]))]
    n_shown = np.bincount(owner[shown], minlength=heads.size)
    if n_short := int((n_shown < np.minimum(k, np.diff(offsets))).sum()):
        raise DataError(
            f"{table.name}: {n_short:,} impressions do not show the first {k} positions; expected a position for "
            "each of them, and every candidate in the table"
        )

    first, n_items = rows.take(pa.array(heads)), np.diff(offsets)
    scores = cast(rows["score"], pa.float64(), "numbers", "score", table.name)
    lists = drawn_lists({
        "list_id": first[listed], "query_id": first["query_id"], "n_shown": n_shown,
        "time": seconds(first["time"], table.name) if "time" in optional else order[heads],
        "item_ids": list_column(rows["item_id"], n_items), "scores": list_column(scores, n_items),
        "ranking": list_column(shown - offsets[owner[shown]], n_shown),
        **{name: first[name] for name in ("session", "user") if name in optional},
    })  # fmt: skip
    hit = np.flatnonzero(click[order] > 0)
    clicked, no_time = rows.take(pa.array(hit)), np.full(hit.size, np.nan)
    clicks = Clicks(one_array(clicked[listed]), one_array(clicked["item_id"]), no_time, worth[order][hit])
    return Served.of([ServedLists(lists)]), clicks


def _checked_positions(rows: Any, owner: IntArray, offsets: IntArray, source: str) -> IntArray:
    """Return the position of each row from 0, −1 where it was not shown; refuse what is no list of 1, 2, 3, …."""
    column = cast(rows["position"], pa.float64(), "whole numbers", "position", source)
    position = pc.fill_null(column, np.nan).to_numpy()
    bad = np.flatnonzero(~np.isnan(position) & ~((position >= 1) & (position == np.floor(position))))
    if bad.size:
        raise DataError(
            f"{source}: a position is {position[bad[0]]:g}; expected positions counted from 1, whole numbers, and "
            "nothing where a candidate was not shown"
        )
    order = np.lexsort((position, owner))  # those not shown come last
    expected = np.arange(order.size) - offsets[owner] + 1.0
    bad = np.flatnonzero(~np.isnan(position[order]) & (position[order] != expected))
    if bad.size:
        query = rows["query_id"][int(order[bad[0]])].as_py()
        raise DataError(
            f"{source}: an impression of query {query!r} has position {position[order][bad[0]]:g} where position "
            f"{expected[bad[0]]:g} comes next; expected the positions 1, 2, 3, … of each impression, each with one item"
        )
    return np.where(np.isnan(position), 0.0, position).astype(np.int64) - 1
