"""Which score should admit an item: its chance of first place, or its chance of each place? (appendix D)

The paper admits an item at position k when its chance of first place under Plackett–Luce reaches λₖ, in place of its
expected chance of position k, E[p(d | y₁…ₖ₋₁)], and says that one rises with the other. The second is the position's
marginal probability, which is computed exactly here. Both are put to the same use: the same draws, 21 thresholds from 0
to the largest value, the paper's test.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.path import SearchPath
from isrr.counting import percent
from isrr.data.queries import FloatArray, Queries
from isrr.gains import discount, gain_of, ideal_dcg
from isrr.ranker.gpl import GPLRanker
from isrr_paper.experiments import coverage
from isrr_paper.experiments.pools import Pool
from isrr_paper.experiments.protocol import N_THRESHOLDS, EvaluatedPath, K, Protocol, always
from isrr_paper.experiments.repetition import run_splits
from isrr_paper.experiments.result import Rows
from isrr_paper.paths import uniform_grid

N_DRAWS = 100
CHANCES = ("first place", "each place")


def measure(pool: Pool, *, n_splits: int) -> dict[str, Any]:
    """How often the order by one score is not the order by the other, and what each gives under the paper's test."""
    protocol = Protocol(pool)
    placement = protocol.base.placement(pool.judged)
    first = np.repeat(placement[:, :1], K, axis=1)
    by_eligibility = {
        name: _figures(protocol, chances, n_splits) for name, chances in zip(CHANCES, (first, placement), strict=True)
    }
    return {"monotone": [_disagreement(pool.judged, placement, j) for j in range(1, K)], "eligibility": by_eligibility}


def _disagreement(queries: Queries, placement: FloatArray, position: int) -> dict[str, float]:
    """Shares of queries, and of neighbouring items by score, in which a larger first chance goes with a smaller one."""
    n_pairs = n_wrong = n_queries = 0
    for q in range(len(queries)):
        rows = slice(queries.offsets[q], queries.offsets[q + 1])
        by_first = np.argsort(-placement[rows, 0], kind="stable")
        steps = np.diff(placement[rows, position][by_first])
        wrong = int((steps > 1e-6).sum())  # beyond what quadrature may be off by
        n_pairs, n_wrong, n_queries = n_pairs + steps.size, n_wrong + wrong, n_queries + (wrong > 0)
    return {"position": position + 1, "queries": n_queries / len(queries), "pairs": n_wrong / n_pairs}


def _figures(protocol: Protocol, eligibility: FloatArray, n_splits: int) -> dict[str, Any]:
    pool = protocol.pool
    thresholds = uniform_grid(eligibility, N_THRESHOLDS)
    # Stand-ins name the columns: the ranker behind them admits by this eligibility, which no GPLRanker can hold.
    named = protocol.rankers(thresholds)
    grid = (GPLRanker.deterministic(K), *named)
    utility, disparity = _evaluate(pool.judged, protocol.base, eligibility, np.append(2.0, thresholds))
    evaluated = EvaluatedPath(SearchPath(named[::-1], "paper", ""), grid, utility, disparity)
    procedure = replace(protocol.paper(), evaluated=always(evaluated))
    return {
        "thresholds": thresholds.tolist(),
        "utility": utility[:, 1:].mean(axis=0).tolist(),
        "gain": [evaluated.gain(slice(None), c) for c in range(1, len(grid))],
        "oracle": protocol.oracle(procedure),
        "certified": coverage.summary(run_splits(pool, procedure, n_splits)),
    }


def _evaluate(
    queries: Queries, base: GPLRanker, eligibility: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Utility and debiased disparity where position j admits the items whose j-th eligibility reaches the threshold."""
    gains, ideal = gain_of(queries.need_relevance()), ideal_dcg(queries, k=K)
    ndcg, disparity = (np.empty((len(queries), thresholds.size)) for _ in range(2))
    log_weights = queries.need_scores() * base.scale
    rng = np.random.default_rng(20230)
    for q in range(len(queries)):
        rows = slice(queries.offsets[q], queries.offsets[q + 1])
        noise = rng.gumbel(size=(K, N_DRAWS, int(queries.n_items[q])))
        admitted: NDArray[np.bool_] | None = None
        for c, threshold in enumerate(thresholds):
            reach = eligibility[rows] >= threshold
            if admitted is None or (reach != admitted).any():  # many thresholds admit the same items
                admitted = reach
                dcg, value = _drawn(log_weights[rows], admitted, gains[rows], noise)
            ndcg[q, c], disparity[q, c] = dcg / ideal[q], value
    return ndcg, disparity


def _drawn(
    log_weights: FloatArray, admitted: NDArray[np.bool_], gains: FloatArray, noise: FloatArray
) -> tuple[float, float]:
    """Mean DCG over draws, and the disparity of the exposure they estimate, freed of its bias."""
    n, n_draws, of_place = log_weights.size, noise.shape[1], discount(K)
    free = np.ones((n_draws, n), bool)
    exposure, draws, dcg = np.zeros(n), np.arange(n_draws), np.zeros(n_draws)
    for j in range(min(K, n)):
        race = np.where(free & admitted[:, j], log_weights + noise[j], -np.inf)
        best = np.where(free, log_weights, -np.inf).argmax(axis=1)
        pick = np.where(np.isneginf(race.max(axis=1)), best, race.argmax(axis=1))
        free[draws, pick] = False
        exposure += of_place[j] * np.bincount(pick, minlength=n) / n_draws
        dcg += of_place[j] * gains[pick]
    if n < 2:
        return float(dcg.mean()), 0.0
    squares, factor = float((gains**2).sum()), 4.0 / (n * (n - 1))
    plugin = (exposure**2).sum() * squares - dcg.mean() ** 2
    single = (of_place[: min(K, n)] ** 2).sum() * squares - (dcg**2).mean()
    return float(dcg.mean()), float(factor * (n_draws * plugin - single) / (n_draws - 1))


def rows(records: list[dict[str, Any]]) -> Rows:
    """One row a pool and eligibility, with the share of queries in which the claimed monotonicity fails."""
    rows = []
    for record in records:
        broken = {f"not monotone, place {m['position']}": m for m in record["monotone"]}
        for name, figures in record["eligibility"].items():
            rows.append(
                {
                    "data": record["data"],
                    "scorer": record["title"],
                    "eligibility": name,
                    "FairGain, oracle": percent(figures["oracle"]),
                    "FairGain": coverage.or_dash(figures["certified"]["gain"], percent),
                    "FairGain, all": percent(figures["certified"]["gain_overall"]),
                    "abstentions": f"{figures['certified']['abstentions']} of {figures['certified']['runs']}",
                    **{column: percent(m["queries"]) for column, m in broken.items()},
                }
            )
    return rows
