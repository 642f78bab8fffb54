"""Spark: draw a sample of a table's queries where the table is, and rank a table.

The sample is that of `isrr.data.sample`, by Spark SQL's own `sha2`: whole queries are hashed and filtered on the
cluster, and what is left comes here as Arrow. Rankings are drawn in every partition, through `mapInArrow`, after rows
were brought together by query.
"""

import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isrr.data.columns import Columns, Roles
from isrr.data.formats import Table, matching_files, plain
from isrr.data.parquet import ParquetFiles
from isrr.data.sample import Sample, digests, in_sample
from isrr.data.tables import queries_of, whole_queries
from isrr.errors import DataError, EngineError, MissingExtraError
from isrr.parallel import use_threads
from isrr.rank_table import TableCounts
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.placements import placements

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f
except ImportError:
    raise MissingExtraError("pyspark", "spark") from None

MASTERS = ("local", "spark://", "yarn", "k8s://")
OURS = {  # of sessions that isrr starts
    "spark.app.name": "isrr",
    "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={Path(__file__).with_name("log4j2.properties")}"',
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
READING = {  # of the session that files are read with
    "spark.sql.caseSensitive": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
CHANCE = 6.0  # standard deviations by which the cutoff is put higher than it would have to be on average
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PATTERN = re.compile(r"[\\{}\[\]*?,^]")
_REFUSED = re.compile(r"^isrr\.errors\.DataError: (?P<said>.+)$", re.MULTILINE)
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z_.0-9]+)\]\s+(?P<said>.+?)(?:\s+SQLSTATE:|\n|$)", re.DOTALL)
_UNREADABLE = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER")


@dataclass(frozen=True, eq=False)
class SparkTable:
    """A Spark table of one row per item.

    Attributes:
        rows: The table.
        roles: Which column has which role.
        name: What errors call it.
        metadata: What its first file says of itself, where the file can be read here.
        in_files: Whether rows know their file and their number in it.
    """

    rows: Any
    roles: Roles
    name: str
    metadata: dict[bytes, bytes] | None = None
    in_files: bool = False

    def column(self, role: str) -> Any:
        """Return the column that plays a role, as Spark's expressions take it."""
        return f.col(_quoted(self.roles.names[role]))

    def query_text(self) -> Any:
        """Return the id of the query as text; whole numbers of any type have the text of integers."""
        kind = dict(self.rows.dtypes)[self.roles.names["query"]]
        query = self.column("query")
        whole = query.cast("decimal(38,0)") if kind.startswith(("double", "float", "decimal")) else query
        return whole.cast("string")


def draw_sample(
    data: Any,
    columns: Columns | None = None,
    *,
    roles: Sequence[str] = (),
    master: str | None = None,
    sample: int | None,
    per_segment: bool = False,
) -> Sample:
    """Draw at most so many whole queries of a Spark table; arguments are those of `isrr.data.sample.sample_queries`."""
    table = open_table(data, (columns or Columns()).with_roles(roles), master)
    with _on_cluster(table.name):
        n_queries, key, sizes = _counted(table, per_segment=per_segment)
        if n_queries == 0:
            raise DataError(f"{table.name}: the table has no rows")
        if sample is None or n_queries <= sample:
            return Sample(_collected(table, table.rows), n_queries, key)
        queries = _collected(table, table.rows.where(_below(table, key, sample, n_queries, sizes)))
    segments = queries.need_segments() if per_segment else None
    chosen = in_sample(digests(queries.query_ids, key), sample, segments)
    return Sample(queries[np.flatnonzero(chosen)], n_queries, key)


