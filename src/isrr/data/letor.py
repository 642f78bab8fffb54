"""LETOR and SVMLight text → Queries: `label qid:ID 1:value 2:value … # comment`, plain or gzipped.

The file is mapped, cut at line ends into as many byte ranges as there are threads, measured, then parsed
straight into one float32 matrix; a gzipped file is first unpacked into an unnamed temporary file. Features
that a line leaves out are 0; blank lines are skipped, and comments too, unless they are asked for as item ids.
"""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.bad_lines import bad_line
from isrr.data.identifiers import identifiers_in_text
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import DataError

Bytes = NDArray[np.uint8]
Group = str | os.PathLike[str] | Sequence[int] | IntArray
MAX_FEATURES = 100_000  # rows are dense: an index beyond this is a slip, or needs another kind of reader
_BYTES_PER_THREAD = 1 << 20


def read_letor(
    path: str | os.PathLike[str],
    *,
    group: Group | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    comment_ids: bool = False,
    n_threads: int | None = None,
) -> Queries:
    """Read a LETOR or SVMLight file, plain or .gz.

    Args:
        path: The file.
        group: For a file without `qid:`, the sizes of consecutive queries, or the file that lists them one a
            line, as LightGBM's `.query` does.
        n_features: Number of feature columns; by default the largest index in the file.
        zero_based: Whether the first feature has index 0; LETOR files count from 1.
        comment_ids: Take item ids from the comments, `#docid = GX000-00-0000000` or `# MED-1887`, where every row has
            one and none stands twice in a query.
        n_threads: Number of threads; by default one a core.
    """
    file = Path(path)
    try:
        data = _unpacked(file) if file.suffix == ".gz" else _mapped(file)
    except FileNotFoundError:
        raise DataError(f"{file}: there is no such file") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None
    return _parsed(data, str(file), group, n_features, zero_based, comment_ids, n_threads or os.cpu_count() or 1)


def parse_letor(
    text: bytes,
    *,
    name: str = "text",
    group: Group | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    comment_ids: bool = False,
    n_threads: int = 1,
) -> Queries:
    """Read LETOR or SVMLight text that is already in memory; `name` stands for the file in errors.

    Example:
        >>> parse_letor(b"2 qid:a 1:0.5 3:1e-2 # first\\n0 qid:a 2:7\\n").features
        array([[0.5 , 0.  , 0.01],
               [0.  , 7.  , 0.  ]], dtype=float32)
    """
    return _parsed(np.frombuffer(text, np.uint8), name, group, n_features, zero_based, comment_ids, n_threads)


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


def _parsed(
    data: Bytes,
    name: str,
    group: Group | None,
    n_features: int | None,
    zero_based: bool,
    comment_ids: bool,
    n_threads: int,
) -> Queries:
    from isrr.data import _kernels

    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features}")
    first_index = 0 if zero_based else 1
    limit = (MAX_FEATURES if n_features is None else n_features) + first_index - 1
    starts, texts = _ranges(data, n_threads)
    with ThreadPoolExecutor(max(1, len(texts))) as pool:
        each = pool.map if len(texts) > 1 else map
        measured = list(each(_kernels.measure, texts))
        bounds = np.cumsum([0, *(rows for rows, _ in measured)])
        n_rows = int(bounds[-1])
        if n_rows == 0:
            raise DataError(f"{name}: no rows; needed are lines like `2 qid:7 1:0.5 2:1.25`")
        largest = max(largest for _, largest in measured)
        width = n_features or max(0, min(largest, limit) - first_index + 1)
        relevance, features = np.empty(n_rows), _zeros(n_rows, width, name)

        def parse(part: int) -> tuple[IntArray, tuple[int, int, int]]:
            rows = slice(bounds[part], bounds[part + 1])
            runs = np.empty((measured[part][0], 3), np.int64)
            n_runs, *slip = _kernels.parse(
                texts[part], first_index, limit, group is None, relevance[rows], features[rows], runs
            )
            few = n_runs < len(runs) // 8
            return runs[:n_runs].copy() if few else runs[:n_runs], (slip[0], slip[1], slip[2])

        found = list(each(parse, range(len(texts))))
    for start, (_, (code, byte, previous)) in zip(starts, found, strict=True):
        if code:
            most = f"n_features is {n_features}" if n_features else f"indices end at {MAX_FEATURES}"
            raise bad_line(data, name, code, start + byte, previous, most)
    matrix = features if width else None
    item_ids = _item_ids(texts, [rows for rows, _ in measured]) if comment_ids else None
    absent = {"score": f"{name}: LETOR text holds no scores; `isrr train` and `isrr score` make them from its features"}
    if group is not None:
        sizes = _group_sizes(group, n_rows, name)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        queries = Queries(offsets, np.arange(len(sizes)), relevance=relevance, features=matrix, made_ids=True)
        return _identified(replace(queries, absent=absent), item_ids)
    place: dict[str, int] = {}
    runs = [runs for runs, _ in found]
    ids = chain.from_iterable(
        _ids(data, name, start, text, part) for start, text, part in zip(starts, texts, runs, strict=True)
    )
    codes = np.fromiter((place.setdefault(text_id, len(place)) for text_id in ids), np.int64)
    heads = np.concatenate([part[:, 0] + bound for part, bound in zip(runs, bounds, strict=False)])
    del found, runs
    lengths = np.diff(heads, append=n_rows)
    queries = _grouped(codes, lengths, identifiers_in_text(list(place)), relevance, matrix)
    return _identified(replace(queries, absent=absent), item_ids)


