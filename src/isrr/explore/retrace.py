"""The queries an outcome was tested on, found again, and its whole path evaluated on them."""

from dataclasses import dataclass

import numpy as np

from isrr.calibration.certify import Sample, samples, sums_suffice
from isrr.calibration.path import SearchPath
from isrr.calibration.quality import SAMPLE
from isrr.calibration.table import Table, canonical_order
from isrr.calibration.tasks import ALL, Fill, FindRepeats, FindShared
from isrr.certificate import Abstention, Certificate
from isrr.data.queries import FloatArray, Queries
from isrr.data.unjudged import policy_needed, refuse_other_policy
from isrr.engines.local import InMemory
from isrr.errors import DataError
from isrr.metrics.evaluate import evaluate
from isrr.parallel import Progress
from isrr.promises.promise import Promise, objectives
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import NAMED as EVIDENCE


@dataclass(frozen=True, eq=False)
class Retraced:
    """What calibration saw.

    Attributes:
        outcome: The certificate or abstention.
        tested: Queries that were tested on, those that have nothing to measure not among them.
        others: Queries that fixed the path, or were given as such; None where there are none.
        found: Each promise in each of its segments; configurations in the order of the path.
    """

    outcome: Certificate | Abstention
    tested: Queries
    others: Queries | None
    found: list[Sample]

    @property
    def path(self) -> SearchPath:
        """The path that was tested."""
        return path_of(self.outcome)

    @property
    def sample(self) -> Queries:
        """The queries that quality is measured on."""
        order = canonical_order(self.tested.keys, self.outcome.provenance.hash_key)
        return self.tested[order[:SAMPLE]]

    def of(self, promise: Promise) -> list[Sample]:
        """One promise on the tested queries, one entry per segment."""
        return [sample for sample in self.found if sample.promise == promise]

    def utility(self) -> FloatArray:
        """Utility of the order by score and of the ranker in use, on each tested query that has any, (n, 2)."""
        measure = objectives(self.outcome.promises, judged=self.tested.relevance is not None)[0]
        grid = [GPLRanker.deterministic(self.outcome.k), self.outcome.ranker]
        values = evaluate(self.tested, grid, [measure])[measure]
        return values[~np.isnan(values).any(axis=1)]


def path_of(outcome: Certificate | Abstention) -> SearchPath:
    """The path that an outcome was found along."""
    p = outcome.provenance
    return SearchPath(tuple(point.ranker for point in outcome.curve), p.path, p.path_basis)


def retrace(
    outcome: Certificate | Abstention,
    queries: Queries,
    validation: Queries | None = None,
    progress: Progress | None = None,
) -> Retraced:
    """Find the tested queries among the judged ones and evaluate the path on them, as calibration did.

    Validation queries shape the simultaneous band.
    """
    p, path = outcome.provenance, path_of(outcome)
    if queries.fingerprint != p.data:
        raise DataError(
            f"these are not the judged queries of the calibration: their fingerprint is {queries.fingerprint[:12]}…, "
            f"the outcome's {p.data[:12]}…; expected the same table; for new queries use `isrr check`"
        )
    refuse_other_policy(policy_needed(queries), p.unjudged)
    if p.distinct:
        queries = queries[~np.isin(queries.keys, FindRepeats(ALL).summary([queries]).repeats)]
    tested, others = _found_again(outcome, queries, validation)
    task = Fill(
        (GPLRanker.deterministic(outcome.k), *path.rankers),
        outcome.promises,
        objectives(outcome.promises, judged=queries.relevance is not None),
        len(tested),
        sums_suffice(p.evidence, len(tested)),
        p.seed,
    )
    evidence = EVIDENCE.get(p.evidence, EVIDENCE["betting"])
    table: Table = InMemory(tested).run(task, progress)
    return Retraced(
        outcome,
        tested,
        others,
        samples(table, outcome.promises, path, evidence, p.method, queries.scores_fingerprint),
    )


def _found_again(
    outcome: Certificate | Abstention, queries: Queries, validation: Queries | None
) -> tuple[Queries, Queries | None]:
    """Which queries were tested on, and which others there are."""
    p = outcome.provenance
    tested, others = queries, validation
    if p.n_set_aside:
        order = canonical_order(queries.keys, queries.scores_fingerprint)
        tested, others = queries[order[p.n_set_aside :]], validation or queries[order[: p.n_set_aside]]
    counted = np.any([promise.measure.counts(tested) for promise in outcome.promises], axis=0)
    tested = tested if counted.all() else tested[counted]
    if validation is not None:
        shared = FindShared.among(validation, made_ids=tested.made_ids or validation.made_ids)
        if shared.summary([tested]):
            raise DataError("some validation queries are also tested on; expected other queries")
    return tested, others
