"""What becomes of the quality of the lists: NDCG@k where there are grades, else `kept@k`; on average and by draws."""

from collections.abc import Sequence

import numpy as np

from isrr.calibration.measured import Means
from isrr.data.queries import FloatArray, Queries
from isrr.gains import leading
from isrr.metrics.evaluate import evaluate
from isrr.metrics.lists import N_LISTS, GoodLists
from isrr.metrics.measure import Measure
from isrr.outcome.findings import Estimate, Quality
from isrr.promises import Promise, relevance_measure
from isrr.ranker.gpl import GPLRanker

SAMPLE = 20_000  # tested queries, the first in canonical order, that quality and quantiles of scores are measured on
POSITIONS = 1 << 24  # positions of all lists that are drawn together
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
    good = GoodLists(measure.metric, HALF, "deterministic").at(measure.k, measure.empty_query)
    n_together = max(POSITIONS // (N_LISTS * ranker.k), 1)
    for start in range(0, len(queries), n_together):
        rows = slice(start, start + n_together)
        part = queries if len(queries) <= n_together else queries[rows]
        lists = ranker.sample(part, N_LISTS, seed)
        values[rows, :2] = evaluate(part, [by_score, ranker], [measure], seed=seed)[measure]
        values[rows, 2] = 1.0 - good.metric.list_values(part, lists, good).mean(axis=1)
        values[rows, 3] = (lists != leading(part, ranker.k)[:, None]).any(axis=2).mean(axis=1)
    return values


def measured_quality(queries: Queries, ranker: GPLRanker, promises: Sequence[Promise], seed: int = 0) -> Quality:
    """Return what becomes of quality under a ranker, on queries that count alike."""
    measure = quality_measure(queries, promises)
    return averaged_quality(measure, quality_values(queries, ranker, measure, seed))


def averaged_quality(measure: Measure, values: FloatArray, times: FloatArray | None = None) -> Quality:
    """Return the quality from `quality_values`; `times` says how often each query counts."""
    means = Means.of(values[:, 1:], values[:, 0], times)
    after, halved, changed = zip(means.mean, means.error, strict=True)
    return Quality(
        str(measure) if measure.metric.name == "kept" else measure.title,
        Estimate.around(means.reference, means.reference_error),
        Estimate.around(*after),
        Estimate.around(means.ratio[0], means.ratio_error[0]),
        Estimate.around(*halved, 0.0, 1.0),
        Estimate.around(*changed, 0.0, 1.0),
    )


def quality_shares(
    queries: Queries, rankers: Sequence[GPLRanker], promises: Sequence[Promise], times: FloatArray | None = None
) -> FloatArray:
    """Return the share of the measure that each ranker keeps of the order by score's, (n_rankers,)."""
    measure = quality_measure(queries, promises)
    values = evaluate(queries, [GPLRanker.deterministic(rankers[0].k), *rankers], [measure])[measure]
    return Means.of(values[:, 1:], values[:, 0], times).ratio
