"""The table that the page's slider moves over: eight levels tested beforehand, and measurements between them.

The declared promise is tested at the whole delta. Eight other levels of it follow from it alone, and each is tested at
delta/8 along the same path. With probability at least 1 − delta all that are certified hold together, so that any of
them may be used after looking. What each configuration was measured to keep is no promise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isrr.calibration.certify import Tested, certify, choose, cost_of
from isrr.calibration.quality import SAMPLE, quality_shares
from isrr.data.queries import FloatArray, Queries
from isrr.metrics.evaluate import evaluate
from isrr.outcome.certificate import Abstention, Certificate
from isrr.parallel import Progress
from isrr.promises import Promise, values_alone
from isrr.ranker.gpl import N_DRAWS, GPLRanker
from isrr.risk.evidence import NAMED
from isrr.risk.select import selection_of

HARDER = (0.2, 0.4, 0.6, 0.8)  # of the way from a declared share to one that is out of reach
EASIER = (0.5, 1.0, 2.0, 3.0)  # times that way, in the other direction
STEPS = (1, 3, 5, 10)  # from a declared value in both directions, of a hundredth of its range each


@dataclass(frozen=True)
class Stop:
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
    """The slider's stops, and the measurements along a path.

    Attributes:
        rows: Positions of the slider, from weak to strong.
        measured: The promised quantity of each configuration, in the worst segment where there are several.
        risk: Mean loss of each configuration under the first promise, in the worst segment.
        tolerated: The mean loss up to which the first promise holds.
        second: Measured values of the other promise, where there are two about all queries; empty otherwise.
        frontier: Then, the configurations that no other beats at both, along the second.
    """

    rows: tuple[Stop, ...]
    measured: tuple[float, ...]
    risk: tuple[float, ...]
    tolerated: float
    second: tuple[float, ...]
    frontier: tuple[int, ...]

    @property
    def levels(self) -> tuple[Stop, ...]:
        """The levels fixed beforehand."""
        return tuple(row for row in self.rows if row.kind == "level")


def explore(outcome: Certificate | Abstention, queries: Queries, progress: Progress | None = None) -> Explorer:
    """Measure the path on the tested queries, and test the eight levels."""
    p, first, rankers = outcome.provenance, outcome.promises[0], [point.ranker for point in outcome.curve]
    grid, measures = [GPLRanker.deterministic(outcome.k), *rankers], dict.fromkeys(q.measure for q in outcome.promises)
    n_draws = p.n_draws or N_DRAWS
    values = evaluate(queries, grid, measures, n_draws=n_draws, seed=p.seed, progress=progress)
    evidence = NAMED.get(p.evidence, NAMED["betting"])

    def tested_in_segments(promise: Promise) -> list[Tested]:
        of_promise, segments = values[promise.measure], promise.segments(queries)
        reference = promise.reference(queries, of_promise[:, 0])
        return [
            Tested.of(promise, segment, evidence, of_promise[rows], reference[rows], rankers)
            for segment, rows in segments.items()
        ]

    tested = [tested_in_segments(promise) for promise in outcome.promises]
    worst = np.min if first.at_least is not None else np.max
    measured = worst([part.measured() for part in tested[0]], axis=0)
    risk = np.max([first.loss().of(part.values, part.reference).mean(axis=0) for part in tested[0]], axis=0)
    chosen = rankers.index(outcome.ranker) if isinstance(outcome, Certificate) else None
    delta = (1 - outcome.confidence) / p.n_analyses
    rows = [
        Stop("declared", first.target, str(replace(first, per=None)), chosen),
        *declared_levels(outcome.promises, tested, rankers, delta, _cost(outcome, queries, rankers)),
        *(Stop("measured", float(value), "", column) for column, value in enumerate(measured)),
    ]
    both = len(tested) == 2 and not any(promise.per for promise in outcome.promises)
    second = tested[1][0].measured() if both else np.empty(0)
    return Explorer(
        tuple(sorted(rows, key=lambda row: row.value if first.at_least is not None else -row.value)),
        tuple(measured.tolist()),
        tuple(risk.tolist()),
        first.alpha,
        tuple(second.tolist()),
        frontier(*_signed(outcome.promises, measured, second)) if both else (),
    )


def _signed(promises: Sequence[Promise], *values: FloatArray) -> list[FloatArray]:
    """Return what each promise measures, larger where it is kept better."""
    return [each if promise.at_least is not None else -each for promise, each in zip(promises, values, strict=True)]


def frontier(one: FloatArray, other: FloatArray) -> tuple[int, ...]:
    """Return the points that no other point exceeds in both numbers, by falling second number.

    Example:
        >>> frontier(np.array([1.0, 3.0, 2.0]), np.array([3.0, 1.0, 0.5]))
        (0, 1)
    """
    order = np.lexsort((-one, -other))
    best = np.maximum.accumulate(one[order])
    return tuple(order[np.concatenate(([True], best[1:] > best[:-1]))].tolist())


def eight_levels(promise: Promise) -> list[Promise]:
    """Return other levels of a promise, which follow from it alone.

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
    tested: Sequence[Sequence[Tested]],
    rankers: Sequence[GPLRanker],
    delta: float,
    cost: FloatArray,
) -> list[Stop]:
    """Certify eight levels of the first promise, the other promises as declared; all together at delta.

    Args:
        promises: What was declared.
        tested: Each promise in each of its segments.
        rankers: The path, in the order of the test.
        delta: The probability with which any of the rows may be false.
        cost: What is to be small among certified configurations, (n_grid,).
    """
    levels, in_order = eight_levels(promises[0]), selection_of("fixed_sequence")
    others = [part for parts in tested[1:] for part in parts]
    stops = []
    for level in levels:
        exempt = np.array([level.kept_by_definition(ranker) for ranker in rankers])
        parts = [replace(part, promise=level, exempt=exempt) for part in tested[0]]
        certified = certify([*parts, *others], in_order, delta / len(levels))
        configuration = choose(certified, rankers, (level, *promises[1:]), cost)
        stops.append(Stop("level", level.target, str(replace(level, per=None)), configuration))
    return stops


def _cost(outcome: Certificate | Abstention, queries: Queries, rankers: Sequence[GPLRanker]) -> FloatArray:
    """Return what calibration minimised among certified configurations, (n_grid,)."""
    utility, disparity = (
        np.array([getattr(point, name).value for point in outcome.curve]) for name in ("utility", "disparity")
    )
    remaining = quality_shares(queries[:SAMPLE], rankers, outcome.promises) if values_alone(outcome.promises) else None
    return cost_of(outcome.promises, utility, disparity, remaining)