def _ranges(data: Bytes, n_threads: int) -> tuple[list[int], list[Bytes]]:
    """Byte ranges of whole lines, each ending in a line end; the last line is given one where it has none."""
    from isrr.data._kernels import line_start

    stop = line_start(data, data.size)
    n_ranges = max(1, min(n_threads, stop // _BYTES_PER_THREAD))
    cuts = [0, *(line_start(data, part * stop // n_ranges) for part in range(1, n_ranges)), stop]
    ranges = [(start, data[start:end]) for start, end in pairwise(cuts) if start < end]
    if stop < data.size:
        ranges.append((stop, np.frombuffer(data[stop:].tobytes() + b"\n", np.uint8)))
    return [start for start, _ in ranges], [text for _, text in ranges]


def _zeros(n_rows: int, width: int, name: str) -> NDArray[np.float32]:
    try:
        return np.zeros((n_rows, width), np.float32)
    except MemoryError:
        size = n_rows * width * 4 / 2**30
        raise DataError(
            f"{name}: {n_rows} rows of {width} features take {size:.1f} GiB when dense, more than there is"
        ) from None


def _group_sizes(group: Group, n_rows: int, name: str) -> IntArray:
    if isinstance(group, str | os.PathLike):
        try:
            lines = Path(group).read_text(encoding="ascii").split()
            sizes = np.array([int(line) for line in lines], np.int64)
        except (OSError, ValueError, OverflowError) as error:
            raise DataError(f"{group}: not a list of group sizes, one whole number a line: {error}") from None
    else:
        sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or sizes.size == 0 or sizes.min() < 1:
        raise DataError(f"{name}: group sizes must be whole numbers ≥ 1, one a query")
    if sizes.sum() != n_rows:
        raise DataError(f"{name}: the group sizes add up to {sizes.sum()}; needed is the number of rows, {n_rows}")
    return sizes.astype(np.int64)


def _ids(data: Bytes, name: str, at: int, text: Bytes, runs: IntArray) -> Iterator[str]:
    """The query id of each run in a text that stands at byte `at` of the data."""
    from isrr.data._kernels import NOT_TEXT

    for first in range(0, len(runs), 4096):
        for _, start, stop in runs[first : first + 4096].tolist():
            try:
                yield text[start:stop].tobytes().decode()
            except UnicodeDecodeError:
                raise bad_line(data, name, NOT_TEXT, at + start) from None


def _item_ids(texts: list[Bytes], n_rows: list[int]) -> NDArray[Any] | None:
    """The id in the comment of each row, in file order; None where a row has none."""
    from isrr.data._kernels import find_comment_ids

    ids: list[str] = []
    for text, rows in zip(texts, n_rows, strict=True):
        spans = np.empty((rows, 2), np.int64)
        find_comment_ids(text, spans)
        if (spans[:, 0] == spans[:, 1]).any():
            return None
        ids += [text[start:stop].tobytes().decode(errors="replace") for start, stop in spans.tolist()]
    return identifiers_in_text(ids)


def _identified(queries: Queries, item_ids: NDArray[Any] | None) -> Queries:
    """The queries with item ids from comments, given in file order; without, where one stands twice in a query."""
    if item_ids is None:
        return queries
    identified = replace(queries, item_ids=item_ids if queries.rows is None else item_ids[queries.rows])
    return queries if identified.repeated_item() is not None else identified


def _grouped(
    codes: IntArray,
    lengths: IntArray,
    query_ids: NDArray[Any],
    relevance: FloatArray,
    features: NDArray[np.float32] | None,
) -> Queries:
    """Queries from runs of rows, each of the query `codes` says; the runs of a query are brought together."""
    from isrr.data._order_kernels import reorder_rows

    sizes = np.bincount(codes, weights=lengths).astype(np.int64)
    rows = None
    if (np.diff(codes) < 0).any():
        rows = np.argsort(np.repeat(codes, lengths), kind="stable")
        relevance = relevance[rows]
        if features is not None:
            reorder_rows(features, rows.copy())
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return Queries(offsets, query_ids, relevance=relevance, features=features, rows=rows)
