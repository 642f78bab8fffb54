"""Queries as callers name them: at hand, the path of a file, a glob of Parquet files, a table, a run with its qrels."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pyarrow as pa
import pyarrow.parquet as pq

from isrr.data.blocks import need_parquet
from isrr.data.columns import ROLES, VALUE, Cast, cast, has_made_ids, value_roles
from isrr.data.files import Table, open_table, reading
from isrr.data.frames import read_queries
from isrr.data.identifiers import MissingGroup
from isrr.data.ordering import Ties
from isrr.data.pair_files import Format
from isrr.data.queries import Queries
from isrr.data.unjudged import Unjudged
from isrr.errors import DataError


class Where(TypedDict, total=False):
    """How queries that are not at hand are found and read.

    Attributes:
        query, item, score, relevance, segment, item_group: Names of columns, as for `read_queries`, where they are not
            the usual ones.
        values: Further columns of numbers to read, as for `read_queries`.
        master: Spark's master, where there is no session yet: "spark://…", "yarn", "local[4]".
        run, qrels, run_format, qrels_format: In place of a table (give None for it): a run and its judgments, as for
            `read_queries`.
        unjudged, ties, group_separator, missing_group: How items without a grade count, how equal scores are ordered,
            and how groups are written, as for `read_queries`; in memory only. A copy that `isrr data convert` writes
            remembers them.
    """

    query: str | None
    item: str | None
    score: str | None
    relevance: str | None
    segment: str | None
    item_group: str | None
    values: Sequence[str]
    master: str | None
    run: Any
    qrels: Any
    run_format: Format | None
    qrels_format: Format | None
    unjudged: Unjudged | None
    ties: Ties | None
    group_separator: str | None
    missing_group: MissingGroup | None


THE_RUN = ("run", "qrels", "run_format", "qrels_format")
IN_MEMORY = (*THE_RUN, "unjudged", "ties", "group_separator", "missing_group")


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


def read_any(data: Any, columns: Sequence[str] = (), **where: Unpack[Where]) -> Queries:
    """Queries as they are, or those of a file, of all Parquet files that a glob names, or of a table.

    Args:
        data: `Queries`, a path, a glob, or a table of pandas, polars or pyarrow.
        columns: Roles to read beside the usual ones, such as "value:margin".
        where: See `Where`.
    """
    named = named_columns(with_values(where, columns))
    options: dict[str, Any] = {name: where.get(name) for name in IN_MEMORY if where.get(name) is not None}
    if isinstance(data, Queries):
        if options:
            raise DataError(f"`{next(iter(options))}=` is for reading queries; these are already in memory")
        given = next((role for role, name in named.items() if name is not None and not role.startswith(VALUE)), None)
        if given is not None:
            raise DataError(f"`{given}=` is for tables; these queries are already in memory")
        for name in where.get("values", ()):
            data.column(name)
        return data
    if isinstance(data, str | os.PathLike):
        files = matching_files(data)
        data = files[0] if len(files) == 1 else _one_table(files, named)
    usual: dict[str, Any] = {role: name for role, name in named.items() if not role.startswith(VALUE)}
    values = [role.removeprefix(VALUE) for role in named if role not in usual]
    return read_queries(data, values=values, **usual, **options)


def with_values(where: Where, columns: Sequence[str]) -> Where:
    """The same, with the value columns that these roles name."""
    more = [role.removeprefix(VALUE) for role in columns if role.startswith(VALUE)]
    return {**where, "values": tuple(dict.fromkeys((*where.get("values", ()), *more)))}


def counting_alike(where: Where, data: Any, unjudged: str, engine: str = "local") -> Where:
    """The same, with unjudged items counted as in calibration unless the queries, or their files, say how."""
    read_here = engine == "local" and not isinstance(data, Queries)
    if not read_here or where.get("unjudged") is not None or (unjudged == "refuse" and where.get("run") is None):
        return where
    return {**where, "unjudged": unjudged}  # type: ignore[typeddict-item]


def without_run(where: Where) -> Where:
    """The same for other queries than those of the run."""
    return {name: value for name, value in where.items() if name not in THE_RUN}  # type: ignore[return-value]


def named_columns(where: Where) -> dict[str, str | None]:
    """The columns that were named, by role; a name that says nothing here is refused."""
    unknown = sorted(set(where) - set(Where.__annotations__))
    if unknown:
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; expected one of {', '.join(Where.__annotations__)}"
        )
    named = {role: where.get(role) for role in ROLES if role in where}
    return named | value_roles(where.get("values", ()))  # type: ignore[return-value]


def matching_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path or a glob names, sorted."""
    text = os.fspath(path)
    if os.path.exists(text) or not glob.has_magic(text):
        return [Path(text)]
    found = sorted(glob.glob(text))
    if not found:
        raise DataError(f"{text}: no such file")
    return [Path(name) for name in found]


def footer_of(file: Path) -> Footer:
    """The footer of a file; one that is missing, empty or not Parquet is refused."""
    need_parquet(file)
    with reading(str(file)):
        said = pq.read_metadata(file)
        schema = said.schema.to_arrow_schema()
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise DataError(f"{file}: two columns are called {name!r}; expected distinct names")
    return Footer({field.name: str(plain(field.type)) for field in schema}, has_made_ids(schema), said.num_rows)


def plain(kind: Any) -> Any:
    """An Arrow type as Parquet knows it: how text is encoded in memory is no matter of the file."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def shared_columns(files: Sequence[object], footers: Sequence[Footer], named: Mapping[str, str | None]) -> Cast:
    """Which columns play which role, the same in every file; files that cannot be one table are refused."""
    first, *others = files
    columns = columns_of(first, footers[0].columns, named)
    for file, footer in zip(others, footers[1:], strict=True):
        for difference in _differences(columns, footers[0], footer, file, named):
            raise DataError(
                f"{file}: has other columns than {first}: {difference}; expected the same columns in all files"
            )
    made = next((file for file, footer in zip(files, footers, strict=True) if footer.made_ids), None)
    if others and made is not None:
        raise DataError(
            f"{made}: its query ids were made from positions, so they clash with those of the next file; expected "
            "real query ids, or all queries in one file"
        )
    return columns


def columns_of(name: object, columns: Iterable[str], named: Mapping[str, str | None]) -> Cast:
    """Which of a table's columns play which role."""
    return cast(Table(str(name), list(columns), lambda *_: None), dict.fromkeys(ROLES) | dict(named), need_query=True)


def _differences(
    columns: Cast, first: Footer, footer: Footer, file: object, named: Mapping[str, str | None]
) -> Iterator[str]:
    for name in columns.names:
        if name not in footer.columns:
            yield f"no {name!r}"
        elif footer.columns[name] != first.columns[name]:
            yield f"{name!r} is {footer.columns[name]}, not {first.columns[name]}"
    for role, name in columns_of(file, footer.columns, named).roles.items():
        if columns.roles.get(role) != name:
            yield f"{name!r} besides"


def _one_table(files: list[Path], named: Mapping[str, str | None]) -> Any:
    columns = shared_columns(files, [footer_of(file) for file in files], named)

    def read(file: Path) -> Any:
        with reading(str(file)):
            return open_table(file, "parquet").read(columns.names, columns.ids)

    return joined_tables([read(file) for file in files])


def joined_tables(tables: Sequence[Any]) -> Any:
    """One Arrow table of several with the same columns, text in one encoding."""
    if any(table.schema != tables[0].schema for table in tables):
        fields = pa.schema([(field.name, plain(field.type)) for field in tables[0].schema])
        tables = [table.cast(fields) for table in tables]
    return pa.concat_tables(tables)
