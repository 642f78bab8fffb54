"""Utility and disparity of a whole grid of rankers on judged queries, in one pass.

Utility is expected over draws, disparity that of expected exposure: computed without drawing for decay 1, from
Rao–Blackwellised draws below 1, or from plain rankings, with the bias of their disparity removed or, as in the paper,
kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypedDict, Unpack, get_args

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.gains import EmptyQuery, Gain, discount, empty_value, gain, ideal_dcg
from isrr.metrics import _kernels
from isrr.metrics.disparity import disparity_bound, share_of_bound
from isrr.noise import CALIBRATION, stream_seed
from isrr.parallel import Progress, over_queries
from isrr.ranker._nodes import laguerre_rules
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.scores.standardize import ScoreMap

Method = Literal["exact", "draws", "plugin"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What each ranker of a grid does on each query; NaN rows are queries left out.

    Attributes:
        ndcg: Expected NDCG@k, (n_queries, n_grid).
        disparity: Disparity of the expected exposure, (n_queries, n_grid).
        disparity_bound: The largest disparity any ranker can have, (n_queries,).
    """

    ndcg: FloatArray
    disparity: FloatArray
    disparity_bound: FloatArray

    @cached_property
    def normalized_disparity(self) -> FloatArray:
        """Disparity as a share of its bound, (n_queries, n_grid)."""
        return np.where(np.isnan(self.disparity), np.nan, share_of_bound(self.disparity, self.disparity_bound))

    @cached_property
    def mean_ndcg(self) -> FloatArray:
        """Mean over the queries that count, (n_grid,); NaN where none does."""
        return _mean(self.ndcg)

    @cached_property
    def mean_disparity(self) -> FloatArray:
        """Mean over the queries that count, (n_grid,); NaN where none does."""
        return _mean(self.disparity)

    @cached_property
    def mean_normalized_disparity(self) -> FloatArray:
        """Mean over the queries that count, (n_grid,); NaN where none does."""
        return _mean(self.normalized_disparity)


def evaluate(
    queries: Queries,
    grid: Sequence[GPLRanker],
    *,
    method: Method = "exact",
    n_draws: int = SMOOTHING_DRAWS,
    seed: int = 0,
    gain_kind: Gain = "exponential",
    empty_query: EmptyQuery = "skip",
    progress: Progress | None = None,
) -> Evaluation:
    """Expected NDCG@k and disparity of every ranker on every query.

    Args:
        queries: Judged queries.
        grid: Rankers with the same k; they may differ in everything else.
        method: "exact": no sampling for decay 1, Rao–Blackwellised draws below 1. "draws": plain rankings drawn,
            disparity debiased. "plugin": the same, disparity of the averaged exposures, biased upward, as in the paper.
        n_draws: Rankings drawn per query where any are.
        seed: Names the noise.
        gain_kind: "exponential" or "linear".
        empty_query: What a query with no relevant item counts as: "skip" (NaN), "zero" or "one".
        progress: Called with (queries done, queries in all).

    Example:
        >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> evaluate(queries, [GPLRanker(), GPLRanker.deterministic()]).ndcg.round(3)
        array([[0.727, 0.659]])
    """
    _check_kinds(queries, grid)
    _check(grid, method, n_draws)
    gains, k = gain(queries.need_relevance(), gain_kind), grid[0].k
    dcg, disparity = np.empty((len(queries), len(grid))), np.empty((len(queries), len(grid)))
    for score_map in {ranker.score_map for ranker in grid}:
        columns = [c for c, ranker in enumerate(grid) if ranker.score_map == score_map]
        part = _evaluate_one_map(queries, [grid[c] for c in columns], score_map, gains, method, n_draws, seed, progress)
        if len(columns) == len(grid):
            dcg, disparity = part
        else:
            dcg[:, columns], disparity[:, columns] = part
    ideal = ideal_dcg(queries, k=k, gain_kind=gain_kind)
    empty = ideal == 0
    dcg /= np.where(empty, 1.0, ideal)[:, None]
    dcg[empty] = empty_value(empty_query)
    if empty_query == "skip":
        disparity[empty] = np.nan
    return Evaluation(dcg, disparity, disparity_bound(queries, k=k, gain_kind=gain_kind))


