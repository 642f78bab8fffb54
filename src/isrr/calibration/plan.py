"""How many judged queries promises need, before paying for labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isrr.calibration.certify import Tested
from isrr.calibration.judged import check_queries, draw, refuse_single
from isrr.calibration.needed import Need, Span, decisive, judged_in_all, judged_needed, most, spans
from isrr.calibration.path import SearchPath, fixed_path, front_path, in_order, learnable, set_aside, temperature_path
from isrr.calibration.request import Request
from isrr.counting import counted, in_segment
from isrr.data.columns import Columns
from isrr.data.queries import FloatArray, Queries
from isrr.errors import PromiseError
from isrr.gains import Discount, Gain
from isrr.metrics.disparity import fairness_gain
from isrr.metrics.evaluate import evaluate
from isrr.metrics.measure import Measure
from isrr.outcome.findings import unit_needed
from isrr.promises import Promise, check_probability, move_together, objectives, promises, refuse_worst
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import scale_of
from isrr.risk import size
from isrr.risk.evidence import NAMED
from isrr.risk.lattice import BoolArray
from isrr.risk.size import POWER

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
    """How many judged queries promises need, so that all are certified together.

    Attributes:
        promises: The promises.
        confidence, power: Confidence of the certificate, and probability that calibration succeeds.
        queries_needed: Judged queries needed for the safest configuration, including those set aside and, with a pilot,
            those without a relevant item; with fewer, expect an abstention. An abstention says the same number.
        pessimistic: The same, if the pilot was one standard error too optimistic.
        needs: What each promise needs by itself, in each of its segments.
        utility_name: What the milestones' utility is measured by.
        milestones: What more queries gain, from safe to fair; empty without pilot queries, and for promises whose safe
            configurations may lie anywhere on the path, such as shares of exposure.
        n_pilot: Pilot queries used.
    """

    promises: tuple[Promise, ...]
    confidence: float
    power: float
    queries_needed: int | None
    pessimistic: int | None
    needs: tuple[Need, ...]
    utility_name: str
    milestones: tuple[Milestone, ...]
    n_pilot: int

    def __str__(self) -> str:
        unit = unit_needed(self.promises)

        def needed(n: int | None) -> str:
            return "no number is enough" if n is None else counted(n, unit)

        remark = ", no labels needed" if unit == "query" else ""
        if not self.n_pilot and all(promise.empty_query == "skip" for promise in self.promises):
            remark = " (with a relevant item each)"
        if self.queries_needed is None:
            rising = all(promise.metric.rising for promise in self.promises)
            remark = f": promise less{', or improve the scores' if rising else ''}"
        lines = [
            f"Plan for {' and '.join(map(str, self.promises))}, confidence {self.confidence:g}, chance of a "
            f"certificate {self.power:.0%}",
            f"to certify anything      {needed(self.queries_needed)}{remark}",
        ]
        if len(self.promises) > 1 and any(need.queries_needed is not None for need in self.needs):
            for need in self.needs:
                n = "no number" if need.queries_needed is None else f"{need.queries_needed:,}"
                free = ", no labels needed" if unit_needed([need.promise]) == "query" else ""
                lines.append(f"{'':<25}{n} for '{need.promise}'{in_segment(need.segment)}{free}")
        if self.n_pilot:
            lines.append(
                f"if the pilot was lucky   {needed(self.pessimistic)} (a true mean one standard error worse "
                f"than on the {counted(self.n_pilot, 'pilot query')})"
            )
        else:
            lines.append("this is a guess          a pilot of judged queries would show how much quality varies")
        for milestone in self.milestones:
            lines.append(
                f"for {100 * milestone.fairness_gain:5.1f} % less disparity {needed(milestone.queries_needed):>24}"
                f"   ({self.utility_name} {milestone.utility:.4f})"
            )
        return "\n".join(lines)


def plan(
    queries: Any,
    promise: str | Promise | Sequence[str | Promise],
    confidence: float = 0.95,
    *,
    power: float = POWER,
    utility: float | None = None,
    deviation: float = 0.28,
    gain: Gain | None = None,
    discount: Discount | None = None,
    reference: str | Queries | None = None,
    columns: Columns | None = None,
) -> Plan:
    """Estimate how many judged queries a promise needs, or several together.

    Args:
        queries: Some judged queries, as a pilot: `Queries`, a path or a table, as `calibrate` takes them; or None, with
            `utility=`. For a promise per segment, the segment that needs most decides.
        promise: One promise or several, as text or as `Promise`; several must all hold.
        confidence: How sure the certificate must be.
        power: Probability that calibration then succeeds.
        utility: Without a pilot: expected NDCG of the order by score.
        deviation: Without a pilot: its standard deviation over queries (0.28 on MQ2007).
        gain: How much a grade is worth, for a promise given as text; as for `calibrate`.
        discount: How much a position is worth, likewise.
        reference: What promises "of production" are compared with, as for `calibrate`.
        columns: The names of columns that are not called as usual, for queries still to be read; see `isrr.Columns`.

    Example:
        >>> plan(None, "ndcg@5 >= 0.50", utility=0.55).queries_needed
        232
    """
    several = [promise] if isinstance(promise, str | Promise) else promise
    if not isinstance(several, list | tuple) or not all(isinstance(one, str | Promise) for one in several):
        raise TypeError(f"plan takes pilot queries first, then the promise; the second is a {type(promise).__name__}")
    request = Request(promises(several, gain, discount), confidence)
    check_probability("power", power)
    if queries is None:
        needs = [Need(p, None, _guessed(p, request, power, utility, deviation)) for p in request.promises]
        return Plan(request.promises, confidence, power, most(needs), None, tuple(needs), "", (), 0)
    judged = draw(queries, columns, roles=request.columns, sample=None, reference=reference).queries
    refuse_worst(request.promises, judged.unjudged)
    refuse_single(judged)
    pilot = _Pilot(request, judged, power)
    needs = pilot.needs()
    return Plan(
        request.promises, confidence, power, most(needs), most(pilot.needs(errors=1.0)), tuple(needs),
        pilot.utility_name, pilot.milestones(most(needs)), pilot.n_queries,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Measured:
    """The path that calibration takes within a span, on pilot queries.

    Attributes:
        rankers: Its configurations.
        samples: Every promise in each of its segments, on all pilot queries that count for it.
        tested: The same on those that calibration would test on.
        utility: Of each configuration, (n_grid,).
        gains: Share of the disparity of the order by score that each removes.
    """

    rankers: tuple[GPLRanker, ...]
    samples: list[Tested]
    tested: list[Tested]
    utility: FloatArray
    gains: list[float]

    @classmethod
    def of(
        cls, queries: Queries, promises: Sequence[Promise], path: SearchPath, tested: BoolArray,
        reported: Sequence[Measure],
    ) -> "_Measured":  # fmt: skip
        grid = [GPLRanker.deterministic(path.rankers[0].k), *path.rankers]
        values = evaluate(queries, grid, dict.fromkeys([*reported, *(promise.measure for promise in promises)]))
        test, rankers = NAMED["betting"], path.rankers
        samples: tuple[list[Tested], list[Tested]] = [], []
        for promise in promises:
            ours = values[promise.measure]
            reference = promise.reference(queries, ours[:, 0])
            for segment, rows in promise.segments(queries).items():
                for into, some in zip(samples, (rows, rows & tested), strict=True):
                    into.append(Tested.of(promise, segment, test, ours[some], reference[some], rankers))
        disparity = values[reported[1]]
        gains = [fairness_gain(column, disparity[:, 0]) for column in disparity[:, 1:].T]
        return cls(rankers, *samples, values.mean(reported[0])[1:], gains)


class _Pilot:
    """What calibration would find in each span of numbers of queries; too few pilot queries are refused."""

    def __init__(self, request: Request, queries: Queries, power: float) -> None:
        queries = in_order(queries)
        counts = np.array([promise.measure.counts(queries) for promise in request.promises])
        for promise, counting in zip(request.promises, counts, strict=True):
            for segment, rows in promise.segments(queries).items():
                _refuse_few(int((rows & counting).sum()), segment, promise)
        check_queries(queries, request.promises)
        n_aside = set_aside(queries, np.arange(len(queries)), request, validated=False)
        tested = np.arange(len(queries)) >= n_aside
        reported = objectives(request.promises, judged=queries.relevance is not None)
        self.request, self.power, self.together = request, power, move_together(request.promises)
        counted_by_any = np.asarray(counts.any(axis=0))
        self.n_queries, self.n_tested = int(counted_by_any.sum()), int(counted_by_any[tested].sum())
        self.utility_name = reported[0].title
        self.share_counted = self.n_tested / int(tested.sum())  # of those that calibration of the pilot would test on
        self.measured = {}
        for span in spans(request):
            if self.together:
                path = self._path(queries, span)
            else:
                path = fixed_path(request, int(tested.sum()), queries[:n_aside], None)
            self.measured[span] = _Measured.of(queries, request.promises, path, tested, reported)

    def _path(self, queries: Queries, span: Span) -> SearchPath:
        """Return the path that calibration takes within a span."""
        k, promises = self.request.k, self.request.promises
        floor = self.request.floor_arguments(span.floor or 0.0)
        if span.learns and learnable(queries, promises):
            return front_path(queries, k, promises, "the pilot", floor)
        return temperature_path(k, scale_of(queries), promises, "the pilot", floor)

    def needs(self, errors: float = 0.0) -> list[Need]:
        """Return what each promise needs for the configuration that it would be proven for, from the queries tested on.

        The true risk is taken to lie so many standard errors above the one measured.
        """
        tested = {span: measured.tested for span, measured in self.measured.items()}
        columns = {span: decisive(samples, self.request.delta) for span, samples in tested.items()}
        return self._needs(tested, columns, self.n_tested, errors)

    def milestones(self, least: int | None) -> tuple[Milestone, ...]:
        """For each step of disparity to be removed, the first configurations of each span's path that remove it.

        The steps are such that about six lead to the most that can be certified; one goes beyond.
        """
        if least is None or not self.together:
            return ()
        widest, chosen = self.measured[max(self.measured, key=lambda span: span.first)], []
        every = {span: measured.samples for span, measured in self.measured.items()}
        met = np.all([sample.exempt | (sample.slack > 0) for sample in widest.samples], axis=0)
        reached = max((gain for gain, possible in zip(widest.gains, met, strict=True) if possible), default=0.0)
        step = next((step for step in (0.01, 0.02, 0.05) if reached <= 6 * step), 0.1)
        for n_steps in range(1, int(reached / step) + 2):
            firsts = {span: _first(measured.gains, n_steps * step) for span, measured in self.measured.items()}
            c = _first(widest.gains, n_steps * step)
            if c is None:
                break
            columns = {span: None if first is None else [first] * len(widest.samples) for span, first in firsts.items()}
            needed = most(self._needs(every, columns, self.n_queries))
            chosen.append(
                Milestone(
                    widest.rankers[c].temperature, float(widest.utility[c]), widest.gains[c],
                    None if needed is None else max(needed, least),
                )
            )  # fmt: skip
        return tuple({milestone.fairness_gain: milestone for milestone in chosen}.values())

    def _needs(
        self,
        samples: Mapping[Span, list[Tested]],
        columns: Mapping[Span, list[int] | None],
        n_queries: int,
        errors: float = 0.0,
    ) -> list[Need]:
        """Judged queries that certify one configuration in each span, for every promise and segment."""

        def need(i: int, promise: Promise, segment: str | None) -> Need:
            def tested_in(span: Span) -> float | None:
                chosen, sample = columns[span], samples[span][i]
                if chosen is None:
                    return None
                n = sample.queries_needed(chosen[i], self.request.delta, span.floor, power=self.power, errors=errors)
                return None if n is None else n * n_queries / sample.n_queries

            n = judged_needed(self.measured, tested_in, self.request, share_counted=self.share_counted)
            return Need(promise, segment, n)

        return [need(i, sample.promise, sample.segment) for i, sample in enumerate(next(iter(samples.values())))]


def _first(gains: Sequence[float], least: float) -> int | None:
    """Return the first configuration that removes so much disparity."""
    return next((c for c, gain in enumerate(gains) if gain >= least), None)


def _refuse_few(n_queries: int, segment: str | None, promise: Promise) -> None:
    if n_queries < LEAST_PILOT:
        without = ", or `utility=` and no pilot" if promise.metric.name == "ndcg" and segment is None else ""
        raise PromiseError(
            f"pilot queries with a relevant item{in_segment(segment)}: {n_queries}; a plan needs {LEAST_PILOT}{without}"
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
        ours = utility - KEEP_HEADROOM * (1 - promise.target) * utility
        risk = float(promise.loss().of(np.array([[ours]]), np.array([utility]))[0, 0])
        spread = 0.4 * deviation / (1 + promise.target)
    needed = size.needed(risk, spread, float(promise.loss().level), request.delta, power, paired=promise.of is not None)
    return None if needed is None else judged_in_all(needed, request)
