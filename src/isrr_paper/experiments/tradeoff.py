"""Utility and disparity against the threshold, with the two limits (RQ1–2, figures 1 and 5)."""

from typing import Any

import numpy as np

from isrr.calibration.path import SearchPath
from isrr.ranker.gpl import GPLRanker
from isrr_paper.experiments.pools import Pool
from isrr_paper.experiments.protocol import EvaluatedPath, K, Protocol
from isrr_paper.experiments.repetition import splits
from isrr_paper.experiments.result import Rows


def measure(pool: Pool, *, n_splits: int) -> dict[str, Any]:
    """Risk and disparity at the paper's thresholds and at both limits: means over test parts of random splits."""
    return curves(along_thresholds(Protocol(pool)), n_splits)


def along_thresholds(protocol: Protocol) -> EvaluatedPath:
    """Evaluate the deterministic ranker, Plackett–Luce and the paper's grid on the judged queries.

    The grid goes on to one step beyond the largest eligibility, where no item is admitted at the first position. The
    path is the paper's: it leaves that step out.
    """
    thresholds = protocol.thresholds()
    rankers = protocol.rankers(np.append(thresholds, thresholds[-1] + thresholds[1]))
    grid = (GPLRanker.deterministic(K), protocol.base, *rankers)
    return EvaluatedPath.of(protocol.pool, SearchPath(rankers[-2::-1], "paper", ""), grid)


def curves(evaluated: EvaluatedPath, n_splits: int) -> dict[str, Any]:
    """Means and deviations over the test parts of random splits, threshold by threshold."""
    rankers = evaluated.grid[2:]
    parts = [test for _, test in splits(len(evaluated.utility), n_splits)]
    drawn = {}
    for name, values in (("risk", 1.0 - evaluated.utility), ("disparity", evaluated.disparity)):
        over_splits = np.stack([values[test].mean(axis=0) for test in parts])
        mean, deviation = over_splits.mean(axis=0), over_splits.std(axis=0)
        drawn[name] = {
            "deterministic": float(mean[0]),
            "plackett_luce": float(mean[1]),
            "mean": mean[2:].tolist(),
            "deviation": deviation[2:].tolist(),
        }
    return {"thresholds": [ranker.threshold for ranker in rankers], "decay": rankers[0].decay, **drawn}


def rows(records: list[dict[str, Any]]) -> Rows:
    """One row a threshold."""
    return [
        {
            "data": record["data"],
            "scorer": record["title"],
            "threshold": threshold,
            "risk": record["risk"]["mean"][t],
            "risk, sd": record["risk"]["deviation"][t],
            "disparity": record["disparity"]["mean"][t],
            "disparity, sd": record["disparity"]["deviation"][t],
        }
        for record in records
        for t, threshold in enumerate(record["thresholds"])
    ]
