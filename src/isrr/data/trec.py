"""TREC text → pairs: a run, `query Q0 item rank score tag`, or qrels, `query iteration item grade`.

Fields have blanks or tabs between them. Items are ranked by score, as in trec_eval; the rank and the tag are not used.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data import _trec_kernels
from isrr.data.files import What
from isrr.data.letor import bytes_of
from isrr.data.letor_lines import Bytes, Range, ranges_of
from isrr.data.pairs import Pairs
from isrr.data.queries import FloatArray, IntArray
from isrr.errors import DataError
from isrr.parallel import threads


@dataclass(frozen=True)
class Syntax:
    """What a line looks like: how many fields, and which of them, counted from 0, holds the number."""

    fields: int
    value: int
    line: str
    number: str


SYNTAX: dict[What, Syntax] = {
    "run": Syntax(6, 4, "`query Q0 item rank score tag`", "score"),
    "qrels": Syntax(4, 3, "`query iteration item grade`", "grade"),
}


def read_trec(path: Path, what: What) -> Pairs:
    """Pairs from a file of TREC text, plain or .gz."""
    return parse_trec(bytes_of(path), what, str(path), threads())


class _Part(NamedTuple):
    """The rows of a range of lines.

    Attributes:
        items: The item of each row, Arrow text.
        heads: The first row of each run of one query, (n_runs,).
        queries: The query of each run, Arrow text.
    """

    items: Any
    heads: IntArray
    queries: Any


def parse_trec(data: Bytes, what: What, name: str, n_threads: int = 1) -> Pairs:
    """Pairs from TREC text in memory; `name` stands for the file in errors.

    Example:
        >>> parse_trec(np.frombuffer(b"q1 0 a 2\\nq1 0 b 0\\n", np.uint8), "qrels", "text").values
        array([2., 0.])
    """
    ranges = ranges_of(data, n_threads)
    with ThreadPoolExecutor(max(1, len(ranges))) as pool:
        each = pool.map if len(ranges) > 1 else map
        n_rows = list(each(_trec_kernels.count_rows, [part.text for part in ranges]))
        if sum(n_rows) == 0:
            raise DataError(f"{name}: no rows; expected lines like {SYNTAX[what].line}")
        values = np.empty(sum(n_rows))
        into = np.split(values, np.cumsum(n_rows)[:-1])
        parts = list(each(partial(_parsed, data=data, what=what, name=name), ranges, into))
    runs = pa.concat_arrays([part.queries for part in parts]).dictionary_encode()
    lengths = np.concatenate([np.diff(part.heads, append=n) for part, n in zip(parts, n_rows, strict=True)])
    return Pairs(
        name=name,
        query_names=runs.dictionary,
        queries=np.repeat(runs.indices.to_numpy().astype(np.int64), lengths),
        items=pa.concat_arrays([part.items for part in parts]),
        values=values,
        where=lambda row: f"{name}:{_line_of_row(data, row):,}",
    )


def _line_of_row(data: Bytes, row: int) -> int:
    """The line, counted from 1, on which a row, counted from 0, stands: blank lines are no rows."""
    written = (number for number, line in enumerate(BytesIO(data.tobytes()), 1) if line.strip(b" \t\r\n"))
    return next(islice(written, row, None))


def _parsed(part: Range, values: FloatArray, data: Bytes, what: What, name: str) -> _Part:
    """Parse a range of lines, its numbers straight into `values`."""
    syntax, n_rows = SYNTAX[what], len(values)
    spans, runs, long = (np.empty((n_rows, width), np.int64) for width in (2, 3, 3))
    n_runs, n_long, code, byte, n_fields = _trec_kernels.parse_lines(
        part.text, syntax.fields, syntax.value, spans, values, runs, long
    )

    def refusal(byte: int, said: str) -> DataError:
        line = 1 + int(np.count_nonzero(data[: part.start + byte] == 10))
        return DataError(f"{name}:{line:,}: {said}")

    if code == _trec_kernels.FIELDS:
        raise refusal(byte, f"{counted(n_fields, 'field')}{_slip(n_fields, what)}; expected {syntax.line}")
    if code == _trec_kernels.VALUE:
        word = re.split(rb"[ \t\r\n]", part.text[byte : byte + 60].tobytes(), maxsplit=1)[0]
        found = word.decode(errors="replace")
        raise refusal(byte, f"the {syntax.number} is {found!r}; expected a number, in {syntax.line}")

    def texts(chosen: IntArray) -> Any:
        column, bad = _texts(part.text, chosen)
        if bad is not None:
            word = part.text[chosen[bad, 0] : chosen[bad, 1]].tobytes()
            raise refusal(int(chosen[bad, 0]), f"the id {word!r} is not UTF-8 text without NUL characters")
        return column

    if n_long:
        values[long[:n_long, 0]] = texts(long[:n_long, 1:]).cast(pa.float64()).to_numpy()
    return _Part(texts(spans), runs[:n_runs, 0].copy(), texts(runs[:n_runs, 1:]))


def _slip(n_fields: int, what: What) -> str:
    """What a line with another number of fields probably is."""
    others = {"run": {4: "this looks like qrels"}, "qrels": {6: "this looks like a run"}}
    slip = others[what].get(n_fields)
    return f" ({slip})" if slip else ""


def _texts(text: Bytes, spans: NDArray[Any]) -> tuple[Any, int | None]:
    """Words of the text as Arrow strings, or the first that is none."""
    offsets = np.concatenate(([0], np.cumsum(spans[:, 1] - spans[:, 0])))
    names = np.empty(offsets[-1], np.uint8)
    seen, has_nul = _trec_kernels.gather(text, spans, offsets, names)
    column = pa.Array.from_buffers(pa.large_string(), len(spans), [None, pa.py_buffer(offsets), pa.py_buffer(names)])
    if seen < 128 and not has_nul:
        return column, None
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        has_nul = True
    return column, _first_bad(text, spans) if has_nul else None


def _first_bad(text: Bytes, spans: NDArray[Any]) -> int:
    for row, (start, stop) in enumerate(spans.tolist()):
        word = text[start:stop].tobytes()
        try:
            word.decode()
        except UnicodeDecodeError:
            return row
        if b"\0" in word:
            return row
    raise AssertionError("a word was found bad, and none is")
