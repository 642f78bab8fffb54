"""Runs and qrels in the formats people have → pairs. The format is inferred from the content, or named:

trec    TREC text, plain or .gz
table   a CSV, TSV, JSONL, Parquet or Arrow file, or a frame: BEIR's qrels, Quepid's ratings, ir_measures' frames
json    `{query: {item: number}}` (pytrec_eval, ranx, BEIR); judgments of OpenSearch's Search Relevance Workbench,
        as imported or exported; a request to Elasticsearch's `_rank_eval`
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.data.columns import located
from isrr.data.files import Table, What, each_once, from_frame, kind_by_name, open_table, reading, shape_of
from isrr.data.identifiers import Ids
from isrr.data.pairs import Pairs, as_floats, checked, from_mapping, pairs_of
from isrr.data.text import bytes_of, first_line, refuse_fatal
from isrr.data.trec import SYNTAX, read_trec
from isrr.errors import DataError, shown

Format = Literal["trec", "table", "json"]
IN_COLUMNS = ("parquet", "arrow", "jsonl")  # kinds of file that are tables whatever their first line
QUERY = ("query_id", "qid", "query", "query_text", "q_id", "queryid")
ITEM = ("doc_id", "docid", "docno", "item_id", "item", "corpus_id", "document_id")
VALUE = {"run": ("score",), "qrels": ("relevance", "label", "grade", "rating", "rel", "score")}


def read_pairs(
    source: Any, what: What, format: Format | None, query: str | None, item: str | None, value: str | None
) -> Pairs:
    """The scores of a run, or the grades of qrels.

    Args:
        source: Path of a file; a pandas, polars or pyarrow table; or `{query: {item: number}}`.
        what: "run" or "qrels".
        format: "trec", "table" or "json", where it should not be inferred from the content.
        query: For tables, the column with the query.
        item: For tables, the column with the item.
        value: For tables, the column with the score or grade.
    """
    if format is not None and format not in get_args(Format):
        raise ValueError(f"the format of a run or of qrels is one of {', '.join(get_args(Format))}; got {format!r}")
    named = {"query": query, "item": item, "value": value}
    if isinstance(source, Mapping):
        return checked(_from_json(source, what, what), what)
    if not isinstance(source, str | os.PathLike):
        return checked(_from_table(from_frame(source), what, named), what)
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{path}: {'expected a file, found a folder' if path.is_dir() else 'no such file'}")
    match format or _format_of(path, what):
        case "trec":
            pairs = read_trec(path, what)
        case "json":
            pairs = _from_json(_loaded(path), what, str(path))
        case _:
            kind = kind_by_name(path)
            if kind not in IN_COLUMNS:
                kind = "jsonl" if first_line(path).startswith(b"{") else "csv"
            pairs = _from_table(open_table(path, kind), what, named)
    return checked(pairs, what)


def _format_of(path: Path, what: What) -> Format:
    """How a file is written, by its first line."""
    if kind_by_name(path) in IN_COLUMNS:
        return "table"
    first = first_line(path)
    if first.startswith((b"{", b"[")):
        return "table" if b'"' in first and _is_row(first, what) else "json"
    if shape_of(first) is not None:
        return "trec"
    names = {_plain(name) for name in re.split("[,;\t]", first.decode("utf-8-sig", "replace"))}
    if names & set(QUERY) and names & set(ITEM):
        return "table"
    if len(first.split()) in (SYNTAX["run"].fields, SYNTAX["qrels"].fields):
        return "trec"
    found = first[:60].decode(errors="replace")
    raise DataError(
        f"{path}: the first line is {found!r}; expected TREC text ({SYNTAX[what].line}), a table with a header such as "
        f"`query-id,corpus-id,{'score' if what == 'run' else 'relevance'}`, or JSON {{query: {{item: number}}}}"
    )


def _is_row(line: bytes, what: What) -> bool:
    """Whether a line of JSON is a row of a table."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    columns = {_plain(name) for name in row} if isinstance(row, dict) else set()
    return bool(columns & set(QUERY) and columns & set(ITEM) and columns & set(VALUE[what]))


def _plain(name: str) -> str:
    """The name of a column without what differs between tools.

    Example:
        >>> _plain("Query-ID"), _plain(" Doc ID ")
        ('query_id', 'doc_id')
    """
    return name.strip().strip('"').lower().replace("-", "_").replace(" ", "_")


