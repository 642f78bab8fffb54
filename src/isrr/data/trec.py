"""Runs and judgments that are no tables, as tables: TREC text and `{query: {item: number}}`.

TREC text is `query Q0 item rank score tag` for a run, `query iteration item grade` for judgments (qrels), with blanks
or tabs between the fields. Items are ranked by score, as in trec_eval; rank and tag are not used.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from isrr.counting import counted
from isrr.data.formats import (
    BYTE_ORDER_MARK,
    FIELDS,
    LINE,
    LONGEST,
    NUMBER,
    SHAPE,
    File,
    Table,
    What,
    arrow_of,
    each_once,
    integer_ids,
)
from isrr.data.numbers import such_rows
from isrr.errors import DataError, shown

READ = ("query", "item", "score", "relevance")
PARSED, LOOKED_AT = 1 << 24, 1 << 18  # bytes at a time


def run_table(file: File, kind: str, what: What) -> Table:
    """Return the table in a file of TREC text or JSON."""
    if kind == "trec":
        return trec_table(file.content(), what, file.name)
    try:
        document = json.loads(file.content().to_pybytes(), object_pairs_hook=each_once)
    except json.JSONDecodeError as error:
        raise DataError(f"{file}: line {error.lineno:,}: not JSON: {error.msg}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, a name twice, a number of thousands of digits
        raise DataError(f"{file}: {str(error)[:LONGEST]}") from None
    return mapping_table(document, what, file.name)


def trec_table(data: Any, what: What, name: str) -> Table:
    """Return the table in TREC text, an Arrow buffer; `name` stands for it in errors."""
    columns = [field for field in FIELDS[what] if field in READ]
    kinds = dict(zip(columns, (pa.large_string(), pa.large_string(), pa.float64()), strict=True))
    return Table(name, columns, lambda wanted, ids: integer_ids(_parsed(data, what, name, kinds), ids).select(wanted))


def _parsed(data: Any, what: What, name: str, kinds: dict[str, Any]) -> Any:
    """Return the query, the item and the number of each line as an Arrow table."""
    plain = data
    if not _is_plain(data):
        text = data.to_pybytes().removeprefix(BYTE_ORDER_MARK).translate(bytes.maketrans(b"\t\r", b"  "))
        while b"  " in text:
            text = text.replace(b"  ", b" ")
        plain = pa.py_buffer(text.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" \n"))
        if not plain.size:
            raise DataError(f"{name}: no rows; expected lines like {LINE[what]}")
        if b"\0" in text:
            return _by_lines(data, what, name, kinds)
    try:
        table = csv.read_csv(
            pa.BufferReader(plain),
            csv.ReadOptions(column_names=FIELDS[what], block_size=PARSED),
            csv.ParseOptions(delimiter=" ", quote_char=False),
            csv.ConvertOptions(include_columns=list(kinds), column_types=kinds, null_values=[]),
        )
    except pa.ArrowInvalid:
        return _by_lines(data, what, name, kinds)  # there are numbers like +5, or a line is at fault
    return table if np.isfinite(table.column(2).to_numpy()).all() else _by_lines(data, what, name, kinds)


def _is_plain(data: Any) -> bool:
    """Return whether a single blank or line end follows each field, and there is neither other blank nor NUL."""
    for start in range(0, data.size, LOOKED_AT):
        text = data[start : start + LOOKED_AT + 1].to_pybytes()
        blank = np.frombuffer(text, np.uint8) <= ord(" ")
        if (blank[1:] & blank[:-1]).any() or b"\t" in text or b"\r" in text or b"\0" in text:
            return False
    first = data[:3].to_pybytes()
    return bool(first[:1] > b" " and first != BYTE_ORDER_MARK and text[-1:] != b" ")


def _by_lines(data: Any, what: What, name: str, kinds: dict[str, Any]) -> Any:
    text = data.to_pybytes().removeprefix(BYTE_ORDER_MARK)
    rows = zip(*_written(text, what, name), strict=True)
    return pa.table({column: pa.array(values, kinds[column]) for column, values in zip(kinds, rows, strict=True)})


def _written(text: bytes, what: What, name: str) -> Iterator[tuple[str, str, float]]:
    """Yield the query, the item and the number of each line; the first line at fault is refused."""
    for line, words in enumerate(text.split(b"\n"), 1):
        fields = [field for field in re.split(rb"[ \t\r]+", words) if field]
        if not fields:
            continue
        if len(fields) != len(FIELDS[what]):
            slip = {("run", 4): " (this looks like qrels)", ("qrels", 6): " (this looks like a run)"}
            said = f"{counted(len(fields), 'field')}{slip.get((what, len(fields)), '')}"
            raise DataError(f"{name}:{line:,}: {said}; expected {LINE[what]}")
        query, item, number = (field for field, role in zip(fields, FIELDS[what], strict=True) if role in READ)
        if not re.fullmatch(NUMBER, number):
            said = f"the {'score' if what == 'run' else 'grade'} is {number[:60].decode(errors='replace')!r}"
            raise DataError(f"{name}:{line:,}: {said}; expected a number, in {LINE[what]}")
        try:
            ids = query.decode(), item.decode()
        except UnicodeDecodeError:
            ids = "\0", "\0"
        if "\0" in "".join(ids):
            raise DataError(f"{name}:{line:,}: the id {query[:60]!r} or {item[:60]!r} is not UTF-8 text without NUL")
        yield *ids, float(number)


def mapping_table(document: Any, what: What, name: str) -> Table:
    """Return the table in `{query: {item: number}}`, as pytrec_eval, ranx and BEIR have it.

    Example:
        >>> table = mapping_table({"q1": {"d1": 2, "d2": 0}}, "qrels", "qrels")
        >>> table.read(table.columns, [])["relevance"].to_pylist()
        [2, 0]
    """
    columns = [field for field in FIELDS[what] if field in READ]
    if not isinstance(document, Mapping):
        raise DataError(f"{name}: a {type(document).__name__}; expected {SHAPE}")
    odd = [query for query, listed in document.items() if not isinstance(listed, Mapping)]
    if odd:
        kind = type(document[odd[0]]).__name__
        raise DataError(f"{name}: query {shown(odd[0])} has a {kind}{such_rows(len(odd))}; expected {SHAPE}")

    def read(wanted: list[str], ids: list[str]) -> Any:
        lengths = [len(listed) for listed in document.values()]
        queries = pa.array([str(query) for query in document], pa.large_string())
        items = [str(item) for listed in document.values() for item in listed]
        numbers = [number for listed in document.values() for number in listed.values()]
        parts = (
            queries.take(pa.array(np.repeat(np.arange(len(lengths)), lengths))),
            pa.array(items, pa.large_string()),
            arrow_of(numbers, columns[2], False, name),
        )
        return integer_ids(pa.table(dict(zip(columns, parts, strict=True))), ids).select(wanted)

    return Table(name, columns, read)
