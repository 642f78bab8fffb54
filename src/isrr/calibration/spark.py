"""Queries in a Spark table: `summarise` runs in every partition, through `mapInArrow`; the driver merges.

With `trust_layout` a task reads whole files as they lie. Otherwise rows are brought together by query, and sorted
within partitions by (query, item), so that ties fall the same way every time. Without item ids they are sorted by
(query, place): ties then fall by where rows stood, as they do in memory, and never by what the rows hold.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from isrr.calibration.jobs import own_session, pandas_unmentioned, refuse_other_master, run_job, settings
from isrr.calibration.layout import TakeSpans, apart, ids_by_block, refuse_made_ids, split_query
from isrr.calibration.packing import SUMMARY_COLUMNS
from isrr.calibration.source import Where
from isrr.calibration.task import Sum, Task, merged, summarise
from isrr.data.columns import MADE_IDS, ROLES, Cast, cast
from isrr.data.files import Table
from isrr.errors import DataError, EngineError
from isrr.parallel import Progress, use_threads

BATCH_ROWS = 1 << 16
FOOTERS_AT_ONCE = 16
PLACE = "_isrr_place"  # a column of ours, while rows are sorted
WHOLE_FILE = str(1 << 40)  # bytes; no file is cut, and none shares its task


@dataclass(frozen=True, eq=False)
class SparkRows:
    """A Spark table of one row an item.

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

        With `trust_layout`, refuses queries that are cut in two.
        """
        master = where.get("master")
        in_files = isinstance(data, str | os.PathLike)
        name = os.fspath(data) if in_files else "table"
        rows = run_job(lambda: own_session(master).read.parquet(name), name) if in_files else data
        if not hasattr(rows, "mapInArrow"):
            raise DataError(f"a {type(data).__name__} is neither a path nor a Spark table; read it with engine='local'")
        refuse_other_master(rows.sparkSession, master)
        made = in_files and run_job(lambda: _made_ids(rows), name)
        named = {role: (where.get("columns") or {}).get(role) for role in ROLES}
        columns = cast(Table(name, rows.columns, lambda *_: None), named, None, need_query=True)
        if where.get("trust_layout"):
            source = cls(rows, rows, columns, name, made)
            source._refuse_split_queries()
            return source
        gathered = run_job(lambda: _by_query(rows, columns, where.get("partitions"), in_files), name)
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
        with pandas_unmentioned():
            return self.gathered.select(*(f"`{name}`" for name in columns.names)).mapInArrow(function, schema)

    def job(self, action: Any, progress: Progress | None = None) -> Any:
        """Run an action on the cluster."""
        chosen = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)}
        if self.gathered is self.rows:
            chosen |= {"spark.sql.files.maxPartitionBytes": WHOLE_FILE, "spark.sql.files.openCostInBytes": WHOLE_FILE}
        with settings(self.rows.sparkSession, chosen):
            return run_job(action, self.name, self.rows.sparkSession, progress)

    def _refuse_split_queries(self) -> None:
        if apart(self.run(TakeSpans())):
            return
        columns = self.columns.only(TakeSpans().roles)
        blocks = self.map(partial(_query_ids, columns=columns), columns, "query string")
        twice = self.job(lambda: blocks.groupBy("query").count().where("count > 1").orderBy("query").take(1))
        if twice:
            raise self._located(split_query(twice[0]["query"]))

    def _located(self, error: DataError) -> DataError:
        """The error, told by the files that hold the query at fault."""
        from pyspark.sql import functions

        if error.query is None:
            return error
        here = functions.col(f"`{self.columns.roles['query']}`").cast("string") == error.query
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

    query, names = f"`{columns.roles['query']}`", [f"`{name}`" for name in columns.names]
    if "item" in columns.roles:
        placed, place = rows.select(*names), f"`{columns.roles['item']}`"
    else:
        in_file = functions.struct("_metadata.file_path", "_metadata.row_index")
        position = in_file if in_files else functions.monotonically_increasing_id()
        placed, place = rows.select(*names, position.alias(PLACE)), PLACE
    spread = placed.repartition(partitions or rows.rdd.getNumPartitions(), query)
    return spread.sortWithinPartitions(query, place).select(*names).persist(StorageLevel.DISK_ONLY)


def _made_ids(rows: Any) -> bool:
    """Whether the Parquet file of a table says that query ids were made from positions; several may not."""
    from py4j.protocol import Py4JJavaError

    spark = rows.sparkSession
    java, configuration = spark._jvm, spark._jsc.hadoopConfiguration()
    parquet = java.org.apache.parquet.hadoop
    ((name, yes),) = ((name.decode(), yes.decode()) for name, yes in MADE_IDS.items())

    def says_so(file: str) -> bool:
        path = java.org.apache.hadoop.fs.Path(java.java.net.URI(file))
        try:
            source = parquet.util.HadoopInputFile.fromPath(path, configuration)
            with closing(parquet.ParquetFileReader.open(source)) as reader:
                return bool(reader.getFileMetaData().getKeyValueMetaData().get(name) == yes)
        except Py4JJavaError:  # a damaged file; whoever reads its rows says so
            return False

    files = rows.inputFiles()
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        made = list(pool.map(says_so, files))
    refuse_made_ids(files, made)
    return any(made)


def _summarise(batches: Iterable[Any], task: Task[Sum], columns: Cast) -> Iterator[Any]:
    with use_threads(1):
        yield summarise(batches, task, columns, _task_name())


def _query_ids(batches: Iterable[Any], columns: Cast) -> Iterator[Any]:
    import pyarrow as pa

    for ids in ids_by_block(batches, columns, _task_name()):
        yield pa.RecordBatch.from_pydict({"query": ids}, pa.schema([("query", pa.string())]))


def _task_name() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "partition" if context is None else f"partition {context.partitionId()}"
