"""Rankings of a whole table, made here or on Spark."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from isrr.data.blocks import whole_queries
from isrr.data.columns import Cast
from isrr.data.files import KINDS, write_table
from isrr.engines.local import InMemory
from isrr.engines.spark import SparkRows
from isrr.errors import DataError
from isrr.parallel import Progress, use_threads
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.placements import placements


def write_rankings(
    ranker: GPLRanker,
    rows: InMemory | SparkRows,
    target: Path,
    k: int,
    session: str | None,
    progress: Progress | None,
) -> None:
    """Rank every query and write a file, of the kind its suffix tells; on Spark a new folder of Parquet files."""
    if isinstance(rows, SparkRows):
        _rank_on_spark(ranker, rows, str(target), k, session, progress)
    else:
        kind = KINDS[target.suffix.lower()]
        write_table(placements(ranker, rows.queries, k, session, progress), target, kind)


def _rank_on_spark(
    ranker: GPLRanker, rows: SparkRows, folder: str, k: int, session: str | None, progress: Progress | None
) -> None:
    columns = rows.columns.only(("query", "item", "score"))
    if "item" not in columns.roles:
        raise DataError(f"{rows.name}: rankings on Spark need item ids: a position means nothing once rows have moved")
    if rows.job(rows.gathered.isEmpty):
        raise DataError(f"{rows.name}: the table has no rows")
    kinds = dict(rows.rows.dtypes)
    query, item = ("long" if kinds[columns.roles[role]] in ("tinyint", "smallint", "int", "bigint") else "string"
                   for role in ("query", "item"))  # fmt: skip
    schema = f"query_id {query}, rank long, item_id {item}, score double, propensity double, session string"
    ranked = rows.map(partial(_rank, columns=columns, ranker=ranker, k=k, session=session), columns, schema)
    rows.job(lambda: ranked.write.mode("errorifexists").parquet(folder), progress)


def _rank(batches: Iterable[Any], columns: Cast, ranker: GPLRanker, k: int, session: str | None) -> Iterator[Any]:
    with use_threads(1):
        for block in whole_queries(batches, columns, "partition"):
            yield from placements(ranker, block, k, session).to_batches()
