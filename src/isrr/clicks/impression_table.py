"""Tables of impressions, with one row per impression and candidate: the lists that were served, and their clicks."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isrr.clicks.click_table import LIST_NAMES, Clicks, cast, need, numbers, read_columns, seconds, text_ids
from isrr.clicks.served import Served, codes, first_of, one_array, recognize
from isrr.data.queries import IntArray
from isrr.data.ragged import offsets_from
from isrr.data.tables import open_source
from isrr.errors import DataError


def served_of_table(source: Any, k: int, *, value: str | None = None, unit: str | None = None) -> tuple[Served, Clicks]:
    """Read a table with one row per impression and candidate, as lists and the clicks on them.

    Args:
        source: A file or a frame: impression_id (or list_id), query_id, item_id, score, position (from 1; nothing
            where the candidate was not shown) and click; time, session and user where there are any.
        k: Places that every impression must show.
        value: Column with what a clicked row is worth; by default 1.
        unit: "session" or "user", a column that is needed then.
    """
    table = open_source(source)
    listed = need(table, *LIST_NAMES)
    ids = [listed, "query_id", "item_id", *(name for name in ("session", "user") if name in table.columns)]
    others = ["score", "position", "click", *([value] if value else [])]
    columns = [need(table, name) for name in (*ids, *others)] + [name for name in ("time",) if name in table.columns]
    if unit in ("session", "user"):
        need(table, unit)
    rows = read_columns(table, columns, ids)
    texts = {name: text_ids(rows[name], name) for name in ids[:3]}
    list_code = codes(texts[listed])
    order = np.argsort(list_code, kind="stable")
    rows, texts = rows.take(pa.array(order)), {name: column.take(pa.array(order)) for name, column in texts.items()}
    heads = np.flatnonzero(first_of(list_code[order]))
    offsets = np.append(heads, rows.num_rows)
    owner = np.repeat(np.arange(heads.size), np.diff(offsets))
    again = np.flatnonzero(~first_of(owner * rows.num_rows + codes(texts["item_id"])))
    if again.size:
        name, item = (rows[column][int(again[0])].as_py() for column in (listed, "item_id"))
        raise DataError(
            f"{table.name}: {listed} {name!r} has item {item!r} twice; expected one row per impression and candidate"
        )
    place = _checked_places(rows, owner, offsets, texts["query_id"], table.name)
    shown = np.flatnonzero(place >= 0)
    shown = shown[np.lexsort((place[shown], owner[shown]))]
    lengths = np.bincount(owner[shown], minlength=heads.size)
    if n_short := int((lengths < np.minimum(k, np.diff(offsets))).sum()):
        raise DataError(
            f"{table.name}: {n_short:,} impressions do not show the first {k} positions; expected a position for "
            "each of them, and every candidate in the table"
        )
    click = cast(rows["click"], pa.float64(), "numbers", "click", table.name)
    clicked, first = numbers(pc.fill_null(click, 0.0), "click", table.name) > 0, pa.array(heads)

    def lists(values: Any, ends: IntArray) -> Any:
        return pa.LargeListArray.from_arrays(pa.array(ends), values)

    def optional(name: str) -> Any:
        column = rows[name].take(first).cast(pa.string()) if name in columns else pa.nulls(heads.size, pa.string())
        return one_array(column)

    candidates = {
        "certificate": pa.array([""] * heads.size),
        "query_id": texts["query_id"].take(first).cast(pa.string()),
        "item_ids": lists(texts["item_id"].cast(pa.string()), offsets),
        "scores": lists(one_array(cast(rows["score"], pa.float64(), "numbers", "score", table.name)), offsets),
    }
    number, new = recognize(pa.table(candidates), {})
    served = {
        "list_id": texts[listed].take(first), "time": seconds(rows["time"], table.name)[heads] if "time" in columns
        else order[heads].astype(np.float64), "certificate": candidates["certificate"],
        "query_id": candidates["query_id"], "session": optional("session"), "user": optional("user"),
        "first_rank": np.ones(heads.size, np.int64), "n_shown": lengths, "list": number,
        "ranking": lists(pa.array(shown - offsets[owner[shown]]), offsets_from(lengths)),
        "propensities": pa.nulls(heads.size, pa.list_(pa.float64())),
        "deterministic": pa.nulls(heads.size, pa.list_(pa.int64())), "hottest": pa.nulls(heads.size, pa.float64()),
    }  # fmt: skip
    worth = np.ones(rows.num_rows) if value is None else numbers(rows[value], value, table.name)
    hit = pa.array(clicked)
    clicks = Clicks(
        texts[listed].filter(hit), texts["item_id"].filter(hit), np.full(int(clicked.sum()), np.nan), worth[clicked]
    )
    return Served.of(pa.table(served), pa.table(candidates).take(pa.array(new))), clicks


def _checked_places(rows: Any, owner: IntArray, offsets: IntArray, query_ids: Any, source: str) -> IntArray:
    """Return the place of each row from 0, −1 where it was not shown; refuse what is no list of places 1 to n."""
    place = pc.fill_null(cast(rows["position"], pa.float64(), "whole numbers", "position", source), np.nan).to_numpy()
    bad = np.flatnonzero(~np.isnan(place) & ~((place >= 1) & (place == np.floor(place))))
    if bad.size:
        raise DataError(
            f"{source}: a position is {place[bad[0]]:g}; expected positions counted from 1, whole numbers, and nothing "
            "where a candidate was not shown"
        )
    order = np.lexsort((place, owner))  # those not shown come last
    expected = np.arange(order.size) - offsets[owner] + 1.0
    bad = np.flatnonzero(~np.isnan(place[order]) & (place[order] != expected))
    if bad.size:
        query = query_ids[int(order[bad[0]])].as_py()
        raise DataError(
            f"{source}: an impression of query {query!r} has position {place[order][bad[0]]:g} where position "
            f"{expected[bad[0]]:g} comes next; expected the positions 1, 2, 3, … of each impression, each with one item"
        )
    return np.where(np.isnan(place), 0.0, place).astype(np.int64) - 1
