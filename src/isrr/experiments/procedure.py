"""A way to choose a ranker from calibration queries, along a path evaluated once on the whole pool."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.certify import certify
from isrr.calibration.moments import Moments
from isrr.calibration.paths import Path
from isrr.calibration.table import Cell, RiskTable
from isrr.data.queries import IntArray
from isrr.experiments.pools import Pool
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.ranker.gpl import GPLRanker

DELTA = 0.05


@dataclass(frozen=True, eq=False)
class EvaluatedPath:
    """A path evaluated on the judged queries of a pool, the deterministic ranker in the first column."""

    path: Path
    grid: tuple[GPLRanker, ...]
    values: Evaluation

    @classmethod
    def of(cls, pool: Pool, path: Path) -> "EvaluatedPath":
        """Evaluate a path, exactly where its decay is 1."""
        grid = tuple(dict.fromkeys([GPLRanker.deterministic(path.rankers[0].k), *path.rankers]))
        return cls(path, grid, evaluate(pool.judged, grid))

    def gain(self, rows: IntArray | slice, column: int) -> float:
        """FairGain of one configuration on some queries."""
        disparity = self.values.disparity
        return float(1.0 - disparity[rows, column].mean() / disparity[rows, 0].mean())


@dataclass(frozen=True, eq=False)
class Procedure:
    """A way to choose a ranker from calibration queries.

    Attributes:
        name: What tables call it.
        guarantee: The promise it makes.
        evaluated: The evaluated path, given the rows of the calibration queries.
        evidence, selection: As in `isrr.calibrate`.
    """

    name: str
    guarantee: Guarantee
    evaluated: Callable[[IntArray], EvaluatedPath]
    evidence: str
    selection: str

    def choose(self, evaluated: EvaluatedPath, rows: IntArray, keys: NDArray[np.uint64]) -> int | None:
        """The column it takes, or None where it abstains."""
        values = evaluated.values
        losses = self.guarantee.losses(values.ndcg[rows], values.ndcg[rows, 0])
        moments = Moments.of(values.ndcg[rows], values.disparity[rows])
        table = RiskTable(evaluated.grid, moments, (Cell(self.guarantee, None, keys, losses),), 0, "exact", 0)
        return certify(table, evaluated.path, delta=DELTA, evidence=self.evidence, selection=self.selection).chosen

    def risk(self, evaluated: EvaluatedPath, rows: IntArray | slice, column: int) -> float:
        """Mean loss of one configuration on some queries."""
        utility = evaluated.values.ndcg
        return float(self.guarantee.losses(utility[rows, column][:, None], utility[rows, 0]).mean())


def always(evaluated: EvaluatedPath) -> Callable[[IntArray], EvaluatedPath]:
    """A path that calibration queries do not change."""
    return lambda _: evaluated
