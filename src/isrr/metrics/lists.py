"""Values of single drawn lists, where `isrr.metrics.evaluate` computes their mean."""

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.gains import empty_value
from isrr.metrics.measure import Measure
from isrr.metrics.metric import Metric

N_DRAWS = 32  # lists drawn per query
ROUNDING = 1e-9  # relative to the reference


def list_values(queries: Queries, lists: NDArray[np.int64], measure: Measure) -> FloatArray:
    """Return the metric of each list, (n_queries, n_lists); NaN where a query does not count.

    Args:
        queries: What was ranked.
        lists: Positions within the query, −1 where there is none, as `GPLRanker.sample` returns them, (n_queries,
            n_lists, ≥ k).
        measure: A metric that is linear in exposure.

    Example:
        >>> from isrr import metric
        >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> list_values(queries, np.array([[[0, 1], [1, 2]]]), metric("ndcg").at(2)).round(3)
        array([[0.521, 1.   ]])
    """
    metric = measure.metric
    if not isinstance(metric, Metric):
        raise TypeError(f"{measure} has no value of a single list; expected a metric that is linear in exposure")
    value = np.append(metric.value(queries), 0.0)  # the last one for places without an item
    first = queries.offsets[:-1, None]
    values = np.zeros(lists.shape[:2])
    for j, weight in enumerate(metric.weights(measure.k).tolist()):
        values += weight * value[np.where(lists[:, :, j] < 0, -1, first + lists[:, :, j])]
    if metric.whole is not None:
        whole = np.asarray(metric.whole(queries, measure.k), np.float64)
        values /= np.where(whole > 0, whole, 1.0)[:, None]
        values[whole <= 0] = empty_value(measure.empty_query)
    return values


def share_below(
    queries: Queries, lists: NDArray[np.int64], measure: Measure, share: float, reference: FloatArray
) -> FloatArray:
    """Return the share of each query's lists whose own value falls short of share · reference, (n_queries,).

    NaN where a query does not count. Lists and measure are those of `list_values`; the reference is what another
    ranking of the query is worth, (n_queries,).
    """
    values, least = list_values(queries, lists, measure), share * reference
    below = (values < (least - ROUNDING * np.abs(least))[:, None]).mean(axis=1)
    return np.where(np.isnan(values[:, 0]), np.nan, below)
