"""Utility and disparity against the threshold, with the two limits (RQ1–2, figures 1 and 5)."""

from typing import Any

import numpy as np

from isrr.experiments.pools import Pool
from isrr.experiments.protocol import K, Protocol, splits
from isrr.experiments.result import Rows
from isrr.metrics.evaluate import evaluate
from isrr.ranker.gpl import GPLRanker


def measure(pool: Pool, *, n_splits: int, decay: float = 1.0) -> dict[str, Any]:
    """Risk and disparity at the paper's thresholds and at both limits: means over test parts of random splits.

    The curve ends one step beyond the largest eligibility, where no item is admitted at the first position.
    """
    protocol = Protocol(pool, decay)
    thresholds = protocol.thresholds()
    thresholds = np.append(thresholds, thresholds[-1] + thresholds[1])
    grid = [GPLRanker.deterministic(K), protocol.base, *protocol.rankers(thresholds)]
    found = evaluate(pool.judged, grid)
    parts = [test for _, test in splits(len(pool.judged), n_splits)]
    curves = {}
    for name, values in (("risk", 1.0 - found.ndcg), ("disparity", found.disparity)):
        over_splits = np.stack([values[test].mean(axis=0) for test in parts])
        mean, deviation = over_splits.mean(axis=0), over_splits.std(axis=0)
        curves[name] = {
            "deterministic": float(mean[0]),
            "plackett_luce": float(mean[1]),
            "mean": mean[2:].tolist(),
            "deviation": deviation[2:].tolist(),
        }
    return {"thresholds": thresholds.tolist(), "decay": decay, **curves}


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
