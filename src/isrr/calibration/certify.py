"""From measured values to the configurations that are certified, and the one to use.

`Tested` is one promise in one segment on the tested queries: it tells which configurations keep the promise, at its own
target or at any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import FloatArray
from isrr.errors import DataError
from isrr.outcome.findings import ENOUGH_LEFT
from isrr.promises import Promise, values_alone
from isrr.ranker.gpl import GPLRanker
from isrr.risk import size
from isrr.risk.evidence import NAMED, Evidence, OfMean
from isrr.risk.lattice import BoolArray
from isrr.risk.select import Selection

AT_ONCE = 16  # configurations tested at a time


@dataclass(frozen=True, eq=False)
class Tested:
    """One promise in one segment on the tested queries, in canonical order; configurations in the order of the path.

    Attributes:
        promise: The promise as declared.
        segment: The segment, or None for all queries.
        exempt: Configurations that keep the promise by definition, (n_grid,).
        values: The promised metric, (n_queries, n_grid).
        reference: What it is compared with, (n_queries,).
        floors: Share of what it is compared with that each configuration keeps on every query, (n_grid,).
        block: Queries that each row is the mean of.
        test: The evidence.
    """

    __test__: ClassVar[bool] = False  # not a pytest class

    promise: Promise
    segment: str | None
    exempt: BoolArray
    values: FloatArray
    reference: FloatArray
    floors: FloatArray
    block: int = 1
    test: Evidence = NAMED["betting"]

    @classmethod
    def of(
        cls,
        promise: Promise,
        segment: str | None,
        test: Evidence,
        values: FloatArray,
        reference: FloatArray,
        rankers: Sequence[GPLRanker],
    ) -> "Tested":
        """Keep the queries that count; values have the order by score in the first column."""
        counts = ~np.isnan(values[:, 0])
        if not counts.any():
            where = "no query" if segment is None else f"segment {segment!r} has no query"
            raise DataError(
                f"{where} to test on: none has a relevant item, or those that do are set aside to fix the path"
            )
        chosen = slice(None) if counts.all() else counts  # the former copies nothing
        floors = [ranker.floor if test.takes_negative and promise.floored(ranker) else 0.0 for ranker in rankers]
        exempt = np.array([promise.kept_by_definition(ranker) for ranker in rankers])
        return cls(promise, segment, exempt, values[chosen, 1:], reference[chosen], np.array(floors), test=test)

    @property
    def n_queries(self) -> int:
        """Queries tested on."""
        return len(self.values) * self.block

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

    def only(self, column: int) -> "Tested":
        """Return the same for one configuration alone."""
        chosen = slice(column, column + 1)
        return replace(self, exempt=self.exempt[chosen], values=self.values[:, chosen], floors=self.floors[chosen])

    def measured(self) -> FloatArray:
        """Return the promised quantity: the mean, or its share of what it is compared with, (n_grid,)."""
        mean: FloatArray = self.values.mean(axis=0)
        return mean if self.promise.of is None else mean / max(float(self.reference.mean()), 1e-300)

    def deviation(self) -> FloatArray:
        """Return the deviation over queries of what `measured` is the mean of, (n_grid,)."""
        single = float(np.sqrt(self.block))
        if self.promise.of is None:
            return np.asarray(self.values.std(axis=0)) * single
        centred = self.values - self.measured() * self.reference[:, None]
        return np.asarray(centred.std(axis=0)) * single / max(float(self.reference.mean()), 1e-300)

    def queries_needed(
        self, column: int, delta: float, floor: float | None = None, *, power: float = size.POWER, errors: float = 0.0
    ) -> int | None:
        """Return about how many queries like these certify a configuration; None when no number does.

        Args:
            column: The configuration.
            delta: The level of the test.
            floor: Another floor than the configuration's.
            power: How often it is certified.
            errors: The true risk is taken to lie so many standard errors above the measured one.
        """
        if self.exempt[column]:
            return 1
        promise = self.promise
        losses = promise.loss().of(self.values[:, [column]], self.reference)[:, 0]
        if floor is None or not self.test.takes_negative:
            floor = float(self.floors[column])
        loss = promise.loss(floor if promise.can_be_floored else 0.0)
        shifted = losses + errors * losses.std() / np.sqrt(losses.size) - promise.alpha
        stretched = promise.alpha + shifted * loss.stretch
        if isinstance(self.test, OfMean):
            of_mean, level = self.test.of_mean, float(loss.level)
            unit = np.clip(stretched, 0.0, 1.0)
            needed = size.needed_by_mean(unit, lambda means, n: of_mean(means, n, level) <= delta, level, power)
            return None if needed is None else needed * self.block
        needed = size.simulated(
            stretched, float(loss.level), delta, float(loss.prior), power, paired=promise.of is not None
        )
        return None if needed is None else needed * self.block

    def holds(self, delta: float, targets: ArrayLike | None = None, *, along_path: bool = False) -> BoolArray:
        """Return whether each configuration is certified, at the promised target or at one of its own, (n_grid,).

        Along a path, those some way behind one that is not certified are not tested, and count as not certified.
        """
        aims = np.broadcast_to(self.promise.target if targets is None else targets, self.floors.shape)
        answers = (self.floors > 0) & (self.floors >= aims)  # kept by definition
        left = np.flatnonzero(~answers & (self.promise.loss(self.floors, aims).level > 0))
        for start in range(0, left.size, AT_ONCE):
            columns = left[start : start + AT_ONCE]
            loss = self.promise.loss(self.floors[columns], aims[columns])
            losses, prior = loss.of(self.values[:, columns], self.reference), loss.prior / np.sqrt(self.block)
            answers[columns] = self.test.certifies(losses, np.asarray(loss.level), delta, prior)
            if along_path and not (answers | self.exempt)[columns].all():
                break
        return answers

    def pvalue(self, columns: Sequence[int], delta: float) -> FloatArray:
        """Return the smallest levels that certify configurations; delta is the level the test is tuned for."""
        chosen = np.asarray(columns, np.int64)
        pvalues = np.where(self.exempt[chosen], 0.0, 1.0)
        tested = np.flatnonzero(~self.exempt[chosen] & (self.promise.loss(self.floors[chosen]).level > 0))
        if tested.size:
            loss = self.promise.loss(self.floors[chosen[tested]])
            losses = loss.of(self.values[:, chosen[tested]], self.reference)
            prior = loss.prior / np.sqrt(self.block)
            pvalues[tested] = self.test.pvalue(losses, np.asarray(loss.level), delta, prior)
        return pvalues

    def upper_bound(self, columns: Sequence[int], delta: float, *, rough: bool = False) -> FloatArray:
        """Return upper confidence bounds on the risk of configurations."""
        chosen = np.asarray(columns, np.int64)
        loss = self.promise.loss(self.floors[chosen])
        losses = loss.of(self.values[:, chosen], self.reference)
        bounds = self.test.upper_bound(losses, delta, loss.prior / np.sqrt(self.block), rough=rough)
        return self.promise.alpha + (bounds - self.promise.alpha) / loss.stretch

    def strongest(self, delta: float, steps: int) -> FloatArray:
        """Return the strongest target certified for each configuration, by bisection; NaN where none is.

        Targets are counted in whole steps from the promise that says nothing. The search starts within ten standard
        errors below what was measured, and leaves that only where it must.
        """
        easy, hard = self.promise.target_range[:: 1 if self.promise.at_least is not None else -1]
        near = steps * (self.measured() - easy) / (hard - easy)
        width = 10 * steps * self.deviation() / abs(hard - easy) / np.sqrt(self.n_queries) + 2
        guesses = [near - width, near + 1]
        low, high = np.zeros(near.size, np.int64), np.full(near.size, steps)
        while np.any(high - low > 1):
            guess = guesses.pop(0).astype(np.int64) if guesses else (low + high) // 2
            guess = np.clip(guess, low + 1, high - 1).clip(1, steps - 1)
            holds, inside = self.holds(delta, easy + (hard - easy) * (guess / steps)), (low < guess) & (guess < high)
            low, high = np.where(inside & holds, guess, low), np.where(inside & ~holds, guess, high)
        return np.where(low > 0, easy + (hard - easy) * (low / steps), np.nan)


def certify(tested: Sequence[Tested], selection: Selection, delta: float) -> BoolArray:
    """Test every promise along the path, and return which configurations keep them all, (n_grid,).

    A configuration counts as certified when every promise (in every segment) is: a false certificate needs a false
    rejection of the one promise that is broken, so testing several costs nothing.
    """
    n_grid = tested[0].exempt.size
    if selection.divides_delta:
        worst = np.zeros(n_grid)
        for one in tested:
            worst = np.maximum(worst, np.where(one.exempt, 0.0, one.pvalue(range(n_grid), delta / n_grid)))
        return np.isin(np.arange(n_grid), selection.survivors(worst, delta))
    passing = np.ones(n_grid, bool)
    for one in tested:
        passing &= one.exempt | one.holds(delta, along_path=selection.along_path)
    return np.asarray(np.logical_and.accumulate(passing) if selection.along_path else passing)


def choose(
    certified: BoolArray, rankers: Sequence[GPLRanker], promises: Sequence[Promise], cost: FloatArray
) -> int | None:
    """Return the certified configuration of least cost; None for an abstention.

    Orders by score that keep every promise by definition are no choice: nothing is gained by them.
    """
    free = [
        ranker.is_deterministic and all(promise.kept_by_definition(ranker) for promise in promises)
        for ranker in rankers
    ]
    proven = np.flatnonzero(certified & ~np.array(free))
    return int(proven[np.argmin(cost[proven])]) if proven.size else None


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
