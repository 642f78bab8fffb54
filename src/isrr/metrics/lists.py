"""Single lists: what share of those drawn for a query is good, where other metrics are means over them.

A list is good if its own value is at least a level, or at least a share of what the order by score, or that of
production, is worth on the query.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.gains import leading
from isrr.metrics.measure import LISTS, Block, Measurable, Measure
from isrr.ranker.exposure import Prepared

N_LISTS = 32  # lists drawn per query
ROUNDING = 1e-9  # relative to what a list has to be worth
Compared = Literal["deterministic", "production"]


@dataclass(frozen=True)
class GoodLists(Measurable):
    """The share of a query's lists that are good, in 32 draws.

    Any number of draws has the expectation that is promised; more of them only lessen the spread over queries.

    Attributes:
        metric: The metric of a list.
        target: What a good list is worth at least: a level, or a share.
        of: What it is a share of: "deterministic" (the order by score) or "production"; None for a level.

    Example:
        >>> from isrr import GPLRanker, evaluate, metric
        >>> queries = Queries.from_arrays(scores=[1.0, 0.0], relevance=[1, 0], query_ids=[7, 7])
        >>> good = GoodLists(metric("ndcg"), 0.8, "deterministic").at(2)
        >>> evaluate(queries, [GPLRanker.deterministic(2), GPLRanker(2, temperature=9.0)], [good])[good]
        array([[1.     , 0.59375]])
    """

    metric: Measurable
    target: float
    of: Compared | None = None

    rising: ClassVar[bool] = True
    needs: ClassVar[Hashable] = LISTS  # type: ignore[misc]

    def __post_init__(self) -> None:
        for name in ("columns", "kind", "empty_query", "gain", "settings", "group"):
            object.__setattr__(self, name, getattr(self.metric, name))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Its name, which no promise is written with."""
        return f"lists of {self.metric.name}"

    @property
    def title(self) -> str:  # type: ignore[override]
        """As sentences call it."""
        title = self.metric.title or self.metric.name
        if self.of is None:
            return f"share of lists with at least {self.target:.10g} {title}"
        return f"share of lists with {100 * self.target:.10g} % of {self.of} {title}"

    @property
    def in_percent(self) -> bool:
        """Whether values are written in percent."""
        return True

    def in_words(self, k: int) -> str:
        """Return what good lists do.

        Example:
            >>> from isrr import metric
            >>> GoodLists(metric("ndcg"), 0.8, "deterministic").in_words(5)
            'keep 80 % of what the order by score gives (NDCG@5)'
        """
        return f"{'reach' if self.of is None else 'keep'} {self.level_in_words(k)}"

    def level_in_words(self, k: int) -> str:
        """Return what good lists reach."""
        level = f"{100 * self.target:.6g} %" if self.of or self.metric.in_percent else f"{self.target:.6g}"
        if self.of is not None:
            level += f" of what {'the order by score' if self.of == 'deterministic' else self.of} gives"
        return f"{level} ({self.metric.at(k).title})"

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries the metric can be measured on, (n_queries,)."""
        return self.metric.counts(queries, k)

    def position_weights(self, k: int) -> FloatArray:
        """Return those of the metric."""
        return self.metric.position_weights(k)

    def summary(self, prepared: Prepared, measure: Measure) -> Callable[[Block], FloatArray]:
        """Return how shares follow: they are means over lists."""
        return lambda block: block.mean_of_lists(measure, N_LISTS)

    def list_values(self, queries: Queries, lists: NDArray[np.integer[Any]], measure: Measure) -> FloatArray:
        """Return 1 for good lists and 0 for others."""
        of_metric = Measure(self.metric, measure.k, measure.empty_query)
        reference = np.ones(len(queries))
        if self.of is not None:
            reference = order_values(queries if self.of == "deterministic" else queries.need_production(), of_metric)
        return self.judged(self.metric.list_values(queries, lists, of_metric), reference)

    def judged(self, values: FloatArray, reference: FloatArray) -> FloatArray:
        """Return 1 for good values (n_queries, n_lists) and 0 for others, NaN for NaN.

        The reference is the value of the order compared with, (n_queries,); unused for a level. Where it is below 0, a
        share of 80 % allows to lose a fifth of its size.
        """
        least = np.full(len(values), self.target)
        if self.of is not None:
            least = reference - (1.0 - self.target) * np.abs(reference)
        good = values >= (least - ROUNDING * np.abs(least))[:, None]
        return np.where(np.isnan(values), np.nan, good)


def order_values(queries: Queries, measure: Measure) -> FloatArray:
    """Return the metric of the order by score of each query, (n_queries,)."""
    return measure.metric.list_values(queries, leading(queries, measure.k)[:, None], measure)[:, 0]
