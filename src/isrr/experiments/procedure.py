"""A way to choose a ranker from calibration queries, along a path evaluated once on the whole pool."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.certify import KeptSample, Rule, certify, cost_of
from isrr.calibration.path import SearchPath
from isrr.calibration.table import Values, canonical_order
from isrr.data.queries import FloatArray, IntArray
from isrr.experiments.pools import Pool
from isrr.metrics.evaluate import evaluate
from isrr.promises.promise import Promise
from isrr.ranker.gpl import GPLRanker

DELTA = 0.05


@dataclass(frozen=True, eq=False)
class EvaluatedPath:
    """A path evaluated on the judged queries of a pool.

    Attributes:
        path: What is tested.
        grid: What was evaluated: the deterministic ranker first, and all of the path.
        utility, disparity: NDCG@5 and disparity, (n_queries, n_grid).
    """

    path: SearchPath
    grid: tuple[GPLRanker, ...]
    utility: FloatArray
    disparity: FloatArray

    @classmethod
    def of(cls, pool: Pool, path: SearchPath, grid: tuple[GPLRanker, ...] = ()) -> "EvaluatedPath":
        """Evaluate a path, exactly where its decay is 1; along a larger grid where one is given."""
        evaluated = grid or tuple(dict.fromkeys([GPLRanker.deterministic(path.rankers[0].k), *path.rankers]))
        found = evaluate(pool.judged, evaluated, ("ndcg", "disparity"))
        return cls(path, evaluated, found["ndcg"], found["disparity"])

    @cached_property
    def columns(self) -> IntArray:
        """Where each configuration of the path stands in the grid."""
        place = {ranker: column for column, ranker in enumerate(self.grid)}
        return np.array([place[ranker] for ranker in self.path.rankers])

    def gain(self, rows: IntArray | slice, column: int) -> float:
        """FairGain of one configuration on some queries."""
        return float(1.0 - self.disparity[rows, column].mean() / self.disparity[rows, 0].mean())


@dataclass(frozen=True, eq=False)
class Procedure:
    """A way to choose a ranker from calibration queries.

    Attributes:
        name: What tables call it.
        promise: The promise it makes.
        evaluated: The evaluated path, given the rows of the calibration queries.
        evidence, selection: As in `isrr.calibrate`.
    """

    name: str
    promise: Promise
    evaluated: Callable[[IntArray], EvaluatedPath]
    evidence: str
    selection: str

    def choose(self, evaluated: EvaluatedPath, rows: IntArray, keys: NDArray[np.uint64]) -> int | None:
        """The column it takes, or None where it abstains."""
        path, columns, tested = evaluated.path, evaluated.columns, rows[canonical_order(keys, "")]
        values = evaluated.utility[tested][:, np.append(0, columns)]
        sample = KeptSample.of(self.promise, None, self.evidence, Values(values, values[:, 0]), path)
        cost = cost_of([self.promise], values[:, 1:].mean(axis=0), evaluated.disparity[tested][:, columns].mean(axis=0))
        rule = Rule.of(path, [self.promise], cost, self.selection)
        chosen = certify([sample], rule, delta=DELTA, selection=self.selection).chosen
        return None if chosen is None else int(columns[chosen])

    def risk(self, evaluated: EvaluatedPath, rows: IntArray | slice, column: int) -> float:
        """Mean loss of one configuration on some queries."""
        utility = evaluated.utility
        return float(self.promise.losses(utility[rows, column][:, None], utility[rows, 0]).mean())


def always(evaluated: EvaluatedPath) -> Callable[[IntArray], EvaluatedPath]:
    """A path that calibration queries do not change."""
    return lambda _: evaluated
