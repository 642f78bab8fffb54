"""What the judgments are called, whatever the scores: queries that are scored anew are looked at again.

Item ids take long to read, so they are named in a pass that reads them anyway.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from isrr.data.queries import Queries, joint_fingerprint


@dataclass(frozen=True)
class NameJudgments:
    """The task: the fingerprint of query ids, item ids where there are any, and relevance."""

    roles: tuple[str, ...] = ("query", "item", "relevance")

    def summary(self, blocks: Iterable[Queries]) -> str:
        """The answer for these blocks."""
        return self.joined([block.judgments for block in blocks])

    def joined(self, summaries: Sequence[str]) -> str:
        """The answer for all parts."""
        return reduce(joint_fingerprint, summaries, "0" * 32)
