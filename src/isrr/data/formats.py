"""Files and frames as Arrow tables: what kind a file is, which columns it has, and those columns.

The kind is inferred from the file name, otherwise from the first line. Ids are read from CSV as text, so that 007 stays
007, and become integers only where every one is written as an integer would be. What a file says of itself
(lengths, offsets, codes, encodings) is checked against its content before it is used.
"""

import csv
import glob
import gzip
import json
import mmap
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from pyarrow import fs

from isrr.data.identifiers import Ids, integers_in
from isrr.data.numbers import numbers
from isrr.errors import DataError, shown
from isrr.files import replacing

KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".letor": "letor", ".svm": "letor", ".svmlight": "letor", ".libsvm": "letor",
}  # fmt: skip
What = Literal["run", "qrels"]
Format = Literal["trec", "table", "json"]
FIELDS: dict[What, tuple[str, ...]] = {  # of a line of TREC text
    "run": ("query", "Q0", "item", "rank", "score", "tag"),
    "qrels": ("query", "iteration", "item", "relevance"),
}
LINE: dict[What, str] = {"run": "`query Q0 item rank score tag`", "qrels": "`query iteration item grade`"}
NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
SHAPE = "{query: {item: number}}"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LETOR_LINE = re.compile(rb"[-+.\deE]+[ \t]+(qid:|\d+:)")
_LINES: dict[What, re.Pattern[bytes]] = {
    "run": re.compile(rb"\S+[ \t]+\S+[ \t]+\S+[ \t]+\d+[ \t]+" + NUMBER + rb"[ \t]+\S+"),
    "qrels": re.compile(rb"\S+[ \t]+(\d+|Q0)[ \t]+\S+[ \t]+" + NUMBER),
}
VALUES = b"isrr.values"  # schema metadata: names of further columns of numbers
HEADER = 1 << 24  # bytes within which the names of CSV columns must end
LONGEST = 300  # characters of what Arrow says of a damaged file
GIGABYTES = 4.0  # that a gzipped file may unpack to, unless more are allowed
_DAMAGED = (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error, KeyError, MemoryError, OverflowError)
_allowed: ContextVar[float] = ContextVar("gigabytes", default=GIGABYTES)


@dataclass(frozen=True)
class File:
    """A file on this machine, or at an address that pyarrow reads, such as s3://bucket/judged.parquet.

    Attributes:
        name: The path or address as the caller wrote it.
        filesystem: Pyarrow's file system.
        path: The file's path there.
    """

    name: str
    filesystem: Any
    path: str

    @classmethod
    def of(cls, source: "str | os.PathLike[str] | File") -> "File":
        """Return the file at a path or an address; nothing is read."""
        if isinstance(source, File):
            return source
        name = os.fspath(source)
        if "://" not in name:
            return cls(name, fs.LocalFileSystem(), name)
        with reading(name):
            return cls(name, *fs.FileSystem.from_uri(name))

    def __str__(self) -> str:
        return self.name

    def check(self) -> None:
        """Refuse a file that is not there, a folder, and an empty file."""
        with reading(self.name):
            info = self.filesystem.get_file_info(self.path)
        if info.type == fs.FileType.Directory:
            raise DataError(f"{self}: expected a file, found a folder; give its files: '{self}/*.parquet'")
        if info.type == fs.FileType.NotFound:
            raise DataError(f"{self}: no such file")
        if info.size == 0:
            raise DataError(f"{self}: the file is empty")

    def open(self) -> Any:
        """Return the file for reading at random, mapped into memory where it is on this machine."""
        local = isinstance(self.filesystem, fs.LocalFileSystem)
        return pa.memory_map(self.path) if local else self.filesystem.open_input_file(self.path)

    def content(self) -> Any:
        """Return the bytes of the file as an Arrow buffer, those of a gzipped file unpacked."""
        with reading(self.name):
            if not self.path.endswith(".gz"):
                return self.open().read_buffer()
            with tempfile.TemporaryFile() as plain, self.open() as packed, gzip.open(packed) as stream:
                while chunk := stream.read(1 << 20):
                    plain.write(chunk)
                    if plain.tell() > _allowed.get() * 2**30:
                        raise DataError(
                            f"{self}: unpacks to more than {_allowed.get():g} GB; to allow more: `isrr.data.formats."
                            "allow_unpacked(GB)` in Python, `isrr --max-unpacked-gigabytes GB …` on the command line"
                        )
                plain.flush()
                n_bytes = plain.tell()
                return pa.py_buffer(mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ) if n_bytes else b"")

    def head(self) -> bytes:
        """Return the first bytes of the file, those of a gzipped file unpacked."""
        with reading(self.name), self.open() as file:
            return bytes((gzip.open(file) if self.path.endswith(".gz") else file).read(1 << 16))


