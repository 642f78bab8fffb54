"""Files of tables: what kind a file is, which columns it has, and those columns as an Arrow table.

The format is inferred from the file name, otherwise from the first bytes. Columns of ids are read from CSV as text,
so that 007 stays 007, and become integers only where every one is written as an integer would be. What a file claims of
itself (lengths, offsets, codes, that text is text) is held against what it holds before anything is read by it.
"""

import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as pq

from isrr.data.identifiers import integers_in
from isrr.data.text import bytes_of, refuse_fatal
from isrr.errors import DataError
from isrr.files import replacing

KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".letor": "letor", ".svm": "letor", ".svmlight": "letor", ".libsvm": "letor",
}  # fmt: skip
_IN_WORDS = {str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}
VALUES = b"isrr.values"  # schema metadata: names of further columns of numbers
HEADER = 1 << 24  # bytes within which the names of CSV columns stand
MOST_SAID = 300  # letters of what Arrow says of a damaged file
_DAMAGED = (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error, KeyError, MemoryError, OverflowError)
_LETOR_LINE = re.compile(rb"[-+.\deE]+[ \t]+(qid:|\d+:)")
What = Literal["run", "qrels"]  # of TREC text
NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_TREC_LINES: dict[What, re.Pattern[bytes]] = {
    "run": re.compile(rb"\S+[ \t]+\S+[ \t]+\S+[ \t]+\d+[ \t]+" + NUMBER + rb"[ \t]+\S+[ \t]*\r?"),
    "qrels": re.compile(rb"\S+[ \t]+(\d+|Q0)[ \t]+\S+[ \t]+" + NUMBER + rb"[ \t]*\r?"),
}


@dataclass(frozen=True)
class Table:
    """A table that is read when asked.

    Attributes:
        name: What errors call it.
        columns: The columns it has.
        read: Arrow table of the columns named first; those named second hold ids.
        values: The further columns of numbers that the queries it was written from had.
    """

    name: str
    columns: list[str]
    read: Callable[[list[str], list[str]], Any]
    values: tuple[str, ...] = ()


def kind_of(path: Path) -> str:
    """One of "parquet", "arrow", "csv", "jsonl" and "letor"."""
    if path.is_dir():
        raise DataError(f"{path}: expected a file, found a folder; give its files: '{path}/*.parquet'")
    if not path.exists():
        pattern = "; patterns are not supported here, expected one file" if set("*?[") & set(path.name) else ""
        raise DataError(f"{path}: no such file{pattern}")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    return kind_by_name(path) or _sniffed(path)


def kind_by_name(path: str | os.PathLike[str]) -> str | None:
    """What kind a file is by its suffix, before .gz; None where that says nothing.

    Example:
        >>> kind_by_name("judged.csv.gz")
        'csv'
    """
    return KINDS.get(PurePath(os.fspath(path).lower().removesuffix(".gz")).suffix)


def _sniffed(path: Path) -> str:
    with reading(str(path)), _opened(path) as file:
        head = file.read(1 << 16)
    for magic, kind in ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"{", "jsonl")):
        if head.lstrip().startswith(magic):
            return kind
    lines = [line.strip() for line in head.split(b"\n")]
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if _LETOR_LINE.match(first):
        return "letor"
    if (shape := shape_of(first)) is not None:
        here, other = ("a TREC run", "its judgments") if shape == "run" else ("TREC qrels", "the run they judge")
        call = f"`run=` {path} `qrels=` …" if shape == "run" else f"`run=` … `qrels=` {path}"
        raise DataError(f"{path}: this looks like {here}; give {other} too: {call}")
    if b"," in first or b"\t" in first:
        return "csv"
    suffixes = ", ".join(KINDS)
    raise DataError(
        f"{path}: neither Parquet, Arrow, CSV, JSONL nor LETOR text; expected one of these suffixes ({suffixes})"
    )


def shape_of(line: bytes) -> What | None:
    """Whether a line looks like one of a TREC run or of qrels.

    Example:
        >>> shape_of(b"q1 Q0 doc7 1 12.5 bm25"), shape_of(b"q1 0 doc7 2"), shape_of(b"query,docid")
        ('run', 'qrels', None)
    """
    return next((what for what, pattern in _TREC_LINES.items() if pattern.fullmatch(line)), None)


def open_table(path: Path, kind: str) -> Table:
    """The table in a Parquet, Arrow, CSV or JSONL file."""
    opener = {"parquet": _parquet, "arrow": _arrow, "csv": _csv, "jsonl": _jsonl}[kind]
    with reading(str(path)):
        return opener(path)


def from_frame(source: Any) -> Table:
    """The table in a pandas, polars or pyarrow frame."""
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(source)
        names = frame.collect_schema().names()
    except DuplicateError as error:
        raise DataError(f"table: a column appears twice: {' '.join(str(error).split())}") from None
    except TypeError:
        kind = type(source).__name__
        raise DataError(f"a {kind} is neither a path nor a pandas, polars or pyarrow table") from None
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise DataError(f"table: a column is named {odd!r}; names of columns must be text")

    def read(columns: list[str], _: list[str]) -> Any:
        chosen = frame.select(columns)
        try:
            return in_plain_text((chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen).to_arrow())
        except (pa.ArrowException, OverflowError) as error:
            raise DataError(f"table: a column mixes kinds of values: {error}") from None

    return Table("table", names, read)


