"""Search paths of thresholds: the paper's equally spaced ones, and one on the quantiles of eligibility.

`isrr.calibrate(path=…)` takes the rankers that these functions return, from the safest to the one that gives up most.
A path must be fixed without the queries it is tested on; the paper takes its grid over them, and a promise certified
along such a path carries no guarantee.
"""

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import Scale, scale_of

Path = tuple[GPLRanker, ...]


def overall_mean_and_deviation(queries: Queries) -> tuple[float, float]:
    """Return mean and standard deviation of the raw scores over the rows of all queries, as in the paper."""
    scores = np.sort(queries.need_scores())  # sums that no row order changes
    return float(np.mean(scores)), float(np.std(scores))


def paper_path(queries: Queries, k: int) -> Path:
    """Return the order by score, then 21 equally spaced thresholds down to 0, at temperature 1."""
    mean, deviation = overall_mean_and_deviation(queries)
    return _path(uniform_grid, queries, k, {"mean": mean, "deviation": deviation, "score_map": None})


def threshold_path(queries: Queries, k: int) -> Path:
    """Return the order by score, then thresholds at the quantiles of eligibility down to 0, at temperature 1."""
    return _path(quantile_grid, queries, k, scale_of(queries))


def _path(grid, queries: Queries, k: int, scale: Scale) -> Path:  # type: ignore[no-untyped-def]
    thresholds = grid(GPLRanker(k=k, **scale).eligibility(queries))
    return (GPLRanker.deterministic(k), *(GPLRanker(k=k, threshold=float(t), **scale) for t in thresholds[::-1]))


def uniform_grid(eligibility: FloatArray, n: int = 21) -> FloatArray:
    """Return n equally spaced thresholds from 0 to the largest eligibility, as in the paper."""
    return np.linspace(0.0, float(eligibility.max()), n)


def quantile_grid(eligibility: FloatArray, n: int = 101) -> FloatArray:
    """Return at most n distinct thresholds at equally spaced quantiles of the eligibilities, with 0 before them.

    Most eligibilities are small: quantiles put the grid where admitted sets change.
    """
    return np.unique(np.concatenate(([0.0], np.quantile(eligibility, np.linspace(0.0, 1.0, n - 1)))))
