"""The queries an outcome was tested on, found again among the judged ones."""

from dataclasses import dataclass

import numpy as np

from isrr.calibration.tasks import ALL, FindRepeats
from isrr.data.queries import FloatArray, Queries
from isrr.data.sample import canonical_order
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


def retrace(outcome: Certificate | Abstention, queries: Queries) -> Retraced:
    """Find the tested queries among the judged ones."""
    p = outcome.provenance
    if queries.fingerprint != p.data:
        raise DataError(
            f"these are not the judged queries of the calibration: their fingerprint is {queries.fingerprint[:12]}…, "
            f"the outcome's {p.data[:12]}…; expected the same table; for new queries use `isrr check`"
        )
    refuse_other_policy(policy_needed(queries), p.unjudged)
    if p.distinct:
        queries = queries[~np.isin(queries.keys, FindRepeats(ALL).summary([queries]).repeats)]
    tested = queries[canonical_order(queries.keys, queries.scores_fingerprint)[p.n_set_aside :]]
    counted = np.any([promise.measure.counts(tested) for promise in outcome.promises], axis=0)
    return Retraced(outcome, tested if counted.all() else tested[counted])
