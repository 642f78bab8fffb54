"""Queries in a Spark table: `summarise` runs in every partition, through `mapInArrow`; the driver merges.

With `trust_layout` a task reads whole files as they lie. Otherwise rows are brought together by query, and sorted
within partitions by (query, item). Without item ids they are sorted by (query, place): equal scores are then ordered by
where rows stood within their query, as they are in memory, and never by what the rows hold.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from isrr.data.columns import MADE_IDS, Cast
from isrr.data.source import Footer, Where, columns_of, footer_of, matching_files, named_columns, shared_columns
from isrr.engines import tables
from isrr.engines.cluster import pandas_unmentioned, reading_session, refuse_other_master, run_job
from isrr.engines.packing import SUMMARY_COLUMNS
from isrr.engines.task import Sum, Task, merged, summarise
from isrr.errors import DataError, EngineError
from isrr.parallel import Progress, use_threads

PLACE = "_isrr_place"  # a column of ours, while rows are sorted
FOOTERS_AT_ONCE = 16
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PATTERN = re.compile(r"[\\{}\[\]*?,^]")
_PARTITION = re.compile(r"partition (\d+)")


@dataclass(frozen=True, eq=False)
class SparkRows:
    """A Spark table of one row per item.

    Attributes:
        rows: The table as given.
        gathered: The same rows, those of a query together.
        columns: Which column plays which role.
        name: What errors call it.
        made_ids: Whether its one file says that query ids were made from positions.
    """

    rows: Any
    gathered: Any
    columns: Cast
    name: str
    made_ids: bool

    @classmethod
    def open(cls, data: Any, **where: Unpack[Where]) -> "SparkRows":
        """A Spark table, or the Parquet files that a path names.

        With `trust_layout`, refuses queries that are cut in two, and files without any.
        """
        master, trusted, named = where.get("master"), bool(where.get("trust_layout")), named_columns(where)
        in_files = isinstance(data, str | os.PathLike)
        name = os.fspath(data) if in_files else "table"
        if not in_files and not hasattr(data, "mapInArrow"):
            raise DataError(f"a {type(data).__name__} is not a path or a Spark table; use engine='local'")
        spark = run_job(lambda: reading_session(master, whole_files=trusted), name) if in_files else data.sparkSession
        refuse_other_master(spark, master)
        if in_files:
            rows, files, footers = spark_files(spark, name)
            columns, made = shared_columns(files, footers, named), footers[0].made_ids
            if trusted:
                tables.refuse_without_rows(files, footers)
        else:
            rows, columns, made = data, columns_of(name, data.columns, named), False
        if trusted:
            source = cls(rows, rows, columns, name, made)
            source._refuse_split_queries()
            return source
        gathered = run_job(lambda: _by_query(rows, columns, where.get("partitions"), in_files), name, spark)
        return cls(rows, gathered, columns, name, made)

    def run(self, task: Task[Sum], progress: Progress | None = None) -> Sum:
        """The answer for all queries."""
        columns = self.columns.only(task.roles)
        summaries = self.map(partial(_summarise, task=task, columns=columns), columns, SUMMARY_COLUMNS)
        try:
            return merged(task, self.job(lambda: summaries.toArrow().to_batches(), progress))
        except DataError as error:
            raise self._located(error) from None

    def close(self) -> None:
        """Let go of what was kept for further tasks."""
        if self.gathered is not self.rows:  # the caller's table is the caller's to keep
            self.gathered.unpersist()

    def map(self, function: Any, columns: Cast, schema: str) -> Any:
        """The table that a function of record batches makes of these columns, partition by partition."""
        from pyspark.sql import functions

        with pandas_unmentioned():
            chosen = [functions.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(columns.names)]
            renamed = partial(_renamed, function=function, names=columns.names)  # a dot in a name means a part to Spark
            return self.gathered.select(*chosen).mapInArrow(renamed, schema)

    def job(self, action: Any, progress: Progress | None = None) -> Any:
        """Run an action on the cluster."""
        return run_job(action, self.name, self.rows.sparkSession, progress)

    def _refuse_split_queries(self) -> None:
        if tables.apart(self.run(tables.TakeSpans())):
            return
        columns = self.columns.only(tables.TakeSpans().roles)
        blocks = self.map(partial(_query_ids, columns=columns), columns, "query string")
        twice = self.job(lambda: blocks.groupBy("query").count().where("count > 1").orderBy("query").take(1))
        if twice:
            raise self._located(tables.split_query(twice[0]["query"]))

    def _located(self, error: DataError) -> DataError:
        """The error, with the files that contain the query."""
        from pyspark.sql import functions

        partition = _PARTITION.match(str(error))
        if error.query is not None:
            here = functions.col(quoted(self.columns.roles["query"])).cast("string") == error.query
        elif partition and self.gathered is self.rows:
            here = functions.spark_partition_id() == int(partition[1])
        else:
            return error
        found = self.rows.where(here).select(functions.input_file_name().alias("file")).distinct().orderBy("file")
        try:
            files = [row["file"] for row in self.job(lambda: found.take(2)) if row["file"]]
        except (DataError, EngineError):  # another file cannot be read; what is known is said
            files = []
        return DataError(f"{' and '.join(files)}: {error}" if files else str(error), error.query)


def _by_query(rows: Any, columns: Cast, partitions: int | None, in_files: bool) -> Any:
    """Rows brought together by query; sorted, and kept on the workers' disks for the passes to come."""
    from pyspark import StorageLevel
    from pyspark.sql import functions

    query, names = quoted(columns.roles["query"]), [quoted(name) for name in columns.names]
    if "item" in columns.roles:
        placed, place = rows.select(*names), quoted(columns.roles["item"])
    else:
        in_file = functions.struct("_metadata.file_path", "_metadata.row_index")
        position = in_file if in_files else functions.monotonically_increasing_id()
        placed, place = rows.select(*names, position.alias(PLACE)), PLACE
    spread = placed.repartition(partitions or rows.rdd.getNumPartitions(), query)
    return spread.sortWithinPartitions(query, place).select(*names).persist(StorageLevel.DISK_ONLY)


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def _renamed(batches: Iterable[Any], function: Any, names: list[str]) -> Iterator[Any]:
    """Call a function with record batches whose columns have their own names again."""
    return function(batch.rename_columns(names) for batch in batches)  # type: ignore[no-any-return]


