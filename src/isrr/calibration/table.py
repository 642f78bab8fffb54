"""RiskTable: what calibration has measured, query by configuration, or summed up; shards of it merge exactly.

Losses that are kept one by one are put in canonical order (`isrr.calibration.order`) only when they are tested.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.moments import Moments
from isrr.data.queries import FloatArray
from isrr.errors import MergeError
from isrr.guarantee import Guarantee
from isrr.ranker.gpl import GPLRanker
from isrr.risk import mixture, vb


@dataclass(frozen=True, eq=False)
class Cell:
    """The losses of one promise in one segment: query by query, or summed up.

    Attributes:
        guarantee: The promise.
        segment: The segment, or None for all queries.
        keys: Hashes of the query ids, (n_queries,), where losses are kept.
        losses: (n_queries, n_grid), or None.
        summary: Sums-only evidence, or None.
    """

    guarantee: Guarantee
    segment: str | None
    keys: NDArray[np.uint64]
    losses: FloatArray | None = None
    summary: vb.Summary | mixture.Summary | None = None

    @property
    def n_queries(self) -> int:
        """Queries in the cell."""
        if self.losses is not None:
            return len(self.losses)
        assert self.summary is not None
        return (self.summary.squares if isinstance(self.summary, vb.Summary) else self.summary).n_queries


@dataclass(frozen=True, eq=False)
class RiskTable:
    """Everything that is tested and reported, for a path of configurations.

    Attributes:
        grid: The configurations, the deterministic ranker first.
        moments: Utility and disparity.
        cells: One for each promise and segment.
        n_skipped: Queries left out for having no relevant item.
        method: How utilities were evaluated, "exact" or "draws".
        n_draws: Rankings drawn per query where any were.
        keys: Of all queries tested on or left out, where losses are kept one by one.
    """

    grid: tuple[GPLRanker, ...]
    moments: Moments
    cells: tuple[Cell, ...]
    n_skipped: int
    method: str
    n_draws: int
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))


def merge(shards: Sequence[RiskTable]) -> RiskTable:
    """One table from shards over disjoint queries, in any order."""
    if not shards:
        raise MergeError("there is nothing to merge: the sequence of shards is empty")
    first, parts = shards[0], defaultdict[tuple[Guarantee, str | None], list[Cell]](list)
    for shard in shards:
        if shard.grid != first.grid:
            raise MergeError(
                f"shards of other paths: {len(first.grid)} configurations here, {len(shard.grid)} there, "
                "or the same number with other settings; fill all shards with one path"
            )
        if (shard.method, shard.n_draws) != (first.method, first.n_draws):
            raise MergeError(f"shards were evaluated differently: '{first.method}' here, '{shard.method}' there")
        for cell in shard.cells:
            parts[cell.guarantee, cell.segment].append(cell)
    promises = list(dict.fromkeys(guarantee for guarantee, _ in parts))
    names = sorted(parts, key=lambda name: (promises.index(name[0]), name[1] or ""))
    return RiskTable(
        first.grid,
        reduce(Moments.__add__, (shard.moments for shard in shards)),
        tuple(_joined(parts[name]) for name in names),
        sum(shard.n_skipped for shard in shards),
        first.method,
        first.n_draws,
        np.concatenate([shard.keys for shard in shards]),
    )


def _joined(cells: Sequence[Cell]) -> Cell:
    first = cells[0]
    if len({type(cell.summary) for cell in cells}) > 1:
        raise MergeError("one shard kept its losses and another summed them up; fill both the same way")
    keys = np.concatenate([cell.keys for cell in cells])
    losses = [cell.losses for cell in cells if cell.losses is not None]
    if losses:
        return Cell(first.guarantee, first.segment, keys, np.concatenate(losses))
    total = reduce(lambda ours, theirs: ours + theirs, [cell.summary for cell in cells])  # type: ignore[operator]
    return Cell(first.guarantee, first.segment, keys, summary=total)
