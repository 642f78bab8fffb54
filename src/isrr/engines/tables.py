"""What makes one table of several files or partitions: the same columns, and every query whole.

Columns are compared by the footers of Parquet files. Streams of rows are cut into queries, so the rows of a query must
be in one partition. Every partition reports its first and last query: where queries come in rising order
and no two spans overlap, each query is whole. Otherwise the ids decide: one that comes twice is a query cut in two.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isrr.data.blocks import need_parquet, whole_queries
from isrr.data.columns import ROLES, Cast, cast, has_made_ids
from isrr.data.files import Table, reading
from isrr.data.queries import Queries
from isrr.errors import DataError


@dataclass(frozen=True)
class Footer:
    """What the end of a Parquet file says.

    Attributes:
        columns: The type of each column, by name.
        made_ids: Whether query ids were made from positions.
        n_rows: Rows of the file.
    """

    columns: dict[str, str]
    made_ids: bool
    n_rows: int


def matching_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path or a glob names, sorted."""
    text = os.fspath(path)
    if os.path.exists(text) or not glob.has_magic(text):
        return [Path(text)]
    found = sorted(glob.glob(text))
    if not found:
        raise DataError(f"{text}: no such file")
    return [Path(name) for name in found]


def footer_of(file: Path) -> Footer:
    """The footer of a file; one that is missing, empty or not Parquet is refused."""
    need_parquet(file)
    with reading(str(file)):
        said = pq.read_metadata(file)
        schema = said.schema.to_arrow_schema()
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise DataError(f"{file}: two columns are called {name!r}; expected distinct names")
    return Footer({field.name: str(plain(field.type)) for field in schema}, has_made_ids(schema), said.num_rows)


def plain(kind: Any) -> Any:
    """An Arrow type as Parquet knows it: how text is encoded in memory is no matter of the file."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def shared_columns(files: Sequence[object], footers: Sequence[Footer], named: Mapping[str, str | None]) -> Cast:
    """Which columns play which role, the same in every file; files that cannot be one table are refused."""
    first, *others = files
    columns = columns_of(first, footers[0].columns, named)
    for file, footer in zip(others, footers[1:], strict=True):
        for difference in _differences(columns, footers[0], footer, file, named):
            raise DataError(
                f"{file}: has other columns than {first}: {difference}; expected the same columns in all files"
            )
    made = next((file for file, footer in zip(files, footers, strict=True) if footer.made_ids), None)
    if others and made is not None:
        raise DataError(
            f"{made}: its query ids were made from positions, so they clash with those of the next file; expected "
            "real query ids, or all queries in one file"
        )
    return columns


def refuse_without_rows(files: Sequence[object], footers: Sequence[Footer]) -> None:
    """Where files are streamed as they lie, each holds whole queries; one that holds none is a slip in writing them."""
    for file, footer in zip(files, footers, strict=True):
        if footer.n_rows == 0:
            raise DataError(
                f"{file}: the table has no rows; with trust_layout, every file must have queries: remove this one, "
                "or omit trust_layout"
            )


def columns_of(name: object, columns: Iterable[str], named: Mapping[str, str | None]) -> Cast:
    """Which of a table's columns play which role."""
    return cast(Table(str(name), list(columns), lambda *_: None), dict.fromkeys(ROLES) | dict(named), need_query=True)


def _differences(
    columns: Cast, first: Footer, footer: Footer, file: object, named: Mapping[str, str | None]
) -> Iterator[str]:
    for name in columns.names:
        if name not in footer.columns:
            yield f"no {name!r}"
        elif footer.columns[name] != first.columns[name]:
            yield f"{name!r} is {footer.columns[name]}, not {first.columns[name]}"
    for role, name in columns_of(file, footer.columns, named).roles.items():
        if columns.roles.get(role) != name:
            yield f"{name!r} besides"


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
