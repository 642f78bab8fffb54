"""Where queries come from: at hand, in files, or in a Spark table; each can run a task over all of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pyarrow as pa

from isrr.data.columns import ROLES, VALUE, value_roles
from isrr.data.files import open_table, reading
from isrr.data.frames import read_queries
from isrr.data.identifiers import MissingGroup
from isrr.data.ordering import Ties
from isrr.data.pair_files import Format
from isrr.data.queries import Queries
from isrr.data.unjudged import Unjudged
from isrr.engines.local import Files, InMemory, on_dask
from isrr.engines.tables import footer_of, matching_files, plain, shared_columns
from isrr.engines.task import Source
from isrr.errors import DataError, PromiseError

ENGINES = ("local", "spark", "dask")


class Where(TypedDict, total=False):
    """How queries that are not at hand are found and read.

    Attributes:
        query, item, score, relevance, segment, item_group: Names of columns, as for `read_queries`, where they are not
            the usual ones.
        values: Further columns of numbers to read, as for `read_queries`.
        trust_layout: All rows of a query are in one file (of a Spark table, in one partition): stream them
            as they are. It is checked that no query is cut in two. Otherwise rows are brought together: in memory, or
            on Spark by a shuffle.
        master: Spark's master, where there is no session yet: "spark://…", "yarn", "local[4]".
        partitions: On Spark, into how many partitions scattered rows are brought; by default unchanged.
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
    trust_layout: bool
    master: str | None
    partitions: int | None
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


def open_source(data: Any, engine: str = "local", **where: Unpack[Where]) -> Source:
    """Queries, a path or glob of files, or a table, ready to run tasks.

    Args:
        data: `Queries`; the path of a file or, for several Parquet files, a glob; or a table: of pandas, polars,
            pyarrow, or (with engine "spark") Spark.
        engine: "local", "spark", or "dask" for Parquet files whose layout is trusted.
        where: See `Where`.
    """
    named = named_columns(where)
    if engine not in ENGINES:
        raise PromiseError(f"unknown engine {engine!r}; expected one of {', '.join(ENGINES)}")
    unused = [name for name in ("master", "partitions") if where.get(name) is not None]
    if unused and engine != "spark":
        raise PromiseError(f"{unused[0]} is for engine 'spark'; the engine is {engine!r}")
    partitions = where.get("partitions")
    if partitions is not None and partitions < 1:
        raise PromiseError(f"`partitions=` must be at least 1, got {partitions}")
    elsewhere = engine != "local" or where.get("trust_layout")
    given = [name for name in IN_MEMORY if where.get(name) is not None]
    if elsewhere and given:
        raise PromiseError(
            f"`{given[0]}=` works only with data in memory; expected a copy written by `isrr data convert`, which "
            "stores what it says"
        )
    if engine == "spark":
        from isrr.engines.spark import SparkRows

        return SparkRows.open(data, **where)
    if engine == "dask" and not (where.get("trust_layout") and isinstance(data, str | os.PathLike)):
        raise DataError("on Dask, expected paths of Parquet files and trust_layout; rows are not regrouped there")
    if where.get("trust_layout") and isinstance(data, str | os.PathLike):
        return Files(matching_files(data), named, on_dask if engine == "dask" else map)
    return InMemory(read_any(data, **where))


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
    read_here = engine == "local" and not where.get("trust_layout") and not isinstance(data, Queries)
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


def _one_table(files: list[Path], named: Mapping[str, str | None]) -> Any:
    columns = shared_columns(files, [footer_of(file) for file in files], named)

    def read(file: Path) -> Any:
        with reading(str(file)):
            return open_table(file, "parquet").read(columns.names, columns.ids)

    tables = [read(file) for file in files]
    if any(table.schema != tables[0].schema for table in tables):
        fields = pa.schema([(field.name, plain(field.type)) for field in tables[0].schema])
        tables = [table.cast(fields) for table in tables]
    return pa.concat_tables(tables)
