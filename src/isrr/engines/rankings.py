"""Rankings of a whole table, made here or on Spark, after a glance at all of its rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from isrr.data.blocks import whole_queries
from isrr.data.columns import Cast
from isrr.data.files import KINDS, write_table
from isrr.data.queries import Queries
from isrr.engines.local import InMemory
from isrr.engines.spark import SparkRows
from isrr.errors import DataError
from isrr.outcome.certificate import Outcome
from isrr.parallel import Progress, use_threads
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.placements import placements


@dataclass(frozen=True)
class Glance:
    """Scored queries, counted.

    Attributes:
        n_queries, n_rows: Queries and their items.
        n_outside: Scores beyond the range of 99.8 % of the calibration scores.
        n_places: Rows a ranking of all queries has.
    """

    n_queries: int = 0
    n_rows: int = 0
    n_outside: int = 0
    n_places: int = 0


@dataclass(frozen=True)
class TakeGlance:
    """The task: glance at every scored query before any is ranked: bad rows are found before rows are written."""

    low: float
    high: float
    k: int
    roles: tuple[str, ...] = ("query", "item", "score")

    @classmethod
    def of(cls, outcome: Outcome, k: int) -> "TakeGlance":
        """For what an outcome was calibrated on."""
        low, _, _, _, high = outcome.provenance.score_quantiles
        return cls(low, high, k)

    def summary(self, blocks: Iterable[Queries]) -> Glance:
        """The answer for these blocks."""
        return self.joined([self._glance(block) for block in blocks])

    def _glance(self, queries: Queries) -> Glance:
        scores = queries.need_scores()
        n_outside = int(((scores < self.low) | (scores > self.high)).sum())
        return Glance(len(queries), queries.n_rows, n_outside, int(queries.n_items.clip(max=self.k).sum()))

    def joined(self, summaries: Sequence[Glance]) -> Glance:
        """The answer for all parts."""
        return Glance(*(sum(column) for column in zip(*(vars(glance).values() for glance in summaries), strict=True)))


def write_rankings(
    ranker: GPLRanker, rows: InMemory | SparkRows, target: Path, k: int, session: str | None, progress: Progress | None
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
        raise DataError(f"{rows.name}: rankings on Spark need item ids: positions change when rows are moved")
    if rows.job(rows.gathered.isEmpty):
        raise DataError(f"{rows.name}: the table has no rows")
    kinds = dict(rows.rows.dtypes)
    query, item = (kinds[columns.roles[role]] for role in ("query", "item"))
    schema = f"query_id {query}, rank long, item_id {item}, score double, propensity double, session string"
    ranked = rows.map(partial(_rank, columns=columns, ranker=ranker, k=k, session=session), columns, schema)
    rows.job(lambda: ranked.write.mode("errorifexists").parquet(folder), progress)


def _rank(batches: Iterable[Any], columns: Cast, ranker: GPLRanker, k: int, session: str | None) -> Iterator[Any]:
    given = iter(batches)
    for first in given:
        kinds = {f"{role}_id": first.schema.field(columns.roles[role]).type for role in ("query", "item")}
        with use_threads(1):
            for block in whole_queries(chain([first], given), columns, "partition"):
                yield from _with_kinds(placements(ranker, block, k, session), kinds).to_batches()


def _with_kinds(table: Any, kinds: dict[str, Any]) -> Any:
    """The table with columns of these types: ids are integers or text while queries are ranked."""
    for name, kind in kinds.items():
        if table.schema.field(name).type != kind:  # by way of text: whole numbers are no decimals of every width
            place = table.column_names.index(name)
            table = table.set_column(place, name, table[name].cast(pa.string()).cast(kind))
    return table
