"""Record batches, cut anywhere, into blocks of whole queries.

Rows of a query must be adjacent. A batch that ends inside a query waits with that query for the next one, so memory
holds one block and the query cut by its end, however long the stream.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isrr.data.columns import Cast, located, queries_of
from isrr.data.files import kind_of, reading, valid
from isrr.data.identifiers import Ids
from isrr.data.queries import Queries
from isrr.errors import DataError

ROWS = 1 << 17


def whole_queries(batches: Iterable[Any], columns: Cast, name: str, rows: int = ROWS) -> Iterator[Queries]:
    """Queries of about `rows` rows together, each of them whole.

    Args:
        batches: Arrow record batches of one schema.
        columns: Which column plays which role.
        name: What errors call the stream.
        rows: How many rows a block should have; a query longer than that still comes whole.
    """
    waiting: list[Any] = []
    done = 0

    def where() -> str:
        return f"{name}, rows from {done + 1}"

    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) < rows:
            continue
        table = pa.Table.from_batches(waiting)
        cut = _start_of_last_query(table, columns.roles["query"], where())
        if cut:
            yield queries_of(table.slice(0, cut), columns, where(), None)
            done += cut
        waiting = table.slice(cut).to_batches()
    if any(part.num_rows for part in waiting):
        yield queries_of(pa.Table.from_batches(waiting), columns, where(), None)


def need_parquet(file: Path) -> None:
    """Refuse a file of another kind, and one that is not there."""
    if kind_of(file) != "parquet":
        raise DataError(
            f"{file}: only Parquet is read in blocks, or with other files; `isrr data convert` makes a Parquet copy"
        )


def parquet_batches(file: Path, columns: list[str], rows: int = ROWS) -> Iterator[Any]:
    """The record batches of a Parquet file, row group by row group."""
    # without pre_buffer: it would read ahead through the whole file
    with reading(str(file)), pq.ParquetFile(file, pre_buffer=False) as source:
        yield from map(valid, source.iter_batches(rows, columns=columns))


def _start_of_last_query(table: Any, column: str, name: str) -> int:
    try:
        return int(Ids.of(table[column], column, table.num_rows).runs()[-1])
    except DataError as error:
        raise located(error, name, column) from None
