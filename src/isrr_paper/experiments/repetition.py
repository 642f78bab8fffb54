"""A procedure again and again: on random splits of a pool, and on bootstrap draws from it.

FairGain is 1 − R/R* on the test part. An abstention is left out of it, as in the paper, or counts as no gain.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, IntArray
from isrr_paper.experiments.pools import Pool
from isrr_paper.experiments.protocol import Procedure

CALIBRATION_SHARE, SEED = 0.25, 20230


@dataclass(frozen=True, eq=False)
class Runs:
    """The results of a procedure, split by split; NaN where it abstained.

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

    def over_certified(self, values: NDArray[Any], statistic: Callable[..., Any] = np.mean) -> float | None:
        """A statistic over the runs with a certificate; None where there is none."""
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


def run_splits(pool: Pool, procedure: Procedure, n_splits: int) -> Runs:
    """Calibrate and test on many random splits."""
    utility, gain = np.full(n_splits, np.nan), np.full(n_splits, np.nan)
    kept = np.zeros(n_splits, bool)
    for t, (calibration, test) in enumerate(splits(len(pool.judged), n_splits)):
        evaluated = procedure.evaluated(calibration)
        column = procedure.choose(evaluated, calibration, pool.judged.keys[calibration])
        if column is not None:
            utility[t] = evaluated.utility[test, column].mean()
            gain[t] = evaluated.gain(test, column)
            kept[t] = procedure.risk(evaluated, test, column) <= procedure.promise.alpha
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
        evaluated = procedure.evaluated(rows)
        column = procedure.choose(evaluated, rows, keys)
        wrong += column is not None and procedure.risk(evaluated, slice(None), column) > procedure.promise.alpha
    return wrong / n_repeats
