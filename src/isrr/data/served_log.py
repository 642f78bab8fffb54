"""Reading the served-ranking log that `isrr serve --log` writes: every list with all its candidates and their scores.

A log is JSON lines, one per list (docs/serving.md has the fields), in a folder of files, which may be compressed with
gzip; `ServedLists.table` saved as Parquet is read as well. Lines that cannot be read are skipped and counted, wherever
they stand: a log is written under power cuts, full disks and other people's rotation, and one bad line must not hide a
million good ones. An unfinished last line is no damage: it belongs to an answer that was never sent.
"""

import gzip
import os
from binascii import a2b_base64
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet
from numpy.typing import NDArray

from isrr.data._text_kernels import find_fatal
from isrr.data.identifiers import Ids
from isrr.data.numbers import LARGEST
from isrr.data.ordering import repeats
from isrr.data.text import DEEPEST
from isrr.errors import DataError

CHUNK = 16 << 20  # bytes read at a time
NEEDED = {
    "list_id": pa.string(),
    "time": pa.float64(),
    "certificate": pa.string(),
    "status": pa.string(),
    "order": pa.string(),
    "query_id": pa.string(),
    "first_rank": pa.int64(),
    "n_shown": pa.int64(),
    "item_ids": pa.list_(pa.string()),
    "scores": pa.string(),
    "ranking": pa.list_(pa.int64()),
    "propensities": pa.list_(pa.float64()),
    "deterministic": pa.list_(pa.int64()),
}
OPTIONAL = {
    "session": pa.string(),
    "groups": pa.list_(pa.list_(pa.string())),
    "production": pa.list_(pa.int64()),
    "arm": pa.string(),
    "other_arm": pa.list_(pa.int64()),
    "n_items": pa.int64(),
    "hottest": pa.float64(),
}
LISTS = ("item_ids", "scores", "ranking", "propensities", "deterministic", "other_arm", "production", "groups")
LATEST = 7_258_118_400.0  # the year 2200, in seconds since 1970
COLDEST = 1e-50  # temperature
WRITTEN = pa.schema({**NEEDED, **OPTIONAL})
COLUMNS = pa.schema({**NEEDED, **OPTIONAL, "scores": pa.list_(pa.float64())})


@dataclass(frozen=True, eq=False)
class ServedLists:
    """Served lists, in columns.

    Candidates of all lists stand one after the other: those of list i at `offsets[i]:offsets[i + 1]`. Shown places
    likewise, at `places[i]:places[i + 1]`; they begin with the first place of the list, whatever page was asked for.

    Attributes:
        table: One row per list: list_id, time (seconds since 1970), certificate, status, order, query_id, session, arm,
            first_rank and n_shown (the page that was asked for), hottest (the hottest temperature for which the
            candidates are complete; null where all were logged), and the lists below.
        n_damaged: Lines that could not be read.
    """

    table: pa.Table
    n_damaged: int = 0

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the candidates of each list begin, (n_lists + 1,)."""
        return self._offsets("item_ids")

    @cached_property
    def item_ids(self) -> pa.ChunkedArray:
        """The candidates' ids, as text, (n_candidates,)."""
        return pc.list_flatten(self.table["item_ids"])

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """The candidates' scores as the model gave them, (n_candidates,)."""
        return np.asarray(self._flat("scores"), np.float64)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where the places of each list begin, (n_lists + 1,)."""
        return self._offsets("ranking")

    @cached_property
    def ranking(self) -> NDArray[np.int64]:
        """The candidate at each place, as its position within the list's candidates, (n_places,)."""
        return np.asarray(self._flat("ranking"), np.int64)

    @cached_property
    def propensities(self) -> NDArray[np.float64]:
        """The chance of that candidate at that place, given those above it, (n_places,)."""
        return np.asarray(self._flat("propensities"), np.float64)

    def lines(self) -> Iterator[dict[str, Any]]:
        """One list at a time, with ids in place of positions.

        `items` and `propensities` are of the places that were asked for; `top` and `deterministic` hold the promise's
        own k places, as drawn and by score.
        """
        for batch in self.table.to_batches(max_chunksize=1_000):
            for line in batch.to_pylist():
                ids, first = line.pop("item_ids"), line["first_rank"] - 1
                ranking, shown = line.pop("ranking"), slice(first, first + line["n_shown"])
                line["items"] = [ids[i] for i in ranking[shown]]
                line["top"] = [ids[i] for i in ranking[: len(line["deterministic"])]]
                line["deterministic"] = [ids[i] for i in line["deterministic"]]
                line["propensities"] = line["propensities"][shown]
                yield line

    def _offsets(self, name: str) -> NDArray[np.int64]:
        lengths = pc.list_value_length(self.table[name]).to_numpy()
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def _flat(self, name: str) -> Any:
        return pc.list_flatten(self.table[name]).to_numpy()


