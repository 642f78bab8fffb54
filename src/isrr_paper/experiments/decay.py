"""What decay, the factor from one position's threshold to the next, does (RQ5, figure 3 and table 5)."""

from dataclasses import replace
from typing import Any

from isrr.counting import percent
from isrr_paper.experiments import coverage, tradeoff
from isrr_paper.experiments.pools import Pool
from isrr_paper.experiments.protocol import Protocol, always
from isrr_paper.experiments.repetition import run_splits
from isrr_paper.experiments.result import Rows

DECAYS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def measure(pool: Pool, *, n_splits: int) -> dict[str, Any]:
    """Curves and the paper's procedure for each decay, both on the whole pool's grid.

    Below 1, exposures are smoothed over 100 draws.
    """
    measured = []
    for decay in DECAYS:
        protocol = Protocol(pool, decay)
        evaluated = tradeoff.along_thresholds(protocol)
        procedure = replace(protocol.paper(), evaluated=always(evaluated))
        figures = coverage.summary(run_splits(pool, procedure, n_splits))
        measured.append({**tradeoff.curves(evaluated, n_splits), "target": procedure.promise.target, **figures})
    return {"decays": measured}


def rows(records: list[dict[str, Any]]) -> Rows:
    """Return the paper's table: one row per scorer and decay."""
    return [
        {
            "data": record["data"],
            "scorer": record["title"],
            "ζ": f"{figures['decay']:g}",
            "coverage": coverage.or_dash(figures["coverage"], percent),
            "1 − α": figures["target"],
            "NDCG@5": coverage.or_dash(figures["utility"]),
            "FairGain": coverage.or_dash(figures["gain"], percent),
            "abstentions": f"{figures['abstentions']} of {figures['runs']}",
            "FairGain, all": percent(figures["gain_overall"]),
            "largest NDCG@5": 1.0 - min(figures["risk"]["mean"]),
        }
        for record in records
        for figures in record["decays"]
    ]
