"""Served lists in columns, the distinct lists of candidates among them, and which of their items were clicked.

Lists come from a served-ranking log, or from a table with one row per impression and candidate. Traffic repeats a few
lists of candidates again and again, so each of these is stored once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.clicks.click_table import Clicks
from isrr.data.identifiers import Ids
from isrr.data.log import COLUMNS, ServedLists
from isrr.data.queries import IntArray, Queries
from isrr.data.ragged import offsets_from
from isrr.errors import DataError

CANDIDATES = ["certificate", "query_id", "item_ids", "scores"]
NOT_NEEDED = ["item_ids", "scores", "groups", "production", "other_arm", "n_items"]
SCHEMA = COLUMNS.append(pa.field("user", pa.string()))
DRAWN = {"certificate": "", "status": "valid", "order": "drawn", "first_rank": 1}  # fields of a list from its top on
AT_ONCE = 1 << 14  # clicks looked for at a time


@dataclass(frozen=True, eq=False)
class Served:
    """Served lists, each once, the earliest first.

    Attributes:
        rows: One row per list, in Arrow: the fields of `isrr.data.log.LogLine` without the candidates; `list`, the
            number of its list of candidates; `alike`, whether it equals `other_arm` over all that was shown; `user`.
        lists: The distinct lists of candidates, in Arrow: `CANDIDATES`.
        left_out: How many damaged lines, and lists that were logged before, were left out.
    """

    rows: Any
    lists: Any
    left_out: Counter[str]

    @classmethod
    def of(cls, log: Iterable[ServedLists]) -> "Served":
        """Return the lists of a log, given in parts; a table of impressions may name the `user` of each list."""
        known: dict[bytes, int] = {}
        rows, lists, n_damaged = [], [COLUMNS.empty_table().select(CANDIDATES)], 0
        for part in chain([ServedLists(COLUMNS.empty_table())], log):  # one part in memory at a time
            numbers, new = _recognize(part.table, known)
            rows.append(_without_candidates(part.table, numbers))
            lists.append(part.table.select(CANDIDATES).take(pa.array(new)))
            n_damaged += part.n_damaged
        table = pa.concat_tables(rows, promote_options="default")
        table = table.sort_by([("time", "ascending"), ("list_id", "ascending")])
        first = first_of(codes(table["list_id"]))
        left_out = Counter({"damaged lines": n_damaged, "lists logged again": int((~first).sum())})
        return cls(table.filter(pa.array(first)), pa.concat_tables(lists), left_out)

    def candidates(self, which: IntArray) -> Queries:
        """Return distinct lists of candidates as queries."""
        lists = self.lists.take(pa.array(which))
        items = pc.list_flatten(lists["item_ids"]).cast(pa.large_string())
        scores = pc.list_flatten(lists["scores"]).to_numpy().astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(scores))
        if bad.size:
            raise DataError(f"a candidate has score {scores[bad[0]]}; expected a finite number")
        query_ids = Ids.of(lists["query_id"], "query_id", lists.num_rows).array
        return Queries(list_offsets(lists["item_ids"]), query_ids, scores, items=Ids.of(items, "item_ids", scores.size))


class Selection:
    """Rows that count so far, and how many were left out for which reason."""

    def __init__(self, n: int) -> None:
        self.good, self.reasons = np.ones(n, bool), Counter[str]()

    def leave_out(self, reason: str, bad: NDArray[np.bool_]) -> None:
        """Leave out those bad rows that counted so far."""
        self.reasons[reason] += int((self.good & bad).sum())
        self.good &= ~bad


def counted_clicks(
    clicks: Clicks, served: Served, impression_of: IntArray, k: int, within: float | None, most_items: float
) -> tuple[IntArray, IntArray, IntArray, Counter[str]]:
    """Return the clicks that count: on shown positions, in time, each position of an impression once, at its largest.

    Args:
        clicks: The clicks.
        served: The lists.
        impression_of: The impression of each row of `served`; −1 where it does not count.
        k: How many positions count.
        within: Seconds after a list within which clicks count; None for any time after it.
        most_items: If more items of a list were clicked, none of its clicks counts.

    Returns:
        Which clicks count, their rows of `served`, their positions from 0, and how many others there are, by reason.
    """
    if within is not None and (n_untimed := int(np.isnan(clicks.times).sum())):
        raise DataError(
            f"clicks count for {within:,g} s after their list (`within=`), and {n_untimed:,} of {len(clicks):,} have "
            "no time; expected a column 'time' without gaps"
        )
    row, position = _clicked_positions(clicks, served.rows, served.lists)
    impression, time = np.where(row >= 0, impression_of[row], -1), served.rows["time"].to_numpy()[row]
    selection = Selection(len(clicks))
    selection.leave_out("clicks on lists that do not count", impression < 0)
    item = first_of(row * len(clicks) + codes(clicks.item_ids))  # whether a list's item is clicked for the first time
    n_items = np.bincount(row[item] + 1, minlength=served.rows.num_rows + 1)[row + 1]
    selection.leave_out(f"clicks on a list with more than {most_items} items clicked", n_items > most_items)
    selection.leave_out("clicks on items not shown", position < 0)
    selection.leave_out("clicks before the list", clicks.times < time)
    selection.leave_out("late clicks", clicks.times > time + (np.inf if within is None else within))
    selection.leave_out(f"clicks below position {k}", position >= k)
    order = np.lexsort((-clicks.value, position, impression))
    order = order[selection.good[order]]
    once = first_of(impression[order] * k + position[order])
    selection.reasons |= {"repeated clicks": int((~once).sum()), "clicks of another kind": clicks.n_other}
    order = order[once]
    return order, row[order], position[order], selection.reasons


def drawn_lists(columns: Mapping[str, Any]) -> Any:
    """Return drawn lists as the table of a log, from those of its columns that are known."""
    n = len(columns["list_id"])
    known = {name: pa.array([value] * n) for name, value in DRAWN.items()} | dict(columns)
    return pa.table([known.get(name, pa.nulls(n)) for name in SCHEMA.names], SCHEMA.names).cast(SCHEMA)


def list_column(values: Any, lengths: IntArray) -> Any:
    """Return values as a column of lists of these lengths."""
    return pa.ListArray.from_arrays(pa.array(offsets_from(lengths), pa.int32()), one_array(values))


def one_array(column: Any) -> Any:
    """Return a column in one piece of Arrow."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else pa.array(column)


