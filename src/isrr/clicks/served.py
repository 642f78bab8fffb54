"""Served lists in columns, the distinct lists of candidates among them, and which of their items were clicked.

Lists come from a served-ranking log, or from a table with one row per impression and candidate. Traffic repeats a few
lists of candidates again and again, so each of these is stored once.
"""

import os
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.clicks.click_table import Clicks
from isrr.data.identifiers import Ids
from isrr.data.log import COLUMNS, log_parts
from isrr.data.queries import IntArray, Queries
from isrr.data.ragged import offsets_from
from isrr.errors import DataError

CANDIDATES = ["certificate", "query_id", "item_ids", "scores"]
AT_ONCE = 1 << 14  # clicks looked for at a time


@dataclass(frozen=True, eq=False)
class Served:
    """Served lists, each once, the earliest first.

    Attributes:
        rows: One row per list, in Arrow: the fields of `isrr.data.log.LogLine` without the candidates; `list`, the
            number of its list of candidates; `alike`, whether it equals `other_arm` over all that was shown; `user`.
        lists: The distinct lists of candidates, in Arrow: `CANDIDATES`.
        n_again: Rows left out because their list was logged before.
        n_damaged: Lines of the log that could not be read.
    """

    rows: Any
    lists: Any
    n_again: int = 0
    n_damaged: int = 0

    @classmethod
    def of(cls, rows: Any, lists: Any, n_damaged: int = 0) -> "Served":
        """Sort rows by time and leave out lists that were logged before."""
        rows = rows.sort_by([("time", "ascending"), ("list_id", "ascending")])
        first = first_of(codes(rows["list_id"]))
        return cls(rows.filter(pa.array(first)), lists, rows.num_rows - int(first.sum()), n_damaged)

    def candidates(self, which: IntArray) -> Queries:
        """Return distinct lists of candidates as queries."""
        lists = self.lists.take(pa.array(which))
        items = pc.list_flatten(lists["item_ids"]).cast(pa.large_string())
        scores = pc.list_flatten(lists["scores"]).to_numpy().astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(scores))
        if bad.size:
            raise DataError(f"a candidate has score {scores[bad[0]]}; expected a finite number")
        offsets = offsets_from(pc.list_value_length(lists["item_ids"]).to_numpy())
        query_ids = Ids.of(lists["query_id"], "query_id", lists.num_rows).array
        return Queries(offsets, query_ids, scores, items=Ids.of(items, "item_ids", scores.size))


def one_array(column: Any) -> Any:
    """Return a column of Arrow in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def cells(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return the list and the place of each entry of lists of these lengths."""
    row = np.repeat(np.arange(lengths.size), lengths)
    return row, np.arange(row.size) - (np.cumsum(lengths) - lengths)[row]


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


def first_places(column: Any, k: int, absent: float = -1) -> NDArray[Any]:
    """Return a column of lists as a matrix of their first k entries."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    flat = pc.list_flatten(column).to_numpy()
    row, place = cells(lengths)
    matrix = np.full((lengths.size, k), absent)
    near = place < k
    matrix[row[near], place[near]] = flat[near]
    return matrix


def n_shown(rows: Any) -> IntArray:
    """Return how many places of each list were shown, from the first one on."""
    return np.asarray(rows["first_rank"].to_numpy() - 1 + rows["n_shown"].to_numpy())


def read_served(log: str | os.PathLike[str]) -> Served:
    """Read the log that `isrr serve --log` wrote, a folder or a file."""
    known: dict[bytes, int] = {}
    empty, n_damaged = COLUMNS.empty_table(), 0
    rows, lists = [_without_candidates(empty, np.empty(0, np.int64))], [empty.select(CANDIDATES)]
    for part in log_parts(log):
        n_damaged += part.n_damaged
        number, new = recognize(part.table, known)
        rows.append(_without_candidates(part.table, number))
        lists.append(part.table.select(CANDIDATES).take(pa.array(new)))
    return Served.of(
        pa.concat_tables(rows), pa.concat_tables([COLUMNS.empty_table().select(CANDIDATES), *lists]), n_damaged
    )


def _without_candidates(table: Any, number: IntArray) -> Any:
    shown = n_shown(table)
    width = int(shown.max(initial=0))
    here, there = (first_places(table[name], width) for name in ("ranking", "other_arm"))
    alike = ((here == there) | (np.arange(width) >= shown[:, None])).all(axis=1)
    n_items = pc.coalesce(table["n_items"], pc.list_value_length(table["item_ids"]).cast(pa.int64()))
    rows = table.drop_columns(["item_ids", "scores", "groups", "production", "other_arm", "n_items"])
    rows = rows.append_column("n_items", n_items)
    rows = rows.append_column("list", pa.array(number)).append_column("alike", pa.array(alike))
    return rows.append_column("user", pa.nulls(rows.num_rows, pa.string()))


def recognize(table: Any, known: dict[bytes, int]) -> tuple[IntArray, IntArray]:
    """Return the number of each row's list of candidates among those known, and the rows whose lists are new."""
    items = pc.binary_join(table["item_ids"], "\x1f")
    names = pc.binary_join_element_wise(table["certificate"], table["query_id"], items, "\x1e").to_pylist()
    offsets = offsets_from(pc.list_value_length(table["scores"]).to_numpy()).tolist()
    scores = pc.list_flatten(table["scores"]).to_numpy().astype("<f8")
    numbers, new = np.empty(len(names), np.int64), []
    for row, name in enumerate(names):
        digest = blake2b(name.encode() + scores[offsets[row] : offsets[row + 1]].tobytes(), digest_size=16).digest()
        if digest not in known:
            known[digest] = len(known)
            new.append(row)
        numbers[row] = known[digest]
    return numbers, np.array(new, np.int64)


def clicked_places(clicks: Clicks, rows: Any, lists: Any) -> tuple[IntArray, IntArray]:
    """Return the row and the place from 0 of each click, −1 where it is on no row's list or on an item not shown."""
    row = pc.fill_null(pc.index_in(clicks.list_ids, one_array(rows["list_id"].cast(pa.large_string()))), -1).to_numpy()
    items = one_array(pc.list_flatten(lists["item_ids"]).cast(pa.large_string())).dictionary_encode()
    of_candidate, dictionary = items.indices.to_numpy(), items.dictionary
    of_click = pc.fill_null(pc.index_in(clicks.item_ids, dictionary), -1).to_numpy()
    candidates = offsets_from(pc.list_value_length(lists["item_ids"]).to_numpy())[rows["list"].to_numpy()]
    ranking, places = (
        pc.list_flatten(rows["ranking"]).to_numpy(),
        offsets_from(pc.list_value_length(rows["ranking"]).to_numpy()),
    )
    shown, place = n_shown(rows), np.full(len(clicks), -1)
    for start in range(0, len(clicks), AT_ONCE):
        some = start + np.flatnonzero(row[start : start + AT_ONCE] >= 0)
        which, j = cells(shown[row[some]])
        at = row[some][which]
        hit = of_candidate[candidates[at] + ranking[places[at] + j]] == of_click[some][which]
        place[some[which[hit]]] = j[hit]
    return row.astype(np.int64), place
