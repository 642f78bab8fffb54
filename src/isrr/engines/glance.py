"""A glance at scored queries: how many there are, and whether their scores are such as calibration saw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isrr.certificate import Abstention, Certificate
from isrr.data.queries import Queries


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
class TakeGlance:
    """The task: glance at every scored query before any is ranked: bad rows are found before rows are written."""

    low: float
    high: float
    k: int
    roles: tuple[str, ...] = ("query", "item", "score")

    @classmethod
    def of(cls, outcome: Certificate | Abstention, k: int) -> "TakeGlance":
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
