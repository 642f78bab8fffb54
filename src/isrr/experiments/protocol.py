"""The protocol of the paper's experiments: a pool is evaluated once, then only tested again, split after split.

    paper         21 thresholds from 0 to the calibration queries' largest eligibility, temperature 1, every threshold
                  tested alone at δ, the least disparity among those that pass; 1 − α = 0.9 · U*, U* from the pool
    isrr default  betting along a fixed sequence, on the temperature path (no validation labels) and on the path that
                  validation queries fix; the same absolute promise with U* from validation, and the relative one
    oracle        knows the risk of every configuration on the whole pool

FairGain is 1 − R/R* on the test part. An abstention is left out of it, as in the paper, or counts as no gain.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.certify import certify
from isrr.calibration.moments import Moments
from isrr.calibration.paths import Path, front_path, temperature_path
from isrr.calibration.table import Cell, RiskTable
from isrr.data.queries import FloatArray, IntArray
from isrr.experiments.pools import Pool
from isrr.gains import ndcg
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.thresholds import uniform_grid
from isrr.scores.standardize import mean_and_deviation

K, DELTA, KEEP = 5, 0.05, 0.9
N_THRESHOLDS, CALIBRATION_SHARE, SEED = 21, 0.25, 20230
PAPER_TESTS = {"hoeffding_bentkus": "Hoeffding–Bentkus", "dkwm": "DKWM"}

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Measured:
    """A path evaluated on the judged queries of a pool, the deterministic ranker in the first column."""

    path: Path
    grid: tuple[GPLRanker, ...]
    values: Evaluation

    @classmethod
    def of(cls, pool: Pool, path: Path) -> "Measured":
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
        measured: The evaluated path, given the rows of the calibration queries.
        evidence, selection: As in `isrr.calibrate`.
    """

    name: str
    guarantee: Guarantee
    measured: Callable[[IntArray], Measured]
    evidence: str
    selection: str

    def choose(self, measured: Measured, rows: IntArray, keys: NDArray[np.uint64]) -> int | None:
        """The column it takes, or None where it abstains."""
        values = measured.values
        losses = self.guarantee.losses(values.ndcg[rows], values.ndcg[rows, 0])
        moments = Moments.of(values.ndcg[rows], values.disparity[rows])
        table = RiskTable(measured.grid, moments, (Cell(self.guarantee, None, keys, losses),), 0, "exact", 0)
        return certify(table, measured.path, delta=DELTA, evidence=self.evidence, selection=self.selection).chosen

    def risk(self, measured: Measured, rows: IntArray | slice, column: int) -> float:
        """Mean loss of one configuration on some queries."""
        utility = measured.values.ndcg
        return float(self.guarantee.losses(utility[rows, column][:, None], utility[rows, 0]).mean())


@dataclass(frozen=True, eq=False)
class Runs:
    """What a procedure did, split after split; NaN where it abstained.

    Attributes:
        utility: NDCG@5 of the chosen ranker on the test part.
        gain: Its FairGain there.
        kept: Whether the promise held there.
    """

    utility: FloatArray
    gain: FloatArray
    kept: NDArray[np.bool_]

    @property
    def abstained(self) -> NDArray[np.bool_]:
        """Where nothing was certified."""
        return np.isnan(self.utility)

    @property
    def coverage(self) -> float | None:
        """Share of the runs with a certificate in which the promise held on the test part, as in the paper."""
        return self._over_certified(self.kept, np.mean)

    @property
    def violations(self) -> float:
        """Share of all runs in which a promise was made and did not hold on the test part."""
        return float((~self.kept & ~self.abstained).mean())

    @property
    def mean_utility(self) -> float | None:
        """Over the runs with a certificate."""
        return self._over_certified(self.utility, np.mean)

    @property
    def utility_deviation(self) -> float | None:
        """Over the runs with a certificate."""
        return self._over_certified(self.utility, np.std)

    @property
    def gain_certified(self) -> float | None:
        """FairGain over the runs with a certificate, as in the paper."""
        return self._over_certified(self.gain, np.mean)

    def _over_certified(self, values: NDArray[Any], statistic: Callable[..., Any]) -> float | None:
        return None if self.abstained.all() else float(statistic(values[~self.abstained]))

    @property
    def gain_overall(self) -> float:
        """FairGain with an abstention counted as no gain."""
        return float(np.where(self.abstained, 0.0, self.gain).mean())


