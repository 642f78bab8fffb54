"""What the two kinds of metric have in common, and a metric over the first k places."""

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.gains import EmptyQuery, Gain

Kind = Literal["utility", "fairness", "share"]


class Measurable:
    """A metric of either kind; see `isrr.metrics.metric.Metric` and `isrr.metrics.disparity.Disparity`."""

    name: str
    columns: tuple[str, ...]
    kind: Kind
    title: str
    empty_query: EmptyQuery
    gain: Gain
    settings: tuple[tuple[str, str], ...]
    rising: ClassVar[bool]

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Which queries have something to divide by, (n_queries,)."""
        raise NotImplementedError

    def at(self, k: int, empty_query: EmptyQuery | None = None) -> "Measure":
        """The metric over the first k places."""
        return Measure(self, k, self.empty_query if empty_query is None else empty_query)


class Measure(NamedTuple):
    """A metric over the first k places, with its policy for queries that have nothing to divide by."""

    metric: Measurable
    k: int
    empty_query: EmptyQuery

    def __str__(self) -> str:
        return f"{self.metric.name}@{self.k}"

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"

    def counts(self, queries: Queries) -> NDArray[np.bool_]:
        """Which queries are measured, (n_queries,): all, or those that have something to divide by."""
        return np.ones(len(queries), bool) if self.empty_query != "skip" else self.metric.counts(queries, self.k)

    @property
    def title(self) -> str:
        """As sentences call it."""
        return f"{self.metric.title or self.metric.name}@{self.k}"


def per_query(values: FloatArray, queries: Queries) -> FloatArray:
    """Sums over the items of each query of one number per row, (n_queries,)."""
    return np.asarray(np.add.reduceat(values, queries.offsets[:-1]))