@contextmanager
def allow_unpacked(gigabytes: float) -> Iterator[None]:
    """Let gzipped files unpack to this many gigabytes (2^30 bytes) each in the body, instead of 4.

    Example:
        >>> with allow_unpacked(16):
        ...     pass  # queries = isrr.read_queries("judged.csv.gz")
    """
    token = _allowed.set(gigabytes)
    try:
        yield
    finally:
        _allowed.reset(token)


def matching_files(pattern: "str | os.PathLike[str] | File") -> list[File]:
    """Return the files that a path, an address or a glob names, sorted."""
    file = File.of(pattern)
    if not glob.has_magic(file.path) or os.path.exists(file.path):
        return [file]
    if isinstance(file.filesystem, fs.LocalFileSystem) and "://" not in file.name:
        paths = glob.glob(file.path)
    else:
        with reading(file.name):
            listed = file.filesystem.get_file_info(fs.FileSelector(os.path.dirname(file.path)))
        paths = [info.path for info in listed if fnmatchcase(info.path, file.path)]
    if not paths:
        raise DataError(f"{file}: no such file")
    return [
        File(path if "://" not in file.name else f"{file}: {path}", file.filesystem, path) for path in sorted(paths)
    ]


def kind_by_name(path: object) -> str | None:
    """Return the kind of a file by its suffix, before .gz; None where the suffix is unknown.

    Example:
        >>> kind_by_name("judged.csv.gz")
        'csv'
    """
    return KINDS.get(PurePath(str(path).lower().removesuffix(".gz")).suffix)


def kind_of(file: File, format: Format | None = None, what: What | None = None) -> str:
    """Return "parquet", "arrow", "csv", "jsonl", "json", "trec" or "letor": by the file's name, or by its first line.

    Args:
        file: A file that must be there.
        format: What the caller says of it.
        what: Whether it should be a run or judgments; None for any table.
    """
    if format is not None and format not in get_args(Format):
        raise ValueError(f"a format must be one of {', '.join(get_args(Format))}; got {format!r}")
    file.check()
    by_name = kind_by_name(file.path)
    if format in ("trec", "json"):
        return format
    if by_name in ("parquet", "arrow", "jsonl"):
        return by_name
    head = file.head().removeprefix(BYTE_ORDER_MARK)
    for magic, kind in ((b"PAR1", "parquet"), (b"ARROW1", "arrow")):
        if head.startswith(magic):
            return kind
    lines = (line.strip() for line in head.splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if first.startswith((b"{", b"[")):
        try:
            row = json.loads(first)
        except (ValueError, RecursionError):
            row = None
        is_row = isinstance(row, dict) and not all(isinstance(value, dict) for value in row.values())
        return "jsonl" if format or is_row else "json"
    if by_name == "letor" or (what is None and _LETOR_LINE.match(first)):
        return "letor"
    if format is None and (shape := next((one for one, line in _LINES.items() if line.fullmatch(first)), None)):
        if shape == "qrels" and what != "qrels":
            raise DataError(f"{file}: this looks like TREC qrels; give the run they judge, and these as `qrels=`")
        if shape == "run" and what == "qrels":
            raise DataError(f"{file}: this looks like a TREC run; expected its judgments, lines like {LINE['qrels']}")
        return "trec"
    if format or by_name or b"," in first or b"\t" in first:
        return "csv"
    if what is not None and len(first.split()) in map(len, FIELDS.values()):
        return "trec"  # with a fault in the first line
    wanted = f"TREC text ({LINE[what]}), JSON {SHAPE} or " if what else ""
    said = f"the first line is {shown(first.decode(errors='replace'))}; expected {wanted}a table"
    raise DataError(f"{file}: {said}: Parquet, Arrow, CSV or JSONL (suffixes {', '.join(KINDS)})")


@dataclass(frozen=True)
class Table:
    """A table whose columns are read on demand.

    Attributes:
        name: The name of the table in errors.
        columns: The names of its columns.
        read: Returns an Arrow table of the columns named first; those named second hold ids.
        values: The further columns of numbers that the queries it was written from had.
    """

    name: str
    columns: list[str]
    read: Callable[[list[str], list[str]], Any]
    values: tuple[str, ...] = ()


def open_table(file: File, kind: str) -> Table:
    """Return the table in a Parquet, Arrow, CSV or JSONL file."""
    opener = {"parquet": _parquet, "arrow": _arrow, "csv": _csv, "jsonl": _jsonl}[kind]
    with reading(file.name):
        return opener(file)


def from_frame(source: Any) -> Table:
    """Return the table in a frame: pandas, or anything that exports Arrow (polars, pyarrow, DuckDB, …)."""
    if hasattr(source, "collect") and not hasattr(source, "__arrow_c_stream__"):  # polars' lazy frames
        source = source.collect()
    if hasattr(source, "iloc"):
        names: list[Any] = list(source.columns)

        def read(columns: list[str], ids: list[str]) -> Any:
            arrays = {}
            for name in columns:
                of_objects = source[name].dtype == object
                values = source[name].to_numpy() if of_objects else pa.Array.from_pandas(source[name])
                arrays[name] = arrow_of(values, name, name in ids, "table") if of_objects else values
            return plain(pa.table(arrays))

    elif hasattr(source, "__arrow_c_stream__"):
        with reading("table"):
            table = plain(pa.table(source))
        names = table.column_names

        def read(columns: list[str], ids: list[str]) -> Any:
            return table.select(columns)

    else:
        kind = type(source).__name__
        raise DataError(f"a {kind} is neither a path nor a pandas, polars or pyarrow table")
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"table: a column is named {name!r}; names of columns must be text")
        if names.count(name) > 1:
            raise DataError(f"table: a column appears twice: {name!r}; rename all but one")
    return Table("table", names, read)


