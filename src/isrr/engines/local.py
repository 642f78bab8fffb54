"""Queries on this machine: in memory, or streamed from Parquet files in blocks, by Dask where it is asked for."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from isrr.data.blocks import parquet_batches
from isrr.data.columns import Cast
from isrr.data.queries import Queries
from isrr.data.source import Footer, footer_of, shared_columns
from isrr.engines import tables
from isrr.engines.task import Sum, Task, merged, summarise
from isrr.errors import IsrrError, MissingExtraError
from isrr.parallel import Progress, over_queries, threads, use_threads

BLOCK = 8_192  # queries of a block, at most
Spread = Callable[[Callable[[Path], Any], list[Path]], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class InMemory:
    """Queries at hand."""

    queries: Queries

    @property
    def made_ids(self) -> bool:
        """Whether query ids were made from positions."""
        return self.queries.made_ids

    def run(self, task: Task[Sum], progress: Progress | None = None) -> Sum:
        """The answer for all queries. Blocks of them are summed up side by side, each on a thread of its own."""
        n_queries = len(self.queries.keys)  # which blocks then need not compute again for every task
        if n_queries <= BLOCK:
            found = task.summary([self.queries])
            if progress:
                progress(n_queries, n_queries)
            return found
        parts, refusals = dict[int, Sum](), dict[int, IsrrError]()

        def summarise_block(start: int, stop: int) -> None:
            try:
                with use_threads(1):
                    parts[start] = task.summary([self.queries[start:stop]])
            except IsrrError as refusal:
                refusals[start] = refusal
                raise

        turns = ceil(n_queries / (BLOCK * threads()))  # of all threads, with blocks of the same size
        try:
            over_queries(summarise_block, np.arange(n_queries + 1), progress, ceil(n_queries / (turns * threads())))
        except IsrrError:
            raise refusals[min(refusals)] from None  # blocks are begun in order: the first refusal is among them
        return task.joined([parts[start] for start in sorted(parts)])

    def close(self) -> None:
        """Let go of what was kept for further tasks."""


@dataclass(frozen=True, eq=False)
class Files:
    """Parquet files in which the rows of every query are adjacent; each file is a partition.

    Attributes:
        files: The files; each query is in one of them.
        named: Columns by role, where they have other than their usual names.
        spread: How a function is applied to all files: `map`, or what does the same on several machines.
    """

    files: list[Path]
    named: Mapping[str, str | None] = field(default_factory=dict)
    spread: Spread = map

    def __post_init__(self) -> None:
        tables.refuse_without_rows(self.files, self._footers)
        if not tables.apart(self.run(tables.TakeSpans())):
            self._refuse_split_queries()

    @property
    def made_ids(self) -> bool:
        """Whether query ids were made from positions."""
        return any(footer.made_ids for footer in self._footers)

    @cached_property
    def _footers(self) -> list[Footer]:
        return [footer_of(file) for file in self.files]

    @cached_property
    def columns(self) -> Cast:
        """Which column plays which role, in every file."""
        return shared_columns(self.files, self._footers, self.named)

    def run(self, task: Task[Sum], progress: Progress | None = None) -> Sum:
        """The answer for all queries."""
        batches = []
        for batch in self.spread(partial(summarise_file, task=task, columns=self.columns.only(task.roles)), self.files):
            batches.append(batch)
            if progress:
                progress(len(batches), len(self.files))
        return merged(task, batches)

    def close(self) -> None:
        """Let go of what was kept for further tasks."""

    def _refuse_split_queries(self) -> None:
        seen: dict[str, Path] = {}
        for file in self.files:
            batches = parquet_batches(file, self.columns.only(["query"]).names)
            for ids in tables.ids_by_block(batches, self.columns, str(file)):
                for query in ids:
                    if query in seen:
                        files = dict.fromkeys([str(seen[query]), str(file)])
                        raise tables.split_query(query, list(files))
                    seen[query] = file


def summarise_file(file: Path, task: Task[Sum], columns: Cast) -> Any:
    """One file, summed up in one record batch."""
    return summarise(parquet_batches(file, columns.names), task, columns, str(file))


def on_dask(function: Callable[[Path], Any], files: list[Path]) -> tuple[Any, ...]:
    """What `map` gives, computed by Dask."""
    try:
        from dask.base import compute
        from dask.delayed import delayed
    except ImportError:
        raise MissingExtraError("dask", "dask") from None
    task = delayed(_on_one_thread)
    answers: tuple[Any, ...] = compute(*(task(function, file) for file in files))  # type: ignore[no-untyped-call]
    return answers


def _on_one_thread(function: Callable[[Path], Any], file: Path) -> Any:
    """The scheduler runs a task for every core."""
    with use_threads(1):
        return function(file)