def splits(n_queries: int, n_splits: int, seed: int = SEED) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows of calibration (25 %) and test queries, again and again."""
    rng = np.random.default_rng(seed)
    n_calibration = int(CALIBRATION_SHARE * n_queries)
    for _ in range(n_splits):
        order = rng.permutation(n_queries)
        yield order[:n_calibration], order[n_calibration:]


def run_splits(pool: Pool, procedure: Procedure, n_splits: int, progress: Progress | None = None) -> Runs:
    """Calibrate and test on many random splits."""
    utility, gain = np.full(n_splits, np.nan), np.full(n_splits, np.nan)
    kept = np.zeros(n_splits, bool)
    for t, (calibration, test) in enumerate(splits(len(pool.judged), n_splits)):
        measured = procedure.measured(calibration)
        column = procedure.choose(measured, calibration, pool.judged.keys[calibration])
        if column is not None:
            utility[t] = measured.values.ndcg[test, column].mean()
            gain[t] = measured.gain(test, column)
            kept[t] = procedure.risk(measured, test, column) <= procedure.guarantee.alpha
        if progress:
            progress(t + 1, n_splits)
    return Runs(utility, gain, kept)


def bootstrap_violations(pool: Pool, procedure: Procedure, n_repeats: int, seed: int = SEED) -> float:
    """How often a promise is made and broken when calibration queries are drawn from the pool with replacement.

    The pool's mean is then the true risk, and a valid procedure stays below δ. Every draw gets a fresh key.
    """
    rng = np.random.default_rng([seed, 1])
    n_calibration = int(CALIBRATION_SHARE * len(pool.judged))
    wrong = 0
    for _ in range(n_repeats):
        rows = rng.integers(len(pool.judged), size=n_calibration)
        keys = rng.integers(2**64, size=n_calibration, dtype=np.uint64)
        measured = procedure.measured(rows)
        column = procedure.choose(measured, rows, keys)
        wrong += column is not None and procedure.risk(measured, slice(None), column) > procedure.guarantee.alpha
    return wrong / n_repeats


class Protocol:
    """One pool under the protocol: its procedures, each with paths evaluated when first asked for."""

    def __init__(self, pool: Pool, decay: float = 1.0) -> None:
        self.pool = pool
        self.decay = decay
        self._by_maximum: dict[float, Measured] = {}

    @cached_property
    def deterministic_utility(self) -> float:
        """U*: NDCG@5 of the deterministic ranker on the pool."""
        return float(ndcg(self.pool.judged, k=K).mean())

    @cached_property
    def base(self) -> GPLRanker:
        """Plackett–Luce at temperature 1 on scores standardised by the validation queries."""
        mean, deviation = mean_and_deviation(self.pool.validation)
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
        guarantee = Guarantee("ndcg", K, KEEP * self.deterministic_utility)
        return Procedure(PAPER_TESTS[evidence], guarantee, self._paper_measured, evidence, "pointwise")

    def _paper_measured(self, rows: IntArray) -> Measured:
        largest = float(self.largest_eligibility[rows].max())
        if largest not in self._by_maximum:
            path = Path(self.rankers(self.thresholds(rows))[::-1], "paper", "")
            self._by_maximum[largest] = Measured.of(self.pool, path)
        return self._by_maximum[largest]

    @cached_property
    def defaults(self) -> tuple[Procedure, ...]:
        """ "isrr default": two promises, each on the path without and with validation labels."""
        mean, deviation = self.base.mean, self.base.deviation
        promises = {
            "absolute": Guarantee("ndcg", K, KEEP * float(ndcg(self.pool.validation, k=K).mean())),
            "relative": Guarantee("ndcg", K, KEEP, relative=True),
        }
        temperature = Measured.of(self.pool, temperature_path(K, deviation, mean, list(promises.values()), ""))
        found = []
        for kind, guarantee in promises.items():
            front = Measured.of(self.pool, front_path(self.pool.validation, K, [guarantee], ""))
            for name, measured in (("temperature", temperature), ("validation path", front)):
                found.append(Procedure(f"{kind}, {name}", guarantee, always(measured), "betting", "fixed_sequence"))
        return tuple(found)

    def oracle(self, procedure: Procedure) -> float:
        """The largest FairGain on the pool among the configurations of the procedure's path that keep its promise."""
        measured = procedure.measured(np.arange(len(self.pool.judged)))
        columns = range(1, len(measured.grid))
        kept = [c for c in columns if procedure.risk(measured, slice(None), c) <= procedure.guarantee.alpha]
        return max((measured.gain(slice(None), c) for c in kept), default=0.0)


def always(measured: Measured) -> Callable[[IntArray], Measured]:
    """A path that calibration queries do not change."""
    return lambda _: measured