def codes(texts: Any) -> IntArray:
    """Return a number for each text of a column, the same for equal ones, (n,)."""
    return np.asarray(one_array(texts).dictionary_encode().indices.to_numpy())


def hashes(texts: Any) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each text of a column, (n,)."""
    return Ids(one_array(texts.cast(pa.large_string()))).hashes()


def first_of(groups: IntArray) -> NDArray[np.bool_]:
    """Return whether each row is the first of its group, (n,)."""
    first = np.zeros(groups.size, bool)
    first[np.unique(groups, return_index=True)[1]] = True
    return first


def list_offsets(column: Any) -> IntArray:
    """Return where the lists of a column begin, (n + 1,); a missing list is empty."""
    return offsets_from(pc.fill_null(pc.list_value_length(column), 0).to_numpy())


def first_positions(column: Any, k: int, absent: float = -1) -> NDArray[Any]:
    """Return a column of lists as a matrix of their first k entries, (n, k)."""
    offsets, flat = list_offsets(column), pc.list_flatten(column).to_numpy()
    inside = np.arange(k) < np.diff(offsets)[:, None]
    matrix = np.full(inside.shape, absent)
    matrix[inside] = flat[(offsets[:-1, None] + np.arange(k))[inside]]
    return matrix


def n_shown(rows: Any) -> IntArray:
    """Return how many positions of each list were shown, from the first one on."""
    return np.asarray(rows["first_rank"].to_numpy() - 1 + rows["n_shown"].to_numpy())


def _without_candidates(table: Any, numbers: IntArray) -> Any:
    """Return lists with the number of their candidates instead of the candidates."""
    shown = n_shown(table)
    width = int(shown.max(initial=0))
    here, there = (first_positions(table[name], width) for name in ("ranking", "other_arm"))
    alike = ((here == there) | (np.arange(width) >= shown[:, None])).all(axis=1)
    n_items = pc.coalesce(table["n_items"], pc.list_value_length(table["item_ids"]).cast(pa.int64()))
    rows = table.drop_columns(NOT_NEEDED).append_column("n_items", n_items)
    rows = rows.append_column("list", pa.array(numbers)).append_column("alike", pa.array(alike))
    return rows if "user" in rows.column_names else rows.append_column("user", pa.nulls(rows.num_rows, pa.string()))


def _recognize(table: Any, known: dict[bytes, int]) -> tuple[IntArray, IntArray]:
    """Return the number of each row's list of candidates among those known, and the rows whose lists are new."""
    items = pc.binary_join(table["item_ids"], "\x1f")
    names = pc.binary_join_element_wise(table["certificate"], table["query_id"], items, "\x1e").to_pylist()
    offsets = list_offsets(table["scores"]).tolist()
    scores = pc.list_flatten(table["scores"]).to_numpy().astype("<f8")
    numbers, new = np.empty(len(names), np.int64), []
    for row, name in enumerate(names):
        digest = blake2b(name.encode() + scores[offsets[row] : offsets[row + 1]].tobytes(), digest_size=16).digest()
        if digest not in known:
            known[digest] = len(known)
            new.append(row)
        numbers[row] = known[digest]
    return numbers, np.array(new, np.int64)


def _clicked_positions(clicks: Clicks, rows: Any, lists: Any) -> tuple[IntArray, IntArray]:
    """Return the row and the position from 0 of each click, −1 where it is on no row's list or on an item not shown."""
    row = pc.fill_null(pc.index_in(clicks.list_ids, one_array(rows["list_id"].cast(pa.large_string()))), -1).to_numpy()
    items = one_array(pc.list_flatten(lists["item_ids"]).cast(pa.large_string())).dictionary_encode()
    of_candidate, dictionary = items.indices.to_numpy(), items.dictionary
    of_click = pc.fill_null(pc.index_in(clicks.item_ids, dictionary), -1).to_numpy()
    candidates = list_offsets(lists["item_ids"])[rows["list"].to_numpy()]
    ranking, starts = pc.list_flatten(rows["ranking"]).to_numpy(), list_offsets(rows["ranking"])
    shown, position = n_shown(rows), np.full(len(clicks), -1)
    for start in range(0, len(clicks), AT_ONCE):
        some = start + np.flatnonzero(row[start : start + AT_ONCE] >= 0)
        lengths = shown[row[some]]
        which = np.repeat(np.arange(some.size), lengths)
        at, j = row[some][which], np.arange(which.size) - offsets_from(lengths)[which]
        hit = of_candidate[candidates[at] + ranking[starts[at] + j]] == of_click[some][which]
        position[some[which[hit]]] = j[hit]
    return row.astype(np.int64), position
