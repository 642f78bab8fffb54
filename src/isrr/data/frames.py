"""Tables → Queries, and back: Parquet, Arrow, CSV, JSONL; frames of pandas, polars and pyarrow.

`read_queries` is the one entrance. A table has one row per item; its columns are found by their usual names or
named by the caller. `read_blocks` streams a Parquet file in pieces that hold whole queries, `write_queries`
makes a copy that loads without parsing.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.data.blocks import need_parquet, parquet_batches, whole_queries
from isrr.data.columns import MADE_IDS, OWN_NAMES, cast, queries_of, value_roles
from isrr.data.files import VALUES, from_frame, kind_of, open_table, reading, write_table
from isrr.data.grades import BESIDE_GRADES, columns_of, metadata_of
from isrr.data.identifiers import MissingGroup
from isrr.data.ordering import Ties
from isrr.data.pair_files import Format, read_pairs
from isrr.data.queries import Queries
from isrr.data.runs import joined
from isrr.data.unjudged import Unjudged
from isrr.errors import DataError

WRITTEN = {".parquet": "parquet", ".arrow": "arrow"}


def read_queries(
    source: Any = None,
    *,
    run: Any = None,
    qrels: Any = None,
    query: str | None = None,
    item: str | None = None,
    score: str | None = None,
    relevance: str | None = None,
    segment: str | None = None,
    item_group: str | None = None,
    group: Sequence[int] | None = None,
    values: Sequence[str] = (),
    unjudged: Unjudged | None = None,
    ties: Ties | None = None,
    group_separator: str | None = None,
    missing_group: MissingGroup | None = None,
    run_format: Format | None = None,
    qrels_format: Format | None = None,
) -> Queries:
    """Read queries from a file (Parquet, Arrow, CSV, JSONL) or a pandas, polars or pyarrow table.

    Or from a run and its judgments, each a file or an object: TREC text, BEIR's files, dicts
    `{query: {item: number}}`, tables, Quepid's ratings, judgments of OpenSearch's Search Relevance Workbench, requests
    to Elasticsearch's `_rank_eval`. They are joined as evaluation tools do; `Queries.notes` says what was left out.

    Args:
        source: Path of the file, or the table.
        run: Instead of `source`: items retrieved for each query, with their scores.
        qrels: The judgments of the run; without them the queries are unjudged.
        query: Column with the query of each row; by default `query_id`, `qid` or `query`.
        item: Column with the item; by default `item_id`, `doc_id`, `docid` or `item`, where there is one.
        score: Column with the raw score; by default `score`, where there is one.
        relevance: Column with the grade; by default `relevance`, `label` or `grade`, where there is one.
        segment: Column with the query's segment; by default `segment`, where there is one.
        item_group: Column with the item's provider or group; by default `group`, `provider` or `item_group`.
        group: Sizes of consecutive queries, for data without a query column.
        values: Further columns of numbers to read, such as ["margin"]; a column with another role may be among them.
        unjudged: How items without a grade count: "refuse" (the default for tables), "zero" (the default for qrels),
            "drop" or "worst"; see `isrr.data.unjudged`.
        ties: "trec" orders equal scores as trec_eval does, to get the same figures.
        group_separator: What stands between the groups of an item that has several, such as "|"; a column of lists
            needs none.
        missing_group: "refuse" (the default) or "none": items without a group belong to none.
        run_format: "trec", "table" or "json"; by default inferred from the content.
        qrels_format: The same for the judgments.

    Example:
        >>> import pyarrow as pa
        >>> read_queries(pa.table({"qid": ["a", "b", "a"], "score": [2.0, 1.0, 0.5], "grade": [1, 0, 2]}))
        Queries(2 queries, 3 items; scores, relevance)
    """
    if run is not None or qrels is not None:
        if source is not None:
            raise DataError("expected either a table of judged queries, or `run=` and `qrels=`")
        if run is None:
            raise DataError("qrels hold grades but no scores; expected the run they belong to, as `run=`")
        results = read_pairs(run, "run", run_format, query, item, score)
        judgments = None if qrels is None else read_pairs(qrels, "qrels", qrels_format, query, item, relevance)
        return joined(results, judgments, unjudged or "zero").with_ties(ties)
    named = {"query": query, "item": item, "score": score, "relevance": relevance}
    named |= {"segment": segment, "item_group": item_group} | value_roles(values)
    if not isinstance(source, str | os.PathLike):
        table = from_frame(source)
    elif (kind := kind_of(path := Path(source))) == "letor":
        raise DataError(
            f"{path}: this is LETOR text, which has features but no scores; convert it and score it first: "
            f"isrr-paper convert {path} judged.parquet"
        )
    else:
        table = open_table(path, kind)
    columns = cast(table, value_roles(table.values) | named, need_query=group is None, unjudged=unjudged)
    columns = columns.with_groups(group_separator, missing_group or "refuse")
    with reading(table.name):
        rows = table.read(columns.names, columns.ids)
    return queries_of(rows, columns, table.name, group).with_ties(ties)


def read_blocks(
    path: str | os.PathLike[str],
    *,
    rows: int = 1 << 16,
    query: str | None = None,
    item: str | None = None,
    score: str | None = None,
    relevance: str | None = None,
    segment: str | None = None,
    item_group: str | None = None,
    values: Sequence[str] = (),
) -> Iterator[Queries]:
    """Stream a Parquet file, row group by row group, as queries of about `rows` rows together.

    Every query comes whole, in one block, so its rows must be adjacent in the file. Memory holds a block,
    the query cut by its end and a key of each query seen. Columns are named as for `read_queries`.
    """
    need_parquet(file := Path(path))
    named = {"query": query, "item": item, "score": score, "relevance": relevance}
    named |= {"segment": segment, "item_group": item_group} | value_roles(values)
    table = open_table(file, "parquet")
    columns = cast(table, value_roles(table.values) | named, need_query=True)
    seen: set[int] = set()
    for block in whole_queries(parquet_batches(file, columns.names, rows), columns, str(file), rows):
        for key, query_id in zip(block.keys.tolist(), block.query_ids, strict=True):
            if key in seen:
                where = f"{file}: query {str(query_id)!r}"
                raise DataError(f"{where} appears in two places; expected a file sorted by query", str(query_id))
            seen.add(key)
        yield block
    if not seen:
        raise DataError(f"{file}: the table has no rows")


def write_queries(queries: Queries, path: str | os.PathLike[str]) -> None:
    """Write queries to Parquet or Arrow, depending on the suffix. The file is written atomically.

    `read_queries` reads the same queries back, rows in query order. Arrow (.arrow) loads fastest.
    """
    file = Path(path)
    kind = WRITTEN.get(file.suffix.lower())
    if not file.parent.is_dir():
        raise DataError(f"{file}: the folder {file.parent} does not exist")
    if kind is None:
        raise DataError(f"{file}: queries are written to {' or '.join(WRITTEN)}, inferred from the file name")
    try:
        table = table_of(queries)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    write_table(table, file, kind)


def table_of(queries: Queries) -> Any:
    """Return queries as an Arrow table, one row per item, with the usual column names."""

    def per_query(values: NDArray[Any]) -> Any:
        if values.dtype.kind == "i":
            return pa.array(np.repeat(values, queries.n_items))
        codes = np.repeat(np.arange(len(queries), dtype=np.int32), queries.n_items)
        return pa.DictionaryArray.from_arrays(codes, pa.array(values, pa.string()))

    columns = {"query_id": per_query(queries.query_ids)}
    for name, column in (("item_id", queries.item_ids), ("item_group", queries.item_groups)):
        if column is not None:
            columns[name] = pa.array(column)
    for name, numbers in (("score", queries.scores), ("relevance", queries.relevance)):
        if numbers is not None:
            columns[name] = pa.array(numbers)
    if queries.segments is not None:
        columns["segment"] = per_query(queries.segments)
    columns |= columns_of(queries)
    for name, numbers in queries.values.items():
        taken = name in OWN_NAMES or name in BESIDE_GRADES
        if taken and not (name in columns and columns[name].equals(pa.array(numbers))):
            raise DataError(f"a value column cannot be called {name!r}, as another column is; rename it")
        columns[name] = pa.array(numbers)
    kept = (MADE_IDS if queries.made_ids else {}) | metadata_of(queries)
    kept |= {VALUES: json.dumps([*queries.values]).encode()}
    return pa.table(columns).replace_schema_metadata(kept)
