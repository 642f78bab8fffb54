"""Record batches, cut anywhere, into blocks of whole queries.

Rows of a query must be adjacent. A batch that ends inside a query waits with that query for the next one, so memory
holds one block and the query cut by its end, however long the stream.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from isrr.data.columns import Columns, Roles
from isrr.data.files import File
from isrr.data.identifiers import Ids
from isrr.data.parquet import ROWS, parquet_batches, shared_roles
from isrr.data.queries import Queries
from isrr.data.tables import located, queries_of
from isrr.errors import DataError


def whole_queries(batches: Iterable[Any], roles: Roles, name: str, rows: int = ROWS) -> Iterator[Queries]:
    """Yield queries of about `rows` rows together, each of them whole.

    Args:
        batches: Arrow record batches of one schema.
        roles: Which column has which role.
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
        cut = _start_of_last_query(table, roles.names["query"], where())
        if cut:
            yield queries_of(table.slice(0, cut), roles, where())
            done += cut
        waiting = table.slice(cut).to_batches()
    if any(part.num_rows for part in waiting):
        yield queries_of(pa.Table.from_batches(waiting), roles, where())


def _start_of_last_query(table: Any, column: str, name: str) -> int:
    try:
        return int(Ids.of(table[column], column, table.num_rows).runs()[-1])
    except DataError as error:
        raise located(error, name, column) from None


def read_blocks(
    path: str | os.PathLike[str], columns: Columns | None = None, *, rows: int = 1 << 16
) -> Iterator[Queries]:
    """Stream a Parquet file, row group by row group, as queries of about `rows` rows together.

    Every query comes whole, in one block, so its rows must be adjacent in the file. Memory holds a block,
    the query cut by its end and a key of each query seen.
    """
    file, seen = File.of(path), set[int]()
    roles, _ = shared_roles([file], columns or Columns())
    for block in whole_queries(parquet_batches(file, roles.all, rows), roles, file.name, rows):
        for key, query_id in zip(block.keys.tolist(), block.query_ids, strict=True):
            if key in seen:
                where = f"{file}: query {str(query_id)!r}"
                raise DataError(f"{where} appears in two places; expected a file sorted by query", str(query_id))
            seen.add(key)
        yield block
    if not seen:
        raise DataError(f"{file}: the table has no rows")
