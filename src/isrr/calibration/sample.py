"""The queries of smallest key: a random sample that is the same whatever order or partition they come in.

Keys are hashes of query ids, so those below a cutoff are a fair draw, and how many there will be is known in advance
up to chance. The sample fits on one machine; everything else stays where it is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import Queries
from isrr.engines.task import Source
from isrr.errors import DataError
from isrr.parallel import Progress

ALL = 2**64
CHANCE = 6.0  # standard deviations by which the cutoff is put higher than it would have to be on average


@dataclass(frozen=True)
class Gather:
    """The task: fetch the queries whose key is below a cutoff; None where there are none."""

    below: int

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns it reads."""
        return ("query", "item", "score", "relevance", "segment", "item_group")

    def summary(self, blocks: Iterable[Queries]) -> Queries | None:
        """The answer for these blocks."""
        return self.joined([self._chosen(block) for block in blocks])

    def _chosen(self, queries: Queries) -> Queries | None:
        if self.below >= ALL:
            return queries
        chosen = np.flatnonzero(queries.keys < np.uint64(self.below))
        return queries[chosen] if chosen.size else None

    def joined(self, summaries: Sequence[Queries | None]) -> Queries | None:
        """The answer for all parts."""
        found = [queries for queries in summaries if queries is not None]
        if len(found) < 2:
            return found[0] if found else None
        return Queries.concatenate(found)


@dataclass(frozen=True)
class FindShared:
    """The task: which queries of the source are among some others.

    Attributes:
        names: Hashes that name the others.
        roles: The columns that are hashed: ids, or, where those were made from positions and so name nothing, scores
            and relevance.
    """

    names: frozenset[int]
    roles: tuple[str, ...]

    @classmethod
    def among(cls, others: Queries, *, made_ids: bool) -> "FindShared":
        """For these others, where ids of either side were made or not."""
        judged = () if others.relevance is None else ("relevance",)
        roles = ("query", "score", *judged) if made_ids else ("query",)
        return cls(frozenset(_names(others, roles).tolist()), roles)

    def shared(self, others: Queries, found: frozenset[int]) -> NDArray[np.bool_]:
        """Which of the others were found, (n_queries,)."""
        return np.isin(_names(others, self.roles), np.array(sorted(found), np.uint64))

    def summary(self, blocks: Iterable[Queries]) -> frozenset[int]:
        """The answer for these blocks."""
        return self.joined([self.names.intersection(_names(block, self.roles).tolist()) for block in blocks])

    def joined(self, summaries: Sequence[frozenset[int]]) -> frozenset[int]:
        """The answer for all parts."""
        return frozenset().union(*summaries)


def _names(queries: Queries, roles: tuple[str, ...]) -> NDArray[np.uint64]:
    return queries.content_keys(judged="relevance" in roles) if "score" in roles else queries.keys


def enough(n_wanted: int, n_queries: int) -> Gather:
    """The task that fetches the `n_wanted` queries of smallest key and a few more; fewer once in a billion times."""
    return Gather(min(math.ceil((n_wanted + CHANCE * math.sqrt(n_wanted) + 1) / n_queries * ALL), ALL))


def smallest_keys(
    source: Source, n_wanted: int, n_queries: int, found: Queries | None = None, progress: Progress | None = None
) -> Queries:
    """The `n_wanted` queries of smallest key among all `n_queries`, by rising key; all where there are fewer.

    Args:
        source: The queries.
        n_wanted: How many.
        n_queries: How many there are.
        found: What `enough` has fetched, where it has been run already.
        progress: Called with (done, in all).
    """
    task, wanted = enough(n_wanted, n_queries), min(n_wanted, n_queries)
    found = source.run(task, progress) if found is None else found
    while found is None or len(found) < wanted:
        if task.below == ALL:
            raise DataError(f"there were {n_queries:,} queries at first, then fewer: the data change while being read")
        task = Gather(min(2 * task.below, ALL))
        found = source.run(task, progress)
    order = np.argsort(found.keys, kind="stable")
    keys = found.keys[order]
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if twice.size:
        query = str(found.query_ids[order[twice[0]]])
        raise DataError(f"query {query!r} shares its key with another; a query may stand in one place only", query)
    return found[order[:wanted]]
