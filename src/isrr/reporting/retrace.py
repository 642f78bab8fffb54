"""The queries an outcome was tested on, found again among the judged ones."""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from isrr.calibration.judged import judged_queries
from isrr.data.queries import FloatArray, Queries
from isrr.data.source import Where
from isrr.data.unjudged import policy_needed, refuse_other_policy
from isrr.errors import DataError
from isrr.metrics.evaluate import evaluate
from isrr.outcome.certificate import Abstention, Certificate
from isrr.promises import objectives
from isrr.ranker.gpl import GPLRanker


@dataclass(frozen=True, eq=False)
class Retraced:
    """What calibration saw.

    Attributes:
        outcome: The certificate or abstention.
        tested: Queries that were tested on, in canonical order; those that have nothing to measure not among them.
    """

    outcome: Certificate | Abstention
    tested: Queries

    def utility(self) -> FloatArray:
        """Utility of the order by score and of the ranker in use, on each tested query that has any, (n, 2)."""
        measure = objectives(self.outcome.promises, judged=self.tested.relevance is not None)[0]
        grid = [GPLRanker.deterministic(self.outcome.k), self.outcome.ranker]
        values = evaluate(self.tested, grid, [measure])[measure]
        return values[~np.isnan(values).any(axis=1)]


def retrace(outcome: Certificate | Abstention, queries: Any, **where: Unpack[Where]) -> Retraced:
    """Find the tested queries among the judged ones, given as `calibrate` takes them."""
    p = outcome.provenance
    segmented = any(promise.per is not None for promise in outcome.promises)
    judged = judged_queries(
        queries, outcome.columns, sample=p.sample, per_segment=segmented, distinct=p.distinct, **where
    )  # fmt: skip
    if judged.data != p.data:
        raise DataError(
            f"these are not the judged queries of the calibration: their fingerprint is {judged.data[:12]}…, "
            f"the outcome's {p.data[:12]}…; expected the same table; for new queries use `isrr check`"
        )
    refuse_other_policy(policy_needed(judged.queries), p.unjudged)
    left = np.ones(len(judged.queries), bool)
    left[np.flatnonzero(judged.uniform)[: p.n_set_aside]] = False
    tested = judged.queries[np.flatnonzero(left)]
    counted = np.any([promise.measure.counts(tested) for promise in outcome.promises], axis=0)
    return Retraced(outcome, tested if counted.all() else tested[counted])
