"""Expected exposure of several rankers at once: one preparation of the queries, one pass of the kernels.

Rankers that draw from the same scores in the same way are a `Family`. They are ordered so that neighbours share work,
and the floor and the anchor are applied to what the kernels return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.noise import CALIBRATION, stream_seed
from isrr.parallel import over_queries
from isrr.ranker import kernels, pooled_kernels
from isrr.ranker.exact import laguerre_rules, memory_for

if TYPE_CHECKING:
    from isrr.ranker.gpl import GPLRanker


@dataclass(frozen=True, eq=False)
class Prepared:
    """Queries as draws see them.

    Attributes:
        queries: The queries.
        order: Positions within the query by the falling scores that draws go by, equal ones as in the order by score,
            (n_rows,).
        scores: These scores, mapped and boosted, in this order, (n_rows,).
        rows: Row number of each item, in this order, (n_rows,).
    """

    queries: Queries
    order: NDArray[np.int32]
    scores: FloatArray
    rows: IntArray

    @classmethod
    def of(cls, queries: Queries, scores: FloatArray, *, boosted: bool) -> Prepared:
        """Sort each query's items by the scores that draws go by, given in query order, (n_rows,)."""
        order = by_score = queries.by_score
        if boosted:
            order = np.empty_like(by_score)
            over_queries(
                lambda start, stop: kernels.sort_drawn_queries(queries.offsets, scores, by_score, start, stop, order),
                queries.offsets,
            )
        rows = np.repeat(queries.offsets[:-1], queries.n_items) + order
        return cls(queries, order, scores[rows], rows)

    def eligibility(self, scale: float) -> FloatArray:
        """Return each row's chance to be first, were every item admitted, in the caller's order, (n_rows,)."""
        queries, out, by_row = self.queries, np.empty(self.queries.n_rows), np.empty(self.queries.n_rows)
        over_queries(
            lambda start, stop: kernels.eligibility_of_queries(
                queries.offsets, self.scores, scale, *memory_for(int(queries.n_items[start:stop].max()))[:2], start,
                stop, out,
            ),
            queries.offsets,
        )  # fmt: skip
        by_row[self.rows] = out
        return queries.in_caller_order(by_row)

    @cached_property
    def leading(self) -> IntArray:
        """Where the items of the order by score stand in `order`, (n_rows,)."""
        starts = self.rows - self.order
        within = np.arange(self.queries.n_rows) - starts
        if self.order is self.queries.by_score:
            return within
        position_of = np.empty_like(within)
        position_of[self.rows] = within
        return np.asarray(position_of[starts + self.queries.by_score])


@dataclass(frozen=True, eq=False)
class Exposure:
    """Expected exposure of the items of some consecutive queries under each ranker of a family.

    Attributes:
        halves: Averages over two independent samples, (2, n_weights, n_grid, rows); twice the same where exposure is
            exact. Rows by falling drawn score.
        mean: The average over both, (n_weights, n_grid, rows).
        n_shown: How many leading items of each query are written, (n_grid, n_queries); the others get no exposure.
        shares: Chance that a query is served its order by score in place of a draw, (n_grid, n_queries).
    """

    halves: tuple[FloatArray, FloatArray]
    mean: FloatArray
    n_shown: IntArray
    shares: FloatArray

    @property
    def is_exact(self) -> bool:
        """Whether nothing was sampled."""
        return self.halves[0] is self.halves[1]


def family_of(ranker: GPLRanker) -> tuple[object, ...]:
    """Return what rankers share that are evaluated together."""
    boost = (ranker.boost, ranker.boost_missing, ranker.deviation) if ranker.boost else None
    return ranker.score_map, boost, ranker.mixture[2].tobytes(), ranker.is_sampled


