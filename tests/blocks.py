"""Parquet files as blocks of whole queries, as `rank_table` streams them."""

from isrr.data.columns import Columns
from isrr.data.formats import File
from isrr.data.parquet import ParquetFiles
from isrr.data.tables import whole_queries


def read_blocks(path, columns=None, *, rows=1 << 16):
    table = ParquetFiles.of([File.of(path)], columns or Columns())
    return whole_queries(table.batches(table.files[0], rows=rows), table.roles, str(path), rows)
