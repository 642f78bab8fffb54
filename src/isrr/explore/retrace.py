"""The queries an outcome was tested on, found again, and its whole path evaluated on them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.fill import LARGEST_FOR_BETTING, segments, summed_evidence
from isrr.calibration.order import canonical_order, hash_key
from isrr.calibration.sample import FindShared
from isrr.calibration.targets import Retargeted, RetargetedValues
from isrr.calibration.values import values_of
from isrr.certificate import Abstention, Certificate
from isrr.data.queries import FloatArray, Queries
from isrr.engines.local import BLOCK
from isrr.errors import DataError
from isrr.explore.powers import PowerSums, RetargetedSums
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.parallel import Progress
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.risk.select import split_mask

Cells = dict[tuple[Guarantee, str | None], Retargeted]


@dataclass(frozen=True, eq=False)
class Retraced:
    """What calibration saw.

    Attributes:
        outcome: The certificate or abstention.
        tested: Queries that were tested on, those left out for having no relevant item not among them.
        others: Queries that fixed the path, or were given as such; None where there are none.
        cells: Each promise in each of its segments, None where it has none; configurations in the order of the path.
        utility: Expected NDCG of the deterministic ranker and of the ranker in use, (n_queries, 2).
    """

    outcome: Certificate | Abstention
    tested: Queries
    others: Queries | None
    cells: Cells
    utility: FloatArray

    @property
    def grid(self) -> tuple[GPLRanker, ...]:
        """The deterministic ranker, then the path."""
        return _grid(self.outcome)

    def of(self, guarantee: Guarantee) -> list[Retargeted]:
        """One promise on the tested queries, one entry a segment."""
        return [cell for (promise, _), cell in self.cells.items() if promise == guarantee]


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
    tested, others = _found_again(outcome, queries, validation)
    p, grid = outcome.provenance, _grid(outcome)
    in_use = 0 if outcome.ranker.is_deterministic else grid.index(outcome.ranker)
    sums = {g: summed_evidence(p.evidence, g, len(tested), p.method) for g in outcome.guarantees}
    names = {g: name or p.evidence for g, name in sums.items()}
    whole = len(tested) <= LARGEST_FOR_BETTING or not all(sums.values())
    size = len(tested) if whole else BLOCK
    cells: Cells = {}
    powers: dict[tuple[Guarantee, str | None], PowerSums] = {}
    utility = np.empty((len(tested), 2))
    for start in range(0, len(tested), size):
        part = tested if whole else tested[start : start + size]
        measured = _evaluated(outcome, part, grid, _after(start, len(tested), progress))
        utility[start : start + size] = measured.ndcg[:, [0, in_use]]
        for guarantee in outcome.guarantees:
            values = values_of(measured, guarantee, part, grid)
            for segment, rows in segments(part, guarantee).items():
                place = (guarantee, segment)
                if whole:
                    cells[place] = _in_full(guarantee, names[guarantee], values[rows], part.keys[rows])
                else:
                    added = PowerSums.of(values[rows, 1:], values[rows, 0])
                    powers[place] = powers[place] + added if place in powers else added
    cells |= {place: RetargetedSums(place[0], names[place[0]], summed) for place, summed in powers.items()}
    return Retraced(outcome, tested, others, cells, utility)


def _grid(outcome: Certificate | Abstention) -> tuple[GPLRanker, ...]:
    return (GPLRanker.deterministic(outcome.k), *(point.ranker for point in outcome.curve))


def _found_again(
    outcome: Certificate | Abstention, queries: Queries, validation: Queries | None
) -> tuple[Queries, Queries | None]:
    """Which queries were tested on, and which others there are."""
    p = outcome.provenance
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
    if validation is not None and _shared(tested, validation):
        raise DataError("validation queries stand among those tested on; a band needs other queries for its shape")
    counted = outcome.guarantees[0].counts(tested)
    return tested if counted.all() else tested[counted], others


def _shared(tested: Queries, validation: Queries) -> bool:
    return bool(FindShared.among(validation, made_ids=tested.made_ids or validation.made_ids).summary([tested]))


def _after(done: int, n_queries: int, progress: Progress | None) -> Progress | None:
    """The same progress, for one block after others."""
    return None if progress is None else lambda now, _: progress(done + now, n_queries)


def _evaluated(
    outcome: Certificate | Abstention, part: Queries, grid: tuple[GPLRanker, ...], progress: Progress | None
) -> Evaluation:
    """The grid on some queries, by the same noise as in calibration."""
    p, first = outcome.provenance, outcome.guarantees[0]
    return evaluate(
        part,
        grid,
        method="exact" if p.method == "exact" else "draws",
        n_draws=p.n_draws or SMOOTHING_DRAWS,
        seed=p.seed,
        gain_kind=first.gain_kind,
        empty_query=first.empty_query,
        progress=progress,
    )


def _in_full(guarantee: Guarantee, name: str, values: FloatArray, keys: NDArray[np.uint64]) -> RetargetedValues:
    order = canonical_order(keys)
    return RetargetedValues(guarantee, name, values[order, 1:], values[order, 0])
