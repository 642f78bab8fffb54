"""LETOR and SVMLight text → Queries: `label qid:ID 1:value 2:value … # comment`, plain or gzipped.

The file is mapped and parsed by `isrr.data.letor_lines`; a gzipped one is first unpacked into an unnamed temporary
file. Here its rows become queries, by their ids or by group sizes, and comments item ids where that is asked for.
"""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from isrr.data._kernels import NOT_TEXT, find_comment_ids
from isrr.data._order_kernels import reorder_rows
from isrr.data.grouping import offsets_of
from isrr.data.identifiers import Ids, integers_in
from isrr.data.letor_lines import Bytes, Lines, Range, Syntax, bad_line, lines_of, ranges_of
from isrr.data.queries import IntArray, Queries
from isrr.errors import DataError
from isrr.parallel import threads

Group = str | os.PathLike[str] | Sequence[int] | IntArray


def read_letor(
    source: str | os.PathLike[str] | bytes,
    *,
    group: Group | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    comment_ids: bool = False,
    n_threads: int | None = None,
) -> Queries:
    """Read a LETOR or SVMLight file, plain or .gz, or such text that is already in memory.

    Args:
        source: Path of the file, or the text as bytes.
        group: For a file without `qid:`, the sizes of consecutive queries, or the file that lists them one a
            line, as LightGBM's `.query` does.
        n_features: Number of feature columns; by default the largest index in the file.
        zero_based: Whether the first feature has index 0; LETOR files count from 1.
        comment_ids: Take item ids from the comments, `#docid = GX000-00-0000000` or `# MED-1887`, where every row has
            one and none appears twice in a query.
        n_threads: Number of threads; by default as many as are in use everywhere, `isrr.parallel.threads`.

    Example:
        >>> read_letor(b"2 qid:a 1:0.5 3:1e-2 # first\\n0 qid:a 2:7\\n").features
        array([[0.5 , 0.  , 0.01],
               [0.  , 7.  , 0.  ]], dtype=float32)
    """
    name = "text" if isinstance(source, bytes) else str(Path(source))
    data = np.frombuffer(source, np.uint8) if isinstance(source, bytes) else bytes_of(Path(source))
    syntax = Syntax(name, n_features, zero_based, with_qid=group is None)
    return _parsed(data, syntax, group, comment_ids, n_threads or threads())


def bytes_of(file: Path) -> Bytes:
    """The bytes of a file, mapped; those of a gzipped one unpacked first."""
    try:
        return _unpacked(file) if file.suffix == ".gz" else _mapped(file)
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None


def _mapped(file: Path) -> Bytes:
    if file.stat().st_size == 0:
        return np.empty(0, np.uint8)
    return np.asarray(np.memmap(file, np.uint8, mode="r"))


def _unpacked(file: Path) -> Bytes:
    with tempfile.TemporaryFile() as plain:
        try:
            with gzip.open(file) as packed:
                shutil.copyfileobj(packed, plain, 1 << 20)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{file}: not a complete gzip file: {error}") from None
        plain.flush()
        if plain.tell() == 0:
            return np.empty(0, np.uint8)
        return np.asarray(np.memmap(plain, np.uint8, mode="r"))


def _parsed(data: Bytes, syntax: Syntax, group: Group | None, comment_ids: bool, n_threads: int) -> Queries:
    ranges = ranges_of(data, n_threads)
    lines = lines_of(data, ranges, syntax)
    item_ids = _item_ids(ranges, np.diff(lines.bounds)) if comment_ids else None
    if group is not None:
        queries = _by_size(_offsets(group, len(lines.relevance), syntax.name), lines)
    else:
        queries = _by_id(data, ranges, lines, syntax.name)
    scoring = "LETOR text holds no scores; `isrr train` and `isrr score` make them from its features"
    return _identified(replace(queries, absent={"score": f"{syntax.name}: {scoring}"}), item_ids)


def _offsets(group: Group, n_rows: int, name: str) -> IntArray:
    """Where queries begin and end, by their sizes or by the file that lists these."""
    sizes: ArrayLike
    if isinstance(group, str | os.PathLike):
        try:
            sizes = np.array([int(line) for line in Path(group).read_text(encoding="ascii").split()], np.int64)
        except (OSError, ValueError, OverflowError) as error:
            raise DataError(f"{group}: not a list of group sizes, one whole number per line: {error}") from None
    else:
        sizes = group
    try:
        return offsets_of(sizes, n_rows)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _by_size(offsets: IntArray, lines: Lines) -> Queries:
    """Queries of consecutive rows, numbered."""
    numbers = np.arange(len(offsets) - 1)
    return Queries(offsets, numbers, relevance=lines.relevance, features=_matrix(lines), made_ids=True)


def _by_id(data: Bytes, ranges: list[Range], lines: Lines, name: str) -> Queries:
    """Queries of the rows that name the same one; the runs of a query are brought together."""
    place: dict[str, int] = {}
    ids = chain.from_iterable(_ids(data, name, part, runs) for part, runs in zip(ranges, lines.runs, strict=True))
    codes = np.fromiter((place.setdefault(text_id, len(place)) for text_id in ids), np.int64)
    heads = np.concatenate([runs[:, 0] + first for runs, first in zip(lines.runs, lines.bounds[:-1], strict=True)])
    lines.runs.clear()  # of many short runs these are large
    lengths = np.diff(heads, append=len(lines.relevance))
    relevance, features, rows = lines.relevance, _matrix(lines), None
    if (np.diff(codes) < 0).any():
        rows = np.argsort(np.repeat(codes, lengths), kind="stable")
        relevance = relevance[rows]
        if features is not None:
            reorder_rows(features, rows.copy())
    offsets = np.concatenate(([0], np.cumsum(np.bincount(codes, weights=lengths).astype(np.int64))))
    return Queries(offsets, _written_ids(list(place)), relevance=relevance, features=features, rows=rows)


def _written_ids(texts: list[str]) -> NDArray[Any]:
    """Integers where all are written as one would write them, else text."""
    numbers = integers_in(pa.array(texts, pa.large_string()))
    return np.array(texts, dtype=object) if numbers is None else numbers


def _matrix(lines: Lines) -> NDArray[np.float32] | None:
    return lines.features if lines.features.shape[1] else None


def _ids(data: Bytes, name: str, part: Range, runs: IntArray) -> Iterator[str]:
    """The query id of each run of a range."""
    for first in range(0, len(runs), 4096):
        for _, start, stop in runs[first : first + 4096].tolist():
            try:
                yield part.text[start:stop].tobytes().decode()
            except UnicodeDecodeError:
                raise bad_line(data, name, NOT_TEXT, part.start + start) from None


def _item_ids(ranges: list[Range], n_rows: IntArray) -> NDArray[Any] | None:
    """The id in the comment of each row, in file order; None where a row has none."""
    ids: list[str] = []
    for (_, text), rows in zip(ranges, n_rows, strict=True):
        spans = np.empty((rows, 2), np.int64)
        find_comment_ids(text, spans)
        if (spans[:, 0] == spans[:, 1]).any():
            return None
        ids += [text[start:stop].tobytes().decode(errors="replace") for start, stop in spans.tolist()]
    return _written_ids(ids)


def _identified(queries: Queries, item_ids: NDArray[Any] | None) -> Queries:
    """The queries with item ids from comments, given in file order; without, where one appears twice in a query."""
    if item_ids is None:
        return queries
    ids = Ids.of(item_ids, "item_ids", queries.n_rows)
    identified = replace(queries, items=ids if queries.rows is None else ids.take(queries.rows))
    return queries if identified.repeated_item() is not None else identified
