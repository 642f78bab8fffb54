"""Where queries come from: at hand, in files, or in a Spark table; each can run a task over all of them."""

import os
from typing import Any, Unpack

from isrr.data.source import IN_MEMORY, Where, matching_files, named_columns, read_any
from isrr.engines.local import Files, InMemory, on_dask
from isrr.engines.task import Source
from isrr.errors import DataError, PromiseError

ENGINES = ("local", "spark", "dask")


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
