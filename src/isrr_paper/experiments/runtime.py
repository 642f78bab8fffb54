"""Seconds for training and for risk control, on made-up data in the paper's three shapes (RQ4, table 3).

Risk control runs at full size: a quarter of the test queries is scored, 21 thresholds are evaluated exactly, one is
chosen by Hoeffding–Bentkus. Training is timed over a few epochs on a sample of the training queries and scaled to 100
epochs of all of them: its time grows in proportion to both.
"""

import time
from pathlib import Path

import numpy as np

from isrr.calibration.calibrate import calibrate
from isrr.data.synthetic import SHAPES, generate
from isrr.gains import ndcg
from isrr.promises import Promise
from isrr_paper.experiments.pools import RECIPES
from isrr_paper.experiments.protocol import KEEP, K
from isrr_paper.experiments.repetition import CALIBRATION_SHARE
from isrr_paper.experiments.result import Job, Record, Rows
from isrr_paper.features import Featured
from isrr_paper.further_evidence import POINTWISE
from isrr_paper.paths import paper_path
from isrr_paper.scorers.scorer import Scorer, scorer_class

METHODS = ("lambdaloss", "plrank", "policy-gradient", "stochasticrank")
SHAPE_NAMES = ("yahoo", "mslr", "istella")
PAPER_EPOCHS = 100
PAPER_RISK_CONTROL = {"yahoo": 95.023, "mslr": 141.017, "istella": 135.081}
PAPER_TRAINING = {
    "lambdaloss": {"yahoo": 222.947, "mslr": 1806.129, "istella": 599.524},
    "plrank": {"yahoo": 2876.254, "mslr": 6101.400, "istella": 1448.598},
    "policy-gradient": {"yahoo": 2999.316, "mslr": 5172.069, "istella": 2498.054},
    "stochasticrank": {"yahoo": 3700.335, "mslr": 6291.146, "istella": 2719.025},
}
_REPEATS = 3


def on_shape(shape: str, settings: Record, out: Path) -> Job:
    """Measure the times of one shape, with a record in the folder `out`."""
    identity = {"result": "runtime", "data": shape, "settings": settings}
    name = f"runtime on the shape of {shape}"
    return Job(name, out / f"runtime-{shape}.json", identity, lambda: measure(shape, **settings))


def measure(shape: str, *, epochs: int, n_train: int) -> Record:
    """Seconds of each method on one shape, over so many epochs, after one that warms up, and training queries."""
    sizes = SHAPES[shape].n_queries
    synthetic = generate(shape, int(CALIBRATION_SHARE * sum(sizes)))
    train = Featured.of(*synthetic.train)[:n_train]
    scale = PAPER_EPOCHS * sizes[0] / len(train)
    validation = Featured.of(*synthetic.validation)
    few, tested = validation[:50], Featured.of(*synthetic.test)
    training, trained = {}, {}
    for method in METHODS:
        seconds, trained[method] = _epoch_seconds(method, train, few, epochs)
        training[method] = {"epoch_seconds": seconds, "scaled": seconds * scale}
    return {
        "n_train": len(train),
        "n_calibration": len(tested),
        "training": training,
        "risk_control": _risk_control(trained["lambdaloss"], validation, tested),
    }


def _epoch_seconds(method: str, train: Featured, validation: Featured, epochs: int) -> tuple[float, Scorer]:
    """Median seconds of an epoch after the first, and the trained scorer."""
    recipe = RECIPES[method]
    ticks: list[float] = []
    scorer: Scorer = scorer_class(recipe.kind)(**recipe.settings, epochs=epochs + 1, device="cpu")
    scorer.fit(train, validation, progress=lambda *_: ticks.append(time.perf_counter()))
    return float(np.median(np.diff(ticks))), scorer


def _risk_control(scorer: Scorer, validation: Featured, calibration: Featured) -> float:
    """Seconds to score the calibration queries, evaluate 21 thresholds and choose one; the median of three runs."""
    promise = Promise(
        "ndcg", K, at_least=KEEP * float(np.nanmean(ndcg(validation.with_scores(scorer.score(validation)))))
    )
    taken = []
    for _ in range(_REPEATS + 1):
        began = time.perf_counter()
        scored = calibration.with_scores(scorer.score(calibration))
        path = paper_path(scored, K)
        calibrate(scored, promise, path=path, evidence="hoeffding_bentkus", selection=POINTWISE)
        taken.append(time.perf_counter() - began)
    return float(np.median(taken[1:]))


def rows(records: list[Record]) -> Rows:
    """One row a shape and method."""
    rows = []
    for record in records:
        shape = record["data"]
        for method in METHODS:
            ours, first = record["training"][method]["scaled"], method == METHODS[0]
            rows.append(
                {
                    "shape": shape,
                    "method": "LambdaLoss+ISRR" if first else RECIPES[method].title,
                    "training, s (scaled)": f"{ours:.0f}",
                    "training, s (paper)": f"{PAPER_TRAINING[method][shape]:.0f}",
                    "risk control, s": f"{record['risk_control']:.3f}" if first else "–",
                    "risk control, s (paper)": f"{PAPER_RISK_CONTROL[shape]:.1f}" if first else "–",
                    "paper / ours": f"{PAPER_RISK_CONTROL[shape] / record['risk_control']:.0f}" if first else "–",
                }
            )
    return rows
