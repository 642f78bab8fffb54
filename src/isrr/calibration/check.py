"""Does a promise hold on new judged queries? An estimate, not a certificate."""

from dataclasses import dataclass

import numpy as np

from isrr.calibration.fill import values_of
from isrr.certificate import Abstention, Certificate, Estimate
from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.guarantee import Guarantee
from isrr.metrics.disparity import fairness_gain
from isrr.metrics.evaluate import evaluate
from isrr.metrics.exposure import group_exposure
from isrr.ranker.gpl import GPLRanker


@dataclass(frozen=True)
class Kept:
    """One promise on new queries.

    Attributes:
        promise: The promise.
        segment: The segment, or None for all queries.
        value: The promised quantity on the new queries: the metric's mean, or its share of deterministic.
        target: What was promised.
        verdict: "kept", "broken", or "unclear" when the interval holds the target.
    """

    promise: str
    segment: str | None
    value: Estimate
    target: float
    verdict: str


@dataclass(frozen=True)
class GroupShare:
    """Share of exposure of one item group, before and after, beside its share of gain."""

    group: str
    deterministic: float
    ranker: float
    gain: float


@dataclass(frozen=True)
class Check:
    """A ranker on new judged queries."""

    n_queries: int
    n_skipped: int
    promises: tuple[Kept, ...]
    utility: Estimate
    deterministic_utility: Estimate
    disparity: Estimate
    fairness_gain: float
    groups: tuple[GroupShare, ...]

    def __str__(self) -> str:
        lines = [f"{self.n_queries:,} judged queries ({self.n_skipped:,} without a relevant item left out)"]
        for kept in self.promises:
            where = "" if kept.segment is None else f" in segment {kept.segment!r}"
            lines.append(f"promise      {kept.promise}{where}: {kept.verdict}, measured {kept.value}")
        lines += [
            f"NDCG         {self.utility}; deterministic {self.deterministic_utility.value:.4f}",
            f"disparity    {self.disparity}",
            f"fairer by    {100 * self.fairness_gain:.1f} % of the deterministic disparity",
        ]
        if self.groups:
            lines.append("group                 exposure: deterministic   now      its share of gain")
            for share in self.groups[:20]:
                numbers = f"{share.deterministic:12.1%} {share.ranker:12.1%} {share.gain:12.1%}"
                lines.append(f"  {share.group[:24]:<24} {numbers}")
        return "\n".join(lines)


def check(outcome: Certificate | Abstention, queries: Queries) -> Check:
    """Measure an outcome's ranker and promises on judged queries, under the promise's own k, gain and policy."""
    first = outcome.guarantees[0]
    grid = [GPLRanker.deterministic(first.k), outcome.ranker]
    measured = evaluate(queries, grid, gain_kind=first.gain_kind, empty_query=first.empty_query)
    kept = ~np.isnan(measured.ndcg[:, 0])
    if kept.sum() < 2:
        raise DataError(f"{kept.sum()} of {len(kept)} queries have a relevant item; to judge a promise takes several")
    promises = []
    for guarantee in outcome.guarantees:
        values = values_of(measured, guarantee, queries, grid)
        names = [None] if guarantee.per is None else sorted(set(_segments(queries)))
        for segment in names:
            rows = kept if segment is None else kept & (_segments(queries) == segment)
            promises.append(_kept(guarantee, segment, values[rows]))
    utility, disparity = measured.ndcg[kept], measured.disparity[kept]
    return Check(
        int(kept.sum()),
        int((~kept).sum()),
        tuple(promises),
        _estimate(utility[:, 1]),
        _estimate(utility[:, 0]),
        _estimate(disparity[:, 1]),
        fairness_gain(disparity[:, 1], disparity[:, 0]),
        _groups(queries, grid),
    )


def _segments(queries: Queries) -> np.ndarray:
    return np.full(len(queries), "") if queries.segments is None else queries.segments.astype(str)


def _kept(guarantee: Guarantee, segment: str | None, values: np.ndarray) -> Kept:
    if guarantee.relative:
        reference = max(values[:, 0].mean(), 1e-300)
        ratio = values[:, 1].mean() / reference
        error = (values[:, 1] - ratio * values[:, 0]).std() / (reference * np.sqrt(len(values)))
        value = Estimate.around(ratio, error)
    else:
        value = _estimate(values[:, 1])
    good, bad = value.low >= guarantee.target, value.high < guarantee.target
    if not guarantee.utility:
        good, bad = value.high <= guarantee.target, value.low > guarantee.target
    return Kept(str(guarantee), segment, value, guarantee.target, "kept" if good else "broken" if bad else "unclear")


def _estimate(values: np.ndarray) -> Estimate:
    return Estimate.around(values.mean(), values.std() / np.sqrt(len(values)))


def _groups(queries: Queries, grid: list[GPLRanker]) -> tuple[GroupShare, ...]:
    if queries.item_groups is None:
        return ()
    before, after = (group_exposure(ranker.exposure(queries), queries).totals() for ranker in grid)
    shares = [GroupShare(name, before[name][0], after[name][0], before[name][1]) for name in before]
    return tuple(sorted(shares, key=lambda share: -share.gain))
