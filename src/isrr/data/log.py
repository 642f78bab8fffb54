"""The served-ranking log that `isrr serve --log` writes: one JSON line per list, with all candidates and their scores.

A log is a folder of files, which may be compressed with gzip; `ServedLists.table` saved as Parquet is read as well.
`LogLine` is a line, for the service that writes it and for the reader (docs/serving.md describes the fields). Lines
that cannot be read are skipped and counted, wherever they are: a log is written under power cuts, full disks and other
people's rotation, and one bad line must not hide a million good ones. An unfinished last line is no damage: it belongs
to an answer that was never sent.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isrr.errors import DataError

CHUNK = 16 << 20  # bytes read at a time
BLANK = b"\n", b"\r\n"
LATEST = 7_258_118_400.0  # the year 2200, in seconds since 1970
COLDEST = 1e-50  # temperature
LARGEST = 1e50  # score of a list that the certificate covers
_ARM = re.compile("(treatment|control) [0-9]{1,9}")


class LogLine(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One served list.

    Positions (`ranking`, `deterministic`, `other_arm`, `production`) count from 0 within the candidates.

    Attributes:
        list_id: The list, which clicks refer to.
        time: When it was served, in seconds since 1970.
        certificate: The id of the certificate.
        status: Whether the promise covered the list: "valid", "revoked", "expired" or "uncovered".
        order: How the list was made: "drawn" or "deterministic".
        query_id: The query.
        first_rank: The first position that was asked for, counted from 1.
        n_shown: How many positions were asked for.
        item_ids: The candidates.
        scores: Their scores as the model gave them: little-endian float64, in base64.
        ranking: The candidate at each position of the list, from the first on.
        propensities: The chance of that candidate at that position, given those above it.
        deterministic: The promise's own k positions in the order by score.
        session: The session, if there was one.
        groups: The groups of each candidate.
        production: The order of another ranking.
        arm: The arm of a rollout, such as "treatment 2".
        other_arm: The list of the other arm.
        n_items: How many candidates there were, where only some of them are logged.
        hottest: The hottest temperature for which the logged candidates are complete.
    """

    list_id: str
    time: float
    certificate: str
    status: str
    order: str
    query_id: str
    first_rank: int
    n_shown: int
    item_ids: list[str]
    scores: bytes
    ranking: list[int]
    propensities: list[float]
    deterministic: list[int]
    session: str | None = None
    groups: list[list[str]] | None = None
    production: list[int] | None = None
    arm: str | None = None
    other_arm: list[int] | None = None
    n_items: int | None = None
    hottest: float | None = None

    def problem(self) -> str | None:
        """Return what no service would write, or None where lengths, positions and values fit together."""
        n, n_positions = len(self.item_ids), len(self.ranking)
        scores = np.frombuffer(self.scores[: len(self.scores) // 8 * 8], "<f8")
        if len(self.scores) != 8 * n or len(self.propensities) != n_positions:
            return "lengths differ"
        if not all(
            positions is None or (len(set(positions)) == len(positions) and all(0 <= i < n for i in positions))
            for positions in (self.ranking, self.deterministic, self.other_arm, self.production)
        ):
            return "a position is repeated or outside the candidates"
        if not (1 <= self.first_rank <= n_positions - self.n_shown + 1 and 0 <= self.n_shown <= n_positions):
            return "the page is outside the list"
        if not (np.abs(scores) <= (LARGEST if self.status == "valid" else np.finfo(float).max)).all():
            return "a score is not finite, or too large"
        if not all(0 <= chance <= 1 for chance in self.propensities):
            return "a propensity is outside [0, 1]"
        if self.groups is not None and len(self.groups) != n:
            return "groups are missing"
        names = [self.list_id, self.query_id, self.session or "", *self.item_ids]
        if "\0" in "".join(names + [group for groups in self.groups or () for group in groups]):
            return "an id has a NUL character"
        if len(set(self.item_ids)) < n:
            return "an item is repeated"
        if not 0 <= self.time <= LATEST or (self.arm is not None and not _ARM.fullmatch(self.arm)):
            return "the time or the arm is none"
        if not n <= (n if self.n_items is None else self.n_items) < 2**53:
            return "there are fewer candidates than are logged"
        return None if self.hottest is None or self.hottest >= COLDEST else "the temperature is none"


_DECODER = msgspec.json.Decoder(LogLine)


def _arrow_type(kind: Any) -> Any:
    """Return the Arrow type of a field; scores are numbers in a table."""
    if isinstance(kind, UnionType):  # with None
        return _arrow_type(get_args(kind)[0])
    if get_origin(kind) is list:
        return pa.list_(_arrow_type(get_args(kind)[0]))
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bytes: pa.list_(pa.float64())}[kind]


COLUMNS = pa.schema({name: _arrow_type(kind) for name, kind in LogLine.__annotations__.items()})


@dataclass(frozen=True, eq=False)
class ServedLists:
    """Served lists.

    Attributes:
        table: An Arrow table, one row per list, with the fields of `LogLine`; scores are lists of numbers.
        n_damaged: Lines that could not be read.
    """

    table: pa.Table
    n_damaged: int = 0

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield one list at a time, with ids in place of positions.

        `items` and `propensities` are of the positions that were asked for; `top`, `deterministic` and `production`
        hold the promise's own k, as drawn, by score and as in production (None if the request did not say).
        """
        for batch in self.table.to_batches(max_chunksize=1_000):
            for line in batch.to_pylist():
                ids, first = line.pop("item_ids"), line["first_rank"] - 1
                ranking, shown = line.pop("ranking"), slice(first, first + line["n_shown"])
                line["items"] = [ids[i] for i in ranking[shown]]
                line["top"] = [ids[i] for i in ranking[: len(line["deterministic"])]]
                if line["production"] is not None:
                    line["production"] = [ids[i] for i in line["production"][: len(line["deterministic"])]]
                line["deterministic"] = [ids[i] for i in line["deterministic"]]
                line["propensities"] = line["propensities"][shown]
                yield line


def read_log(source: str | os.PathLike[str]) -> ServedLists:
    """Read a whole log, a folder or a file, oldest file first."""
    parts = list(log_parts(source))
    table = pa.concat_tables([COLUMNS.empty_table(), *(part.table for part in parts)])
    return ServedLists(table, sum(part.n_damaged for part in parts))


def log_parts(source: str | os.PathLike[str]) -> Iterator[ServedLists]:
    """Read a log in parts that fit into memory."""
    n_lists, earlier = 0, None
    for file in _files(Path(source)):
        try:
            for lines in _from_parquet(file) if file.suffix == ".parquet" else _chunks(file):
                if isinstance(lines[0], bytes) and b'"top":' in lines[0] and b'"list_id"' not in lines[0]:
                    earlier = earlier or file
                read = [line for raw in lines if (line := _line_of(raw)) is not None]
                n_lists += len(read)
                yield ServedLists(_table(read), len(lines) - len(read))
        except PermissionError:
            raise
        except (pa.ArrowException, KeyError, ValueError, EOFError, OSError, zlib.error) as error:
            raise DataError(f"{file}: not a served-ranking log: {str(error).partition(chr(10))[0]}") from None
    if earlier is not None and not n_lists:
        raise DataError(
            f"{earlier}: this log was written by an earlier version and has the scores of shown items only; "
            "expected all candidates with their scores, which are needed to evaluate other rankers"
        )


def _files(source: Path) -> list[Path]:
    """Return the files of a log: a folder's, by time, or the one that is named. One being compressed counts once."""
    files = [source]
    if source.is_dir():
        packed = {file.with_suffix("") for file in source.glob("served-*.jsonl.gz")}
        files = sorted(packed.union(source.glob("served-*.jsonl")))
    if not files or not all(_present(file).is_file() for file in files):
        raise DataError(f"{source}: no served-ranking log found; `isrr serve --log FOLDER` writes one")
    return files


def _present(file: Path) -> Path:
    """Return the name that a file has now: it may have been compressed since the folder was listed."""
    packed = file.with_name(f"{file.name}.gz")
    return packed if packed.is_file() else file


def _chunks(file: Path) -> Iterator[list[bytes]]:
    """Yield whole lines, some megabytes at a time, without blank lines and an unfinished last one."""
    file = _present(file)
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        while lines := stream.readlines(CHUNK):
            if not lines[-1].endswith(b"\n"):
                del lines[-1]
            if whole := [line for line in lines if line not in BLANK]:
                yield whole


def _from_parquet(file: Path) -> Iterator[list[dict[str, Any]]]:
    for batch in pq.ParquetFile(file).iter_batches(1 << 12, columns=COLUMNS.names):
        rows = pa.Table.from_batches([batch]).cast(COLUMNS).to_pylist()
        for row in rows:
            row["scores"] = np.array(row["scores"], "<f8").tobytes()
        yield rows


def _line_of(raw: bytes | dict[str, Any]) -> LogLine | None:
    """Return a line of JSON, or a row of a table, as a list; None where it is damaged."""
    try:
        if isinstance(raw, bytes):
            line = _DECODER.decode(raw.lstrip(b"\0"))  # what a cut file was filled up with
        else:
            line = msgspec.convert(raw, LogLine)
    except (ValueError, RecursionError):
        return None
    return line if line.problem() is None else None


def _table(lines: Sequence[LogLine]) -> pa.Table:
    columns = {name: [getattr(line, name) for line in lines] for name in COLUMNS.names}
    return pa.table(columns | {"scores": [np.frombuffer(line.scores, "<f8") for line in lines]}, COLUMNS)
