"""A task that reads a further column of numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SumMargins:
    """The sum of `margin` over all rows that are relevant."""

    roles: tuple[str, ...] = ("query", "relevance", "value:margin")

    def summary(self, blocks) -> float:
        return float(sum((block.column("margin") * (block.relevance > 0)).sum() for block in blocks))

    def joined(self, summaries):
        return sum(summaries)
