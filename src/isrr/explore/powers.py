"""The same promise at other targets, from sums that are taken once.

Above 200,000 queries calibration tests on sums (`isrr.risk.vb`, `isrr.risk.mixture`), and those depend on the target.
To ask about hundreds of targets without the losses of hundreds of targets, what is summed are powers: with v a
configuration's value on a query and r the deterministic ranker's, every loss is X = A·v + B·r + C, hence

    Σ (X − α)ᵖ = Σ over a + b ≤ p of  p!/(a!·b!·(p − a − b)!) · Aᵃ · Bᵇ · (C − α)^(p − a − b) · Σ vᵃrᵇ

and powers up to the eighth bound the evidence from the safe side: a target that holds here holds in calibration. At
these numbers of queries the two differ in the last of six digits at most.
"""

from dataclasses import dataclass
from math import factorial

import numpy as np

from isrr.calibration.targets import Retargeted
from isrr.data.queries import FloatArray
from isrr.risk import mixture, vb
from isrr.risk.lattice import BoolArray

HIGHEST = 8


@dataclass(frozen=True, eq=False)
class PowerSums:
    """Sums over queries, joined by `+`.

    Attributes:
        n_queries: Queries summed up.
        sums: Σ vᵃrᵇ at [:, a, b] for a + b ≤ 8, 0 elsewhere; (n_grid, 9, 9).
    """

    n_queries: int
    sums: FloatArray

    @classmethod
    def of(cls, values: FloatArray, reference: FloatArray) -> "PowerSums":
        """Sum up values of shape (n_queries, n_grid) and the deterministic ranker's, (n_queries,)."""
        sums = np.zeros((values.shape[1], HIGHEST + 1, HIGHEST + 1))
        references = reference[:, None] ** np.arange(HIGHEST + 1)
        power = np.ones_like(values)
        for a in range(HIGHEST + 1):
            sums[:, a, : HIGHEST + 1 - a] = power.T @ references[:, : HIGHEST + 1 - a]
            power *= values
        return cls(len(values), sums)

    def __add__(self, other: "PowerSums") -> "PowerSums":
        return PowerSums(self.n_queries + other.n_queries, self.sums + other.sums)


@dataclass(frozen=True, eq=False)
class RetargetedSums(Retargeted):
    """Tested on sums of powers."""

    powers: PowerSums

    @property
    def n_queries(self) -> int:
        """Queries tested on."""
        return self.powers.n_queries

    def measured(self) -> FloatArray:
        """The promised quantity as measured, (n_grid,)."""
        mean = self._mean(1, 0)
        return mean / np.maximum(self._mean(0, 1), 1e-300) if self.guarantee.relative else mean

    def deviation(self) -> FloatArray:
        """Its deviation over queries, (n_grid,)."""
        if not self.guarantee.relative:
            return np.sqrt(np.maximum(self._mean(2, 0) - self._mean(1, 0) ** 2, 0.0))
        share = self.measured()  # v − share·r has mean 0
        variance = self._mean(2, 0) - 2 * share * self._mean(1, 1) + share**2 * self._mean(0, 2)
        return np.sqrt(np.maximum(variance, 0.0)) / np.maximum(self._mean(0, 1), 1e-300)

    def loss(self, column: int, target: float) -> tuple[float, float]:
        """Mean and deviation of one configuration's losses at another target."""
        n_grid = len(self.powers.sums)
        first, second = self._loss_powers(np.full(n_grid, target), np.zeros(n_grid), 2)[column] / self.n_queries
        return float(first), float(np.sqrt(max(second - first**2, 0.0)))

    def holds(self, targets: FloatArray, delta: float, n_tests: int = 1) -> BoolArray:
        """Whether each configuration is certified at its own target, (n_grid,)."""
        alpha = np.array([self.guarantee.at(float(target)).tested_alpha for target in targets])
        if self.evidence == "mixture":
            powers = self._loss_powers(targets, np.zeros(alpha.size), HIGHEST)
            pvalues = mixture.Summary.of_powers(powers, self.n_queries, delta / n_tests).pvalue(alpha)
        else:
            level = vb.tested_level(alpha)
            powers = self._loss_powers(targets, level, HIGHEST)
            pvalues = vb.Summary.of_powers(powers, self.n_queries, level, delta / n_tests).pvalue()
        return pvalues * n_tests <= delta

    def _mean(self, a: int, b: int) -> FloatArray:
        return self.powers.sums[:, a, b] / self.n_queries

    def _loss_powers(self, targets: FloatArray, shift: FloatArray, highest: int) -> FloatArray:
        """Σ (X − shift), Σ (X − shift)², … of the losses at each configuration's own target, (n_grid, highest)."""
        of_value, of_reference, constant = self._affine(targets)
        found = np.zeros((targets.size, highest))
        for p in range(1, highest + 1):
            for a in range(p + 1):
                for b in range(p - a + 1):
                    ways = factorial(p) / (factorial(a) * factorial(b) * factorial(p - a - b))
                    factor = of_value**a * of_reference**b * (constant - shift) ** (p - a - b)
                    found[:, p - 1] += ways * factor * self.powers.sums[:, a, b]
        return found

    def _affine(self, targets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A, B and C of X = A·v + B·r + C, read off the losses at (v, r) = (0, 0), (1, 0) and (0, 1)."""
        values, reference = np.array([[0.0], [1.0], [0.0]]), np.array([0.0, 0.0, 1.0])
        corners = np.array([self.guarantee.at(float(t)).losses(values, reference)[:, 0] for t in targets])
        return corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0], corners[:, 0]