def read_log(source: str | os.PathLike[str]) -> ServedLists:
    """A whole log, a folder or a file, oldest file first."""
    parts = list(log_parts(source))
    table = pa.concat_tables([COLUMNS.empty_table(), *(part.table for part in parts)])
    return ServedLists(table, sum(part.n_damaged for part in parts))


def log_parts(source: str | os.PathLike[str]) -> Iterator[ServedLists]:
    """The same in parts that fit into memory."""
    n_lists, earlier = 0, None
    for file in _files(Path(source)):
        try:
            if file.suffix == ".parquet":
                for batch in pa.parquet.ParquetFile(file).iter_batches(columns=COLUMNS.names):
                    yield _checked(pa.Table.from_batches([batch]).cast(COLUMNS), 0)
                n_lists += 1
                continue
            for lines in _chunks(file):
                if any(b'"top":' in line and b'"list_id"' not in line for line in lines[:1]):
                    earlier = earlier or file
                part = _checked(*_with_scores(*_parsed(lines)))
                n_lists += len(part)
                yield part
        except DataError:
            raise
        except (pa.ArrowException, KeyError, ValueError, EOFError, gzip.BadGzipFile) as error:
            raise DataError(f"{file}: not a served-ranking log: {str(error).partition(chr(10))[0]}") from None
    if earlier is not None and not n_lists:
        raise DataError(
            f"{earlier}: this log was written by an earlier version and has the scores of shown items only; "
            "expected all candidates with their scores, which are needed to evaluate other rankers"
        )


def _files(source: Path) -> list[Path]:
    """The files of a log: a folder's, by time, or the one that is named. One being compressed counts once."""
    files = [source]
    if source.is_dir():
        packed = {file.with_suffix("") for file in source.glob("served-*.jsonl.gz")}
        files = sorted(packed.union(source.glob("served-*.jsonl")))
    if not files or not all(_there(file).is_file() for file in files):
        raise DataError(f"{source}: no served-ranking log found; `isrr serve --log FOLDER` writes one")
    return files


def _there(file: Path) -> Path:
    """The file under the name that it has now."""
    packed = file.with_name(f"{file.name}.gz")
    return packed if packed.is_file() else file


def _chunks(file: Path) -> Iterator[list[bytes]]:
    """Whole lines, some megabytes at a time; an unfinished last one is left out."""
    file = _there(file)
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        while lines := stream.readlines(CHUNK):
            if not lines[-1].endswith(b"\n"):
                del lines[-1]
            yield [line for line in lines if line != b"\n"]


