"""The queries an outcome was tested on, found again, and its whole path evaluated on them."""

from dataclasses import dataclass

import numpy as np

from isrr.calibration.fill import segments, values_of
from isrr.calibration.table import canonical_order, hash_key
from isrr.calibration.targets import Retargeted
from isrr.certificate import Abstention, Certificate
from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.parallel import Progress
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.risk.evidence import for_sample_size
from isrr.risk.lattice import BoolArray
from isrr.risk.select import split_mask


@dataclass(frozen=True, eq=False)
class Retraced:
    """What calibration saw.

    Attributes:
        outcome: The certificate or abstention.
        tested: Queries that were tested on, those without a relevant item included.
        others: Queries that fixed the path, or were given as such; None where there are none.
        grid: The deterministic ranker, then the path.
        measured: Of the grid on `tested`.
        kept: Which of `tested` count.
    """

    outcome: Certificate | Abstention
    tested: Queries
    others: Queries | None
    grid: tuple[GPLRanker, ...]
    measured: Evaluation
    kept: BoolArray

    def cells(self, guarantee: Guarantee) -> list[Retargeted]:
        """One promise on the tested queries, configurations in the order of the path; one entry a segment."""
        values = values_of(self.measured, guarantee, self.tested, self.grid)
        return [self._cell(guarantee, values, mask & self.kept) for mask in segments(self.tested, guarantee).values()]

    def _cell(self, guarantee: Guarantee, values: np.ndarray, rows: BoolArray) -> Retargeted:
        numbers = np.flatnonzero(rows)
        order = numbers[canonical_order(self.tested.keys[numbers])]
        p = self.outcome.provenance
        unit = guarantee.utility or p.method == "exact"
        name = for_sample_size(p.evidence, numbers.size, unit_interval=unit).name
        return Retargeted(guarantee, name, values[order, 1:], values[order, 0])


def retrace(
    outcome: Certificate | Abstention,
    queries: Queries,
    validation: Queries | None = None,
    progress: Progress | None = None,
) -> Retraced:
    """Find the tested queries among the judged ones and evaluate the path on them, as calibration did.

    Args:
        outcome: What calibration said.
        queries: The judged queries it was given.
        validation: Other judged queries, to shape the simultaneous band.
        progress: Called with (queries done, queries in all).
    """
    p, first = outcome.provenance, outcome.guarantees[0]
    if queries.fingerprint != p.data:
        raise DataError(
            f"these are not the judged queries of the calibration: their fingerprint is {queries.fingerprint[:12]}…, "
            f"the outcome's {p.data[:12]}…; give the same table, or ask `isrr evaluate` about new queries"
        )
    tested, others = queries, validation
    if p.n_set_aside:
        aside = split_mask(queries.keys, p.n_set_aside / len(queries))
        tested, others = queries[~aside], validation or queries[aside]
    if p.hash_key and hash_key(tested.keys).hex() != p.hash_key:
        raise DataError("the queries set aside cannot be found again: was the outcome made by another version of isrr?")
    if others is not None and np.isin(others.keys, tested.keys).any():
        raise DataError("validation queries stand among those tested on; a band needs other queries for its shape")
    grid = (GPLRanker.deterministic(first.k), *(point.ranker for point in outcome.curve))
    measured = evaluate(
        tested,
        grid,
        method="exact" if p.method == "exact" else "draws",
        n_draws=p.n_draws or SMOOTHING_DRAWS,
        seed=p.seed,
        gain_kind=first.gain_kind,
        empty_query=first.empty_query,
        progress=progress,
    )
    return Retraced(outcome, tested, others, grid, measured, ~np.isnan(measured.ndcg[:, 0]))
