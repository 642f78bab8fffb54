"""What makes one table of several files or partitions: the same columns, and every query whole.

Columns are compared by the footers of Parquet files. Streams of rows are cut into queries, so the rows of a query must
be in one partition. Every partition reports its first and last query: where queries come in rising order
and no two spans overlap, each query is whole. Otherwise the ids decide: one that comes twice is a query cut in two.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from isrr.data.blocks import whole_queries
from isrr.data.columns import Cast
from isrr.data.queries import Queries
from isrr.data.source import Footer
from isrr.errors import DataError


def refuse_without_rows(files: Sequence[object], footers: Sequence[Footer]) -> None:
    """Where files are streamed as they lie, each holds whole queries; one that holds none is a slip in writing them."""
    for file, footer in zip(files, footers, strict=True):
        if footer.n_rows == 0:
            raise DataError(
                f"{file}: the table has no rows; with trust_layout, every file must have queries: remove this one, "
                "or omit trust_layout"
            )


@dataclass(frozen=True)
class Span:
    """The queries of a partition: the first, the last, and whether each came after the one before."""

    first: str | int
    last: str | int
    rising: bool

    @classmethod
    def of(cls, queries: Queries) -> "Span":
        """The span of one block."""
        ids = queries.query_ids
        first, last = ids[[0, -1]].tolist()
        return cls(first, last, queries.rows is None and bool(np.all(ids[1:] > ids[:-1])))

    def then(self, later: "Span") -> "Span":
        """This span and that of the next block together."""
        return Span(self.first, later.last, self.rising and later.rising and self < later)

    def __lt__(self, other: "Span") -> bool:
        return type(self.last) is type(other.first) and self.last < other.first  # type: ignore[operator]


@dataclass(frozen=True)
class TakeSpans:
    """The task: the span of every partition that has queries."""

    roles: tuple[str, ...] = ("query",)

    def summary(self, blocks: Iterable[Queries]) -> tuple[Span, ...]:
        """The answer for these blocks."""
        span = None
        for block in blocks:
            span = Span.of(block) if span is None else span.then(Span.of(block))
        return () if span is None else (span,)

    def joined(self, summaries: Sequence[tuple[Span, ...]]) -> tuple[Span, ...]:
        """The answer for all parts."""
        return tuple(span for spans in summaries for span in spans)


def apart(spans: tuple[Span, ...]) -> bool:
    """Whether the spans alone show that every query stands whole in one partition."""
    if len({type(span.first) for span in spans}) > 1:
        return False
    ordered = sorted(spans, key=lambda span: span.first)
    return all(span.rising for span in spans) and all(left < right for left, right in pairwise(ordered))


def ids_by_block(batches: Iterable[Any], columns: Cast, name: str) -> Iterator[list[str]]:
    """The ids of each block's runs of rows, as text; an id that comes twice is a query cut in two."""
    for block in whole_queries(batches, columns.only(TakeSpans().roles), name):
        ids = block.in_caller_order(np.repeat(block.query_ids, block.n_items))
        yield [str(query_id) for query_id in ids[np.concatenate(([True], ids[1:] != ids[:-1]))]]


def split_query(query: str, files: Sequence[str] = ()) -> DataError:
    """The refusal of a query whose rows are in two places."""
    where = f"{' and '.join(files)}: " if files else ""
    return DataError(
        f"{where}query {query!r} appears in two places; with trust_layout, the rows of a query must be adjacent in "
        "one file: write the files sorted by query, or omit trust_layout",
        query,
    )