def rank_on_spark(
    ranker: GPLRanker,
    data: Any,
    folder: Path,
    session: str | None,
    usual: tuple[float, float],
    columns: Columns | None = None,
    master: str | None = None,
) -> TableCounts:
    """Rank every query of a Spark table and write a new folder of Parquet files; see `isrr.rank_table.rank_table`."""
    table = open_table(data, columns or Columns(), master)
    if "item" not in table.roles.names:
        raise DataError(f"{table.name}: rankings on Spark need item ids: positions change when rows are moved")
    roles = table.roles.only(("query", "item", "score"))
    kinds, (query, item) = dict(table.rows.dtypes), (roles.names["query"], roles.names["item"])
    schema = (
        f"query_id {kinds[query]}, rank long, item_id {kinds[item]}, score double, propensity double, session string"
    )
    with _on_cluster(table.name):
        outside = ((table.column("score") < usual[0]) | (table.column("score") > usual[1])).cast("long")
        by_query = table.rows.groupBy(table.query_text()).agg(f.count("*").alias("n"), f.sum(outside).alias("outside"))
        n_positions = f.sum(f.least("n", f.lit(ranker.k)))
        sums = by_query.agg(f.count("*"), f.sum("n"), f.sum("outside"), n_positions).first()
        counts = TableCounts(*(n or 0 for n in sums))
        if not counts.n_rows:
            raise DataError(f"{table.name}: the table has no rows")
        gathered = _renamed(table, table.rows.repartition(table.column("query")), roles)
        by_names = [f"c{roles.all.index(name)}" for name in (query, item)]
        ranked = partial(_rank, roles=roles, ranker=ranker, session=session)
        lists = gathered.sortWithinPartitions(*by_names).mapInArrow(ranked, schema)
        lists.write.mode("errorifexists").parquet(str(folder))
    return counts


def _rank(batches: Iterable[Any], roles: Roles, ranker: GPLRanker, session: str | None) -> Iterator[Any]:
    """Rank the queries of a partition; ids keep their types."""
    named = (batch.rename_columns(roles.all) for batch in batches)
    for first in named:
        kinds = {f"{role}_id": first.schema.field(roles.names[role]).type for role in ("query", "item")}
        with use_threads(1):
            tables = (plain(pa.Table.from_batches([batch])) for batch in chain([first], named))
            for block in whole_queries(tables, roles, "partition"):
                table = placements(ranker, block, ranker.k, session)
                for name, kind in kinds.items():  # by way of text: whole numbers are no decimals of every width
                    cast = table[name].cast(pa.string()).cast(kind)
                    table = table.set_column(table.column_names.index(name), name, cast)
                yield from table.to_batches()


def open_table(data: Any, columns: Columns, master: str | None) -> SparkTable:
    """Return a Spark table, or that of the Parquet files that a path names."""
    if not isinstance(data, str | os.PathLike):
        if not hasattr(data, "mapInArrow"):
            raise DataError(f"a {type(data).__name__} is not a path or a Spark table; use engine='local'")
        _refuse_other_master(data.sparkSession, master)
        return SparkTable(data, _roles("table", data.columns, columns), "table")
    name = os.fspath(data)
    with _on_cluster(name):
        spark = session(master).newSession()  # what is set there is set for nobody else
        for setting, value in READING.items():
            spark.conf.set(setting, value)
        if _SCHEME.match(name):
            rows = spark.read.parquet(name)
            return SparkTable(rows, _roles(name, rows.columns, columns), name, in_files=True)
        files = matching_files(name)
        roles = ParquetFiles.of(files, columns).roles
        for file in (os.path.abspath(file.path) for file in files):
            if ":" in file or os.path.basename(file).startswith(("_", ".")):
                raise DataError(
                    f"{file}: Spark reads no file with a colon in its path, or whose name begins with _ or ."
                )
        rows = spark.read.parquet(*(literal(os.path.abspath(file.path)) for file in files))
    return SparkTable(rows, roles, name, pq.read_schema(files[0].path).metadata, in_files=True)


def _roles(name: str, names: list[str], columns: Columns) -> Roles:
    return Roles.of(Table(name, names, lambda *_: None), columns)


