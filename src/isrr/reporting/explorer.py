"""The table that the page's slider moves over: eight levels tested beforehand, and measurements between them.

The declared promise is tested at the whole delta. Eight other levels of it follow from it alone, and each is tested at
delta/8 along the same path. With probability at least 1 − delta all that are certified hold together, so that any of
them may be used after looking. What each configuration was measured to keep is no promise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np

from isrr.calibration.certify import cost_of
from isrr.calibration.quality import SAMPLE, quality_shares
from isrr.data.queries import FloatArray, Queries
from isrr.metrics.evaluate import Method, evaluate
from isrr.outcome.certificate import Certificate
from isrr.parallel import Progress
from isrr.promises import Promise, values_alone
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.reporting.retrace import Retraced
from isrr.risk.evidence import NAMED, Evidence
from isrr.risk.lattice import BoolArray

HARDER = (0.2, 0.4, 0.6, 0.8)  # of the way from a declared share to one that is out of reach
EASIER = (0.5, 1.0, 2.0, 3.0)  # times that way, in the other direction
STEPS = (1, 3, 5, 10)  # from a declared value in both directions, of a hundredth of its range each
AT_ONCE = 30_000_000  # losses computed at a time


@dataclass(frozen=True)
class Row:
    """A position of the slider.

    Attributes:
        kind: The declared promise, a level fixed beforehand, or what a configuration was measured to do.
        value: What is promised or measured.
        promise: As `isrr calibrate` reads it; empty for a measurement.
        configuration: What is certified or measured; None where nothing is certified.
    """

    kind: Literal["declared", "level", "measured"]
    value: float
    promise: str
    configuration: int | None


@dataclass(frozen=True)
class Explorer:
    """What the page shows of a path.

    Attributes:
        rows: Positions of the slider, from weak to strong.
        measured: The promised quantity of each configuration, in the worst segment where there are several.
        risk: Mean loss of each configuration under the first promise, in the worst segment.
        tolerated: The mean loss up to which the first promise holds.
        second: Measured values of the other promise, where there are two about all queries; empty otherwise.
    """

    rows: tuple[Row, ...]
    measured: tuple[float, ...]
    risk: tuple[float, ...]
    tolerated: float
    second: tuple[float, ...]

    @property
    def levels(self) -> tuple[Row, ...]:
        """The levels fixed beforehand."""
        return tuple(row for row in self.rows if row.kind == "level")


@dataclass(frozen=True, eq=False)
class PerQuery:
    """The values of a promised metric, queries in canonical order.

    Attributes:
        values: Of each configuration of the path, (n_queries, n_grid).
        reference: What they are compared with, (n_queries,).
    """

    values: FloatArray
    reference: FloatArray

    def measured(self, promise: Promise) -> FloatArray:
        """The promised quantity, (n_grid,)."""
        mean: FloatArray = self.values.mean(axis=0)
        return mean if promise.of is None else mean / max(float(self.reference.mean()), 1e-300)

    def risk(self, promise: Promise) -> FloatArray:
        """The mean loss, (n_grid,)."""
        of_value, of_reference, constant = promise.affine
        rest = 0.0 if promise.of is None else of_reference * float(self.reference.mean())
        return np.asarray(of_value * self.values.mean(axis=0) + rest + constant)


def explore(found: Retraced, progress: Progress | None = None) -> Explorer:
    """Measure the path on the tested queries, and test the eight levels."""
    outcome, p = found.outcome, found.outcome.provenance
    first, rankers = outcome.promises[0], [point.ranker for point in outcome.curve]
    grid, measures = [GPLRanker.deterministic(outcome.k), *rankers], dict.fromkeys(q.measure for q in outcome.promises)
    method, n_draws = cast("Method", p.method), p.n_draws or SMOOTHING_DRAWS
    values = evaluate(found.tested, grid, measures, method=method, n_draws=n_draws, seed=p.seed, progress=progress)
    tested = [_by_segment(promise, found.tested, values[promise.measure]) for promise in outcome.promises]
    worst = np.min if first.at_least is not None else np.max
    measured = worst([part.measured(first) for part in tested[0]], axis=0)
    risk = np.max([part.risk(first) for part in tested[0]], axis=0)
    delta = (1 - outcome.confidence) / p.n_analyses
    evidence = NAMED.get(p.evidence, NAMED["betting"])
    chosen = rankers.index(outcome.ranker) if isinstance(outcome, Certificate) else None
    rows = [
        Row("declared", first.target, str(replace(first, per=None)), chosen),
        *declared_levels(outcome.promises, tested, rankers, evidence, delta, _cost(found, rankers)),
        *(Row("measured", float(value), "", column) for column, value in enumerate(measured)),
    ]
    alone = [parts[0].measured(promise) for promise, parts in zip(outcome.promises, tested, strict=True)]
    both = len(alone) == 2 and not any(promise.per for promise in outcome.promises)
    return Explorer(
        tuple(sorted(rows, key=lambda row: row.value if first.at_least is not None else -row.value)),
        tuple(measured.tolist()),
        tuple(risk.tolist()),
        first.alpha,
        tuple(alone[1].tolist()) if both else (),
    )


def eight_levels(promise: Promise) -> list[Promise]:
    """Other levels of a promise, which follow from it alone.

    Example:
        >>> print(*eight_levels(Promise.parse("ndcg@5 >= 95% of deterministic"))[:2], sep="; ")
        ndcg@5 >= 96% of deterministic; ndcg@5 >= 97% of deterministic
        >>> tuple(level.target for level in eight_levels(Promise.parse("ndcg@5 >= 0.6")))
        (0.61, 0.63, 0.65, 0.7, 0.59, 0.57, 0.55, 0.5)
    """
    (low, high), rising = promise.target_range, promise.at_least is not None
    strength = (promise.target - low) / (high - low)
    strength = strength if rising else 1 - strength
    if promise.of is not None:
        room = min(1 - strength, strength / 8)
        strengths = [strength + (1 - strength) * part for part in HARDER] + [strength - room * part for part in EASIER]
    else:
        step = min(0.01, strength / 20, (1 - strength) / 20)
        strengths = [strength + sign * step * times for sign in (1, -1) for times in STEPS]
    return [promise.at(round(low + (high - low) * (s if rising else 1 - s), 12)) for s in strengths]


def declared_levels(
    promises: Sequence[Promise],
    tested: Sequence[Sequence[PerQuery]],
    rankers: Sequence[GPLRanker],
    evidence: Evidence,
    delta: float,
    cost: FloatArray,
) -> list[Row]:
    """Certify eight levels of the first promise, the other promises as declared; all together at delta.

    Args:
        promises: What was declared.
        tested: Each promise in each of its segments.
        rankers: The path, in the order of the test.
        evidence: The test.
        delta: The probability with which any of the rows may be false.
        cost: What is to be small among certified configurations, (n_grid,).
    """
    levels = eight_levels(promises[0])
    part, certified = delta / len(levels), np.ones(len(rankers), bool)
    for promise, parts in zip(promises[1:], tested[1:], strict=True):
        certified &= _certified(promise, parts, rankers, evidence, part)
    rows = []
    for level in levels:
        asked = (level, *promises[1:])
        free = [r.is_deterministic and all(promise.kept_by_definition(r) for promise in asked) for r in rankers]
        useful = np.flatnonzero(certified & _certified(level, tested[0], rankers, evidence, part) & ~np.array(free))
        configuration = int(useful[np.argmin(cost[useful])]) if useful.size else None
        rows.append(Row("level", level.target, str(replace(level, per=None)), configuration))
    return rows


def _certified(
    promise: Promise, parts: Sequence[PerQuery], rankers: Sequence[GPLRanker], evidence: Evidence, delta: float
) -> BoolArray:
    """Which configurations are certified to keep a promise in every segment: those before the first that is not."""
    certified = np.array([promise.kept_by_definition(ranker) for ranker in rankers])
    floored = [ranker.floor if evidence.takes_negative and promise.floored(ranker) else 0.0 for ranker in rankers]
    stretch = promise.stretch(np.array(floored))
    alpha, prior = promise.tested_alpha(stretch), np.broadcast_to(promise.prior_deviation(stretch), stretch.shape)
    at_once = max(AT_ONCE // max(len(part.values) for part in parts), 1)
    left = np.flatnonzero(~certified & (alpha > 0))
    for start in range(0, left.size, at_once):
        columns = left[start : start + at_once]
        certified[columns] = True
        for part in parts:
            losses = promise.losses(part.values[:, columns], part.reference, stretch[columns])
            certified[columns] &= evidence.certifies(losses, alpha[columns], delta, prior[columns])
        if not certified[columns].all():
            break
    return np.asarray(np.logical_and.accumulate(certified))


def _by_segment(promise: Promise, queries: Queries, values: FloatArray) -> list[PerQuery]:
    """The values of the path on the queries that count, the order by score being in the first column."""
    reference, counted = promise.reference(queries, values[:, 0]), ~np.isnan(values[:, 0])
    kept = [rows & counted for rows in promise.segments(queries).values()]
    everything = slice(None)  # which copies nothing
    return [PerQuery(values[s, 1:], reference[s]) for s in (everything if rows.all() else rows for rows in kept)]


def _cost(found: Retraced, rankers: Sequence[GPLRanker]) -> FloatArray:
    """What calibration minimised among certified configurations, (n_grid,)."""
    curve, promises = found.outcome.curve, found.outcome.promises
    utility, disparity = (
        np.array([getattr(point, name).value for point in curve]) for name in ("utility", "disparity")
    )
    remaining = quality_shares(found.tested[:SAMPLE], rankers, promises) if values_alone(promises) else None
    return cost_of(promises, utility, disparity, remaining)
