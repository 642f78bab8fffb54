"""Rank a whole table and write the rankings; Parquet files larger than memory are streamed."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from isrr.data.columns import Columns
from isrr.data.formats import KINDS, kind_of, matching_files
from isrr.data.parquet import ParquetFiles
from isrr.data.queries import Queries
from isrr.data.tables import as_queries, whole_queries
from isrr.files import replacing
from isrr.parallel import Progress
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.placements import placements


@dataclass(frozen=True)
class TableCounts:
    """Scored queries, counted.

    Attributes:
        n_queries, n_rows: Queries and their items.
        n_outside: Scores outside the usual range.
        n_positions: Rows of the ranking of all queries.
    """

    n_queries: int
    n_rows: int
    n_outside: int
    n_positions: int


def rank_table(
    ranker: GPLRanker,
    data: Any,
    target: Path,
    session: str | None,
    usual: tuple[float, float],
    progress: Progress | None = None,
    columns: Columns | None = None,
) -> TableCounts:
    """Rank every query and write a file, of the kind that its suffix tells.

    Everything is looked at before anything is written. Parquet files in which the rows of each query are adjacent are
    read block by block, twice; other tables are read into memory.

    Args:
        ranker: The ranker, with the k that is wanted.
        data: `Queries`, a path or a glob, or a table.
        target: The file to write.
        session: Session id; None for a fresh draw.
        usual: Between which values scores usually lie.
        progress: Called with (queries ranked, queries in all).
        columns: The names of columns that are not called as usual, for queries still to be read; see `isrr.Columns`.
    """
    blocks: Iterable[Queries] | None = _Blocks.of(data, columns or Columns())
    counts = None if blocks is None else _counts(blocks, ranker.k, usual)
    if blocks is None or counts is None:
        blocks = [as_queries(data, columns)]
        counts = _counts(blocks, ranker.k, usual)
    assert counts is not None

    def ranked() -> Iterator[Any]:
        done = 0
        for block in blocks:
            yield placements(ranker, block, ranker.k, session)
            done += len(block)
            if progress:
                progress(done, counts.n_queries)

    _write(ranked(), target)
    return counts


@dataclass(frozen=True)
class _Blocks:
    """Parquet files as blocks of whole queries, if the rows of each query are adjacent."""

    table: ParquetFiles

    @classmethod
    def of(cls, data: Any, columns: Columns) -> "_Blocks | None":
        """Return the files that a path names; None where something else is to be read."""
        if not isinstance(data, str | os.PathLike):
            return None
        files = matching_files(data)
        if any(kind_of(file) != "parquet" for file in files):
            return None
        table = ParquetFiles.of(files, columns)
        return cls(replace(table, roles=table.roles.only(("query", "item", "score"))))

    def __iter__(self) -> Iterator[Queries]:
        for file in self.table.files:
            yield from whole_queries(self.table.batches(file), self.table.roles, file.name)


def _counts(blocks: Iterable[Queries], k: int, usual: tuple[float, float]) -> TableCounts | None:
    """Count the queries of all blocks; None where a query is in several."""
    low, high = usual
    sums, keys = np.zeros(4, np.int64), []
    for block in blocks:
        scores = block.need_scores()
        outside = int(((scores < low) | (scores > high)).sum())
        sums += (len(block), block.n_rows, outside, int(block.n_items.clip(max=k).sum()))
        keys.append(block.keys)
    if keys and np.unique(np.concatenate(keys)).size < sums[0]:
        return None
    return TableCounts(*sums.tolist())


def _write(tables: Iterator[Any], target: Path) -> None:
    """Write Arrow tables of one schema to a file, which appears whole or not at all."""
    kind = KINDS[target.suffix.lower()]
    with replacing(target) as partial:
        if kind == "jsonl":
            with partial.open("w", encoding="utf-8") as lines:
                for table in tables:
                    lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
            return
        first = next(tables)
        writer = pq.ParquetWriter if kind == "parquet" else arrow_csv.CSVWriter
        with writer(partial, first.schema) as sink:
            sink.write_table(first)
            for table in tables:
                sink.write_table(table)
