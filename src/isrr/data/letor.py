"""LETOR and SVMLight text → Queries: `label qid:ID 1:value 2:value … # comment`, plain or gzipped.

The text is cut at line ends into as many byte ranges as there are threads, measured, then parsed straight into one
float32 matrix. Features that a line leaves out are 0; blank lines and comments are skipped. Rows become queries by
their ids or by group sizes, and comments item ids where that is asked for.
"""

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from isrr.data import _kernels, _text_kernels
from isrr.data._order_kernels import reorder_rows
from isrr.data.grouping import Grouping, offsets_of
from isrr.data.identifiers import Ids, integers_in
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.text import Bytes, Range, bytes_of, ranges_of
from isrr.errors import DataError
from isrr.parallel import threads

Group = str | os.PathLike[str] | Sequence[int] | IntArray
MAX_FEATURES = 100_000  # rows are dense: an index beyond this is a slip, or needs another kind of reader
_TOKEN_END = re.compile(rb"[ \t\r\n#]")
_COMMENT = re.compile(  # the id after `docid =`, or the only word
    rb"[ \t\r]*(?:docid[ \t\r]*[=:][ \t\r]*([^ \t\r]*).*|([^ \t\r]+)[ \t\r]*)"
)


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
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features}")
    name = "text" if isinstance(source, bytes) else str(Path(source))
    data = np.frombuffer(source, np.uint8) if isinstance(source, bytes) else bytes_of(Path(source))
    ranges = ranges_of(data, n_threads or threads())
    lines = _lines_of(data, ranges, name, n_features, zero_based, with_qid=group is None)
    if group is None:
        grouping = _by_id(data, ranges, lines, name)
    else:
        offsets = _offsets(group, len(lines.relevance), name)
        grouping = Grouping(offsets, np.arange(offsets.size - 1), None)
    features = lines.features if lines.features.shape[1] else None
    if features is not None and grouping.rows is not None:
        reorder_rows(features, grouping.rows.copy())
    scoring = "LETOR text holds no scores; `isrr train` and `isrr score` make them from its features"
    queries = Queries(
        offsets=grouping.offsets,
        query_ids=grouping.query_ids,
        relevance=grouping.moved(lines.relevance),
        features=features,
        rows=grouping.rows,
        made_ids=group is not None,
        absent={"score": f"{name}: {scoring}"},
    )
    return _identified(queries, data) if comment_ids else queries


class Lines(NamedTuple):
    """What the lines say, in file order.

    Attributes:
        relevance: The labels, (n_rows,).
        features: (n_rows, n_features).
        bounds: The first row of each range, and the number of rows, (n_ranges + 1,).
        runs: Of each range, the first row of each run of one query, start and stop of its id, (n_runs, 3).
    """

    relevance: FloatArray
    features: NDArray[np.float32]
    bounds: IntArray
    runs: list[IntArray]


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


def _by_id(data: Bytes, ranges: list[Range], lines: Lines, name: str) -> Grouping:
    """Rows that name the same query; a query that several ranges share has a run in each."""
    place: dict[str, int] = {}
    ids = chain.from_iterable(_ids(data, name, part, runs) for part, runs in zip(ranges, lines.runs, strict=True))
    codes = np.fromiter((place.setdefault(text_id, len(place)) for text_id in ids), np.int64)
    heads = np.concatenate([runs[:, 0] + first for runs, first in zip(lines.runs, lines.bounds[:-1], strict=True)])
    lines.runs.clear()  # of many short runs these are large
    query_ids = integers_in(pa.array(place, pa.large_string()))
    if query_ids is None:
        query_ids = np.array(list(place), dtype=object)
    return Grouping.of_runs(query_ids, codes, np.diff(heads, append=len(lines.relevance)))


def _ids(data: Bytes, name: str, part: Range, runs: IntArray) -> Iterator[str]:
    """The query id of each run of a range."""
    for first in range(0, len(runs), 4096):
        for _, start, stop in runs[first : first + 4096].tolist():
            try:
                yield part.text[start:stop].tobytes().decode()
            except UnicodeDecodeError:
                raise _bad_line(data, name, _kernels.NOT_TEXT, part.start + start) from None


def _identified(queries: Queries, data: Bytes) -> Queries:
    """The queries with item ids from comments; as they are where a row has none, or a query has one twice."""
    found: list[str] = []
    for part in ranges_of(data, data.size):
        for line in part.text.tobytes().split(b"\n"):
            row, _, comment = line.partition(b"#")
            if row.strip(b" \t\r"):
                match = _COMMENT.fullmatch(comment)
                words = b"" if match is None else match[1] or match[2]
                if not words:
                    return queries
                found.append(words.decode(errors="replace"))
    ids = Ids.in_text(pa.array(found, pa.large_string()))
    identified = replace(queries, items=ids if queries.rows is None else ids.take(queries.rows))
    return queries if identified.repeated_item() is not None else identified