class Options(TypedDict, total=False):
    """How `evaluate` evaluates; see there."""

    method: Method
    n_draws: int
    seed: int
    gain_kind: Gain
    empty_query: EmptyQuery
    progress: Progress | None


def expected_ndcg(ranker: GPLRanker, queries: Queries, **options: Unpack[Options]) -> FloatArray:
    """Expected NDCG@k of one ranker on each query, (n_queries,); options as for `evaluate`."""
    return evaluate(queries, [ranker], **options).ndcg[:, 0]


def expected_disparity(ranker: GPLRanker, queries: Queries, **options: Unpack[Options]) -> FloatArray:
    """Disparity of one ranker's expected exposure on each query, (n_queries,); options as for `evaluate`."""
    return evaluate(queries, [ranker], **options).disparity[:, 0]


def _mean(values: FloatArray) -> FloatArray:
    """Mean over queries that are not NaN, (n_grid,)."""
    counted = ~np.isnan(values)
    n, mean = counted.sum(axis=0), np.full(values.shape[1:], np.nan)
    np.divide(np.where(counted, values, 0.0).sum(axis=0), n, out=mean, where=n > 0)
    return mean


def _check_kinds(queries: object, grid: object) -> None:
    """Refuse arguments of other kinds, with the call that was likely meant."""
    if not isinstance(queries, Queries):
        raise TypeError(
            f"evaluate takes judged queries, then a list of rankers, got a {type(queries).__name__} first; "
            "evaluate(queries, [ranker])"
        )
    others = [x for x in grid if not isinstance(x, GPLRanker)] if isinstance(grid, Iterable) else [grid]
    if others:
        raise TypeError(
            f"the grid of evaluate is a list of rankers, got a {type(others[0]).__name__}; "
            "evaluate(queries, [ranker]); to check a promise use isrr.check(outcome, queries)"
        )


def _check(grid: Sequence[GPLRanker], method: str, n_draws: int) -> None:
    if not grid:
        raise ValueError("the grid is empty; give at least one ranker")
    if len({ranker.k for ranker in grid}) > 1:
        raise ValueError(f"the rankers of a grid share one k; got {sorted({ranker.k for ranker in grid})}")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}")
    least = 2 if method == "draws" else 1
    if n_draws < least:
        raise ValueError(f"n_draws must be ≥ {least}, got {n_draws}")


def _evaluate_one_map(
    queries: Queries,
    grid: list[GPLRanker],
    score_map: ScoreMap | None,
    gains: FloatArray,
    method: Method,
    n_draws: int,
    seed: int,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray]:
    """DCG and disparity, (n_queries, n_grid); configurations are handed to the kernels in the order they share work."""
    decay = np.array([1.0 if r.is_deterministic or r.threshold == 0.0 else r.decay for r in grid])
    scales, scale_of = np.unique([r.scale for r in grid], return_inverse=True)
    first_threshold = np.array([r.threshold for r in grid])
    by_work = np.lexsort((-first_threshold, decay != 1.0, scale_of))
    thresholds = np.stack([grid[c].thresholds for c in by_work])
    scores = grid[0].mapped(queries.need_scores())
    order, discounts = queries.by_score, discount(grid[0].k)
    drawn = method != "exact"
    needs_noise = drawn or bool((decay != 1.0).any())
    keys = queries.keys if needs_noise else np.zeros(len(queries), np.uint64)
    name = stream_seed(seed, CALIBRATION)
    dcg = np.empty((len(queries), len(grid)))
    disparity = np.empty_like(dcg)
    shared = (
        queries.offsets, order, scores, gains, discounts, scales, scale_of[by_work], thresholds, decay[by_work],
    )  # fmt: skip

    def work(start: int, stop: int) -> None:
        if drawn:
            debias = method == "draws"
            _kernels.evaluate_by_drawing(*shared, keys, name, n_draws, debias, start, stop, dcg, disparity)
        else:
            draws = n_draws if needs_noise else 0
            _kernels.evaluate_exactly(*shared, laguerre_rules(), keys, name, draws, start, stop, dcg, disparity)

    over_queries(work, queries.offsets, progress)
    if (by_work != np.arange(len(grid))).any():
        back = np.argsort(by_work)
        dcg, disparity = dcg[:, back], disparity[:, back]
    return dcg, disparity
