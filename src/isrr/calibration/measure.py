"""The ranker in use beside the deterministic one on judged queries, in sums that add up over partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

import numpy as np

from isrr.calibration.fill import segments
from isrr.calibration.moments import DISPARITY_SCALE, Moments, WholeNumbers
from isrr.calibration.values import values_of
from isrr.certificate import Abstention, Certificate
from isrr.data.queries import Queries, joint_fingerprint
from isrr.gains import gain
from isrr.metrics.evaluate import evaluate
from isrr.ranker.gpl import GPLRanker
from isrr.risk.lattice import whole_sums

Key = TypeVar("Key")
SPREAD_BINS = 64  # between the 1 % and the 99 % quantile of the scores at calibration
Name = tuple[int, str]  # which promise, and the segment, "" for all queries


@dataclass(frozen=True)
class GroupShare:
    """Share of exposure of one item group, before and after, beside its share of gain."""

    group: str
    deterministic: float
    ranker: float
    gain: float


@dataclass(frozen=True)
class Measured:
    """Sums over judged queries, in whole numbers.

    Attributes:
        moments: Of the deterministic ranker and the one in use.
        pairs: For each promise and segment, sums of (1, a, b, a², b², ab) in units of 2⁻²⁸, a and b being the
            promise's metric under the two rankers.
        n_skipped: Queries without a relevant item, left out.
        n_single: Queries with a single item.
        n_rows, n_outside: Scores, and those beyond where calibration saw 99.8 % of them.
        score_bins: Scores below, in equal bins of, and above the range in which calibration saw 98 % of them.
        groups: Exposure under either ranker, and gain, of each group of items, in units of 2⁻²⁸.
        fingerprint: Of ids, scores and relevance.
    """

    moments: Moments
    pairs: dict[Name, WholeNumbers] = field(default_factory=dict)
    n_skipped: int = 0
    n_single: int = 0
    n_rows: int = 0
    n_outside: int = 0
    score_bins: WholeNumbers = (0,) * (SPREAD_BINS + 2)
    groups: dict[str, WholeNumbers] = field(default_factory=dict)
    fingerprint: str = "0" * 32

    def __add__(self, other: "Measured") -> "Measured":
        return Measured(
            self.moments + other.moments,
            _together(self.pairs, other.pairs),
            self.n_skipped + other.n_skipped,
            self.n_single + other.n_single,
            self.n_rows + other.n_rows,
            self.n_outside + other.n_outside,
            tuple(a + b for a, b in zip(self.score_bins, other.score_bins, strict=True)),
            _together(self.groups, other.groups),
            joint_fingerprint(self.fingerprint, other.fingerprint),
        )

    def score_spread(self) -> float | None:
        """How wide the middle 98 % of the scores are, as a share of how wide they were at calibration.

        None where a score in 25 or more lies beyond where they were: these are not narrower, but elsewhere.
        """
        below, *inside, above = self.score_bins
        if not sum(inside) or below + above > self.n_rows / 25:
            return None
        shares = np.cumsum([0, below, *inside, above]) / self.n_rows
        edges = np.clip(np.arange(-1, SPREAD_BINS + 2), 0, SPREAD_BINS) / SPREAD_BINS
        low, high = np.interp([0.01, 0.99], shares, edges)
        return float(high - low)

    def shares(self) -> tuple[GroupShare, ...]:
        """Each group's part of the whole, by falling part of the gain."""
        totals = [max(sum(column), 1) for column in zip(*self.groups.values(), strict=True)]
        shares = [
            GroupShare(name, *(part / total for part, total in zip(sums, totals, strict=True)))
            for name, sums in self.groups.items()
        ]
        return tuple(sorted(shares, key=lambda share: (-share.gain, share.group)))


def _together(ours: dict[Key, WholeNumbers], theirs: dict[Key, WholeNumbers]) -> dict[Key, WholeNumbers]:
    both = dict(ours)
    for name, sums in theirs.items():
        both[name] = tuple(a + b for a, b in zip(both[name], sums, strict=True)) if name in both else sums
    return both


@dataclass(frozen=True)
class Measure:
    """The task: measure an outcome's ranker."""

    outcome: Certificate | Abstention

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns it reads."""
        return ("query", "item", "score", "relevance", "segment", "item_group")

    @property
    def grid(self) -> list[GPLRanker]:
        """The deterministic ranker, and the one in use."""
        return [GPLRanker.deterministic(self.outcome.k), self.outcome.ranker]

    def summary(self, blocks: Iterable[Queries]) -> Measured:
        """The answer for these blocks."""
        return self.joined([self._measured(block) for block in blocks])

    def joined(self, summaries: Sequence[Measured]) -> Measured:
        """The answer for all parts."""
        return reduce(Measured.__add__, summaries, Measured(Moments.none(2)))

    def _measured(self, queries: Queries) -> Measured:
        first, scores = self.outcome.guarantees[0], queries.need_scores()
        measured = evaluate(queries, self.grid, gain_kind=first.gain_kind, empty_query=first.empty_query)
        kept = ~np.isnan(measured.ndcg[:, 0])
        pairs: dict[Name, WholeNumbers] = {}
        by_segment: dict[str | None, np.ndarray] = {}
        if queries.segments is not None:
            named = segments(queries, replace(first, per="segment")).items()
            by_segment = {segment: mask for segment, mask in named if segment}
        for promise, guarantee in enumerate(self.outcome.guarantees):
            values = values_of(measured, guarantee, queries, self.grid)
            for segment, mask in {**segments(queries, guarantee), **by_segment}.items():
                a, b = values[mask & kept].T
                terms = np.stack([np.ones(a.size), a, b, a * a, b * b, a * b], axis=1)
                if a.size:
                    pairs[promise, segment or ""] = whole_sums(terms, DISPARITY_SCALE)
        low, bottom, _, top, high = self.outcome.provenance.score_quantiles
        edges = np.linspace(bottom, top, SPREAD_BINS + 1)
        bins = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=SPREAD_BINS + 2)
        return Measured(
            Moments.of(measured.ndcg[kept], measured.disparity[kept]),
            pairs,
            int((~kept).sum()),
            int((queries.n_items == 1).sum()),
            queries.n_rows,
            int(((scores < low) | (scores > high)).sum()),
            tuple(bins.tolist()),
            self._groups(queries),
            queries.fingerprint,
        )

    def _groups(self, queries: Queries) -> dict[str, WholeNumbers]:
        if queries.item_groups is None:
            return {}
        names, code = queries.coded_groups
        columns = [queries.in_query_order(ranker.exposure(queries), "exposure") for ranker in self.grid]
        columns.append(gain(queries.need_relevance(), self.outcome.guarantees[0].gain_kind))
        sums = np.zeros((len(names), 3), np.int64)
        np.add.at(sums, code, np.rint(np.stack(columns, axis=1) * DISPARITY_SCALE).astype(np.int64))
        return {str(name): tuple(row) for name, row in zip(names, sums.tolist(), strict=True)}
