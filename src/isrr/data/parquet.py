"""Parquet files with the same columns: as one table, and batch by batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from isrr.data.columns import Columns, Roles
from isrr.data.copies import MADE_IDS
from isrr.data.formats import File, Table, kind_of, plain, reading, written_names
from isrr.errors import DataError

ROWS = 1 << 17  # of a batch


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that can be one table.

    Attributes:
        files: The files.
        name: What errors call the table.
        roles: Which column has which role, in each of them.
        n_rows: Rows of all files together.
        values: The further columns of numbers that the queries of the first file had.
        metadata: What the first file says of itself.
    """

    files: Sequence[File]
    name: str
    roles: Roles
    n_rows: int
    values: tuple[str, ...]
    metadata: Any

    @classmethod
    def of(cls, files: Sequence[File], columns: Columns) -> Self:
        """Return files with the same columns; others are refused."""
        one, types = None, {}
        for file in files:
            if kind_of(file) != "parquet":
                raise DataError(
                    f"{file}: only Parquet is read in blocks, or with other files; `isrr data convert` makes a copy"
                )
            with reading(file.name):
                source = pq.ParquetFile(file.open())
            schema, n_rows = source.schema_arrow, source.metadata.num_rows
            values = written_names(schema, file.name)
            roles = Roles.of(Table(file.name, schema.names, lambda *_: None, values), columns)
            of_file = {name: _plain_type(schema.field(name).type) for name in roles.all} if len(files) > 1 else {}
            if len(files) > 1 and (schema.metadata or {}).items() >= MADE_IDS.items():
                raise DataError(
                    f"{file}: its query ids were made from positions, so they clash with those of other files; "
                    "expected real query ids, or all queries in one file"
                )
            if one is None:
                name = file.name if len(files) == 1 else f"{file.name} and {len(files) - 1} more"
                one, types = cls(files, name, roles, n_rows, values, schema.metadata), of_file
                continue
            if of_file != types or roles.names != one.roles.names:
                changed = {name: kind for name, kind in types.items() if of_file.get(name, kind) != kind}
                differences = [
                    *(f"no {name!r}" for name in types if name not in of_file),
                    *(f"{name!r} is {of_file[name]}, not {kind}" for name, kind in changed.items()),
                    *(f"{name!r} besides" for name in of_file if name not in types),
                    "columns have other roles",
                ]
                raise DataError(
                    f"{file}: has other columns than {files[0]}: {differences[0]}; expected the same columns in all "
                    "files"
                )
            one = replace(one, n_rows=one.n_rows + n_rows)
        assert one is not None
        return one

    def rows(self, columns: list[str] | None = None) -> Any:
        """Return some columns of all files, by default those that have a role, as an Arrow table."""
        parts = []
        for file in self.files:
            with reading(file.name):
                parts.append(plain(pq.ParquetFile(file.open()).read(columns or self.roles.all)))
        return pa.concat_tables(parts)

    def batches(self, file: File, columns: list[str] | None = None, rows: int = ROWS) -> Iterator[Any]:
        """Yield parts of one of the files, row group by row group, as Arrow tables."""
        # without pre_buffer: it would read ahead through the whole file
        with reading(file.name), pq.ParquetFile(file.open(), pre_buffer=False) as source:
            for batch in source.iter_batches(rows, columns=columns or self.roles.all):
                yield plain(pa.Table.from_batches([batch]))


def _plain_type(kind: Any) -> str:
    """Return the name of an Arrow type without how text is encoded in memory, which is no matter of the file."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return "string" if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else str(kind)