def _lines_of(
    data: Bytes, ranges: list[Range], name: str, n_features: int | None, zero_based: bool, with_qid: bool
) -> Lines:
    """Measure the ranges, make room, and parse each straight into its rows."""
    first_index = 0 if zero_based else 1
    limit = (n_features or MAX_FEATURES) + first_index - 1  # the largest index allowed
    with ThreadPoolExecutor(max(1, len(ranges))) as pool:
        each = pool.map if len(ranges) > 1 else map
        measured = list(each(_kernels.measure, [part.text for part in ranges]))
        bounds = np.cumsum([0, *(rows for rows, _ in measured)])
        n_rows = int(bounds[-1])
        if n_rows == 0:
            raise DataError(f"{name}: no rows; expected lines like `2 qid:7 1:0.5 2:1.25`")
        largest = max(largest for _, largest in measured)
        width = n_features or max(0, min(largest, limit) - first_index + 1)
        try:
            lines = Lines(np.empty(n_rows), np.zeros((n_rows, width), np.float32), bounds, [])
        except MemoryError:
            size = f"{n_rows * width * 4 / 2**30:.1f} GiB"
            raise DataError(
                f"{name}: {n_rows} rows of {width} features take {size} when dense, more than there is"
            ) from None

        def parse(part: int) -> tuple[IntArray, list[int]]:
            rows = slice(bounds[part], bounds[part + 1])
            runs = np.empty((bounds[part + 1] - bounds[part], 3), np.int64)
            n_runs, *fault = _kernels.parse(
                ranges[part].text, first_index, limit, with_qid, lines.relevance[rows], lines.features[rows], runs
            )
            few = n_runs < len(runs) // 8
            return runs[:n_runs].copy() if few else runs[:n_runs], fault

        for part, (runs, (code, byte, previous)) in zip(ranges, each(parse, range(len(ranges))), strict=True):
            if code:
                raise _bad_line(data, name, code, part.start + byte, previous, n_features)
            lines.runs.append(runs)
    return lines


def _bad_line(
    data: Bytes, name: str, code: int, byte: int, previous: int = 0, n_features: int | None = None
) -> DataError:
    """The error for a bad line.

    Args:
        data: The whole file.
        name: What errors call it.
        code: What is wrong, as the parser says.
        byte: Where it went wrong.
        previous: The feature index before that, or the one whose value it is.
        n_features: Number of feature columns, where it was given.
    """
    assert code != _kernels.UNMEASURED, f"{name}: a good line with feature {previous} was measured as narrower"
    start = int(_text_kernels.line_start(data, byte))
    line = 1 + int(np.count_nonzero(data[:start] == 10))
    word = _TOKEN_END.split(data[byte : byte + 200].tobytes(), maxsplit=1)[0]
    token = word.decode(errors="replace")
    found = repr(token if len(token) <= 40 else token[:40] + "…") if token else "the line ends"
    index = token.split(":")[0]
    limit = f"n_features is {n_features}" if n_features else f"the largest index is {MAX_FEATURES}"
    said = {
        _kernels.LABEL: f"{found}; expected a relevance label, a finite number ≥ 0",
        _kernels.NEGATIVE_LABEL: f"label {token} is negative; relevance grades are ≥ 0",
        _kernels.NO_QID: f"{found}; expected `qid:ID`; a file without ids needs group sizes (`group=`)",
        _kernels.EMPTY_QID: "no query id behind `qid:`",
        _kernels.SPARE_QID: f"{found}, but group sizes are given too; expected one of the two",
        _kernels.NOT_TEXT: f"query id {word!r} is not UTF-8 text",
        _kernels.PAIR: f"{found}; expected a feature, `index:value`",
        _kernels.FIRST_INDEX: "feature 0, but indices start at 1 (a file that starts at 0: `zero_based=True`)",
        _kernels.ORDER: f"feature {index} follows feature {previous}; indices must increase along a line",
        _kernels.LIMIT: f"feature {index}, but {limit}",
        _text_kernels.VALUE: f"feature {previous} is {found}; expected a finite number",
        _text_kernels.HUGE: f"feature {previous} is {found}, too large for a float32",
    }[code]
    if code == _kernels.ORDER and int(index) == previous:
        said = f"feature {index} appears twice; indices must increase along a line"
    if code == _text_kernels.VALUE and not token:
        said = f"feature {previous} has no value"
    if byte + len(word) == data.size:
        said += "; the file ends here, so its last line may have been cut off"
    return DataError(f"{name}:{line}: column {byte - start + 1}: {said}")