def _parsed(lines: list[bytes]) -> tuple[pa.Table, int]:
    """The lines as a table with the columns of WRITTEN, and how many could not be read.

    A block with a line that cannot be read is halved until that line is alone.
    """
    if not lines:
        return WRITTEN.empty_table(), 0
    text = b"".join(lines)
    try:
        if find_fatal(np.frombuffer(text, np.uint8), DEEPEST, True) >= 0:
            raise pa.ArrowInvalid("a line that the parser would not survive")
        reading = pa.json.ReadOptions(block_size=len(text) + 1, use_threads=False)
        parsing = pa.json.ParseOptions(explicit_schema=WRITTEN, unexpected_field_behavior="ignore")
        table = pa.json.read_json(pa.BufferReader(text), reading, parsing).select(WRITTEN.names)
        table.validate(full=True)
        if table.num_rows != len(lines):
            raise pa.ArrowInvalid("not one object per line")
        return table, 0
    except (pa.ArrowException, OverflowError):  # the latter beyond two gigabytes
        if len(lines) == 1:
            whole = lines[0].lstrip(b"\0")  # what a cut file was filled up with
            return _parsed([whole]) if len(whole) < len(lines[0]) and whole.strip() else (WRITTEN.empty_table(), 1)
    halves = [_parsed(half) for half in (lines[: len(lines) // 2], lines[len(lines) // 2 :])]
    return pa.concat_tables([table for table, _ in halves]), sum(n_damaged for _, n_damaged in halves)


def _with_scores(table: pa.Table, n_damaged: int) -> tuple[pa.Table, int]:
    """The table with its scores as numbers; a row whose scores cannot be read has none."""
    found = [_floats(text) for text in table["scores"].to_pylist()]
    offsets = np.cumsum([0, *(len(scores or b"") // 8 for scores in found)])
    values = pa.array(np.frombuffer(b"".join(scores or b"" for scores in found), "<f8").astype(np.float64))
    absent = pa.array([scores is None for scores in found], pa.bool_())
    scores = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=absent)
    return table.set_column(table.column_names.index("scores"), "scores", scores).select(COLUMNS.names), n_damaged


def _floats(text: str | None) -> bytes | None:
    try:
        found = a2b_base64(text or "x", strict_mode=True)
    except ValueError:
        return b"" if text == "" else None
    return found if len(found) % 8 == 0 else None


def _checked(table: pa.Table, n_damaged: int) -> ServedLists:
    """The consistent rows: no field is missing, lengths and positions fit, and no value is beyond its readers."""
    good = np.ones(table.num_rows, bool)
    for name in NEEDED:
        good &= table[name].is_valid().to_numpy()
    length = {name: pc.fill_null(pc.list_value_length(table[name]), 0).to_numpy() for name in LISTS}
    row = {name: np.repeat(np.arange(table.num_rows), lengths) for name, lengths in length.items()}
    n_items = length["item_ids"]
    good &= (n_items == length["scores"]) & (length["ranking"] == length["propensities"])
    good &= (n_items == length["groups"]) | table["groups"].is_null().to_numpy()
    first, n_shown = (pc.fill_null(table[name], 0).to_numpy() for name in ("first_rank", "n_shown"))
    good &= (first >= 1) & (n_shown >= 0) & (first - 1 <= length["ranking"] - n_shown)
    limit = np.where(pc.fill_null(pc.equal(table["status"], "valid"), False).to_numpy(), LARGEST, np.inf)
    for name, low, high in (
        ("ranking", 0, n_items - 1), ("deterministic", 0, n_items - 1), ("other_arm", 0, n_items - 1),
        ("production", 0, n_items - 1), ("scores", -limit, limit), ("propensities", 0.0, 1.0),
    ):  # fmt: skip
        values = pc.list_flatten(table[name]).to_numpy(zero_copy_only=False).astype(np.float64)
        low, high = (np.broadcast_to(bound, n_items.shape)[row[name]] for bound in (low, high))
        inside = np.isfinite(values) & (values >= low) & (values <= high)
        good[row[name][~inside]] = False
        if name in ("ranking", "deterministic", "other_arm", "production"):
            good[_repeated(length[name], Ids(np.nan_to_num(values).astype(np.int64)))] = False
    for name, least, most in (("time", 0.0, LATEST), ("n_items", n_items, np.inf), ("hottest", COLDEST, np.inf)):
        values = table[name].to_numpy().astype(np.float64)  # NaN where there is none
        good &= table[name].is_null().to_numpy() | ((values >= least) & (values <= most))
    good &= pc.fill_null(pc.match_substring_regex(table["arm"], "^(treatment|control) [0-9]{1,9}$"), True).to_numpy()
    for name in ("list_id", "query_id", "session"):
        good &= table[name].is_null().to_numpy() | ~_unusable(table[name])
    items, groups = (pc.list_flatten(table[name]).combine_chunks() for name in ("item_ids", "groups"))
    good[row["item_ids"][_unusable(items)]] = False
    good[_repeated(n_items, Ids(items.cast(pa.large_string())))] = False
    good[row["groups"][groups.is_null().to_numpy(zero_copy_only=False)]] = False
    group_of = pc.list_parent_indices(groups).to_numpy()
    good[row["groups"][group_of[_unusable(pc.list_flatten(groups))]]] = False
    n_bad = int(table.num_rows - good.sum())
    return ServedLists(table.filter(pa.array(good)) if n_bad else table, n_damaged + n_bad)


def _unusable(texts: Any) -> NDArray[np.bool_]:
    """Which ids are missing, or are ones that `Ids` refuses."""
    return np.asarray(pc.fill_null(pc.ends_with(texts, "\0"), True).to_numpy(zero_copy_only=False))


def _repeated(lengths: NDArray[np.int64], values: Ids) -> NDArray[np.int64]:
    """The lists that hold a value twice."""
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return np.searchsorted(offsets, repeats(offsets, values), side="right") - 1
