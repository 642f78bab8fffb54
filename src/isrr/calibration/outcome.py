"""What a calibration says in the end: a certificate or an abstention, drawn up from the verdict and the table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isrr.calibration.certify import BOUNDS_WITHIN, Rule, Sample, Verdict, certify, cost_of, samples
from isrr.calibration.path import SearchPath, judged_in_all
from isrr.calibration.request import Request
from isrr.calibration.table import Table
from isrr.certificate import Abstention, Cause, Certificate
from isrr.counting import counted
from isrr.data.queries import FloatArray
from isrr.errors import PromiseError
from isrr.findings import Estimate, Point, Provenance, Test
from isrr.metrics.measure import Measure
from isrr.promises.promise import move_together
from isrr.ranker.gpl import GPLRanker

LEVEL_STEPS = 1_000  # in which the strongest certified target is told


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
    def of(cls, request: Request, path: SearchPath, table: Table, method: str, digest: str) -> "Findings":
        """Test a table, queries in the order that the digest of ids and scores gives."""
        found = samples(table, request.promises, path, request.evidence, method, digest)
        cost = cost_of(request.promises, table.utility.means()[0, 1:], table.disparity.means()[0, 1:])
        rule = Rule.of(path, request.promises, cost, request.selection)
        return cls(request, path, table, found, certify(found, rule, delta=request.delta, selection=request.selection))

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
        level = request.level_each(len(self.path.rankers))
        tests = tuple(self._test(sample, self._safest(sample), level) for sample in self.found)
        cause, reason, n_tested = self._why()
        needed = None
        if n_tested is not None:
            share = provenance.n_queries / (provenance.n_queries + provenance.n_skipped)
            needed = judged_in_all(n_tested, request, given=provenance.n_set_aside == 0, share_counted=share)
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

    def _safest(self, sample: Sample) -> int:
        """The first configuration of the path that has to be tested."""
        return int(np.argmin(sample.exempt)) if not sample.exempt.all() else 0

    def _why(self) -> tuple[Cause, str, float | None]:
        """Why nothing was certified, and how many queries to test on would do."""
        if not move_together(self.request.promises):
            return self._why_not_together()
        delta = self.request.level_each(len(self.path.rankers))
        needed: list[float | None] = []
        unmet, unproven = [], []
        for sample in self.found:
            promise, c = sample.promise, self._safest(sample)
            if sample.only(c).holds(np.array([promise.target]), delta)[0]:
                continue
            in_cell = sample.queries_needed(c, delta)
            needed.append(None if in_cell is None else in_cell * self.table.n_queries / sample.n_queries)
            best = f"{'fairest' if promise.safe_end == 'hot' else 'safest'} configuration{_where(sample)}"
            measured = promise.shown(float(sample.measured()[c]))
            if in_cell is None:
                unmet.append(f"'{promise}' is not met even by the {best}, at {measured}")
            else:
                tested = counted(sample.n_queries, self.unit)
                unproven.append(f"'{promise}' is met by the {best}, at {measured}, but {tested} cannot prove it")
        if not needed:
            return "conflicting_promises", "no configuration keeps all promises together", None
        cause: Cause = "out_of_reach" if unmet else "too_few_queries"
        return cause, "; ".join(unmet + unproven), None if None in needed else max(n for n in needed if n is not None)

    def _why_not_together(self) -> tuple[Cause, str, float | None]:
        """The same for promises whose safe configurations may lie anywhere on the path."""
        met = np.stack([self._better(sample) >= self._better_target(sample) for sample in self.found])
        together = np.flatnonzero(met.all(axis=0))
        if together.size:
            c, delta = int(together[0]), self.request.level_each(len(self.path.rankers))
            needed = [
                (sample.n_queries, sample.queries_needed(c, delta))
                for sample in self.found
                if not sample.only(c).holds(np.array([sample.promise.target]), delta)[0]
            ]
            tested = counted(self.table.n_queries, "query")
            reason = f"{self._measured(c)} is met, but {tested} cannot prove it"
            if any(n is None for _, n in needed):
                return "too_few_queries", reason, None
            in_all = [n * self.table.n_queries / n_queries for n_queries, n in needed if n is not None]
            return "too_few_queries", reason, max(in_all, default=None)  # none: one before it on the path failed
        unmet = [
            f"'{sample.promise}'{_where(sample)} is not met by any configuration; the best reaches "
            f"{sample.promise.shown(float(sample.measured()[int(np.argmax(self._better(sample)))]))}"
            for sample, ours in zip(self.found, met, strict=True)
            if not ours.any()
        ]
        if unmet:
            return "out_of_reach", "; ".join(unmet), None
        return "conflicting_promises", "each promise can be kept by itself, but no configuration keeps all", None

    def _measured(self, column: int) -> str:
        """What one configuration reaches, promise by promise."""
        return " and ".join(
            f"'{sample.promise}'{_where(sample)} (at {sample.promise.shown(float(sample.measured()[column]))})"
            for sample in self.found
        )

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


def _where(sample: Sample) -> str:
    return "" if sample.segment is None else f" in segment {sample.segment!r}"


def quantiles(values: FloatArray) -> tuple[float, ...]:
    """At 0.1, 1, 50, 99 and 99.9 %."""
    return tuple(np.quantile(values, [0.001, 0.01, 0.5, 0.99, 0.999]).tolist())
