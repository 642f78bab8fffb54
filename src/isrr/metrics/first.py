"""Metrics of where relevant items come in a list: reciprocal rank (its mean is MRR), hit rate, average precision.

    rr@k  = 1 / position of the first relevant item, 0 beyond k
    hit@k = 1 if one of the first k is relevant, else 0

They are not linear in exposure: a second relevant item adds nothing. With P_j the chance that the first relevant item
comes at position j, both are Σ_j weight(j) · P_j, and P_j is computed exactly (`isrr.ranker.pooled_kernels`).

    ap@k = Σ over positions j ≤ k that hold a relevant item of precision@j / number of relevant items; its mean is MAP

depends on pairs of items, so it is the mean of drawn lists under every ranker, and no floor is known to protect it.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.gains import EmptyQuery, Gain, is_relevant, relevant_total
from isrr.metrics.measure import LISTS, Block, Kind, Measurable, Measure, divided, shown_values
from isrr.ranker.exposure import Prepared


@dataclass(frozen=True)
class OfRelevant(Measurable):
    """What metrics of the positions of relevant items have in common.

    Attributes:
        name: Its name in promises.
        rel: Lowest relevant grade; 1 stands for every grade above 0.
        title: Its name in sentences; by default `name`.
        gain: The gain used for the disparity that is reported with it.
        settings: What distinguishes it from metrics of the same name, as text.
    """

    name: str
    rel: int = 1
    title: str = ""
    gain: Gain = field(default="exponential", compare=False, repr=False)
    settings: tuple[tuple[str, str], ...] = ()

    columns: ClassVar[tuple[str, ...]] = ("relevance",)  # type: ignore[misc]
    kind: ClassVar[Kind] = "utility"  # type: ignore[misc]
    empty_query: ClassVar[EmptyQuery] = "skip"  # type: ignore[misc]
    rising: ClassVar[bool] = True

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries have a relevant item, retrieved or not, (n_queries,)."""
        return np.asarray(relevant_total(queries, self.rel) > 0)


@dataclass(frozen=True)
class First(OfRelevant):
    """A metric of the position of the first relevant item.

    Attributes:
        weights: Value of a list whose first relevant item stands at each of the positions 1 … k; a function of k.
    """

    weights: Callable[[int], FloatArray] = field(default=np.ones, compare=False, repr=False)

    protected: ClassVar[bool] = True

    @property
    def needs(self) -> Hashable:  # type: ignore[override]
        """The position of the first relevant item."""
        return "first", self.rel

    def position_weights(self, k: int) -> FloatArray:
        """Return the weights of the positions 1 … k, (k,)."""
        return self.weights(k)

    def summary(self, prepared: Prepared, measure: Measure) -> Callable[[Block], FloatArray]:
        """Return how its values follow: Σ weight of the position · chance that the first relevant item is there."""
        queries, weights = prepared.queries, self.weights(measure.k)
        relevant = is_relevant(queries.need_relevance(), self.rel)[prepared.rows]
        counts = self.counts(queries, measure.k)

        def of(block: Block) -> FloatArray:
            if block.family.rankers[0].is_sampled:
                return block.mean_of_lists(measure)
            values = block.first_relevant(weights, relevant, self.needs)
            return divided(values, counts[block.start : block.stop], measure.empty_query)

        return of

    def list_values(self, queries: Queries, lists: NDArray[np.integer[Any]], measure: Measure) -> FloatArray:
        """Return the metric of each list: the weight of the position of its first relevant item.

        Example:
            >>> from isrr import metric
            >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
            >>> metric("rr").list_values(queries, np.array([[[0, 1], [1, 2]]]), metric("rr").at(2))
            array([[0.5, 1. ]])
        """
        relevant = shown_values(queries, is_relevant(queries.need_relevance(), self.rel), lists[:, :, : measure.k])
        values = np.where(relevant.any(axis=2), self.weights(measure.k)[relevant.argmax(axis=2)], 0.0)
        return divided(values, self.counts(queries, measure.k), measure.empty_query)


@dataclass(frozen=True)
class AveragePrecision(OfRelevant):
    """Average precision over the first k positions, from drawn lists."""

    needs: ClassVar[Hashable] = LISTS  # type: ignore[misc]

    def summary(self, prepared: Prepared, measure: Measure) -> Callable[[Block], FloatArray]:
        """Return how its values follow: the mean of drawn lists."""
        return lambda block: block.mean_of_lists(measure)

    def list_values(self, queries: Queries, lists: NDArray[np.integer[Any]], measure: Measure) -> FloatArray:
        """Return the metric of each list.

        Example:
            >>> from isrr import metric
            >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
            >>> metric("ap").list_values(queries, np.array([[[0, 1], [1, 2]]]), metric("ap").at(2))
            array([[0.25, 1.  ]])
        """
        relevant = shown_values(queries, is_relevant(queries.need_relevance(), self.rel), lists[:, :, : measure.k])
        precision = relevant.cumsum(axis=2) / np.arange(1, relevant.shape[2] + 1)
        return divided((precision * relevant).sum(axis=2), relevant_total(queries, self.rel), measure.empty_query)
