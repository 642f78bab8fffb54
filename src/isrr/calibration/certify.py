"""From measured values to the configurations that are certified, and the one to use.

`Sample` is one promise in one segment on the tested queries: it tells which configurations keep the promise, at its own
target or at any other. Targets are counted by their strength, whole steps from the promise that says nothing (0) to the
one out of reach, so that more is always harder:

    at least   target = low + (high − low) · strength / steps
    at most    target = high − (high − low) · strength / steps
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isrr.calibration.path import SearchPath
from isrr.calibration.table import HIGHEST, LARGEST_KEPT, PowerSums, Table, Values
from isrr.data.queries import FloatArray
from isrr.errors import DataError
from isrr.metrics.disparity import Disparity
from isrr.outcome.findings import ENOUGH_LEFT
from isrr.promises import Promise, values_alone
from isrr.risk import mixture, size, vb
from isrr.risk.evidence import NAMED, Evidence
from isrr.risk.lattice import BoolArray, IntArray
from isrr.risk.select import Selection

AT_ONCE = 30_000_000  # losses computed at a time
BOUNDS_WITHIN = 1_000_000  # queries × configurations up to which every configuration has a bound


@dataclass(frozen=True, eq=False)
class Sample(ABC):
    """One promise in one segment on the tested queries; configurations in the order of the path.

    Attributes:
        promise: The promise as declared.
        segment: The segment, or None for all queries.
        evidence: Name of the test.
        exempt: Configurations that keep the promise by definition, (n_grid,).
    """

    promise: Promise
    segment: str | None
    evidence: str
    exempt: BoolArray

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Queries tested on."""

    @abstractmethod
    def measured(self) -> FloatArray:
        """The promised quantity as measured: the mean, or its share of what it is compared with, (n_grid,)."""

    @abstractmethod
    def deviation(self) -> FloatArray:
        """Deviation over queries of what `measured` is the mean of, (n_grid,)."""

    @abstractmethod
    def loss(self, column: int, target: float) -> tuple[float, float]:
        """Mean and deviation of one configuration's losses under the promise at another target."""

    @abstractmethod
    def holds(self, targets: FloatArray, delta: float, n_tests: int = 1) -> BoolArray:
        """Whether each configuration is certified at its own target, at delta divided by n_tests, (n_grid,)."""

    @abstractmethod
    def pvalue(self, columns: Sequence[int], delta: float) -> FloatArray:
        """Smallest levels at which configurations are certified; delta is the level the test is tuned for."""

    @abstractmethod
    def upper_bound(self, columns: Sequence[int], delta: float, *, rough: bool = False) -> FloatArray:
        """Upper confidence bounds on the risk of configurations; NaN where sums give none."""

    @abstractmethod
    def queries_needed(self, column: int, delta: float, floor: float | None = None) -> int | None:
        """About how many queries like these certify a configuration 8 times out of 10; None when no number does.

        Another floor than the configuration's may be given; sums know nothing of it.
        """

    @abstractmethod
    def only(self, column: int) -> "Sample":
        """The same for one configuration alone."""

    def needed_by_formula(self, column: int, delta: float, target: float) -> int | None:
        """The same as `queries_needed` for another target than the promise's, found without simulation."""
        promise, (mean, deviation) = self.promise.at(target), self.loss(column, target)
        paired, alpha = promise.of is not None, float(promise.tested_alpha())
        return size.needed(mean, deviation, alpha, delta, paired=paired, n_losses=self.n_queries)

    @property
    def targets(self) -> FloatArray:
        """The declared target, one per configuration."""
        return np.full(self.exempt.size, self.promise.target)

    @property
    def slack(self) -> FloatArray:
        """By how many standard errors each configuration is measured to keep the promise, (n_grid,)."""
        sign = 1.0 if self.promise.at_least is not None else -1.0
        error = np.maximum(self.deviation() / np.sqrt(self.n_queries), 1e-9)
        slack: FloatArray = sign * (self.measured() - self.promise.target) / error
        return slack

    @property
    def safest(self) -> int:
        """The first configuration of the path that has to be tested."""
        return int(np.argmin(self.exempt)) if not self.exempt.all() else 0

    def strength(self, target: FloatArray | float, steps: int) -> FloatArray:
        """Targets as strengths, not rounded."""
        low, high = self.promise.target_range
        share = (np.asarray(target, np.float64) - low) / (high - low)
        return steps * (share if self.promise.at_least is not None else 1.0 - share)

    def target(self, strength: IntArray | FloatArray, steps: int) -> FloatArray:
        """Strengths as targets."""
        low, high = self.promise.target_range
        count = np.asarray(strength, np.float64)
        return low + (high - low) * ((count if self.promise.at_least is not None else steps - count) / steps)

    def strongest(self, delta: float, steps: int, n_tests: int = 1) -> IntArray:
        """The largest strength certified for each configuration, by bisection; 0 where none is.

        The search starts within ten standard errors below what was measured, and leaves that only where it must.
        """
        near = self.strength(self.measured(), steps)
        span = np.ptp(self.promise.target_range)
        width = 10 * steps * self.deviation() / span / np.sqrt(self.n_queries) + 2
        low, high = np.zeros(near.size, np.int64), np.full(near.size, steps)

        def narrow(asked: IntArray) -> None:
            nonlocal low, high
            inside = (low < asked) & (asked < high)
            answer = self.holds(self.target(asked, steps), delta, n_tests)
            low, high = np.where(inside & answer, asked, low), np.where(inside & ~answer, asked, high)

        for guess in (near - width, near + 1):
            narrow(np.clip(guess.astype(np.int64), low + 1, high - 1).clip(1, steps - 1))
        while np.any(high - low > 1):
            narrow(((low + high) // 2).clip(1, steps - 1))
        return low


@dataclass(frozen=True, eq=False)
class KeptSample(Sample):
    """Tested on values kept query by query, in canonical order.

    Attributes:
        values: The promised metric, (n_queries, n_grid).
        reference: What it is compared with, (n_queries,).
        floors: Share of what it is compared with that each configuration keeps on every query, (n_grid,).
        block: Queries that each row is the mean of.
        test: The evidence.
    """

    values: FloatArray
    reference: FloatArray
    floors: FloatArray
    block: int = 1
    test: Evidence = NAMED["betting"]

    @classmethod
    def of(
        cls, promise: Promise, segment: str | None, evidence: Evidence, found: Values, path: SearchPath
    ) -> "KeptSample":
        """On the queries that count; values have the deterministic ranker in the first column."""
        counted = found.counted
        if not counted.any():
            where = "no query" if segment is None else f"segment {segment!r} has no query"
            raise DataError(
                f"{where} to test on: none has a relevant item, or those that do are set aside to fix the path"
            )
        stretched = evidence.takes_negative
        return cls(
            promise,
            segment,
            evidence.name,
            np.array([promise.kept_by_definition(ranker) for ranker in path.rankers]),
            found.values[counted, 1:],
            found.reference[counted],
            np.array([ranker.floor if stretched and promise.floored(ranker) else 0.0 for ranker in path.rankers]),
            test=evidence,
        )

    @property
    def n_queries(self) -> int:
        return len(self.values) * self.block

    def only(self, column: int) -> "KeptSample":
        chosen = slice(column, column + 1)
        return replace(self, exempt=self.exempt[chosen], values=self.values[:, chosen], floors=self.floors[chosen])

    def measured(self) -> FloatArray:
        mean: FloatArray = self.values.mean(axis=0)
        return mean if self.promise.of is None else mean / max(float(self.reference.mean()), 1e-300)

    def deviation(self) -> FloatArray:
        single = float(np.sqrt(self.block))
        if self.promise.of is None:
            return np.asarray(self.values.std(axis=0)) * single
        centred = self.values - self.measured() * self.reference[:, None]
        return np.asarray(centred.std(axis=0)) * single / max(float(self.reference.mean()), 1e-300)

    def loss(self, column: int, target: float) -> tuple[float, float]:
        losses = self.promise.at(target).losses(self.values[:, [column]], self.reference)
        return float(losses.mean()), float(losses.std())

    def queries_needed(
        self, column: int, delta: float, floor: float | None = None, *, power: float = size.POWER, errors: float = 0.0
    ) -> int | None:
        """The same with any power, and with the true risk so many standard errors above the measured one."""
        if self.exempt[column]:
            return 1
        losses = self.promise.losses(self.values[:, [column]], self.reference)[:, 0]
        if floor is None or not self.test.takes_negative:
            floor = float(self.floors[column])
        shifted = losses + errors * losses.std() / np.sqrt(losses.size)
        needed = self.promise.queries_needed(shifted, delta, power, floor)
        return None if needed is None else needed * self.block

    def holds(self, targets: FloatArray, delta: float, n_tests: int = 1) -> BoolArray:
        answers = (self.floors > 0) & (self.floors >= targets)  # kept by definition
        stretch = self.promise.stretch(self.floors, targets)
        alpha = self.promise.tested_alpha(stretch, targets)
        left = np.flatnonzero(~answers & (alpha > 0))
        at_once = max(AT_ONCE // len(self.values), 1)
        for start in range(0, left.size, at_once):
            columns = left[start : start + at_once]
            losses = self._losses(columns, stretch[columns], targets[columns])
            prior = self._prior(stretch[columns])
            answers[columns] = self.test.certifies(losses, alpha[columns], delta / n_tests, prior)
        return answers

    def pvalue(self, columns: Sequence[int], delta: float) -> FloatArray:
        chosen = np.asarray(columns, np.int64)
        found, stretch = np.where(self.exempt[chosen], 0.0, 1.0), self.promise.stretch(self.floors[chosen])
        alpha = self.promise.tested_alpha(stretch)
        tested = np.flatnonzero(~self.exempt[chosen] & (alpha > 0))
        if tested.size:
            losses = self._losses(chosen[tested], stretch[tested])
            found[tested] = self.test.pvalue(losses, alpha[tested], delta, self._prior(stretch[tested]))
        return found

    def upper_bound(self, columns: Sequence[int], delta: float, *, rough: bool = False) -> FloatArray:
        chosen = np.asarray(columns, np.int64)
        stretch = self.promise.stretch(self.floors[chosen])
        losses = self._losses(chosen, stretch)
        found = self.test.upper_bound(losses, delta, self._prior(stretch), rough=rough)
        return self.promise.alpha + (found - self.promise.alpha) / stretch

    def _losses(self, columns: IntArray, stretch: FloatArray, targets: FloatArray | None = None) -> FloatArray:
        return self.promise.losses(self.values[:, columns], self.reference, stretch, targets)

    def _prior(self, stretch: FloatArray) -> FloatArray:
        """A guess of the deviation of the losses."""
        return np.asarray(self.promise.prior_deviation(stretch) / np.sqrt(self.block))


@dataclass(frozen=True, eq=False)
class SummedSample(Sample):
    """Tested on sums of powers; the evidence is `vb`, or `mixture` where losses may be negative."""

    powers: PowerSums

    @classmethod
    def of(
        cls, promise: Promise, segment: str | None, evidence: str, found: PowerSums, path: SearchPath
    ) -> "SummedSample":
        """On sums that have the deterministic ranker in the first column."""
        exempt = np.array([promise.kept_by_definition(ranker) for ranker in path.rankers])
        return cls(promise, segment, evidence, exempt, replace(found, sums=found.sums[1:]))

    @property
    def n_queries(self) -> int:
        return self.powers.n_queries

    def only(self, column: int) -> "SummedSample":
        chosen = slice(column, column + 1)
        return replace(self, exempt=self.exempt[chosen], powers=replace(self.powers, sums=self.powers.sums[chosen]))

    def measured(self) -> FloatArray:
        mean = self.powers.mean()
        return mean if self.promise.of is None else mean / np.maximum(self.powers.mean(0, 1), 1e-300)

    def deviation(self) -> FloatArray:
        mean = self.powers.mean
        if self.promise.of is None:
            return np.sqrt(np.maximum(mean(2) - mean() ** 2, 0.0))
        share = self.measured()  # v − share·r has mean 0
        variance = mean(2) - 2 * share * mean(1, 1) + share**2 * mean(0, 2)
        return np.sqrt(np.maximum(variance, 0.0)) / np.maximum(mean(0, 1), 1e-300)

    def loss(self, column: int, target: float) -> tuple[float, float]:
        targets = np.full(self.exempt.size, target)
        first, second = self._loss_powers(targets, highest=2)[column] / self.n_queries
        return float(first), float(np.sqrt(max(second - first**2, 0.0)))

    def queries_needed(self, column: int, delta: float, floor: float | None = None) -> int | None:
        return self.needed_by_formula(column, delta, self.promise.target)

    def holds(self, targets: FloatArray, delta: float, n_tests: int = 1) -> BoolArray:
        return self._pvalues(targets, delta / n_tests) * n_tests <= delta

    def pvalue(self, columns: Sequence[int], delta: float) -> FloatArray:
        return self._pvalues(self.targets, delta)[list(columns)]

    def upper_bound(self, columns: Sequence[int], delta: float, *, rough: bool = False) -> FloatArray:
        if self.evidence == "vb":  # its sums know one alpha only
            return np.full(len(columns), np.nan)
        powers = self._loss_powers(self.targets)
        return mixture.Summary.of_powers(powers, self.n_queries, delta).upper_bound(delta)[list(columns)]

    def _pvalues(self, targets: FloatArray, delta: float) -> FloatArray:
        alpha = self.promise.tested_alpha(target=targets)
        if self.evidence == "mixture":
            return mixture.Summary.of_powers(self._loss_powers(targets), self.n_queries, delta).pvalue(alpha)
        level = vb.tested_level(alpha)
        return vb.Summary.of_powers(self._loss_powers(targets, level), self.n_queries, level, delta).pvalue()

    def _loss_powers(self, targets: FloatArray, shift: FloatArray | float = 0.0, highest: int = HIGHEST) -> FloatArray:
        a, b, c, _ = (np.broadcast_to(part, targets.shape) for part in self.promise.loss_at(targets))
        return self.powers.loss_powers((a, b, c), shift, highest)


def sums_suffice(evidence: str, n_queries: int) -> bool:
    """Whether so many queries are summed up rather than kept one by one."""
    return evidence == "betting" and n_queries > LARGEST_KEPT


def samples(
    table: Table, promises: Sequence[Promise], path: SearchPath, evidence: Evidence, method: str, digest: str
) -> list[Sample]:
    """Every promise in each of its segments, queries in the order that the digest of ids and scores gives."""
    found: list[Sample] = []
    for (i, name), sums in sorted(table.powers.items(), key=lambda entry: entry[0]):
        negative = isinstance(promises[i].metric, Disparity) and method == "draws"
        summed_by = "mixture" if negative else "vb"
        found.append(SummedSample.of(promises[i], name or None, summed_by, sums, path))
    if found:
        return found
    ordered = table.in_canonical_order(digest)
    for promise, values in zip(promises, ordered.kept, strict=True):
        if promise.per is None:
            found.append(KeptSample.of(promise, None, evidence, values, path))
            continue
        assert ordered.segments is not None
        for segment in sorted(set(ordered.segments.tolist())):
            found.append(KeptSample.of(promise, segment, evidence, values[ordered.segments == segment], path))
    return found


@dataclass(frozen=True)
class Rule:
    """How one configuration is chosen, given which pass.

    Attributes:
        free: Orders by score that keep every promise by definition: nothing is gained by them.
        preference: Order in which certified configurations are liked, smallest first.
        one_by_one: Whether each is tested by itself, not along the path.
    """

    free: tuple[bool, ...]
    preference: tuple[int, ...]
    one_by_one: bool

    @classmethod
    def of(cls, path: SearchPath, promises: Sequence[Promise], cost: FloatArray, selection: Selection) -> "Rule":
        """The rule for a path; `cost` is what is to be small among certified configurations."""
        free = [
            ranker.is_deterministic and all(promise.kept_by_definition(ranker) for promise in promises)
            for ranker in path.rankers
        ]
        order = np.argsort(np.argsort(cost, kind="stable"), kind="stable")
        return cls(tuple(free), tuple(order.tolist()), not selection.along_path)

    def certified(self, passing: BoolArray) -> BoolArray:
        """Which configurations are certified: those that pass, up to the first along a path that does not."""
        if self.one_by_one or passing.all():
            return passing
        return np.arange(passing.size) < np.argmin(passing)

    def chosen(self, passing: BoolArray) -> int | None:
        """The configuration to use; None for an abstention."""
        proven = np.flatnonzero(self.certified(passing) & ~np.array(self.free))
        return int(min(proven, key=lambda c: self.preference[c])) if proven.size else None


@dataclass(frozen=True, eq=False)
class Verdict:
    """Which configurations keep every promise, (n_grid,), and which one of them is used; None for an abstention."""

    certified: BoolArray
    chosen: int | None


def certify(found: Sequence[Sample], rule: Rule, *, delta: float, selection: Selection) -> Verdict:
    """Test every promise along the path and choose among the configurations that keep them all.

    A configuration counts as certified when every promise (in every segment) is: a false certificate needs a false
    rejection of the one promise that is broken, so testing several costs nothing.
    """
    n_grid = len(rule.free)
    if not selection.divides_delta:
        passing = np.ones(n_grid, bool)
        for sample in found:
            passing &= sample.exempt | sample.holds(sample.targets, delta)
    else:
        worst = np.zeros(n_grid)
        for sample in found:
            worst = np.maximum(worst, np.where(sample.exempt, 0.0, sample.pvalue(range(n_grid), delta / n_grid)))
        passing = np.isin(np.arange(n_grid), selection.survivors(worst, delta))
    return Verdict(rule.certified(passing), rule.chosen(passing))


def cost_of(
    promises: Sequence[Promise], utility: FloatArray, disparity: FloatArray, remaining: FloatArray | None = None
) -> FloatArray:
    """Return what is to be small among certified configurations, (n_grid,).

    All that are certified keep the promises, so choosing among them by what the same queries say costs nothing. Where
    relevance is promised, it is disparity. Where values alone are, it is disparity among those that keep enough of the
    order by score's NDCG, of which `remaining` is the share left; the others come after them, closest first. Where
    neither is, it is −utility: the closest to the order by score.
    """
    if not any(promise.safe_end == "cold" for promise in promises):
        return -utility
    if not values_alone(promises):
        return disparity
    assert remaining is not None
    return np.where(remaining >= ENOUGH_LEFT, disparity, disparity.max() + 1.0 - remaining)
