"""What calibration measures: values per query and configuration, and their means."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.metrics.evaluate import evaluate
from isrr.metrics.measure import Measure
from isrr.parallel import Progress
from isrr.promises import Promise
from isrr.ranker.gpl import N_DRAWS, GPLRanker

MANY, FEW_DRAWS = 50_000, 4  # queries beyond which so many draws of each are enough


@dataclass(frozen=True, eq=False)
class Means:
    """Means over queries, one per configuration, (n_grid,) each.

    Attributes:
        n_queries: Queries that count.
        mean, error: Of the values v, and the standard error.
        reference, reference_error: Of what they are compared with, r.
        ratio, ratio_error: v̄ / r̄, where r̄ is positive, and its error; the ratio is 1 where it is not.
        reduction: 1 − v̄ / r̄, freed of the ratio's bias to first order.
    """

    n_queries: int
    mean: FloatArray
    error: FloatArray
    reference: float
    reference_error: float
    ratio: FloatArray
    ratio_error: FloatArray
    reduction: FloatArray

    @classmethod
    def of(cls, values: FloatArray, reference: FloatArray, times: FloatArray | None = None) -> "Means":
        """Average values (n_queries, n_grid) beside what they are compared with, (n_queries,).

        NaN rows are left out; `times` says how often each query counts, by default once. With s the covariances over
        queries and q = v̄/r̄, the bias of q is (q·s_rr − s_vr)/(n·r̄²) and its error √((s_vv − 2q·s_vr + q²·s_rr)/n)/r̄,
        the leading terms of the jackknife's.
        """
        counts = ~np.isnan(values[:, 0])
        if not counts.all():
            values, reference, times = values[counts], reference[counts], None if times is None else times[counts]
        n, degrees = len(values), max(len(values) - 1, 1)
        if not n:
            nothing = np.zeros(values.shape[1])
            return cls(0, nothing, nothing, 0.0, 0.0, nothing + 1, nothing, nothing)
        weights = np.ones(n) if times is None else times / times.mean()
        mean, r_mean = np.einsum("q,qc->c", weights, values) / n, float((weights * reference).sum() / n)
        s_vv = np.maximum(np.einsum("q,qc,qc->c", weights, values, values) / n - mean**2, 0.0)
        s_vr = np.einsum("q,qc->c", weights * reference, values) / n - mean * r_mean
        s_rr = max(float((weights * reference**2).sum() / n) - r_mean**2, 0.0)
        errors = np.sqrt(s_vv / degrees), float(np.sqrt(s_rr / degrees))
        if r_mean <= 0:
            nothing = np.zeros(mean.size)
            return cls(n, mean, errors[0], r_mean, errors[1], nothing + 1, nothing, nothing)
        ratio = mean / r_mean
        variance = np.maximum(s_vv - 2 * ratio * s_vr + ratio**2 * s_rr, 0.0)
        bias = (ratio * s_rr - s_vr) / (degrees * r_mean**2)
        return cls(n, mean, errors[0], r_mean, errors[1], ratio, np.sqrt(variance / degrees) / r_mean, 1 - ratio + bias)


@dataclass(frozen=True, eq=False)
class Curve:
    """What is reported of each configuration of a path, the order by score first.

    Attributes:
        n_queries, n_skipped: Queries tested on, and those that count for no promise.
        utility, disparity: The means.
        method, n_draws: How values were found; no draws where they are exact.
    """

    n_queries: int
    n_skipped: int
    utility: Means
    disparity: Means
    method: str = "exact"
    n_draws: int = 0


def measured(
    queries: Queries,
    rankers: Sequence[GPLRanker],
    promises: Sequence[Promise],
    reported: tuple[Measure, Measure],
    uniform: NDArray[np.bool_],
    n_tested: int,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Curve, list[FloatArray]]:
    """Return what is reported of rankers, and the values of each promise, (n_queries, 1 + n_rankers).

    What is reported is averaged over the queries that are `uniform`, all or some; the draws depend on `n_tested`.
    Values are exact for decay 1. Below, they are averaged over draws, and beyond 50,000 queries over few: any number
    keeps a promise valid (losses stay unbiased and at most 1), and at that size the queries' own spread outweighs the
    draws'.
    """
    grid = [GPLRanker.deterministic(rankers[0].k), *rankers]
    is_sampled, n_draws = any(ranker.is_sampled for ranker in grid), N_DRAWS if n_tested <= MANY else FEW_DRAWS
    measures = dict.fromkeys([*reported, *(promise.measure for promise in promises)])
    values = evaluate(queries, grid, measures, n_draws=n_draws, seed=seed, progress=progress)
    rows = slice(None) if uniform.all() else uniform
    utility, disparity = (Means.of(values[measure][rows], values[measure][rows, 0]) for measure in reported)
    how = ("draws", n_draws) if is_sampled else ("exact", 0)
    return Curve(len(queries), 0, utility, disparity, *how), [values[promise.measure] for promise in promises]
