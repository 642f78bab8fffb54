"""What must be known of all queries before any is tested: how many there are, in which segments, and that they can be.

The bets of the evidence depend on the number of queries, so this pass comes first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from isrr.data.queries import Queries, joint_fingerprint
from isrr.errors import DataError
from isrr.gains import has_relevant
from isrr.guarantee import Guarantee


@dataclass(frozen=True)
class Census:
    """Counts over queries, those to be set aside included.

    Attributes:
        n_queries: Queries in all.
        n_single: Queries with a single item.
        n_relevant: Queries with a relevant item.
        n_counted: Queries that count under the policy for empty ones …
        by_segment: … and those of each segment, none in some perhaps, where a promise speaks of segments.
        lowest, highest: Scores.
        fingerprint: Of ids, scores and relevance.
    """

    n_queries: int = 0
    n_single: int = 0
    n_relevant: int = 0
    n_counted: int = 0
    by_segment: tuple[tuple[str, int], ...] = ()
    lowest: float = np.inf
    highest: float = -np.inf
    fingerprint: str = "0" * 32

    def __add__(self, other: "Census") -> "Census":
        return Census(
            self.n_queries + other.n_queries,
            self.n_single + other.n_single,
            self.n_relevant + other.n_relevant,
            self.n_counted + other.n_counted,
            _added(self.by_segment, other.by_segment),
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            joint_fingerprint(self.fingerprint, other.fingerprint),
        )


def _added(ours: tuple[tuple[str, int], ...], theirs: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    sums = dict(ours)
    for name, count in theirs:
        sums[name] = sums.get(name, 0) + count
    return tuple(sorted(sums.items()))


@dataclass(frozen=True)
class TakeCensus:
    """The task: count queries under the policy of these promises."""

    guarantees: tuple[Guarantee, ...]

    @property
    def by_segment(self) -> bool:
        """Whether a promise speaks of segments."""
        return any(guarantee.per == "segment" for guarantee in self.guarantees)

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns it reads."""
        return ("query", "score", "relevance", *(["segment"] if self.by_segment else []))

    def summary(self, blocks: Iterable[Queries]) -> Census:
        """The answer for these blocks."""
        return self.joined([self._count(block) for block in blocks])

    def joined(self, summaries: Sequence[Census]) -> Census:
        """The answer for all parts."""
        return sum(summaries, Census())

    def _count(self, queries: Queries) -> Census:
        scores, first = queries.need_scores(), self.guarantees[0]
        counted = first.counts(queries)
        relevant = counted if first.empty_query == "skip" else has_relevant(queries, gain_kind=first.gain_kind)
        segments: tuple[tuple[str, int], ...] = ()
        if self.by_segment:
            names, code = np.unique(segments_of(queries), return_inverse=True)
            counts = np.bincount(code[counted], minlength=names.size)
            segments = tuple(zip(names.tolist(), counts.tolist(), strict=True))
        return Census(
            len(queries),
            int((queries.n_items == 1).sum()),
            int(relevant.sum()),
            int(counted.sum()),
            segments,
            float(scores.min()),
            float(scores.max()),
            queries.fingerprint,
        )


def refuse_single(n_single: int, n_queries: int) -> None:
    """Refuse queries of one item each: anything ranks these perfectly, so they would speak for any promise."""
    if n_single == n_queries:
        raise DataError(
            "every query has a single item, so there is nothing to rank; are the columns of queries and items swapped "
            "(`query=`, `item=`)?"
        )


def segments_of(queries: Queries) -> np.ndarray:
    """The segment of each query, as text."""
    if queries.segments is None:
        unnamed = "these queries have none; name their column (`segment=`)"
        reason = queries.absent.get("segment", unnamed)
        raise DataError(f"a promise per segment needs a segment for each query: {reason}")
    return queries.segments.astype(str)
