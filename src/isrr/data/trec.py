"""TREC text → pairs: a run, `query Q0 item rank score tag`, or qrels, `query iteration item grade`.

Fields have blanks or tabs between them. Items are ranked by score, as in trec_eval; the rank and the tag are not used.
A compiled loop picks out the query, the item and the number of each line, and Arrow reads these.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from isrr.counting import counted
from isrr.data._text_kernels import ITEM, pick_fields
from isrr.data.files import NUMBER, What
from isrr.data.pairs import Pairs, pairs_of
from isrr.data.text import Bytes, Range, bytes_of, ranges_of
from isrr.errors import DataError
from isrr.parallel import threads

BLOCK = 1 << 24  # bytes that Arrow reads at a time


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


def parse_trec(data: Bytes, what: What, name: str, n_threads: int = 1) -> Pairs:
    """Pairs from TREC text in memory; `name` stands for the file in errors.

    Example:
        >>> parse_trec(np.frombuffer(b"q1 0 a 2\\nq1 0 b 0\\n", np.uint8), "qrels", "text").values
        array([2., 0.])
    """
    syntax, ids = SYNTAX[what], pa.large_string()
    reading = csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=["query", "item", "value"])
    parsing = csv.ParseOptions(delimiter="\t", quote_char=False)
    converting = csv.ConvertOptions(column_types={"query": ids, "item": ids, "value": pa.float64()}, null_values=[])

    def parsed(part: Range) -> Any:
        fields = np.empty(part.text.size, np.uint8)
        n_bytes = pick_fields(part.text, syntax.fields, syntax.value, fields)
        if n_bytes < 0:
            raise _first_fault(data, what, name)
        try:
            return csv.read_csv(pa.py_buffer(fields[:n_bytes]), reading, parsing, converting) if n_bytes else None
        except pa.ArrowInvalid:
            raise _first_fault(data, what, name) from None

    ranges = ranges_of(data, n_threads)
    with ThreadPoolExecutor(max(1, len(ranges))) as pool:
        tables = [table for table in pool.map(parsed, ranges) if table is not None]
    if not tables:
        raise DataError(f"{name}: no rows; expected lines like {syntax.line}")
    table = pa.concat_tables(tables)
    queries, items, values = (column.combine_chunks() for column in table.columns)
    return pairs_of(name, queries, items, values.to_numpy(), lambda row: f"{name}:{_line_of_row(data, row):,}")


def _written(data: Bytes) -> Iterator[tuple[int, list[bytes]]]:
    """The number of each line that is not blank, counted from 1, and its fields."""
    for number, line in enumerate(BytesIO(data.tobytes()), 1):
        fields = [field for field in re.split(rb"[ \t\r\n]+", line) if field]
        if fields:
            yield number, fields


def _line_of_row(data: Bytes, row: int) -> int:
    """The line on which a row, counted from 0, stands."""
    return next(islice(_written(data), row, None))[0]


def _first_fault(data: Bytes, what: What, name: str) -> DataError:
    """The refusal of the first line that cannot be read."""
    syntax = SYNTAX[what]
    for number, fields in _written(data):
        where, n_fields = f"{name}:{number:,}", len(fields)
        if n_fields != syntax.fields:
            slip = {("run", 4): " (this looks like qrels)", ("qrels", 6): " (this looks like a run)"}
            found = f"{counted(n_fields, 'field')}{slip.get((what, n_fields), '')}"
            return DataError(f"{where}: {found}; expected {syntax.line}")
        if not re.fullmatch(NUMBER, fields[syntax.value]):
            found = fields[syntax.value][:60].decode(errors="replace")
            return DataError(f"{where}: the {syntax.number} is {found!r}; expected a number, in {syntax.line}")
        for word in fields[0], fields[ITEM]:
            if not _is_text(word):
                return DataError(f"{where}: the id {word!r} is not UTF-8 text without NUL characters")
    raise AssertionError(f"{name}: no line is at fault")


def _is_text(word: bytes) -> bool:
    try:
        return "\0" not in word.decode()
    except UnicodeDecodeError:
        return False
