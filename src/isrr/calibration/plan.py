"""How many judged queries a promise needs, before paying for labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from isrr.calibration.path import SearchPath, floored, front_path, judged_in_all, learnable, temperature_path
from isrr.calibration.request import Request
from isrr.calibration.tasks import refuse_single
from isrr.counting import counted
from isrr.data.queries import FloatArray, Queries
from isrr.engines.source import Where, read_any
from isrr.errors import PromiseError
from isrr.metrics.disparity import fairness_gain
from isrr.metrics.evaluate import evaluate
from isrr.promises.promise import Promise, check_probability, objectives
from isrr.ranker.gpl import GPLRanker
from isrr.risk import size
from isrr.risk.size import POWER
from isrr.scores.standardize import scale_of

LEAST_PILOT = 10
KEEP_HEADROOM = 0.5  # with no pilot queries: plan to give up this part of what the promise lets go


@dataclass(frozen=True)
class Milestone:
    """One configuration on the way from the order by score to a fair one, and what certifying it takes."""

    temperature: float
    utility: float
    fairness_gain: float
    queries_needed: int | None


@dataclass(frozen=True)
class Plan:
    """How many judged queries a promise needs.

    Attributes:
        promise: The promise.
        confidence, power: Confidence of the certificate, and probability that calibration succeeds.
        queries_needed: Judged queries needed for the safest configuration; with fewer, expect an abstention.
        pessimistic: The same, if the pilot was one standard error too optimistic.
        utility_name: What the milestones' utility is measured by.
        milestones: What more queries gain, from safe to fair; empty without pilot queries.
        n_pilot: Pilot queries used.
    """

    promise: Promise
    confidence: float
    power: float
    queries_needed: int | None
    pessimistic: int | None
    utility_name: str
    milestones: tuple[Milestone, ...]
    n_pilot: int

    def __str__(self) -> str:
        def needed(n: int | None) -> str:
            return "no number is enough" if n is None else counted(n, "judged query")

        judged = "relevance" in self.promise.columns and self.promise.empty_query == "skip"
        remark = " (with a relevant item each)" if judged else ""
        if self.queries_needed is None:
            remark = f": promise less{', or improve the scores' if self.promise.metric.rising else ''}"
        lines = [
            f"Plan for {self.promise}, confidence {self.confidence:g}, certified {self.power:.0%} of the time",
            f"to certify anything      {needed(self.queries_needed)}{remark}",
        ]
        if self.n_pilot:
            lines.append(
                f"if the pilot was lucky   {needed(self.pessimistic)} (the true risk one standard error above that "
                f"of the {counted(self.n_pilot, 'pilot query')})"
            )
        else:
            lines.append("this is a guess          a pilot of judged queries shows how much their losses vary")
        for milestone in self.milestones:
            lines.append(
                f"for {100 * milestone.fairness_gain:5.1f} % less disparity {needed(milestone.queries_needed):>24}"
                f"   ({self.utility_name} {milestone.utility:.4f})"
            )
        return "\n".join(lines)


def plan(
    queries: Any,
    promise: str | Promise,
    confidence: float = 0.95,
    *,
    power: float = POWER,
    utility: float | None = None,
    deviation: float = 0.28,
    **where: Unpack[Where],
) -> Plan:
    """How many judged queries a promise needs.

    Args:
        queries: Some judged queries, as a pilot: `Queries`, a path or a table, as `calibrate` takes them; or None, with
            `utility=`, or `run=` and `qrels=`. For a promise per segment, the segment that needs most decides.
        promise: The promise, as text or as `Promise`.
        confidence: How sure the certificate must be.
        power: Probability that calibration then succeeds.
        utility: Without a pilot: expected NDCG of the order by score.
        deviation: Without a pilot: its standard deviation over queries (0.28 on MQ2007).
        where: Names of columns, see `isrr.engines.source.Where`.

    Example:
        >>> plan(None, "ndcg@5 >= 0.50", utility=0.55).queries_needed
        232
    """
    if not isinstance(promise, str | Promise):
        raise TypeError(f"plan takes pilot queries first, then the promise; the second is a {type(promise).__name__}")
    promised = Promise.parse(promise) if isinstance(promise, str) else promise
    check_probability("confidence", confidence)
    check_probability("power", power)
    request = Request((promised,), confidence)
    if queries is None and where.get("run") is None:
        needed = _guessed(promised, request, power, utility, deviation)
        return Plan(promised, confidence, power, needed, None, "", (), 0)
    pilot = _Pilot.of(request, read_any(queries, request.columns, **where))
    needs = [pilot.queries_needed(c, power) for c in range(len(pilot.path.rankers))]
    safest = _safest(needs)
    pessimistic = pilot.queries_needed(safest, power, errors=1.0)
    return Plan(
        promised, confidence, power, needs[safest], pessimistic, pilot.utility_name, _milestones(pilot, needs),
        pilot.n_queries,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Pilot:
    """Configurations of the path that calibration would take, on pilot queries.

    Attributes:
        request: What is asked.
        path: The configurations.
        losses: In each segment that the promise is about, (n_queries there, n_grid).
        share_counted: Share of the pilot queries that count.
        utility_name: What utility is measured by.
        utility: Of each configuration, (n_grid,).
        gains: Share of the disparity of the order by score that each removes.
    """

    request: Request
    path: SearchPath
    losses: list[FloatArray]
    share_counted: float
    utility_name: str
    utility: FloatArray
    gains: list[float]

    @classmethod
    def of(cls, request: Request, queries: Queries) -> "_Pilot":
        """Measured on these queries; too few are refused."""
        refuse_single(int((queries.n_items == 1).sum()), len(queries))
        (promise,) = request.promises
        floor = floored(request, len(queries))
        path = temperature_path(promise.k, scale_of(queries), [promise], "the pilot", floor)
        if learnable(queries, request.promises):
            path = front_path(queries, promise.k, [promise], "the pilot", floor)
        reported = objectives(request.promises, judged=queries.relevance is not None)
        grid = [GPLRanker.deterministic(promise.k), *path.rankers]
        found = evaluate(queries, grid, dict.fromkeys([*reported, promise.measure]))
        values = found[promise.measure]
        reference, counts = promise.reference(queries, values[:, 0]), ~np.isnan(values[:, 0])
        losses = []
        for segment, rows in promise.segments(queries).items():
            _refuse_few(int((rows & counts).sum()), segment, promise)
            losses.append(promise.losses(values[rows & counts, 1:], reference[rows & counts]))
        disparity = found[reported[1]]
        gains = [fairness_gain(column, disparity[:, 0]) for column in disparity[:, 1:].T]
        share = float(counts.mean())
        return cls(request, path, losses, share, reported[0].title, found.mean(reported[0])[1:], gains)

    @property
    def n_queries(self) -> int:
        """Pilot queries that count."""
        return sum(len(losses) for losses in self.losses)

    def queries_needed(self, c: int, power: float, errors: float = 0.0) -> int | None:
        """Judged queries that certify a configuration in every segment; None when no number is enough.

        Args:
            c: Which configuration.
            power: Probability that calibration then succeeds.
            errors: By how many standard errors the true risk lies above the one measured.
        """
        (promise,) = self.request.promises
        ranker = self.path.rankers[c]
        if promise.kept_by_definition(ranker):
            return None  # there is nothing to certify about it
        tested: list[float] = []
        for losses in (cell[:, c] for cell in self.losses):
            shifted = losses + errors * losses.std() / math.sqrt(losses.size)
            floor = ranker.floor if promise.floored(ranker) else 0.0
            needed = promise.queries_needed(shifted, self.request.delta, power, promise.stretch(floor))
            if needed is None:
                return None
            tested.append(needed * self.n_queries / losses.size)
        return judged_in_all(max(tested), self.request)


def _refuse_few(n_queries: int, segment: str | None, promise: Promise) -> None:
    if n_queries < LEAST_PILOT:
        where = "" if segment is None else f" in segment {segment!r}"
        without = ", or `utility=` and no pilot" if promise.metric.name == "ndcg" and segment is None else ""
        raise PromiseError(
            f"pilot queries with a relevant item{where}: {n_queries}; a plan needs {LEAST_PILOT}{without}"
        )


def _safest(needs: Sequence[int | None]) -> int:
    """The configuration that takes the fewest queries; the first where no number is enough for any."""
    possible = {c: needed for c, needed in enumerate(needs) if needed is not None}
    return min(possible, key=possible.__getitem__) if possible else 0


def _milestones(pilot: _Pilot, needs: list[int | None]) -> tuple[Milestone, ...]:
    """For each step of disparity to be removed, the most useful configuration that removes it.

    The steps are such that about six lead to the most that can be certified; one goes beyond.
    """
    most = max((gain for gain, need in zip(pilot.gains, needs, strict=True) if need is not None), default=0.0)
    step = next((step for step in (0.01, 0.02, 0.05) if most <= 6 * step), 0.1)
    chosen = []
    for n_steps in range(1, int(most / step) + 2):
        reaching = [c for c, gain in enumerate(pilot.gains) if gain >= n_steps * step]
        chosen += [max(reaching, key=lambda c: pilot.utility[c])] if reaching else []
    return tuple(
        Milestone(pilot.path.rankers[c].temperature, float(pilot.utility[c]), pilot.gains[c], needs[c])
        for c in dict.fromkeys(chosen)
    )


def _guessed(promise: Promise, request: Request, power: float, utility: float | None, deviation: float) -> int | None:
    """Judged queries needed where a guess of the utility stands in for a pilot."""
    if promise.metric.name != "ndcg":
        raise PromiseError(f"a plan for '{promise}' needs pilot queries: only NDCG can be guessed")
    if promise.per is not None:
        raise PromiseError("a plan for a promise per segment needs pilot queries: they show how large segments are")
    if utility is None:
        raise PromiseError("a plan needs judged pilot queries, or `utility=`, the expected NDCG of the scores")
    if not 0 < utility <= 1:
        raise PromiseError(f"`utility=` must be the expected NDCG of the scores, in (0, 1]; got {utility}")
    if not 0 < deviation <= 0.5:
        raise PromiseError(f"deviation must lie in (0, 0.5], as NDCG lies in [0, 1]; got {deviation}")
    risk, spread = 1 - utility, deviation
    if promise.of is not None:
        kept = utility - KEEP_HEADROOM * (1 - promise.target) * utility
        risk = float(promise.losses(np.array([[kept]]), np.array([utility]))[0, 0])
        spread = 0.4 * deviation / (1 + promise.target)
    needed = size.needed(risk, spread, promise.tested_alpha(), request.delta, power, paired=promise.of is not None)
    return None if needed is None else judged_in_all(needed, request)