def _from_table(table: Table, what: What, named: Mapping[str, str | None]) -> Pairs:
    plain = {_plain(column): column for column in reversed(table.columns)}

    def column(role: str, usual: tuple[str, ...]) -> str:
        name = named[role]
        if name is not None and name in table.columns:
            return name
        found = next((plain[usual_name] for usual_name in usual if usual_name in plain), None)
        if found is None:
            called = {"value": "score" if what == "run" else "relevance"}.get(role, role)
            raise DataError(
                f"{table.name}: no column with the {called} ({', '.join(usual)}, or named by `{called}=`); "
                f"the columns are {', '.join(table.columns)}"
            )
        return found

    columns = column("query", QUERY), column("item", ITEM), column("value", VALUE[what])
    with reading(table.name):
        rows = table.read(list(columns), list(columns[:2]))
    if rows.num_rows == 0:
        raise DataError(f"{table.name}: the table has no rows")

    def where(row: int) -> str:
        return f"{table.name}: row {row + 1:,}"

    def ids(name: str) -> Any:
        try:
            return Ids.of(rows[name], name, rows.num_rows).texts
        except DataError as error:
            raise located(error, table.name, name) from None

    return pairs_of(table.name, ids(columns[0]), ids(columns[1]), _numbers(rows[columns[2]], where), where)


def _numbers(column: Any, where: Any) -> NDArray[np.float64]:
    """A column of numbers as floats; nulls are NaN."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(), np.float64)
    return as_floats(column.to_pylist(), where)


def _loaded(path: Path) -> Any:
    data = bytes_of(path)
    refuse_fatal(data, str(path), in_lines=False)
    try:
        return json.loads(data.tobytes(), object_pairs_hook=each_once)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno:,}: not JSON: {error.msg}, column {error.colno}") from None
    except ValueError as error:  # not UTF-8, a name twice, a number of thousands of digits
        raise DataError(f"{path}: {error}") from None


def _from_json(document: Any, what: What, name: str) -> Pairs:
    """Pairs from JSON of any of the known shapes."""
    if isinstance(document, Mapping) and "requests" in document:
        return _rated(document["requests"], what, name, "id", ("_id",))
    if isinstance(document, Mapping):
        inside = _judgments_inside(document)
        if inside is None:
            return from_mapping(document, name)
        document = inside
    if isinstance(document, list):
        return _rated(document, what, name, "query", ("docId", "doc_id", "_id"))
    raise DataError(f"{name}: a {type(document).__name__}; expected {{query: {{item: number}}}} or a judgment list")


def _judgments_inside(document: Mapping[str, Any]) -> Any:
    """The judgments in a document of the Search Relevance Workbench, as imported, or as its API returns it."""
    if "judgmentRatings" in document:
        return document["judgmentRatings"]
    source = document.get("_source")
    if isinstance(source, Mapping):
        return source.get("judgmentRatings")
    hits = document.get("hits")
    found = hits.get("hits") if isinstance(hits, Mapping) else None
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], Mapping):
        return _judgments_inside(found[0])
    return None


def _rated(lists: Any, what: What, name: str, query_key: str, item_keys: tuple[str, ...]) -> Pairs:
    """Pairs from lists of rated documents, one list per query."""
    if what == "run":
        raise DataError(f"{name}: these are judgments, not a run; give them as `qrels=`")
    triples = list(_triples(lists, name, query_key, item_keys))

    def where(row: int) -> str:
        return f"{name}: query {triples[row][0]!r}, item {triples[row][1]!r}"

    queries, items = (pa.array([triple[place] for triple in triples], pa.large_string()) for place in (0, 1))
    return pairs_of(name, queries, items, as_floats([triple[2] for triple in triples], where), where)


def _triples(lists: Any, name: str, query_key: str, item_keys: tuple[str, ...]) -> Iterator[tuple[str, str, Any]]:
    shape = f'{{"{query_key}": …, "ratings": [{{"{item_keys[0]}": …, "rating": …}}]}}'
    for place, entry in enumerate(lists if isinstance(lists, list) else [None], 1):
        ratings = entry.get("ratings") if isinstance(entry, Mapping) and query_key in entry else None
        if not isinstance(ratings, list):
            raise DataError(f"{name}: entry {place:,} is not a list of ratings; expected {shape}")
        for rated in ratings:
            item = next((rated[key] for key in item_keys if key in rated), None) if isinstance(rated, Mapping) else None
            if item is None or "rating" not in rated:
                raise DataError(f"{name}: entry {place:,}: found {shown(rated)}; expected {shape}")
            yield str(entry[query_key]), str(item), rated["rating"]
