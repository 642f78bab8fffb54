"""The same promise at other targets: which of them the judged queries certify, configuration by configuration.

Targets are counted by their strength, whole steps from the promise that says nothing (0) to the one out of reach:

    utility    target = limit · strength / steps         fairness   target = limit · (steps − strength) / steps

so that more is always harder. Losses of a paired promise depend on its target and are made anew for every one tried.
"""

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
class Retargeted:
    """What one promise speaks of, query by query, ready to be tested at any target.

    Attributes:
        guarantee: The promise as declared.
        evidence: Name of the test.
        values: The promised metric, (n_queries, n_grid), rows in canonical order.
        reference: The metric of the deterministic ranker, (n_queries,).
    """

    guarantee: Guarantee
    evidence: str
    values: FloatArray
    reference: FloatArray

    @classmethod
    def of_losses(cls, guarantee: Guarantee, name: str, losses: FloatArray, columns: Sequence[int]) -> "Retargeted":
        """The values behind losses in canonical order, whose first column is the deterministic ranker's."""
        share, chosen = guarantee.target, losses[:, list(columns)]
        if not guarantee.relative:
            values = 1.0 - chosen if guarantee.utility else chosen * (guarantee.bound or 1.0)
            return cls(guarantee, name, values, values[:, 0])
        sign = 1.0 if guarantee.utility else -1.0
        constant = 1.0 if guarantee.utility else share
        reference: FloatArray = (sign * (constant - (1 + share) * losses[:, 0])) / (1 - share)
        return cls(guarantee, name, share * reference[:, None] + sign * (constant - (1 + share) * chosen), reference)

    @property
    def limit(self) -> float:
        """What targets stay below."""
        return (self.guarantee.bound or 1.0) if self.guarantee.metric == "disparity" else 1.0

    def measured(self) -> FloatArray:
        """The promised quantity as measured: the mean, or its share of the deterministic ranker's, (n_grid,)."""
        mean: FloatArray = self.values.mean(axis=0)
        return mean / max(float(self.reference.mean()), 1e-300) if self.guarantee.relative else mean

    def deviation(self) -> FloatArray:
        """Deviation over queries of what `measured` is the mean of, (n_grid,)."""
        if not self.guarantee.relative:
            return np.asarray(self.values.std(axis=0))
        centred = self.values - self.measured() * self.reference[:, None]
        return np.asarray(centred.std(axis=0)) / max(float(self.reference.mean()), 1e-300)

    def strength(self, target: FloatArray | float, steps: int) -> FloatArray:
        """Targets as strengths, not rounded."""
        share = np.asarray(target, np.float64) / self.limit
        return steps * (share if self.guarantee.utility else 1.0 - share)

    def target(self, strength: IntArray | FloatArray, steps: int) -> FloatArray:
        """Strengths as targets."""
        count = np.asarray(strength, np.float64)
        return self.limit * ((count if self.guarantee.utility else steps - count) / steps)

    def losses(self, column: int, target: float) -> FloatArray:
        """Losses of one configuration under the promise at another target, (n_queries,)."""
        return self.guarantee.at(target).losses(self.values[:, [column]], self.reference)[:, 0]

    def holds(self, targets: FloatArray, delta: float) -> BoolArray:
        """Whether each configuration is certified at its own target, (n_grid,)."""
        n_queries, n_grid = self.values.shape
        answers = np.empty(n_grid, np.bool_)
        width = max(AT_ONCE // n_queries, 1)
        for start in range(0, n_grid, width):
            columns = range(start, min(start + width, n_grid))
            losses = np.stack([self.losses(c, float(targets[c])) for c in columns], axis=1)
            alphas = np.array([self.guarantee.at(float(targets[c])).tested_alpha for c in columns])
            answers[start : start + width] = self._certified(losses, alphas, delta)
        return answers

    def strongest(self, delta: float, steps: int) -> IntArray:
        """The largest strength certified for each configuration, by bisection; 0 where none is.

        The search starts within ten standard errors below what was measured, and leaves that only where it must.
        """
        n_queries, n_grid = self.values.shape
        low, high = np.zeros(n_grid, np.int64), np.full(n_grid, steps)
        near = self.strength(self.measured(), steps)
        width = 10 * steps * self.deviation() / self.limit / np.sqrt(n_queries) + 2
        for guess in (near - width, near + 1):
            asked = np.clip(guess.astype(np.int64), low + 1, high - 1).clip(1, steps - 1)
            low, high = self._narrowed(low, high, asked, delta, steps)
        while np.any(high - low > 1):
            low, high = self._narrowed(low, high, ((low + high) // 2).clip(1, steps - 1), delta, steps)
        return low

    def _narrowed(
        self, low: IntArray, high: IntArray, asked: IntArray, delta: float, steps: int
    ) -> tuple[IntArray, IntArray]:
        inside = (low < asked) & (asked < high)
        answer = self.holds(self.target(asked, steps), delta)
        return np.where(inside & answer, asked, low), np.where(inside & ~answer, asked, high)

    def _certified(self, losses: FloatArray, alphas: FloatArray, delta: float) -> BoolArray:
        if self.evidence == "betting":
            return betting.certifies(losses, alphas, delta, self.guarantee.prior_deviation)
        if self.evidence == "vb":
            return vb.pvalue(losses, alphas, delta) <= delta
        source = evidence(self.evidence, delta=delta, prior_deviation=self.guarantee.prior_deviation)
        pvalues = [source.pvalue(losses[:, [c]], float(alpha))[0] for c, alpha in enumerate(alphas)]
        return np.array(pvalues) <= delta
