"""Parquet files with the same columns: as one table, and batch by batch."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from isrr.data.columns import Columns, Roles
from isrr.data.copies import has_made_ids
from isrr.data.files import File, Table, in_plain_text, reading, valid, written_names
from isrr.data.trec import kind_of
from isrr.errors import DataError

ROWS = 1 << 17  # of a batch


def one_table(files: Sequence[File], columns: Columns) -> Table:
    """Return one table of several Parquet files with the same columns."""
    roles, _ = shared_roles(files, columns)

    def read(wanted: list[str], ids: list[str]) -> Any:
        parts = []
        for file in files:
            with reading(file.name):
                parts.append(in_plain_text(valid(pq.ParquetFile(file.open()).read(wanted))))
        return joined_tables(parts)

    with reading(files[0].name):
        values = written_names(pq.read_schema(files[0].open()), files[0].name)
    return Table("table", roles.all, read, values)


def shared_roles(files: Sequence[File], columns: Columns) -> tuple[Roles, int]:
    """Return the roles of columns in Parquet files that can be one table, and their rows in all."""
    first, n_rows, types = None, 0, {}
    for file in files:
        if kind_of(file) != "parquet":
            raise DataError(
                f"{file}: only Parquet is read in blocks, or with other files; `isrr data convert` makes a copy"
            )
        with reading(file.name):
            source = pq.ParquetFile(file.open())
        schema, n_rows = source.schema_arrow, n_rows + source.metadata.num_rows
        table = Table(file.name, schema.names, lambda *_: None, written_names(schema, file.name))
        roles = Roles.of(table, columns)
        of_file = {name: str(_plain_type(schema.field(name).type)) for name in roles.all}
        if first is None:
            first, types = roles, of_file
        elif of_file != types or roles.names != first.names:
            changed = {name: kind for name, kind in types.items() if of_file.get(name, kind) != kind}
            differences = [
                *(f"no {name!r}" for name in types if name not in of_file),
                *(f"{name!r} is {of_file[name]}, not {kind}" for name, kind in changed.items()),
                *(f"{name!r} besides" for name in of_file if name not in types),
                "columns have other roles",
            ]
            raise DataError(
                f"{file}: has other columns than {files[0]}: {differences[0]}; expected the same columns in all files"
            )
        if len(files) > 1 and has_made_ids(schema):
            raise DataError(
                f"{file}: its query ids were made from positions, so they clash with those of other files; expected "
                "real query ids, or all queries in one file"
            )
    assert first is not None
    return first, n_rows


def _plain_type(kind: Any) -> Any:
    """Return an Arrow type without how text is encoded in memory, which is no matter of the file."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def joined_tables(tables: Sequence[Any]) -> Any:
    """Return one Arrow table of several with the same columns, text in one encoding."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = [
            table.cast(pa.schema([(field.name, _plain_type(field.type)) for field in table.schema])) for table in tables
        ]
    return pa.concat_tables(tables)


def parquet_batches(file: File, columns: list[str], rows: int = ROWS) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, row group by row group."""
    # without pre_buffer: it would read ahead through the whole file
    with reading(file.name), pq.ParquetFile(file.open(), pre_buffer=False) as source:
        yield from map(valid, source.iter_batches(rows, columns=columns))