def session(master: str | None) -> Any:
    """Return the current session, or start one; by default workers run the same interpreter as this process."""
    active = SparkSession.getActiveSession()
    if active is not None:
        _refuse_other_master(active, master)
        return active
    if master is not None and not master.startswith(MASTERS):
        raise EngineError(
            f"{master!r} is not a Spark master; expected something like local[4], spark://host:7077 or yarn"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.config(map=dict(OURS))
    return (builder.master(master) if master else builder).getOrCreate()


def literal(path: str) -> str:
    """Return a path as Spark takes it for itself, not for a pattern.

    Example:
        >>> print(literal("/data/part[1].parquet"))
        /data/part\\[1\\].parquet
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def _counted(table: SparkTable, *, per_segment: bool) -> tuple[int, str, dict[str, int]]:
    """Return how many queries there are, the key that names them, and how many are in each segment."""
    ids = table.rows.select(table.query_text().alias("id")).distinct()
    digest = f.conv(f.substring(f.sha2("id", 256), 1, 16), 16, 10).cast("decimal(20,0)")
    n_queries, n_missing, total = ids.agg(
        f.count("id"), f.sum(f.col("id").isNull().cast("long")), f.sum(digest)
    ).first()  # fmt: skip
    if n_missing:
        query = table.roles.names["query"]
        raise DataError(f"{table.name}: column {query!r}: no value in some row; expected an id in every row")
    sizes = {}
    if per_segment and "segment" in table.roles.names:
        pairs = table.rows.select(table.query_text().alias("id"), table.column("segment").cast("string").alias("s"))
        sizes = {row["s"]: row["count"] for row in pairs.distinct().groupBy("s").count().collect()}
    return n_queries, f"{int(total or 0) % 2**64:016x}", sizes


def _below(table: SparkTable, key: str, sample: int, n_queries: int, sizes: dict[str, int]) -> Any:
    """Return which rows are those of queries whose order is below a cutoff: the sample, and a few queries more."""
    order = f.substring(f.sha2(f.concat(f.lit(key), table.query_text()), 256), 1, 16)

    def among(n_drawn: int, n: int) -> Any:
        share = (n_drawn + CHANCE * math.sqrt(n_drawn) + CHANCE**2) / n
        return f.lit(True) if share >= 1 else order < f"{math.ceil(share * 2**64):016x}"

    drawn = among(sample, n_queries)
    for segment, n in sizes.items():
        here = table.column("segment").cast("string").eqNullSafe(f.lit(segment))
        drawn |= here & among(max(sample // len(sizes), 1), n)
    return drawn


def _collected(table: SparkTable, rows: Any) -> Any:
    """Return the queries of some rows, here; without item ids, in the order in which rows stand."""
    order = []
    if "item" not in table.roles.names:
        in_file = [f.col("_metadata.file_path"), f.col("_metadata.row_index")]
        stands = in_file if table.in_files else [f.monotonically_increasing_id()]
        order = [column.alias(f"p{i}") for i, column in enumerate(stands)]
    local = _renamed(table, rows, table.roles, order).toArrow()
    if order:
        local = local.sort_by([(f"p{i}", "ascending") for i in range(len(order))])
    local = local.select(range(len(table.roles.all))).rename_columns(table.roles.all)
    return queries_of(plain(local.replace_schema_metadata(table.metadata)), table.roles, table.name)


def _renamed(table: SparkTable, rows: Any, roles: Roles, more: Sequence[Any] = ()) -> Any:
    """Columns c0, c1, … for those with a role: a dot in a name means a part to Spark."""
    return rows.select(*(f.col(_quoted(name)).alias(f"c{i}") for i, name in enumerate(roles.all)), *more)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _refuse_other_master(spark: Any, master: str | None) -> None:
    there = spark.conf.get("spark.master", None)
    if master is not None and master != there:
        raise EngineError(f"a Spark session runs on {there}, not on {master}; leave out master, or stop that session")


@contextmanager
def _on_cluster(name: str) -> Iterator[None]:
    """Say in one line what goes wrong on the cluster, and nothing of pandas, which PySpark looks for but isrr skips."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if refused := _REFUSED.search(text):
            raise DataError(f"{name}: {refused['said']}") from None
        condition = _CONDITION.search(text)
        said = " ".join((condition["said"] if condition else text.strip().splitlines()[0]).split())
        if condition and condition["name"].startswith(_UNREADABLE):
            cause = _CONDITION.search(text, condition.end())
            raise DataError(f"{name}: cannot be read: {said}" + (f" ({cause['said']})" if cause else "")) from None
        raise EngineError(f"{name}: Spark gave up: {said}") from None
