"""The protocol of the paper's experiments: a pool is evaluated once, then only tested again, split after split.

paper         21 thresholds from 0 to the calibration queries' largest eligibility, temperature 1, every threshold
              tested alone at δ, the least disparity among those that pass; 1 − α = 0.9 · U*, U* from the pool
isrr default  betting along a fixed sequence, on the temperature path (no validation labels) and on the path that
              validation queries fix; the same absolute promise with U* from validation, and the relative one
oracle        knows the risk of every configuration on the whole pool
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.certify import Tested, certify, choose, cost_of
from isrr.calibration.path import SearchPath, front_path, temperature_path
from isrr.data.queries import FloatArray, IntArray
from isrr.data.sample import canonical_order
from isrr.gains import ndcg
from isrr.metrics.evaluate import evaluate
from isrr.promises import Promise
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import scale_of
from isrr.risk.evidence import NAMED as EVIDENCE
from isrr.risk.evidence import Evidence
from isrr.risk.select import NAMED as SELECTIONS
from isrr.risk.select import Selection
from isrr_paper.experiments.pools import Pool
from isrr_paper.further_evidence import DKWM, POINTWISE
from isrr_paper.paths import overall_mean_and_deviation, uniform_grid

DELTA = 0.05
K, KEEP = 5, 0.9
N_THRESHOLDS = 21
PAPER_TESTS: dict[str, Evidence] = {"Hoeffding–Bentkus": EVIDENCE["hoeffding_bentkus"], "DKWM": DKWM}


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
        values = evaluate(pool.judged, evaluated, ("ndcg", "disparity"))
        return cls(path, evaluated, values["ndcg"], values["disparity"])

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
    evidence: Evidence
    selection: Selection

    def choose(self, evaluated: EvaluatedPath, rows: IntArray, keys: NDArray[np.uint64]) -> int | None:
        """Return the chosen column, or None for an abstention."""
        path, columns, tested = evaluated.path, evaluated.columns, rows[canonical_order(keys, "")]
        values = evaluated.utility[tested][:, np.append(0, columns)]
        tested_on = Tested.of(self.promise, None, self.evidence, values, values[:, 0], path.rankers)
        cost = cost_of([self.promise], values[:, 1:].mean(axis=0), evaluated.disparity[tested][:, columns].mean(axis=0))
        certified = certify([tested_on], self.selection, DELTA)
        chosen = choose(certified, path.rankers, [self.promise], cost)
        return None if chosen is None else int(columns[chosen])

    def risk(self, evaluated: EvaluatedPath, rows: IntArray | slice, column: int) -> float:
        """Mean loss of one configuration on some queries."""
        utility = evaluated.utility
        return float(self.promise.loss().of(utility[rows, column][:, None], utility[rows, 0]).mean())


def always(evaluated: EvaluatedPath) -> Callable[[IntArray], EvaluatedPath]:
    """A path that calibration queries do not change."""
    return lambda _: evaluated


class Protocol:
    """One pool under the protocol: its procedures, each with paths evaluated when first asked for."""

    def __init__(self, pool: Pool, decay: float = 1.0) -> None:
        self.pool = pool
        self.decay = decay
        self._by_maximum: dict[float, EvaluatedPath] = {}

    @cached_property
    def deterministic_utility(self) -> float:
        """U*: NDCG@5 of the deterministic ranker on the pool."""
        return float(ndcg(self.pool.judged, k=K).mean())

    @cached_property
    def base(self) -> GPLRanker:
        """Plackett–Luce at temperature 1 on scores standardised by the validation queries."""
        mean, deviation = overall_mean_and_deviation(self.pool.validation)
        return GPLRanker(k=K, mean=mean, deviation=deviation, decay=self.decay)

    @cached_property
    def largest_eligibility(self) -> FloatArray:
        """Each judged query's, (n_queries,)."""
        return np.maximum.reduceat(self.base.eligibility(self.pool.judged), self.pool.judged.offsets[:-1])

    def thresholds(self, rows: IntArray | slice = slice(None)) -> FloatArray:
        """Return the paper's grid for these calibration queries."""
        return uniform_grid(self.largest_eligibility[rows], N_THRESHOLDS)

    def rankers(self, thresholds: FloatArray) -> tuple[GPLRanker, ...]:
        """One ranker a threshold."""
        mean, deviation = self.base.mean, self.base.deviation
        return tuple(
            GPLRanker(k=K, threshold=float(t), decay=self.decay, mean=mean, deviation=deviation) for t in thresholds
        )

    def paper(self, test: str = "Hoeffding–Bentkus") -> Procedure:
        """Return the paper's procedure.

        Splits that share their largest eligibility share their grid and its evaluation.
        """
        promise = Promise("ndcg", K, at_least=KEEP * self.deterministic_utility)
        return Procedure(test, promise, self._paper_path, PAPER_TESTS[test], POINTWISE)

    def _paper_path(self, rows: IntArray) -> EvaluatedPath:
        largest = float(self.largest_eligibility[rows].max())
        if largest not in self._by_maximum:
            path = SearchPath(self.rankers(self.thresholds(rows))[::-1], "paper", "")
            self._by_maximum[largest] = EvaluatedPath.of(self.pool, path)
        return self._by_maximum[largest]

    @cached_property
    def defaults(self) -> tuple[Procedure, ...]:
        """ "isrr default": two promises, each on the path without and with validation labels."""
        promises = {
            "absolute": Promise("ndcg", K, at_least=KEEP * float(ndcg(self.pool.validation, k=K).mean())),
            "relative": Promise("ndcg", K, at_least=KEEP, of="deterministic"),
        }
        scale = scale_of(self.pool.validation)
        temperature = EvaluatedPath.of(self.pool, temperature_path(K, scale, list(promises.values()), ""))
        procedures = []
        for kind, promise in promises.items():
            front = EvaluatedPath.of(self.pool, front_path(self.pool.validation, K, [promise], ""))
            tested = EVIDENCE["betting"], SELECTIONS["fixed_sequence"]
            for name, evaluated in (("temperature", temperature), ("validation path", front)):
                procedures.append(Procedure(f"{kind}, {name}", promise, always(evaluated), *tested))
        return tuple(procedures)

    def oracle(self, procedure: Procedure) -> float:
        """Return the largest FairGain on the pool among configurations that keep the promise."""
        evaluated = procedure.evaluated(np.arange(len(self.pool.judged)))
        columns = range(1, len(evaluated.grid))
        keeping = [c for c in columns if procedure.risk(evaluated, slice(None), c) <= procedure.promise.alpha]
        return max((evaluated.gain(slice(None), c) for c in keeping), default=0.0)
