"""Fill a risk table on this machine, in blocks of queries.

Up to 50,000 queries utilities are exact. Beyond, a few independent draws per query do: any number keeps a promise valid
(losses stay unbiased and at most 1), and at that size the queries' own spread outweighs the draws'. Up to 200,000
queries losses are kept one by one, for betting; beyond, they are summed up as they come.
"""

from collections.abc import Sequence

import numpy as np

from isrr.calibration.table import Cell, Moments, RiskTable, merge
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError, GuaranteeError
from isrr.gains import ideal_dcg
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, Method, evaluate
from isrr.metrics.exposure import group_exposure
from isrr.parallel import Progress
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.risk import mixture, vb
from isrr.risk.evidence import LARGEST_FOR_BETTING

LARGEST_EXACT = 50_000
DRAWS = 4
BLOCK = 32_768


def fill(
    queries: Queries,
    grid: Sequence[GPLRanker],
    guarantees: Sequence[Guarantee],
    *,
    delta: float,
    evidence: str = "betting",
    seed: int = 0,
    progress: Progress | None = None,
) -> RiskTable:
    """Evaluate every configuration on every query and keep what the promises are tested by.

    Args:
        queries: Judged queries; none may stand twice.
        grid: Configurations, the deterministic ranker first.
        guarantees: Promises; they share k, gain and the policy for empty queries.
        delta: Level the sums-only evidence is tuned for.
        evidence: Name of the evidence that will be asked for.
        seed: Names the noise, where rankings are drawn.
        progress: Called with (queries done, queries in all).
    """
    judged = counted(queries, guarantees[0])
    n_skipped = len(queries) - len(judged)
    n_draws = DRAWS
    method: Method = "draws"
    if len(judged) <= LARGEST_EXACT:
        n_draws = SMOOTHING_DRAWS
        fair = any(not guarantee.utility for guarantee in guarantees)
        if not (fair and any(r.decay < 1 and r.threshold > 0 for r in grid)):
            method = "exact"  # smoothed exposures, which decay below 1 needs, are no losses for a fairness promise
    sums = {g: summed_evidence(evidence, g, len(judged), method) for g in guarantees}
    summed = all(sums.values())
    planned = {segment: int(mask.sum()) for segment, mask in segments(judged, guarantees).items()}

    def shard(part: Queries, done: int) -> RiskTable:
        def advance(now: int, _: int) -> None:
            if progress:
                progress(done + now, len(judged))

        measured = evaluate(
            part, grid, method=method, n_draws=n_draws, seed=seed, progress=advance,
            gain_kind=guarantees[0].gain_kind, empty_query=guarantees[0].empty_query,
        )  # fmt: skip
        cells = []
        for guarantee in guarantees:
            values = values_of(measured, guarantee, part, grid)
            losses = guarantee.losses(values, values[:, 0])
            for segment, mask in segments(part, [guarantee]).items():
                chosen = losses if segment is None else losses[mask]
                keys = part.keys if segment is None else part.keys[mask]
                if not summed:
                    cells.append(Cell(guarantee, segment, keys, chosen))
                    continue
                summary: vb.Summary | mixture.Summary
                if sums[guarantee] == "vb":
                    summary = vb.Summary.of(chosen, guarantee.tested_alpha, delta, planned[segment])
                else:
                    summary = mixture.Summary.of(chosen, delta, planned[segment])
                cells.append(Cell(guarantee, segment, np.empty(0, np.uint64), summary=summary))
        moments = Moments.of(measured.ndcg, measured.disparity)
        return RiskTable(tuple(grid), moments, tuple(cells), 0, method, n_draws if method == "draws" else 0)

    size = BLOCK if summed else max(LARGEST_FOR_BETTING, len(judged))
    starts = range(0, len(judged), size)
    shards = [shard(judged[s : s + size] if len(starts) > 1 else judged, s) for s in starts]
    table = merge(shards)
    return RiskTable(table.grid, table.moments, table.cells, n_skipped, table.method, table.n_draws)


def counted(queries: Queries, guarantee: Guarantee) -> Queries:
    """The queries a promise is tested on: all, or those with a relevant item."""
    empty = ideal_dcg(queries, k=guarantee.k, gain_kind=guarantee.gain_kind) == 0
    if guarantee.empty_query != "skip" or not empty.any():
        return queries
    if empty.all():
        raise DataError("no query has a relevant item: there is no utility to promise anything about")
    return queries[~empty]


def summed_evidence(name: str, guarantee: Guarantee, n_queries: int, method: str) -> str | None:
    """The evidence that is found from sums alone, for so many queries in all; None where losses are kept one by one."""
    if name not in ("vb", "mixture") and not (name == "betting" and n_queries > LARGEST_FOR_BETTING):
        return None
    nonnegative = guarantee.utility or method == "exact"
    return "vb" if nonnegative and name != "mixture" else "mixture"


def values_of(measured: Evaluation, guarantee: Guarantee, queries: Queries, grid: Sequence[GPLRanker]) -> FloatArray:
    """What a promise speaks of, (n_queries, n_grid)."""
    if guarantee.metric == "ndcg":
        return measured.ndcg
    if guarantee.metric == "normalized_disparity":
        return measured.normalized_disparity
    if guarantee.metric == "disparity":
        largest = float(measured.disparity.max())
        if guarantee.bound is not None and largest > guarantee.bound:
            raise GuaranteeError(
                f"a query has disparity {largest:.6g}, above the declared bound {guarantee.bound:g}; "
                "the bound must hold for every query there can be"
            )
        return measured.disparity
    pooled = [group_exposure(r.exposure(queries), queries, gain_kind=guarantee.gain_kind) for r in grid]
    # Σe² over groups is at most (Σθ)², which bounds the disparity whatever the ranker.
    places = np.minimum(queries.n_items, guarantee.k)
    shown = np.concatenate(([0.0], np.cumsum(1.0 / np.log2(np.arange(2, guarantee.k + 2)))))[places]
    squares = np.add.reduceat(pooled[0].gain ** 2, pooled[0].offsets[:-1])
    n_groups = np.diff(pooled[0].offsets)
    largest_possible = 4.0 * shown**2 * squares / np.maximum(n_groups * (n_groups - 1), 1)
    columns = [p.disparity() for p in pooled]
    return np.stack([c / np.where(largest_possible > 0, largest_possible, 1.0) for c in columns], axis=1)


def segments(queries: Queries, guarantees: Sequence[Guarantee]) -> dict[str | None, np.ndarray]:
    """Which queries each tested segment holds; None stands for all of them."""
    found: dict[str | None, np.ndarray] = {}
    if any(guarantee.per is None for guarantee in guarantees):
        found[None] = np.ones(len(queries), bool)
    if any(guarantee.per == "segment" for guarantee in guarantees):
        if queries.segments is None:
            raise DataError("a promise per segment needs a segment for each query; these queries have none")
        names = queries.segments.astype(str)
        found |= {str(name): names == name for name in np.unique(names)}
    return found
