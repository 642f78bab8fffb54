"""Fill a risk table: every configuration on every query, and what the promises are tested by.

Up to 50,000 queries utilities are exact. Beyond, a few independent draws per query do: any number keeps a promise valid
(losses stay unbiased and at most 1), and at that size the queries' own spread outweighs the draws'. Up to 200,000
queries losses are kept one by one, for betting; beyond, they are summed up as they come.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isrr.calibration.census import Census, segments_of
from isrr.calibration.moments import Moments
from isrr.calibration.table import Cell, RiskTable, merge
from isrr.calibration.values import values_of
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, Method, evaluate
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.risk import mixture, vb

LARGEST_EXACT = 50_000
LARGEST_FOR_BETTING = 200_000
DRAWS = 4
NOTHING = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Fill:
    """The task: evaluate every configuration on every query that was not set aside.

    Attributes:
        grid: Configurations, the deterministic ranker first.
        guarantees: Promises; they share k, gain and the policy for empty queries.
        delta: Level the sums-only evidence is tuned for.
        evidence: Name of the evidence that will be asked for.
        seed: Names the noise, where rankings are drawn.
        n_judged: Queries that will be tested on, in all …
        by_segment: … and in each segment.
        aside_below: Queries whose key is below this were set aside.
    """

    grid: tuple[GPLRanker, ...]
    guarantees: tuple[Guarantee, ...]
    delta: float
    evidence: str
    seed: int
    n_judged: int
    by_segment: tuple[tuple[str, int], ...] = ()
    aside_below: int = 0

    @classmethod
    def planned(
        cls,
        census: Census,
        grid: Sequence[GPLRanker],
        guarantees: Sequence[Guarantee],
        *,
        delta: float,
        evidence: str = "betting",
        seed: int = 0,
        aside: Census | None = None,
        aside_below: int = 0,
    ) -> "Fill":
        """The task for counted queries, less those set aside, which have the smallest keys."""
        gone = Census() if aside is None else aside
        segments = {name: count - dict(gone.by_segment).get(name, 0) for name, count in census.by_segment}
        n_judged = census.n_counted - gone.n_counted
        if n_judged == 0:
            raise DataError(
                "no query left to test on has a relevant item: those that have one are set aside to fix the path"
            )
        untested = [name for name, count in segments.items() if count == 0]
        if untested:
            raise DataError(
                f"segment {untested[0]!r} has no query to test on: they have no relevant item or are set aside to fix "
                "the path; a promise per segment needs some in each"
            )
        by_segment = tuple(segments.items())
        return cls(tuple(grid), tuple(guarantees), delta, evidence, seed, n_judged, by_segment, aside_below)

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns it reads."""
        grouped = any(guarantee.metric == "group_exposure" for guarantee in self.guarantees)
        segmented = any(guarantee.per for guarantee in self.guarantees)
        extra = (*(["segment"] if segmented else []), *(["item_group"] if grouped else []))
        return ("query", "item", "score", "relevance", *extra)

    @property
    def method(self) -> Method:
        """How utilities are evaluated."""
        if self.n_judged > LARGEST_EXACT:
            return "draws"
        fair = any(not guarantee.utility for guarantee in self.guarantees)
        # smoothed exposures, which decay below 1 needs, are no losses for a fairness promise
        return "draws" if fair and any(r.decay < 1 and r.threshold > 0 for r in self.grid) else "exact"

    @property
    def n_draws(self) -> int:
        """Rankings drawn per query where any are."""
        return SMOOTHING_DRAWS if self.n_judged <= LARGEST_EXACT else DRAWS

    @property
    def summed(self) -> bool:
        """Whether losses are summed up as they come, not kept."""
        return self._summed_evidence(self.guarantees[0]) is not None

    def _summed_evidence(self, guarantee: Guarantee) -> str | None:
        return summed_evidence(self.evidence, guarantee, self.n_judged, self.method)

    def summary(self, blocks: Iterable[Queries]) -> RiskTable:
        """The answer for these blocks."""
        return self.joined([self._shard(block) for block in blocks])

    def joined(self, summaries: Sequence[RiskTable]) -> RiskTable:
        """The answer for all parts."""
        return merge([self._table(Moments.none(len(self.grid)), (), 0, NOTHING), *summaries])

    def _table(self, moments: Moments, cells: tuple[Cell, ...], n_skipped: int, keys: Any) -> RiskTable:
        n_draws = self.n_draws if self.method == "draws" else 0
        return RiskTable(self.grid, moments, cells, n_skipped, self.method, n_draws, keys)

    def _shard(self, queries: Queries) -> RiskTable:
        first = self.guarantees[0]
        tested = queries.keys >= np.uint64(self.aside_below)
        counted = tested & first.counts(queries)
        n_skipped = int(tested.sum() - counted.sum())
        keys = NOTHING if self.summed else queries.keys[tested]
        if not counted.any():
            return self._table(Moments.none(len(self.grid)), (), n_skipped, keys)
        judged = queries if counted.all() else queries[np.flatnonzero(counted)]
        measured = evaluate(
            judged, self.grid, method=self.method, n_draws=self.n_draws, seed=self.seed,
            gain_kind=first.gain_kind, empty_query=first.empty_query,
        )  # fmt: skip
        cells = tuple(cell for guarantee in self.guarantees for cell in self._cells(guarantee, judged, measured))
        return self._table(Moments.of(measured.ndcg, measured.disparity), cells, n_skipped, keys)

    def _cells(self, guarantee: Guarantee, queries: Queries, measured: Evaluation) -> list[Cell]:
        values = values_of(measured, guarantee, queries, self.grid)
        losses = guarantee.losses(values, values[:, 0])
        cells = []
        for segment, mask in segments(queries, guarantee).items():
            chosen = losses if segment is None else losses[mask]
            if self.summed:
                cells.append(Cell(guarantee, segment, NOTHING, summary=self._summed(guarantee, segment, chosen)))
            else:
                cells.append(Cell(guarantee, segment, queries.keys[mask], chosen))
        return cells

    def _summed(self, guarantee: Guarantee, segment: str | None, losses: FloatArray) -> vb.Summary | mixture.Summary:
        planned = self.n_judged if segment is None else dict(self.by_segment)[segment]
        if self._summed_evidence(guarantee) == "vb":
            return vb.Summary.of(losses, guarantee.tested_alpha, self.delta, planned)
        return mixture.Summary.of(losses, self.delta, planned)


def summed_evidence(name: str, guarantee: Guarantee, n_queries: int, method: str) -> str | None:
    """The evidence that is found from sums alone, for so many queries in all; None where losses are kept one by one."""
    if name not in ("vb", "mixture") and not (name == "betting" and n_queries > LARGEST_FOR_BETTING):
        return None
    nonnegative = guarantee.utility or method == "exact"
    return "vb" if nonnegative and name != "mixture" else "mixture"


def segments(queries: Queries, guarantee: Guarantee) -> dict[str | None, np.ndarray]:
    """Which queries each segment that a promise is tested in holds; None stands for all of them."""
    if guarantee.per is None:
        return {None: np.ones(len(queries), bool)}
    names = segments_of(queries)
    return {str(name): names == name for name in np.unique(names)}