def _summarise(batches: Iterable[Any], task: Task[Sum], columns: Cast) -> Iterator[Any]:
    with use_threads(1):
        yield summarise(batches, task, columns, _task_name())


def _query_ids(batches: Iterable[Any], columns: Cast) -> Iterator[Any]:
    for ids in tables.ids_by_block(batches, columns, _task_name()):
        yield pa.RecordBatch.from_pydict({"query": ids}, pa.schema([("query", pa.string())]))


def _task_name() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "partition" if context is None else f"partition {context.partitionId()}"


def spark_files(spark: Any, name: str) -> tuple[Any, Sequence[Any], list[Footer]]:
    """The Parquet files that a path names: their rows, what they are called, what their ends say.

    Files of this machine are found here, as the local engine finds them, and Spark is given each by its name: left to
    itself it ignores some and takes others for patterns. A path with a scheme, or where another file system is
    Spark's own, is for Spark to resolve.
    """
    if _SCHEME.match(name) or not spark._jsc.hadoopConfiguration().get("fs.defaultFS").startswith("file:"):
        rows = run_job(lambda: spark.read.parquet(name), name, spark)
        remote = rows.inputFiles()
        footers = run_job(lambda: _remote_footers(spark, remote), name, spark)
        by_folder = {column: "text" for column in rows.columns if not any(column in each.columns for each in footers)}
        return rows, remote, [replace(each, columns=each.columns | by_folder) for each in footers]
    files = matching_files(name)
    footers = [footer_of(file) for file in files]
    given = [os.path.abspath(file) for file in files]
    for file in given:
        if ":" in file or os.path.basename(file).startswith(("_", ".")):
            raise DataError(f"{file}: Spark reads no file with a colon in its path, or whose name begins with _ or .")
    rows = run_job(lambda: spark.read.parquet(*map(literal, given)), name, spark)
    taken = {unquote(urlsplit(file).path) for file in rows.inputFiles()}
    for file in given:
        if file not in taken:
            raise DataError(f"{file}: Spark ignores this file because of its name; rename it")
    return rows, files, footers


def literal(path: str) -> str:
    """A path as Spark takes it for itself, not for a pattern.

    Example:
        >>> print(literal("/data/part[1].parquet"))
        /data/part\\[1\\].parquet
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def _remote_footers(spark: Any, files: Sequence[str]) -> list[Footer]:
    """What the ends of files say that Java alone can reach."""
    from py4j.protocol import Py4JJavaError

    java, configuration = spark._jvm, spark._jsc.hadoopConfiguration()
    parquet = java.org.apache.parquet.hadoop
    ((key, yes),) = ((key.decode(), yes.decode()) for key, yes in MADE_IDS.items())

    def footer(file: str) -> Footer:
        path = java.org.apache.hadoop.fs.Path(java.java.net.URI(file))
        try:
            source = parquet.util.HadoopInputFile.fromPath(path, configuration)
            with closing(parquet.ParquetFileReader.open(source)) as reader:
                said, n_rows = reader.getFileMetaData(), reader.getRecordCount()
        except Py4JJavaError as error:
            raise DataError(f"{file}: cannot be read: {error.java_exception.getMessage()}") from None
        columns = {column.getName(): _type(column) for column in said.getSchema().getFields()}
        return Footer(columns, said.getKeyValueMetaData().get(key) == yes, n_rows)

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        return list(pool.map(footer, files))


def _type(column: Any) -> str:
    meant = column.getLogicalTypeAnnotation()
    stored = column.asPrimitiveType().getPrimitiveTypeName().name().lower() if column.isPrimitive() else "nested"
    return stored if meant is None else f"{stored} ({meant.toString()})"
