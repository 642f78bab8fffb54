"""Rankings of a whole table as Parquet, here or on Spark."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from isrr.calibration.local import InMemory
from isrr.calibration.packing import Tree
from isrr.calibration.source import open_source
from isrr.calibration.spark import SparkRows
from isrr.certificate import Abstention, Certificate
from isrr.data.blocks import whole_queries
from isrr.data.columns import Cast
from isrr.data.files import write_table
from isrr.data.queries import Queries
from isrr.errors import DataError, GuaranteeError
from isrr.parallel import Progress, use_threads
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.placements import placements

ROLES = ("query", "item", "score")


@dataclass(frozen=True)
class Glance:
    """Scored queries, counted.

    Attributes:
        n_queries, n_rows: Queries and their items.
        n_outside: Scores beyond where calibration saw 99.8 % of them.
        n_places: Rows a ranking of all queries has.
    """

    n_queries: int = 0
    n_rows: int = 0
    n_outside: int = 0
    n_places: int = 0


@dataclass(frozen=True)
class Look:
    """The task: look at every scored query before any is ranked, so that bad rows are found before rows are written."""

    low: float
    high: float
    k: int
    roles: tuple[str, ...] = ROLES

    @classmethod
    def of(cls, outcome: Certificate | Abstention, k: int) -> "Look":
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

    def pack(self, summary: Glance) -> Tree:
        """The answer as a tree to send."""
        return vars(summary)

    def unpack(self, tree: Tree) -> Glance:
        """The answer from its tree."""
        return Glance(**tree)


@contextmanager
def opened_rows(scored: str, columns: dict[str, Any], where: dict[str, Any]) -> Iterator[InMemory | SparkRows]:
    """Scored queries, in memory or on Spark."""
    if where["engine"] == "dask":
        raise GuaranteeError("rankings are made by engine 'local' or 'spark', not by 'dask'")
    if where["engine"] == "local" and where["trust_layout"]:
        raise GuaranteeError("rankings by engine 'local' are made in memory; leave out --trust-layout, or use 'spark'")
    with closing(open_source(scored, columns=columns, **where)) as rows:
        assert isinstance(rows, InMemory | SparkRows)
        yield rows


def write_rankings(
    ranker: GPLRanker,
    rows: InMemory | SparkRows,
    target: Path,
    k: int,
    session: str | None,
    progress: Progress | None,
) -> None:
    """Rank every query and write Parquet: a file, or on Spark a folder of files, which must not be there yet."""
    if isinstance(rows, SparkRows):
        _rank_on_spark(ranker, rows, str(target), k, session, progress)
    else:
        write_table(placements(ranker, rows.queries, k, session, progress), target, "parquet")


def _rank_on_spark(
    ranker: GPLRanker, rows: SparkRows, folder: str, k: int, session: str | None, progress: Progress | None
) -> None:
    columns = rows.columns.only(ROLES)
    if "item" not in columns.roles:
        raise DataError(f"{rows.name}: rankings on Spark need item ids: a position means nothing once rows have moved")
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
