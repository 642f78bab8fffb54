"""The same promise at other targets: which of them the judged queries certify, configuration by configuration.

Targets are counted by their strength, whole steps from the promise that says nothing (0) to the one out of reach:

    utility    target = limit · strength / steps         fairness   target = limit · (steps − strength) / steps

so that more is always harder. Losses of a paired promise depend on its target and are made anew for every one tried;
`isrr.explore.powers` does without them where queries are many.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isrr.data.queries import FloatArray
from isrr.guarantee import Guarantee
from isrr.risk import betting, vb
from isrr.risk.evidence import evidence
from isrr.risk.lattice import BoolArray, IntArray

AT_ONCE = 30_000_000  # losses made anew at a time


@dataclass(frozen=True, eq=False)
class Retargeted(ABC):
    """One promise on judged queries, ready to be tested at any target.

    Attributes:
        guarantee: The promise as declared.
        evidence: Name of the test.
    """

    guarantee: Guarantee
    evidence: str

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Queries tested on."""

    @abstractmethod
    def measured(self) -> FloatArray:
        """The promised quantity as measured: the mean, or its share of the deterministic ranker's, (n_grid,)."""

    @abstractmethod
    def deviation(self) -> FloatArray:
        """Deviation over queries of what `measured` is the mean of, (n_grid,)."""

    @abstractmethod
    def loss(self, column: int, target: float) -> tuple[float, float]:
        """Mean and deviation of one configuration's losses under the promise at another target."""

    @abstractmethod
    def holds(self, targets: FloatArray, delta: float, n_tests: int = 1) -> BoolArray:
        """Whether each configuration is certified at its own target, at delta divided by n_tests, (n_grid,)."""

    @property
    def limit(self) -> float:
        """What targets stay below."""
        return (self.guarantee.bound or 1.0) if self.guarantee.metric == "disparity" else 1.0

    def strength(self, target: FloatArray | float, steps: int) -> FloatArray:
        """Targets as strengths, not rounded."""
        share = np.asarray(target, np.float64) / self.limit
        return steps * (share if self.guarantee.utility else 1.0 - share)

    def target(self, strength: IntArray | FloatArray, steps: int) -> FloatArray:
        """Strengths as targets."""
        count = np.asarray(strength, np.float64)
        return self.limit * ((count if self.guarantee.utility else steps - count) / steps)

    def strongest(self, delta: float, steps: int, n_tests: int = 1) -> IntArray:
        """The largest strength certified for each configuration, by bisection; 0 where none is.

        The search starts within ten standard errors below what was measured, and leaves that only where it must.
        """
        near = self.strength(self.measured(), steps)
        width = 10 * steps * self.deviation() / self.limit / np.sqrt(self.n_queries) + 2
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
class RetargetedValues(Retargeted):
    """Tested on the metric's values, query by query.

    Attributes:
        values: The promised metric, (n_queries, n_grid), rows in canonical order.
        reference: The metric of the deterministic ranker, (n_queries,).
    """

    values: FloatArray
    reference: FloatArray

    @classmethod
    def of_losses(
        cls, guarantee: Guarantee, name: str, losses: FloatArray, columns: Sequence[int]
    ) -> "RetargetedValues":
        """The values behind losses in canonical order, whose first column is the deterministic ranker's."""
        values, reference = guarantee.values(losses[:, list(columns)], losses[:, :1])
        return cls(guarantee, name, values, reference[:, 0])

    @property
    def n_queries(self) -> int:
        """Queries tested on."""
        return len(self.values)

    def measured(self) -> FloatArray:
        """The promised quantity as measured, (n_grid,)."""
        mean: FloatArray = self.values.mean(axis=0)
        return mean / max(float(self.reference.mean()), 1e-300) if self.guarantee.relative else mean

    def deviation(self) -> FloatArray:
        """Its deviation over queries, (n_grid,)."""
        if not self.guarantee.relative:
            return np.asarray(self.values.std(axis=0))
        centred = self.values - self.measured() * self.reference[:, None]
        return np.asarray(centred.std(axis=0)) / max(float(self.reference.mean()), 1e-300)

    def loss(self, column: int, target: float) -> tuple[float, float]:
        """Mean and deviation of one configuration's losses at another target."""
        losses = self._losses(column, target)
        return float(losses.mean()), float(losses.std())

    def holds(self, targets: FloatArray, delta: float, n_tests: int = 1) -> BoolArray:
        """Whether each configuration is certified at its own target, (n_grid,)."""
        n_queries, n_grid = self.values.shape
        answers = np.empty(n_grid, np.bool_)
        width = max(AT_ONCE // n_queries, 1)
        for start in range(0, n_grid, width):
            columns = range(start, min(start + width, n_grid))
            losses = np.stack([self._losses(c, float(targets[c])) for c in columns], axis=1)
            alphas = np.array([self.guarantee.at(float(targets[c])).tested_alpha for c in columns])
            answers[start : start + width] = self._certified(losses, alphas, delta, n_tests)
        return answers

    def _losses(self, column: int, target: float) -> FloatArray:
        return self.guarantee.at(target).losses(self.values[:, [column]], self.reference)[:, 0]

    def _certified(self, losses: FloatArray, alphas: FloatArray, delta: float, n_tests: int) -> BoolArray:
        if self.evidence == "betting":
            return betting.certifies(losses, alphas, delta / n_tests, self.guarantee.prior_deviation)
        tuned_delta = delta / n_tests if self.evidence in ("vb", "mixture") else delta
        if self.evidence == "vb":
            return vb.pvalue(np.clip(losses, 0.0, 1.0), alphas, tuned_delta) * n_tests <= delta
        source = evidence(self.evidence, delta=tuned_delta, prior_deviation=self.guarantee.prior_deviation)
        pvalues = [source.pvalue(losses[:, [c]], float(alpha))[0] for c, alpha in enumerate(alphas)]
        return np.array(pvalues) * n_tests <= delta