def written_names(schema: Any, source: str) -> tuple[str, ...]:
    """Return the names of value columns that queries left in a schema's metadata."""
    try:
        names = msgspec.json.decode((schema.metadata or {}).get(VALUES, b"[]"), type=tuple[str, ...])
    except (ValueError, RecursionError):
        raise DataError(f"{source}: the metadata {VALUES.decode()!r} are damaged; expected a list of names") from None
    return names


def plain(table: Any) -> Any:
    """Return an Arrow table with every offset, code and text in it checked, values in place of codes, all text large.

    Arrow lacks half of its functions for `string_view`, and cuts text of other types into pieces of two gigabytes.
    """
    table.validate(full=True)
    for place, column in enumerate(table.schema):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        kind = pa.large_string() if is_text else kind
        if kind != column.type:
            parts = [
                part.dictionary.cast(kind).take(part.indices) if hasattr(part, "indices") else part.cast(kind)
                for part in table.column(place).chunks
            ]
            table = table.set_column(place, column.name, pa.chunked_array(parts, kind))
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
        raise DataError(f"{name}: cannot be read: {said[:LONGEST]}") from None


def write_table(table: Any, path: Path, kind: str) -> None:
    """Write an Arrow table, Arrow as one record batch; the file appears whole or not at all."""
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


def _parquet(file: File) -> Table:
    source = pq.ParquetFile(file.open())
    names, values = source.schema_arrow.names, written_names(source.schema_arrow, file.name)
    return Table(file.name, names, lambda columns, _: plain(source.read(columns)), values)


def _arrow(file: File) -> Table:
    source = pa.ipc.open_file(file.open())
    table = pa.Table.from_batches((source.get_batch(i) for i in range(source.num_record_batches)), source.schema)
    values = written_names(table.schema, file.name)
    return Table(file.name, table.column_names, lambda columns, _: plain(table.select(columns)), values)


def _csv(file: File) -> Table:
    data = file.content()
    header = data[:HEADER].to_pybytes().partition(b"\n")[0].decode("utf-8-sig")
    delimiter = "\t" if ".tsv" in PurePath(file.path).suffixes else max(",;\t", key=header.count)
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
        return integer_ids(table, ids)

    return Table(file.name, columns, read)


def integer_ids(table: Any, ids: list[str]) -> Any:
    """Return a table with columns of ids as integers where every text is written as one."""
    for place, name in enumerate(table.column_names):
        if name in ids and not table[name].null_count and (integers := integers_in(table[name])) is not None:
            table = table.set_column(place, name, pa.array(integers))
    return table


def _jsonl(file: File) -> Table:
    data = file.content()

    def read(wanted: list[str], ids: list[str]) -> Any:
        listed: dict[str, list[Any]] = {name: [] for name in wanted}
        for row in _rows(data, file.name):
            for name, values in listed.items():
                values.append(row.get(name))
        return pa.table({name: arrow_of(values, name, name in ids, file.name) for name, values in listed.items()})

    return Table(file.name, list(dict.fromkeys(name for row in _rows(data, file.name) for name in row)), read)


def _rows(data: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of JSON lines; the first line that is none is refused."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, line in enumerate(BytesIO(data), 1):
        try:
            if line.strip():
                row = decoder.decode(line)
                if line.count(b":") > len(row):  # in text, in another object, or of a name that appears twice
                    json.loads(line, object_pairs_hook=each_once)
                yield row
        except (ValueError, RecursionError) as error:
            raise DataError(f"{name}: line {number:,}: {error}; expected an object, such as {{'query': 7}}") from None


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; one that has a name twice is refused."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} appears twice")
    return row


def arrow_of(values: Any, name: str, holds_ids: bool, source: str) -> Any:
    """Return Python values as an Arrow array: ids as they are written, numbers without losing a digit."""
    if not holds_ids or not any(isinstance(value, float) and value == value for value in values):
        with suppress(pa.ArrowException, OverflowError, TypeError):  # of several kinds, or too large
            return pa.array(values, from_pandas=True)
    try:
        return pa.array(Ids.of(values, name, len(values)).values if holds_ids else numbers(values, name, len(values)))
    except DataError as error:
        error.source = source
        raise
