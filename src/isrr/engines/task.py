"""Work that is spread over partitions of queries, and the one function that does it where the rows are.

    record batches ──whole_queries──▶ blocks of queries ──task.summary──▶ a summary ──pack──▶ one record batch

`summarise` is all of that. Every engine calls it for each of its partitions and hands the batches to `merged`.
Summaries add up exactly, so neither the number of partitions nor their order nor a second attempt changes a bit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from isrr.data.blocks import whole_queries
from isrr.data.columns import Cast
from isrr.data.queries import Queries
from isrr.engines.packing import pack, unpack
from isrr.errors import DataError, EngineError, IsrrError, MergeError, PromiseError
from isrr.parallel import Progress

Sum = TypeVar("Sum")
Other = TypeVar("Other")
_ERRORS = {kind.__name__: kind for kind in (PromiseError, MergeError)}


class Task(Protocol[Sum]):
    """A question to all queries whose answers for parts of them add up.

    Attributes:
        roles: The columns it reads, where there are such.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns it reads."""

    def summary(self, blocks: Iterable[Queries]) -> Sum:
        """The answer for the queries of these blocks; there may be none."""

    def joined(self, summaries: Sequence[Sum]) -> Sum:
        """The answer for all queries from answers for parts of them, in any order."""


@dataclass(frozen=True)
class Together(Generic[Sum, Other]):
    """Two tasks in one pass."""

    one: Task[Sum]
    other: Task[Other]

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns it reads."""
        return tuple(dict.fromkeys((*self.one.roles, *self.other.roles)))

    def summary(self, blocks: Iterable[Queries]) -> tuple[Sum, Other]:
        """The answer for these blocks."""
        return self.joined([(self.one.summary([block]), self.other.summary([block])) for block in blocks])

    def joined(self, summaries: Sequence[tuple[Sum, Other]]) -> tuple[Sum, Other]:
        """The answer for all parts."""
        return self.one.joined([one for one, _ in summaries]), self.other.joined([other for _, other in summaries])


class Source(Protocol):
    """Queries, wherever they are.

    Attributes:
        made_ids: Whether their ids were made from positions.
    """

    @property
    def made_ids(self) -> bool:
        """Whether query ids were made from positions."""

    def run(self, task: Task[Sum], progress: Progress | None = None) -> Sum:
        """The answer for all queries."""

    def close(self) -> None:
        """Let go of what was kept for further tasks."""


def summarise(batches: Iterable[Any], task: Task[Sum], columns: Cast, name: str) -> Any:
    """The record batches of one partition, summed up in one record batch.

    What isrr refuses is sent back like an answer, to be raised where the answers meet: nothing is tried a second time
    that cannot end otherwise.

    Args:
        batches: Arrow record batches; rows of a query are adjacent.
        task: What to sum up.
        columns: Which column plays which role.
        name: What errors call the partition.
    """
    try:
        return pack(task.summary(whole_queries(batches, columns, name)))
    except IsrrError as error:
        found = str(error) if str(error).startswith(name) else f"{name}: {error}"
        return pack(Refusal(found, type(error).__name__, getattr(error, "query", None)))


def merged(task: Task[Sum], summaries: Iterable[Any]) -> Sum:
    """The answer for all partitions, from a record batch each; or the first refusal among them."""
    parts = [unpack(row) for batch in summaries for row in batch.to_pylist()]
    refusals = [part for part in parts if isinstance(part, Refusal)]
    if refusals:
        raise min(refusals, key=lambda refusal: refusal.said).error()
    return task.joined(parts)


@dataclass(frozen=True)
class Refusal:
    """What a partition sends where isrr refuses its rows.

    Attributes:
        said: The message.
        kind: Name of the error's class.
        query: The query at fault, if one is known.
    """

    said: str
    kind: str
    query: str | None

    def error(self) -> IsrrError:
        """The error, with its original class if that is known here, otherwise an engine error."""
        if self.kind == DataError.__name__:
            return DataError(self.said, self.query)
        return _ERRORS.get(self.kind, EngineError)(self.said)
