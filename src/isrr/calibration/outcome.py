"""What a calibration says in the end: a certificate or an abstention, drawn up from the verdict and the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from isrr.calibration.certify import Tested, certify, choose, cost_of
from isrr.calibration.measured import Curve
from isrr.calibration.needed import Need, Span, decisive, judged_needed, most, proven, spans
from isrr.calibration.path import SearchPath
from isrr.calibration.request import Request
from isrr.counting import counted, in_segment
from isrr.data.queries import FloatArray, Queries
from isrr.errors import PromiseError
from isrr.metrics.evaluate import evaluate
from isrr.metrics.measure import Measure
from isrr.metrics.metric import Metric
from isrr.outcome.certificate import Abstention, Cause, Certificate
from isrr.outcome.findings import Estimate, Point, Provenance, Quality, Test
from isrr.promises import Promise, move_together
from isrr.ranker.gpl import GPLRanker
from isrr.risk.lattice import BoolArray

LEVEL_STEPS = 1_000  # in which the strongest certified target is told
CAP_AT = 0.995  # quantile of a value at which capping it is proposed
FAR_ABOVE = 1.5  # times that quantile from which on a bound is worth lowering
BOUNDS_WITHIN = 1_000_000  # queries × configurations up to which every configuration has a bound


@dataclass(frozen=True, eq=False)
class Findings:
    """What there is to say about every configuration, and which one is used.

    Attributes:
        request: What is promised, and how it is tested.
        path: The configurations.
        curve: What is reported of them.
        tested: Every promise in each of its segments.
        certified: Which configurations keep every promise, (n_grid,).
        chosen: The one that is used; None for an abstention.
        ranker: The ranker to use.
        unit: What is counted as tested on.
    """

    request: Request
    path: SearchPath
    curve: Curve
    tested: Sequence[Tested]
    certified: BoolArray
    chosen: int | None
    ranker: GPLRanker
    unit: str = "query"

    @classmethod
    def of(
        cls,
        request: Request,
        path: SearchPath,
        curve: Curve,
        tested: Sequence[Tested],
        unit: str = "query",
        remaining: FloatArray | None = None,
    ) -> "Findings":
        """Test what was measured, and choose; `remaining` is that of `cost_of`."""
        cost = cost_of(request.promises, curve.utility.mean[1:], curve.disparity.mean[1:], remaining)
        certified = certify(tested, request.selection, request.delta)
        chosen = choose(certified, path.rankers, request.promises, cost)
        ranker = GPLRanker.deterministic(request.k) if chosen is None else path.rankers[chosen]
        return cls(request, path, curve, tested, certified, chosen, ranker, unit)

    def outcome(
        self,
        provenance: Provenance,
        utility: Measure,
        quality: Callable[[GPLRanker], Quality],
        drawn: Queries | None = None,
    ) -> Certificate | Abstention:
        """Return the certificate of the configuration that was chosen; the abstention, with its reason, where none was.

        Args:
            provenance: Where the outcome comes from.
            utility: What utility is measured by.
            quality: What becomes of quality under a ranker.
            drawn: Some of the tested queries, to find out what capping a value would need.
        """
        points, before, disparity_before = self._curve()
        request, chosen = self.request, self.chosen
        if chosen is not None:
            return Certificate(
                request.promises, request.confidence, self.ranker, utility.title,
                tuple(self._test(sample, chosen, request.delta) for sample in self.tested), points, provenance,
                utility=points[chosen].utility, disparity=points[chosen].disparity,
                fairness_gain=points[chosen].fairness_gain,
                deterministic_utility=before, deterministic_disparity=disparity_before, quality=quality(self.ranker),
            )  # fmt: skip
        columns, validated = decisive(self.tested, self._level_each), provenance.n_set_aside == 0
        best = [int(np.argmax(sample.slack)) for sample in self.tested]  # for each promise alone
        pairs = [*zip(self.tested, columns or best, strict=True)]
        tests = tuple(self._test(sample, column, self._level_each) for sample, column in pairs)
        failing = {pair: self._need(*pair, validated) for pair in self._failing(pairs)} if columns else {}
        cause, reason = self._why(failing) if columns else self._why_not_together()
        needed = most(failing.values()) if failing else None
        if cause == "too_few_queries" and not failing:
            later = most(self._need(*pair, validated) for pair in pairs)
            needed = None if later is None else max(later, provenance.n_judged)
        cheaper = (
            [] if drawn is None else [self._capped(*pair, need, validated, drawn) for pair, need in failing.items()]
        )
        return Abstention(
            request.promises, request.confidence, self.ranker, utility.title, tests, points, provenance,
            cause, reason, needed, tuple(filter(None, cheaper)),
            self._frontier() if cause == "conflicting_promises" else (),
        )  # fmt: skip

    def _curve(self) -> tuple[tuple[Point, ...], Estimate, Estimate]:
        """Every configuration of the path; utility and disparity of the order by score."""
        of_utility, of_disparity = self.curve.utility, self.curve.disparity
        utility, disparity, gain = (
            [Estimate.around(*each) for each in zip(values, errors, strict=True)]
            for values, errors in (
                (of_utility.mean, of_utility.error),
                (of_disparity.mean, of_disparity.error),
                (of_disparity.reduction, of_disparity.ratio_error),
            )
        )
        first, n_grid = self.tested[0], len(self.path.rankers)
        bounds: list[float | None] = [None] * n_grid  # on the first promise's risk
        if first.n_queries * n_grid <= BOUNDS_WITHIN:
            bounds = first.upper_bound(range(n_grid), self.request.delta, rough=True).tolist()
        points = tuple(
            Point(ranker, utility[c + 1], disparity[c + 1], gain[c + 1], bool(self.certified[c]), bounds[c])
            for c, ranker in enumerate(self.path.rankers)
        )
        return points, utility[0], disparity[0]

    def _test(self, sample: Tested, column: int, delta: float) -> Test:
        promise, alone = sample.promise, sample.only(column)
        bound = float(alone.upper_bound([0], delta)[0])
        try:
            level = promise.at(float(alone.strongest(delta, LEVEL_STEPS)[0])).target
        except PromiseError:  # none is certified, or one that is too weak to be promised
            level = None
        return Test(
            promise,
            sample.segment,
            sample.n_queries,
            sample.test.name,
            float(sample.measured()[column]),
            level,
            float(promise.loss().of(alone.values, alone.reference).mean()),
            None if np.isnan(bound) else bound,
            float(alone.pvalue([0], delta)[0]),
        )

    def _why(self, failing: Mapping[tuple[Tested, int], Need]) -> tuple[Cause, str]:
        """Why nothing was certified: the promises that are not proven and what they need, and those that are."""
        if not failing:
            return self._why_not_first()
        together = move_together(self.request.promises)
        unmet, unproven, said = [], [], set()
        for (sample, c), need in failing.items():
            promise, measured = sample.promise, sample.promise.shown(float(sample.measured()[c]))
            best = "best" if not together else "fairest" if promise.safe_end == "hot" else "safest"
            met = f"by the {best} ranker{in_segment(sample.segment)}, at {measured}"
            said.add((promise, sample.segment))
            if need.queries_needed is None:
                unmet.append(f"'{promise}' is not met even {met}")
            else:
                tested = counted(sample.n_queries, self.unit)
                needs = f": it needs {need.in_words}" if len(self.tested) > 1 else ""
                unproven.append(f"'{promise}' is met {met}, but {tested} cannot prove it{needs}")
        others = [f"'{s.promise}'{in_segment(s.segment)}" for s in self.tested if (s.promise, s.segment) not in said]
        rest = [f"already proven: {', '.join(others)}"] if others else []
        return "out_of_reach" if unmet else "too_few_queries", "; ".join(unmet + unproven + rest)

    def _why_not_first(self) -> tuple[Cause, str]:
        """Return the same where every promise is proven for a configuration that the path leads to through another."""
        first = int(np.argmin(self.certified))
        before = self._failing([(sample, first) for sample in self.tested])
        if move_together(self.request.promises) or not before:
            return "conflicting_promises", "no ranker keeps all promises together"
        sample, _ = before[0]
        return "too_few_queries", (
            f"'{sample.promise}'{in_segment(sample.segment)} is not proven for the first ranker tested, at "
            f"{sample.promise.shown(float(sample.measured()[first]))}, so the others are not tested"
        )

    @property
    def _level_each(self) -> float:
        """The level that each configuration is tested at."""
        return self.request.selection.level_each(self.request.delta, len(self.path.rankers))

    def _failing(self, pairs: Sequence[tuple[Tested, int]]) -> list[tuple[Tested, int]]:
        """Return the promises that a configuration is not certified to keep, of promises paired with one each."""
        return [(sample, c) for sample, c in pairs if not proven(sample, c, self._level_each)]

    def _need(self, sample: Tested, column: int, validated: bool, n_there: int | None = None) -> Need:
        """Return how many judged queries prove a promise for a configuration; `n_there` of the tested ones count."""
        request, curve = self.request, self.curve
        share_there = (n_there or sample.n_queries) / curve.n_queries

        def tested_in(span: Span) -> float | None:
            n = sample.queries_needed(column, self._level_each, span.floor)
            return None if n is None else n / share_there

        share = curve.n_queries / (curve.n_queries + curve.n_skipped)
        n = judged_needed(
            spans(request, validated=validated), tested_in, request, validated=validated, share_counted=share
        )
        return Need(sample.promise, sample.segment, n, self.unit)

    def _capped(self, sample: Tested, column: int, need: Need, validated: bool, drawn: Queries) -> str | None:
        """Return what capping a value would need, where its bound lies far above nearly all of its values."""
        promise = _with_cap(sample.promise, drawn)
        if promise is None:
            return None
        ranker, rows = self.path.rankers[column], promise.segments(drawn)[sample.segment]
        values = evaluate(drawn, [GPLRanker.deterministic(ranker.k), ranker], [promise.measure])[promise.measure]
        reference = promise.reference(drawn, values[:, 0])
        sample = Tested.of(promise, sample.segment, self.request.evidence, values[rows], reference[rows], [ranker])
        capped = self._need(sample, 0, validated, sample.n_queries)
        if capped.queries_needed is None or (need.queries_needed or np.inf) <= capped.queries_needed:
            return None
        return f"'{promise}'{in_segment(sample.segment)}, with values capped there, needs {capped.in_words}"

    def _why_not_together(self) -> tuple[Cause, str]:
        """Return the same where no configuration is measured to keep all promises."""
        unmet = [
            f"'{sample.promise}'{in_segment(sample.segment)} is not met by any ranker; the best reaches "
            f"{sample.promise.shown(float(sample.measured()[int(np.argmax(sample.slack))]))}"
            for sample in self.tested
            if not (sample.slack > 0).any()
        ]
        if unmet:
            return "out_of_reach", "; ".join(unmet)
        return "conflicting_promises", "each promise can be kept by itself, but no ranker keeps all"

    def _frontier(self) -> tuple[str, ...]:
        """For two promises, what can be reached of one where the other is just met."""
        if len(self.tested) != 2:
            return ()
        signs = [1.0 if sample.promise.at_least is not None else -1.0 for sample in self.tested]  # more is better
        values = [sign * sample.measured() for sign, sample in zip(signs, self.tested, strict=True)]
        sentences = []
        for met, other in ((0, 1), (1, 0)):
            promise = self.tested[met].promise
            level = abs(_highest(values[met], values[other], signs[met] * promise.target))
            sentences.append(f"where '{promise}' is just met, {self.tested[other].promise.reached(level)}")
        return tuple(sentences)


def _with_cap(promise: Promise, queries: Queries) -> Promise | None:
    """Return the promise about a column with values capped near the largest ones; None if its bound is no higher."""
    metric = promise.metric
    if (
        promise.bound is None
        or not isinstance(metric, Metric)
        or not any(name.startswith("value:") for name in metric.columns)
    ):
        return None
    cap = float(f"{np.quantile(metric.value(queries), CAP_AT):.3g}")
    if not 0 < FAR_ABOVE * cap <= promise.bound[1]:
        return None
    capped = replace(metric, value=lambda queries: np.minimum(metric.value(queries), cap))
    try:
        return replace(promise, metric=capped, bound=(promise.bound[0], cap))
    except PromiseError:  # a target above the cap
        return None


def _highest(met: FloatArray, reached: FloatArray, target: float) -> float:
    """Return the most that is reached where the target is just met, on lines between configurations.

    Example:
        >>> _highest(np.array([0.0, 1.0, 1.2]), np.array([1.0, 0.5, 0.0]), 0.5)
        0.75
    """
    below, above = met < target, met >= target
    slope = (reached[above] - reached[below, None]) / (met[above] - met[below, None])
    between = reached[below, None] + (target - met[below, None]) * slope
    return float(max(reached[above].max(), between.max(initial=-np.inf)))


class Quantiles(TypedDict):
    """What a provenance remembers of scores."""

    score_quantiles: tuple[float, ...]
    eligibility_quantiles: tuple[float, ...]


def quantiles(queries: Queries, ranker: GPLRanker) -> Quantiles:
    """Of the scores, and of the best item's chance of first position in each list."""
    first_position = np.maximum.reduceat(ranker.eligibility(queries), queries.offsets[:-1])
    levels = [0.001, 0.01, 0.5, 0.99, 0.999]
    scores, chances = (tuple(np.quantile(v, levels).tolist()) for v in (queries.need_scores(), first_position))
    return {"score_quantiles": scores, "eligibility_quantiles": chances}