@dataclass(frozen=True, eq=False)
class Family:
    """Rankers that are evaluated together, in the order in which they share work.

    Attributes:
        rankers: The rankers.
        columns: Where each of them stood in the sequence that the family was made of.
        position_weights: Ways of weighting the positions: those asked for, then those that floors are promised for.
        promised: Which of these ways floors are promised for.
        arguments: Distinct scales, which of them each ranker has, thresholds (n_grid, k), floors and anchors.
    """

    rankers: tuple[GPLRanker, ...]
    columns: IntArray
    position_weights: FloatArray
    promised: IntArray
    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, rankers: Sequence[GPLRanker], position_weights: FloatArray) -> Family:
        """Order rankers that have the same `family_of`; by temperature, then by falling threshold."""
        from isrr.ranker.gpl import expand

        columns = np.lexsort(([-ranker.threshold for ranker in rankers], [ranker.scale for ranker in rankers]))
        ours = tuple(rankers[c] for c in columns)
        weights, promised = joined_weights(position_weights, rankers[0].mixture[2])
        scales, scale_of = np.unique([ranker.scale for ranker in ours], return_inverse=True)
        thresholds = np.stack([expand(ranker.threshold, ranker.decay, weights.shape[1]) for ranker in ours])
        floors, anchors = (np.array([ranker.mixture[part] for ranker in ours]) for part in (0, 1))
        return cls(ours, columns, weights, promised, (scales, scale_of, thresholds, floors, anchors))

    def first_relevant(
        self, prepared: Prepared, relevant: NDArray[np.bool_], position_weights: FloatArray, start: int, stop: int
    ) -> FloatArray:
        """Compute the expected weight of the position of the first relevant item, for draws alone with decay 1.

        Args:
            prepared: All queries as the family draws from them.
            relevant: Which items are relevant, in the order of the draw, (n_rows,).
            position_weights: Ways of weighting the positions, (n_weights, k).
            start, stop: The queries start … stop − 1.

        Returns:
            Weights, (n_weights, n_queries, n_grid); 0 where no position of a list holds a relevant item.
        """
        offsets, (n_weights, k) = prepared.queries.offsets, position_weights.shape
        scales, scale_of, thresholds, _, _ = self.arguments
        longest = int(prepared.queries.n_items[start:stop].max())
        out = np.empty((n_weights, stop - start, len(self.rankers)))
        pooled_kernels.first_relevant_of_grid(
            offsets, prepared.scores, relevant, scales, scale_of, np.ascontiguousarray(thresholds[:, 0]),
            position_weights, *laguerre_rules(), *memory_for(longest, k, n_weights), np.empty(2 * longest), start, stop,
            out,
        )  # fmt: skip
        return out

    def exposure(
        self, prepared: Prepared, start: int, stop: int, *, whole: bool = True, n_draws: int = 0, seed: int = 0
    ) -> Exposure:
        """Compute the exposure of the queries start … stop − 1: exactly, or by `n_draws` draws where decay is below 1.

        With `whole=False`, exposures of 0 at the end of a list may be left out.
        """
        queries, (n_weights, k) = prepared.queries, self.position_weights.shape
        scales, scale_of, thresholds, floors, anchors = self.arguments
        drawn = queries.offsets, prepared.scores, scales, scale_of
        shape = n_weights, len(self.rankers), int(queries.offsets[stop] - queries.offsets[start])
        mixed = bool(floors.any() or anchors.any())
        n_shown = np.empty((len(self.rankers), stop - start), np.int64)
        if not n_weights:  # neither asked for, nor needed for a floor
            n_shown[:] = 0
            return Exposure(
                (np.empty(shape),) * 2, np.empty(shape), n_shown, np.repeat(anchors[:, None], stop - start, axis=1)
            )
        if self.rankers[0].is_sampled:
            if n_draws < 2:
                raise ValueError(f"n_draws must be ≥ 2 for decay below 1, got {n_draws}")
            sampled = np.empty((2, *shape))
            name = stream_seed(seed, CALIBRATION)
            kernels.sampled_exposure_of_grid(
                *drawn, thresholds, self.position_weights, queries.keys, name, n_draws, start, stop, sampled
            )
            n_shown[:] = queries.n_items[start:stop]
            halves = sampled[0], sampled[1]
        else:
            exact = np.empty(shape)
            memory = memory_for(int(queries.n_items[start:stop].max()), k, n_weights)
            kernels.exposure_of_grid(
                *drawn, np.ascontiguousarray(thresholds[:, 0]), self.position_weights, *laguerre_rules(), *memory,
                whole or mixed, start, stop, exact, n_shown,
            )  # fmt: skip
            halves = exact, exact
        shares = np.zeros(n_shown.shape)
        if mixed:
            for of_draws in halves[: 2 if self.rankers[0].is_sampled else 1]:
                kernels.mix_with_order(
                    queries.offsets, prepared.leading, self.position_weights, self.promised, floors, anchors, start,
                    stop, of_draws, shares,
                )  # fmt: skip
        mean = halves[0] if halves[0] is halves[1] else (halves[0] + halves[1]) / 2
        return Exposure(halves, mean, n_shown, shares)

    def lists(
        self, prepared: Prepared, start: int, stop: int, n_lists: int, shares: FloatArray, seed: int = 0
    ) -> NDArray[np.int32]:
        """Draw lists for the queries start … stop − 1, as `GPLRanker.sample` does, (n_queries, n_grid, n_lists, k).

        `shares` are those of their exposure.
        """
        queries, (scales, scale_of, thresholds, _, _) = prepared.queries, self.arguments
        lists = np.empty((stop - start, len(self.rankers), n_lists, thresholds.shape[1]), np.int32)
        kernels.lists_of_grid(
            queries.offsets, prepared.order, prepared.scores, scales, scale_of, thresholds, queries.by_score, shares,
            queries.keys, stream_seed(seed, CALIBRATION), start, stop, lists,
        )  # fmt: skip
        return lists


def joined_weights(asked: FloatArray, promised: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return ways of weighting the positions, those asked for first, and which of them floors are promised for.

    A way that is promised but not asked for follows the others; each is filled up with zeros.

    Example:
        >>> joined_weights(np.array([[1.0, 1.0], [1.0, 0.5]]), np.array([[1.0, 0.5]]))
        (array([[1. , 1. ],
               [1. , 0.5]]), array([1]))
    """
    k = max(asked.shape[1], promised.shape[1])
    ways = [np.pad(way, (0, k - way.size)).tolist() for way in (*asked, *promised)]
    distinct = ways[: len(asked)]
    distinct += [way for way in ways[len(asked) :] if way not in distinct]
    rows = [distinct.index(way) for way in ways[len(asked) :]]
    return np.array(distinct, np.float64).reshape(-1, k), np.array(rows, np.int64)
