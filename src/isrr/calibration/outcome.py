"""What a calibration says in the end: a certificate or an abstention, drawn up from the verdict and the table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from isrr.calibration.certify import BOUNDS_WITHIN, Rule, Sample, Verdict, certify, cost_of
from isrr.calibration.needed import Span, judged_needed, spans, tested_in_all
from isrr.calibration.path import SearchPath
from isrr.calibration.request import Request
from isrr.calibration.table import Table
from isrr.certificate import Abstention, Cause, Certificate
from isrr.counting import counted, in_segment
from isrr.data.queries import FloatArray, Queries
from isrr.errors import PromiseError
from isrr.findings import Estimate, Point, Provenance, Test
from isrr.metrics.measure import Measure
from isrr.promises.promise import move_together
from isrr.ranker.gpl import GPLRanker

LEVEL_STEPS = 1_000  # in which the strongest certified target is told
TestedIn = Callable[[Span], float | None]
Look = dict[str, Any]  # what an analysis asked of which data, as a ledger keeps it
CountLook = Callable[[Look], tuple[int, float | None]]  # which analysis it is, and what all of them have spent


@dataclass(frozen=True, eq=False)
class Findings:
    """A table tested: what there is to say about every configuration, and which one is used.

    Attributes:
        request: What was asked.
        path: What was tested.
        table: What was measured.
        found: Every promise in each of its segments.
        verdict: Which configurations are certified, and which one is used.
        unit: What is counted as tested on.
    """

    request: Request
    path: SearchPath
    table: Table
    found: Sequence[Sample]
    verdict: Verdict
    unit: str = "query"

    @classmethod
    def of(
        cls, request: Request, path: SearchPath, table: Table, found: Sequence[Sample], unit: str = "query"
    ) -> "Findings":
        """Test what was measured, and choose."""
        cost = cost_of(request.promises, table.utility.means()[0, 1:], table.disparity.means()[0, 1:])
        rule = Rule.of(path, request.promises, cost, request.selection)
        verdict = certify(found, rule, delta=request.delta, selection=request.selection)
        return cls(request, path, table, found, verdict, unit)

    def look(self, data: str, judgments: str, search: Sequence[object], validation: str | None = None) -> Look:
        """What is asked of which data; segments and groups are told apart by what was measured in them."""
        return {
            "data": data,
            "judgments": judgments,
            "promises": [promise.document() for promise in self.request.promises],
            "confidence": self.request.confidence,
            "search": [*search],
            "validation": validation,
            "tests": [[s.segment, s.n_queries, round(float(s.measured()[-1]), 9)] for s in self.found],
        }

    @property
    def ranker(self) -> GPLRanker:
        """The ranker to use."""
        chosen = self.verdict.chosen
        return GPLRanker.deterministic(self.request.k) if chosen is None else self.path.rankers[chosen]

    def outcome(self, provenance: Provenance, utility: Measure) -> Certificate | Abstention:
        """The certificate of the configuration that was chosen; the abstention, with its reason, where none was."""
        points, before, disparity_before = self._curve()
        request, chosen = self.request, self.verdict.chosen
        if chosen is not None:
            return Certificate(
                request.promises, request.confidence, self.ranker, utility.title,
                tuple(self._test(sample, chosen, request.delta) for sample in self.found), points, provenance,
                utility=points[chosen].utility, disparity=points[chosen].disparity,
                fairness_gain=points[chosen].fairness_gain,
                deterministic_utility=before, deterministic_disparity=disparity_before,
            )  # fmt: skip
        tests = tuple(self._test(sample, sample.safest, self._level_each) for sample in self.found)
        cause, reason, tested_in = self._why()
        share, given = provenance.n_queries / (provenance.n_queries + provenance.n_skipped), provenance.n_set_aside == 0
        needed = judged_needed(spans(request, given=given), tested_in, request, given=given, share_counted=share)
        return Abstention(
            request.promises, request.confidence, self.ranker, utility.title, tests, points, provenance,
            cause, reason, needed, self._frontier() if cause == "conflicting_promises" else (),
        )  # fmt: skip

    def _curve(self) -> tuple[tuple[Point, ...], Estimate, Estimate]:
        """Every configuration of the path; utility and disparity of the order by score."""
        tables = (
            self.table.utility.mean_and_error(), self.table.disparity.mean_and_error(),
            self.table.disparity.reduction(),
        )  # fmt: skip
        utility, disparity, gain = ([Estimate.around(*pair) for pair in zip(*found, strict=True)] for found in tables)
        bounds = self._bounds()
        points = tuple(
            Point(ranker, utility[c + 1], disparity[c + 1], gain[c + 1], bool(self.verdict.certified[c]), bounds[c])
            for c, ranker in enumerate(self.path.rankers)
        )
        return points, utility[0], disparity[0]

    def _bounds(self) -> list[float | None]:
        """Each configuration's upper bound on the first promise's risk, where that is not too dear."""
        first, n_grid = self.found[0], len(self.path.rankers)
        if self.table.powers or first.n_queries * n_grid > BOUNDS_WITHIN:
            return [None] * n_grid
        return [float(bound) for bound in first.upper_bound(range(n_grid), self.request.delta, rough=True)]

    def _test(self, sample: Sample, column: int, delta: float) -> Test:
        promise = sample.promise
        bound = float(sample.upper_bound([column], delta)[0])
        return Test(
            promise,
            sample.segment,
            sample.n_queries,
            sample.evidence,
            float(sample.measured()[column]),
            self._level(sample, column, delta),
            sample.loss(column, promise.target)[0],
            None if np.isnan(bound) else bound,
            float(sample.pvalue([column], delta)[0]),
        )

    def _level(self, sample: Sample, column: int, delta: float) -> float | None:
        """The strongest target these queries would certify for one configuration, rounded to the safe side."""
        alone = sample.only(column)
        level = float(alone.target(alone.strongest(delta, LEVEL_STEPS), LEVEL_STEPS)[0])
        try:
            sample.promise.at(level)
        except PromiseError:
            return None
        return level

    def _why(self) -> tuple[Cause, str, TestedIn]:
        """Why nothing was certified, and how many queries to test on would do."""
        if not move_together(self.request.promises):
            return self._why_not_together()
        failing = self._failing([(sample, sample.safest) for sample in self.found])
        if not failing:
            return "conflicting_promises", "no configuration keeps all promises together", _no_number
        unmet, unproven = [], []
        for sample, c in failing:
            promise, measured = sample.promise, sample.promise.shown(float(sample.measured()[c]))
            best = f"{'fairest' if promise.safe_end == 'hot' else 'safest'} configuration{in_segment(sample.segment)}"
            if sample.queries_needed(c, self._level_each) is None:
                unmet.append(f"'{promise}' is not met even by the {best}, at {measured}")
            else:
                tested = counted(sample.n_queries, self.unit)
                unproven.append(f"'{promise}' is met by the {best}, at {measured}, but {tested} cannot prove it")
        cause: Cause = "out_of_reach" if unmet else "too_few_queries"
        return cause, "; ".join(unmet + unproven), _no_number if unmet else self._tested_in(failing)

    @property
    def _level_each(self) -> float:
        """The level that each configuration is tested at."""
        return self.request.level_each(len(self.path.rankers))

    def _failing(self, pairs: Sequence[tuple[Sample, int]]) -> list[tuple[Sample, int]]:
        """The promises that a configuration is not certified to keep, of promises paired with one each."""
        return [
            (sample, c)
            for sample, c in pairs
            if not sample.only(c).holds(np.array([sample.promise.target]), self._level_each)[0]
        ]

    def _tested_in(self, failing: Sequence[tuple[Sample, int]]) -> TestedIn:
        """How many queries must be tested on for configurations to be certified, each in its own segment."""

        def tested_in(span: Span) -> float | None:
            cells = [(s.queries_needed(c, self._level_each, span.floor), s.n_queries) for s, c in failing]
            return tested_in_all(cells, self.table.n_queries)

        return tested_in

    def _why_not_together(self) -> tuple[Cause, str, TestedIn]:
        """The same for promises whose safe configurations may lie anywhere on the path."""
        met = np.stack([self._better(sample) >= self._better_target(sample) for sample in self.found])
        together = np.flatnonzero(met.all(axis=0))
        if together.size:
            c = int(together[0])
            failing = self._failing([(sample, c) for sample in self.found])
            tested = counted(self.table.n_queries, "query")
            reason = f"{self._measured(c)} is met, but {tested} cannot prove it"
            return "too_few_queries", reason, self._tested_in(failing) if failing else _no_number
        unmet = [
            f"'{sample.promise}'{in_segment(sample.segment)} is not met by any configuration; the best reaches "
            f"{sample.promise.shown(float(sample.measured()[int(np.argmax(self._better(sample)))]))}"
            for sample, ours in zip(self.found, met, strict=True)
            if not ours.any()
        ]
        if unmet:
            return "out_of_reach", "; ".join(unmet), _no_number
        return "conflicting_promises", "each promise can be kept by itself, but no configuration keeps all", _no_number

    def _measured(self, column: int) -> str:
        """What one configuration reaches, promise by promise."""
        reached = [sample.promise.shown(float(sample.measured()[column])) for sample in self.found]
        pairs = zip(self.found, reached, strict=True)
        return " and ".join(f"'{each.promise}'{in_segment(each.segment)} (at {level})" for each, level in pairs)

    def _better(self, sample: Sample) -> FloatArray:
        """The promised quantity, turned so that more is better, (n_grid,)."""
        return sample.measured() if sample.promise.at_least is not None else -sample.measured()

    def _better_target(self, sample: Sample) -> float:
        return sample.promise.target if sample.promise.at_least is not None else -sample.promise.target

    def _frontier(self) -> tuple[str, ...]:
        """For two promises, what can be reached of one where the other is just met."""
        if len(self.found) != 2:
            return ()
        sentences = []
        for kept, other in (self.found, self.found[::-1]):
            level = abs(_highest(self._better(kept), self._better(other), self._better_target(kept)))
            reaches = "reaches" if other.promise.at_least is not None else "comes down to"
            sentences.append(
                f"where '{kept.promise}' is just met, {other.promise.measure} {reaches} {other.promise.shown(level)}"
            )
        return tuple(sentences)


def _highest(given: FloatArray, reached: FloatArray, target: float) -> float:
    """The most that is reached where the target is just met, on lines between configurations.

    Example:
        >>> _highest(np.array([0.0, 1.0, 1.2]), np.array([1.0, 0.5, 0.0]), 0.5)
        0.75
    """
    below, above = given < target, given >= target
    slope = (reached[above] - reached[below, None]) / (given[above] - given[below, None])
    between = reached[below, None] + (target - given[below, None]) * slope
    return float(max(reached[above].max(), between.max(initial=-np.inf)))


def _no_number(span: Span) -> None:
    """No number of queries to test on helps."""


class Quantiles(TypedDict):
    """What a provenance remembers of scores."""

    score_quantiles: tuple[float, ...]
    eligibility_quantiles: tuple[float, ...]


def quantiles(queries: Queries, ranker: GPLRanker) -> Quantiles:
    """Of the scores, and of the best item's chance of first place in each list."""
    first_place = np.maximum.reduceat(ranker.eligibility(queries), queries.offsets[:-1])
    levels = [0.001, 0.01, 0.5, 0.99, 0.999]
    scores, chances = (tuple(np.quantile(v, levels).tolist()) for v in (queries.need_scores(), first_place))
    return {"score_quantiles": scores, "eligibility_quantiles": chances}
