"""How many judged queries a promise needs, before paying for labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from isrr.calibration.needed import Span, judged_in_all, judged_needed, spans, tested_in_all
from isrr.calibration.path import SearchPath, front_path, learnable, set_aside, temperature_path
from isrr.calibration.request import Request
from isrr.calibration.table import shuffled
from isrr.calibration.tasks import TakeCensus, refuse_single
from isrr.counting import counted, in_segment
from isrr.data.queries import FloatArray, Queries
from isrr.engines.source import Where, open_source, read_any
from isrr.errors import PromiseError
from isrr.gains import Discount, Gain
from isrr.metrics.disparity import fairness_gain
from isrr.metrics.evaluate import evaluate
from isrr.metrics.measure import Measure
from isrr.promises.promise import Promise, check_probability, objectives, promises
from isrr.ranker.gpl import GPLRanker
from isrr.risk import size
from isrr.risk.lattice import BoolArray
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
        queries_needed: Judged queries needed for the safest configuration, including those set aside and, with a pilot,
            those without a relevant item; with fewer, expect an abstention. An abstention says the same number.
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

        guessed = not self.n_pilot and self.promise.empty_query == "skip"
        remark = " (with a relevant item each)" if guessed else ""
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
    gain: Gain | None = None,
    discount: Discount | None = None,
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
        gain, discount: How much a grade and a place are worth, for a promise given as text; as for `calibrate`.
        where: Names of columns, see `isrr.engines.source.Where`.

    Example:
        >>> plan(None, "ndcg@5 >= 0.50", utility=0.55).queries_needed
        232
    """
    if not isinstance(promise, str | Promise):
        raise TypeError(f"plan takes pilot queries first, then the promise; the second is a {type(promise).__name__}")
    (promised,) = promises(promise, gain, discount)
    check_probability("confidence", confidence)
    check_probability("power", power)
    request = Request((promised,), confidence)
    if queries is None and where.get("run") is None:
        needed = _guessed(promised, request, power, utility, deviation)
        return Plan(promised, confidence, power, needed, None, "", (), 0)
    judged = read_any(queries, request.columns, **where)
    refuse_single(int((judged.n_items == 1).sum()), len(judged))
    pilot = _Pilot(request, judged, power)
    return Plan(
        promised, confidence, power, pilot.needed(), pilot.needed(errors=1.0), pilot.utility_name, pilot.milestones(),
        pilot.n_queries,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Measured:
    """Configurations of the path that calibration takes within a span, on pilot queries.

    Attributes:
        rankers: The configurations that have to be tested, safest first.
        losses: In each segment that the promise is about, (n_queries there, n_grid).
        utility: Of each configuration, (n_grid,).
        gains: Share of the disparity of the order by score that each removes.
    """

    rankers: tuple[GPLRanker, ...]
    losses: list[FloatArray]
    utility: FloatArray
    gains: list[float]

    @classmethod
    def of(
        cls, queries: Queries, promise: Promise, path: SearchPath, cells: list[BoolArray], reported: Sequence[Measure]
    ) -> "_Measured":
        rankers = tuple(ranker for ranker in path.rankers if not promise.kept_by_definition(ranker))
        grid = [GPLRanker.deterministic(promise.k), *rankers]
        found = evaluate(queries, grid, dict.fromkeys([*reported, promise.measure]))
        values, disparity = found[promise.measure], found[reported[1]]
        reference = promise.reference(queries, values[:, 0])
        losses = [promise.losses(values[rows, 1:], reference[rows]) for rows in cells]
        gains = [fairness_gain(column, disparity[:, 0]) for column in disparity[:, 1:].T]
        return cls(rankers, losses, found.mean(reported[0])[1:], gains)


class _Pilot:
    """What calibration would find in each span of numbers of queries; too few pilot queries are refused."""

    def __init__(self, request: Request, queries: Queries, power: float) -> None:
        (promise,) = request.promises
        counts = promise.measure.counts(queries)
        cells = [rows & counts for rows in promise.segments(queries).values()]
        for segment, rows in zip(promise.segments(queries), cells, strict=True):
            _refuse_few(int(rows.sum()), segment, promise)
        source = open_source(queries)
        census = source.run(TakeCensus(request.promises))
        _, first_tested = set_aside(source, census, request, given=False, progress=None)
        tested = shuffled(queries.keys, census.digest) >= np.uint64(first_tested)
        reported = objectives(request.promises, judged=queries.relevance is not None)
        self.request, self.promise, self.power = request, promise, power
        self.n_queries = sum(int(rows.sum()) for rows in cells)
        self.utility_name = reported[0].title
        self.share_counted = float(counts[tested].mean())  # of those that calibration of the pilot would test on
        self.tested = [tested[rows] for rows in cells]  # these queries, among those that count
        self.measured = {
            span: _Measured.of(queries, promise, self._path(queries, span), cells, reported) for span in spans(request)
        }

    def _path(self, queries: Queries, span: Span) -> SearchPath:
        """The path that calibration takes within a span."""
        floor = self.request.floor_arguments(span.floor or 0.0)
        if span.learns and learnable(queries, self.request.promises):
            return front_path(queries, self.promise.k, [self.promise], "the pilot", floor)
        return temperature_path(self.promise.k, scale_of(queries), [self.promise], "the pilot", floor)

    def needed(self, errors: float = 0.0) -> int | None:
        """Judged queries that certify the safest configuration, from the queries that calibration would test on.

        The true risk is taken to lie so many standard errors above the one measured.
        """
        return self._judged({span: 0 for span in self.measured}, self.tested, errors)

    def milestones(self) -> tuple[Milestone, ...]:
        """For each step of disparity to be removed, the first configurations of each span's path that remove it.

        The steps are such that about six lead to the most that can be certified; one goes beyond.
        """
        widest = self.measured[max(self.measured, key=lambda span: span.first)]
        met = np.all([losses.mean(axis=0) < self.promise.tested_alpha() for losses in widest.losses], axis=0)
        most = max((gain for gain, possible in zip(widest.gains, met, strict=True) if possible), default=0.0)
        step = next((step for step in (0.01, 0.02, 0.05) if most <= 6 * step), 0.1)
        every, least, chosen = [np.ones(mine.size, bool) for mine in self.tested], self.needed(), []
        for n_steps in range(1, int(most / step) + 2):
            reach = {span: _first(found.gains, n_steps * step) for span, found in self.measured.items()}
            c = _first(widest.gains, n_steps * step)
            if c is None or least is None:
                break
            needed = self._judged(reach, every)
            chosen.append(
                Milestone(
                    widest.rankers[c].temperature, float(widest.utility[c]), widest.gains[c],
                    None if needed is None else max(needed, least),
                )
            )  # fmt: skip
        return tuple({milestone.fairness_gain: milestone for milestone in chosen}.values())

    def _judged(self, columns: dict[Span, int | None], rows: list[BoolArray], errors: float = 0.0) -> int | None:
        """Judged queries that certify one configuration in each span, in every segment."""

        def tested_in(span: Span) -> float | None:
            if (column := columns[span]) is None:
                return None
            cells = [
                (self._needed(losses[mine, column], span.floor or 0.0, errors), int(mine.sum()))
                for losses, mine in zip(self.measured[span].losses, rows, strict=True)
            ]
            return tested_in_all(cells, sum(there for _, there in cells))

        return judged_needed(self.measured, tested_in, self.request, share_counted=self.share_counted)

    def _needed(self, losses: FloatArray, floor: float, errors: float) -> int | None:
        shifted = losses + errors * losses.std() / math.sqrt(losses.size)
        return self.promise.queries_needed(shifted, self.request.delta, self.power, floor)


def _first(gains: Sequence[float], least: float) -> int | None:
    """The first configuration that removes so much disparity."""
    return next((c for c, gain in enumerate(gains) if gain >= least), None)


def _refuse_few(n_queries: int, segment: str | None, promise: Promise) -> None:
    if n_queries < LEAST_PILOT:
        without = ", or `utility=` and no pilot" if promise.metric.name == "ndcg" and segment is None else ""
        found = f"pilot queries with a relevant item{in_segment(segment)}: {n_queries}"
        raise PromiseError(f"{found}; a plan needs {LEAST_PILOT}{without}")


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
    needed = size.needed(
        risk, spread, float(promise.tested_alpha()), request.delta, power, paired=promise.of is not None
    )
    return None if needed is None else judged_in_all(needed, request)
