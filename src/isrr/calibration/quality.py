"""What becomes of the quality of the lists: NDCG@k where there are grades, else `kept@k`; on average and by draws."""

from collections.abc import Sequence

import numpy as np

from isrr.calibration.table import Sums
from isrr.data.queries import FloatArray, Queries
from isrr.engines.local import BLOCK
from isrr.metrics.evaluate import evaluate
from isrr.metrics.lists import N_DRAWS, list_values, share_below
from isrr.metrics.measure import Measure
from isrr.outcome.findings import Estimate, Quality
from isrr.promises import Promise, relevance_measure
from isrr.ranker.gpl import GPLRanker

SAMPLE = 20_000  # tested queries, those of smallest key, that quality and quantiles of scores are measured on
HALF = 0.5


def quality_measure(queries: Queries, promises: Sequence[Promise]) -> Measure:
    """Return NDCG@k, or `kept@k` where no query has a relevant item."""
    measure = relevance_measure(promises, judged=queries.relevance is not None)
    return measure if measure.counts(queries).any() else relevance_measure(promises, judged=False)


def quality_values(queries: Queries, ranker: GPLRanker, measure: Measure, seed: int = 0) -> FloatArray:
    """Return four numbers per query, (n_queries, 4); NaN where a query does not count.

    The measure of the order by score, and of the ranker; the share of its drawn lists that keep less than half of what
    the order by score gives, and the share that differs from the order by score.
    """
    by_score, values = GPLRanker.deterministic(ranker.k), np.empty((len(queries), 4))
    for start in range(0, len(queries), BLOCK):
        part = queries if len(queries) <= BLOCK else queries[start : start + BLOCK]
        rows = slice(start, start + BLOCK)
        order, lists = by_score.sample(part), ranker.sample(part, N_DRAWS, seed)
        values[rows, :2] = evaluate(part, [by_score, ranker], [measure], seed=seed)[measure]
        values[rows, 2] = share_below(part, lists, measure, HALF, list_values(part, order, measure)[:, 0])
        values[rows, 3] = (lists != order).any(axis=2).mean(axis=1)
    return values


def measured_quality(queries: Queries, ranker: GPLRanker, promises: Sequence[Promise], seed: int = 0) -> Quality:
    """Measure a ranker on queries that count alike."""
    measure = quality_measure(queries, promises)
    values = quality_values(queries, ranker, measure, seed)
    return summed_quality(measure, Sums.of(values[:, 1:], values[:, 0]))


def summed_quality(measure: Measure, sums: Sums) -> Quality:
    """Return the quality from sums over `quality_values`, the last three beside the first."""
    (after, *shares), errors = sums.mean_and_error()
    _, before, _, _, square = sums.means()[:, 0]
    error = np.sqrt(max(square - before**2, 0.0) / max(sums.n_queries - 1, 1))
    remaining = Estimate.around(after / before if before > 0 else 1.0, sums.reduction()[1][0])
    halved, changed = (Estimate.of_share(*pair) for pair in zip(shares, errors[1:], strict=True))
    name = str(measure) if measure.metric.name == "kept" else measure.title
    return Quality(name, Estimate.around(before, error), Estimate.around(after, errors[0]), remaining, halved, changed)


def quality_shares(
    queries: Queries, rankers: Sequence[GPLRanker], promises: Sequence[Promise], weights: FloatArray | None = None
) -> FloatArray:
    """Return the share of the measure that each ranker keeps of the order by score's, (n_rankers,)."""
    measure = quality_measure(queries, promises)
    values = evaluate(queries, [GPLRanker.deterministic(rankers[0].k), *rankers], [measure])[measure]
    counted = ~np.isnan(values[:, 0])
    means = np.average(values[counted], axis=0, weights=None if weights is None else weights[counted])
    return np.asarray(means[1:] / means[0]) if means[0] > 0 else np.ones(len(rankers))
