"""The protocol of the paper's experiments: a pool is evaluated once, then only tested again, split after split.

paper         21 thresholds from 0 to the calibration queries' largest eligibility, temperature 1, every threshold
              tested alone at δ, the least disparity among those that pass; 1 − α = 0.9 · U*, U* from the pool
isrr default  betting along a fixed sequence, on the temperature path (no validation labels) and on the path that
              validation queries fix; the same absolute promise with U* from validation, and the relative one
oracle        knows the risk of every configuration on the whole pool
"""

from functools import cached_property

import numpy as np

from isrr.calibration.path import SearchPath, front_path, temperature_path
from isrr.data.queries import FloatArray, IntArray
from isrr.experiments.pools import Pool
from isrr.experiments.procedure import EvaluatedPath, Procedure, always
from isrr.gains import ndcg
from isrr.promises.promise import Promise
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.thresholds import uniform_grid
from isrr.scores.standardize import overall_mean_and_deviation, scale_of

K, KEEP = 5, 0.9
N_THRESHOLDS = 21
PAPER_TESTS = {"hoeffding_bentkus": "Hoeffding–Bentkus", "dkwm": "DKWM"}


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
        """The paper's grid for these calibration queries."""
        return uniform_grid(self.largest_eligibility[rows], N_THRESHOLDS)

    def rankers(self, thresholds: FloatArray) -> tuple[GPLRanker, ...]:
        """One ranker a threshold."""
        mean, deviation = self.base.mean, self.base.deviation
        return tuple(
            GPLRanker(k=K, threshold=float(t), decay=self.decay, mean=mean, deviation=deviation) for t in thresholds
        )

    def paper(self, evidence: str = "hoeffding_bentkus") -> Procedure:
        """The paper's procedure. Splits that share their largest eligibility share their grid and its evaluation."""
        promise = Promise("ndcg", K, at_least=KEEP * self.deterministic_utility)
        return Procedure(PAPER_TESTS[evidence], promise, self._paper_path, evidence, "pointwise")

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
        found = []
        for kind, promise in promises.items():
            front = EvaluatedPath.of(self.pool, front_path(self.pool.validation, K, [promise], ""))
            for name, evaluated in (("temperature", temperature), ("validation path", front)):
                found.append(Procedure(f"{kind}, {name}", promise, always(evaluated), "betting", "fixed_sequence"))
        return tuple(found)

    def oracle(self, procedure: Procedure) -> float:
        """The largest FairGain on the pool among the configurations of the procedure's path that keep its promise."""
        evaluated = procedure.evaluated(np.arange(len(self.pool.judged)))
        columns = range(1, len(evaluated.grid))
        kept = [c for c in columns if procedure.risk(evaluated, slice(None), c) <= procedure.promise.alpha]
        return max((evaluated.gain(slice(None), c) for c in kept), default=0.0)
