"""Values of single drawn lists, where `isrr.metrics.evaluate` computes their mean."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.metrics.measure import Measure

N_DRAWS = 32  # lists drawn per query
ROUNDING = 1e-9  # relative to the reference


def share_below(
    queries: Queries, lists: NDArray[np.integer[Any]], measure: Measure, share: float, reference: FloatArray
) -> FloatArray:
    """Return the share of each query's lists whose own value falls short of share · reference, (n_queries,).

    NaN where a query does not count. Lists and measure are those of `Measurable.list_values`; the reference is what
    another ranking of the query is worth, (n_queries,).
    """
    values, least = measure.metric.list_values(queries, lists, measure), share * reference
    below = (values < (least - ROUNDING * np.abs(least))[:, None]).mean(axis=1)
    return np.where(np.isnan(values[:, 0]), np.nan, below)
