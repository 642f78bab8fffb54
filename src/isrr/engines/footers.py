"""Parquet files that make one table: which ones a path names, and that they have the same columns. Footers tell."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isrr.data.blocks import need_parquet
from isrr.data.columns import ROLES, Cast, cast, has_made_ids
from isrr.data.files import Table, reading
from isrr.errors import DataError


@dataclass(frozen=True)
class Footer:
    """What the end of a Parquet file says.

    Attributes:
        columns: The type of each column, by name.
        made_ids: Whether query ids were made from positions.
        n_rows: Rows of the file.
    """

    columns: dict[str, str]
    made_ids: bool
    n_rows: int


def matching_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path or a glob names, sorted."""
    text = os.fspath(path)
    if os.path.exists(text) or not glob.has_magic(text):
        return [Path(text)]
    found = sorted(glob.glob(text))
    if not found:
        raise DataError(f"{text}: no file has such a name")
    return [Path(name) for name in found]


def footer_of(file: Path) -> Footer:
    """The footer of a file; one that is missing, empty or not Parquet is refused."""
    import pyarrow.parquet as pq

    need_parquet(file)
    with reading(str(file)):
        said = pq.read_metadata(file)
        schema = said.schema.to_arrow_schema()
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise DataError(f"{file}: two columns are called {name!r}; which one is meant cannot be told")
    return Footer({field.name: str(plain(field.type)) for field in schema}, has_made_ids(schema), said.num_rows)


def plain(kind: Any) -> Any:
    """An Arrow type as Parquet knows it: how text is encoded in memory is no matter of the file."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def shared_columns(files: Sequence[object], footers: Sequence[Footer], named: Mapping[str, str | None]) -> Cast:
    """Which columns play which role, the same in every file; files that cannot be one table are refused."""
    first, *others = files
    wanted = dict.fromkeys(ROLES) | dict(named)
    columns = _cast(first, footers[0], wanted)
    for file, footer in zip(others, footers[1:], strict=True):
        for difference in _differences(columns, footers[0], footer, file, wanted):
            raise DataError(f"{file}: has other columns than {first}: {difference}; files of one table share theirs")
    if others:
        for file, footer in zip(files, footers, strict=True):
            _refuse_made_ids(file, footer)
    return columns


def refuse_without_rows(files: Sequence[object], footers: Sequence[Footer]) -> None:
    """Where files are streamed as they lie, each holds whole queries; one that holds none is a slip in writing them."""
    for file, footer in zip(files, footers, strict=True):
        if footer.n_rows == 0:
            raise DataError(
                f"{file}: the table has no rows, so no query stands in it; with trust_layout every file holds whole "
                "queries: take this one away, or leave trust_layout out"
            )


def _cast(file: object, footer: Footer, wanted: dict[str, str | None]) -> Cast:
    return cast(Table(str(file), list(footer.columns), lambda *_: None), wanted, None, need_query=True)


def _differences(
    columns: Cast, first: Footer, footer: Footer, file: object, wanted: dict[str, str | None]
) -> Iterator[str]:
    for name in columns.names:
        if name not in footer.columns:
            yield f"no {name!r}"
        elif footer.columns[name] != first.columns[name]:
            yield f"{name!r} is {footer.columns[name]}, not {first.columns[name]}"
    for role, name in _cast(file, footer, wanted).roles.items():
        if columns.roles.get(role) != name:
            yield f"{name!r} besides"


def _refuse_made_ids(file: object, footer: Footer) -> None:
    if footer.made_ids:
        raise DataError(
            f"{file}: its query ids were made from positions, and name other queries in the next file; give every "
            "query an id of its own, or write all queries to one file"
        )