def written_names(schema: Any, kind: bytes, source: str) -> tuple[str, ...]:
    """Names that queries left in a schema's metadata."""
    try:
        names = json.loads((schema.metadata or {}).get(kind, b"[]"))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{source}: the metadata {kind.decode()!r} are damaged; expected a list of names")
    return tuple(names)


def valid(rows: Any) -> Any:
    """An Arrow table or record batch whose every offset, code and text has been checked."""
    rows.validate(full=True)
    return rows


def in_plain_text(table: Any) -> Any:
    """An Arrow table whose text is no `string_view`, for which Arrow lacks half of its functions."""
    for place, column in enumerate(table.schema):
        if pa.types.is_string_view(column.type):
            table = table.set_column(place, column.name, table.column(place).cast(pa.large_string()))
    return table


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what goes wrong inside a file into one error that names the file."""
    try:
        yield
    except DataError:
        raise
    except (*_DAMAGED, pa.ArrowException) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{name}: cannot be read: {said[:MOST_SAID]}") from None


def write_table(table: Any, path: Path, kind: str) -> None:
    """Write an Arrow table of some kind, Arrow as one record batch; the file appears whole or not at all."""
    with replacing(path) as partial:
        if kind == "parquet":
            pq.write_table(table, partial)
        elif kind == "csv":
            arrow_csv.write_csv(table, partial)
        elif kind == "jsonl":
            with partial.open("w", encoding="utf-8") as lines:
                for batch in table.to_batches(1 << 16):
                    lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())
        else:
            with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks())


def _opened(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _parquet(path: Path) -> Table:
    file = pq.ParquetFile(path, memory_map=True)
    values = written_names(file.schema_arrow, VALUES, str(path))
    return Table(
        str(path), file.schema_arrow.names, lambda columns, _: in_plain_text(valid(file.read(columns))), values
    )


def _arrow(path: Path) -> Table:
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    table = pa.Table.from_batches((file.get_batch(i) for i in range(file.num_record_batches)), file.schema)
    values = written_names(table.schema, VALUES, str(path))
    return Table(str(path), table.column_names, lambda columns, _: in_plain_text(valid(table.select(columns))), values)


def _csv(path: Path) -> Table:
    data = bytes_of(path)
    header = data[:HEADER].tobytes().partition(b"\n")[0].decode("utf-8-sig")
    delimiter = "\t" if ".tsv" in path.suffixes else max(",;\t", key=header.count)
    columns = next(csv.reader([header.rstrip("\r\n")], delimiter=delimiter), [])

    def read(wanted: list[str], ids: list[str]) -> Any:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types={name: pa.string() for name in ids},
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        for place, name in enumerate(table.column_names):
            if name in ids and not table[name].null_count and (numbers := integers_in(table[name])) is not None:
                table = table.set_column(place, name, pa.array(numbers))
        return table

    return Table(str(path), columns, read)


def _jsonl(path: Path) -> Table:
    data = bytes_of(path)
    refuse_fatal(data, str(path), in_lines=True)
    try:
        table = valid(arrow_json.read_json(pa.BufferReader(data)))
    except pa.ArrowInvalid as error:
        with _opened(path) as lines:
            raise DataError(f"{path}: {_bad_json(lines) or error}") from None

    def read(wanted: list[str], ids: list[str]) -> Any:
        exact = {name: kind for name in ids if (kind := _exact_kind(table[name].type)) is not None}
        if not exact:
            return table.select(wanted)
        as_written = arrow_json.ParseOptions(explicit_schema=pa.schema(exact))
        try:
            return valid(arrow_json.read_json(pa.BufferReader(data), parse_options=as_written).select(wanted))
        except pa.ArrowInvalid:  # ids with a fraction; whoever checks ids says so, by row
            return table.select(wanted)

    return Table(str(path), table.column_names, read)


def _exact_kind(kind: Any) -> Any:
    """As what to read ids of JSON that were guessed to be dates, or numbers too large for an int64."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    return pa.decimal128(38, 0) if pa.types.is_floating(kind) else None


def _bad_json(lines: Iterable[bytes]) -> str | None:
    """What is wrong with the first line at fault; None where none is.

    Example:
        >>> _bad_json([b'{"query": 7}', b'{"query": "a"}'])
        "line 2: 'query' is text, and a number in line 1; a column holds values of one kind (ids may all be text)"
    """
    seen: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=each_once)
        except json.JSONDecodeError as error:
            return f"line {number:,}, character {error.pos + 1}: {error.msg}"
        except UnicodeDecodeError:
            return f"line {number:,}: not UTF-8 text"
        except ValueError as error:
            return f"line {number:,}: {error}"
        if not isinstance(row, dict):
            return f"line {number:,}: {_IN_WORDS.get(type(row), 'null')}; expected an object, such as {{'query': 7}}"
        for name, value in row.items():
            if value is None:
                continue
            kind = _IN_WORDS[type(value)]
            before, first = seen.setdefault(name, (kind, number))
            if kind != before:
                return (
                    f"line {number:,}: {name!r} is {kind}, and {before} in line {first:,}; a column holds values of "
                    "one kind (ids may all be text)"
                )
    return None


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook`; one that has a name twice is refused."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} appears twice")
    return row
