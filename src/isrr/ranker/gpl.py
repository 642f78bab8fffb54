"""The generalized Plackett–Luce ranker: one draw per position among the items that are eligible there.

    eligibility(d) = softmax(scores / temperature)(d)        the chance of first position under Plackett–Luce
    position j admits the unplaced items with eligibility ≥ threshold · decay^(j−1), and draws one with
    probability ∝ exp(score / temperature); if none is admitted, it takes the best unplaced item.

Threshold 0 is Plackett–Luce; a threshold above every eligibility is the deterministic order.

Three dials go beyond the paper. A boost is added to the scores of a group's items before the draw. An anchor serves the
order by score in place of a draw with a fixed chance; a floor does so with the least chance that keeps a share of the
utility of that order on every query, whatever is relevant (`isrr.ranker.kernels.mix_with_order` has the formula).

Paper: section 3.2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError
from isrr.gains import checked_rankings, discount, is_length, leading
from isrr.noise import CALIBRATION, coins, stream_seed, streams
from isrr.parallel import Progress, over_queries
from isrr.ranker import kernels
from isrr.ranker.boost import (
    Boost,
    BoostMissing,
    additions_by_row,
    additions_of_request,
    checked_boost,
)
from isrr.ranker.exact import laguerre_rules, memory_for
from isrr.ranker.exposure import Family, Prepared
from isrr.ranker.scale import ScoreMap
from isrr.ranker.serving import (
    NO_NAMES,
    ServedList,
    hashed_names,
    refuse_infinite,
    servable,
    session_key,
    session_noise,
)

NO_FLOOR = np.empty((0, 0)), np.empty((0, 0)), np.empty(0), np.empty(0, np.int64), None  # arguments of `share_of_list`
DETERMINISTIC = 2.0  # eligibility is a probability: a threshold above 1 admits nobody
N_DRAWS = 100  # for decay below 1
LEAST, LARGEST = 5e-324, sys.float_info.max  # the positive numbers
RANGES = {
    "threshold": (0.0, LARGEST, "a number ≥ 0"),
    "decay": (LEAST, 1.0, "in (0, 1]"),
    "temperature": (LEAST, LARGEST, "a number > 0"),
    "mean": (-LARGEST, LARGEST, "finite"),
    "deviation": (LEAST, LARGEST, "a number > 0"),
    "floor": (0.0, 1.0, "in [0, 1]"),
    "anchor": (0.0, 1.0, "in [0, 1]"),
}
ALIKE = 1e-12  # how far weights of positions that count as the same may lie apart
DIALS = ("floor", "anchor", "floor_weights", "boost", "boost_missing")  # not shown where they are off


def checked_weights(weights: ArrayLike, name: str) -> FloatArray:
    """Weights of the positions of a list, (k,)."""
    try:
        checked = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        checked = np.empty(0)
    if checked.ndim != 1 or checked.size == 0 or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ValueError(f"{name} must hold finite numbers ≥ 0, one per position, got {weights!r}")
    return checked


@lru_cache
def _proportional(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether two ways of weighting positions are the same up to a factor."""
    if len(one) != len(other):
        return False
    a, b = max(one), max(other)
    return all(abs(x * b - y * a) <= ALIKE * a * b for x, y in zip(one, other, strict=True))


@lru_cache
def _padded(ways: tuple[tuple[float, ...], ...]) -> FloatArray:
    """Ways of weighting positions as rows, zeros behind, (n_ways, k); not to be written to."""
    padded = np.zeros((len(ways), max(map(len, ways), default=1)))
    for row, way in zip(padded, ways, strict=True):
        row[: len(way)] = way
    return padded


def expand(threshold: float, decay: float, k: int) -> FloatArray:
    """Return the thresholds of k positions, λ₁ = threshold and λ_{j+1} = decay · λ_j.

    The first ones do not depend on k, to the last bit.

    Example:
        >>> expand(0.8, 0.5, 3)
        array([0.8, 0.4, 0.2])
    """
    if decay == 1.0:
        return np.full(k, threshold, np.float64)
    factors = np.full(k, decay)
    factors[0] = threshold
    return np.multiply.accumulate(factors)


@lru_cache
def _expanded(threshold: float, decay: float, positions: int) -> FloatArray:
    """Return the thresholds of lists longer than the ranker's own; not to be written to."""
    return expand(threshold, decay, positions)


class Draw:
    """What follows from the settings of a ranker, computed once; arrays are not to be written to.

    Attributes:
        scale: What a difference of (mapped) raw scores is multiplied by before the softmax.
        thresholds: The threshold of each position, (k,).
        is_deterministic: Whether every list is the order by score.
        is_sampled: Whether exposure is found by drawing: decay is below 1, and positions admit different items.
        promised_weights: Ways of weighting the positions that the floor is promised for.
        mixture: The floor where it has to be computed, else 0; the anchor; the floor's weights, (n_weights, k).
    """

    scale: float
    thresholds: FloatArray
    is_deterministic: bool
    is_sampled: bool
    promised_weights: tuple[tuple[float, ...], ...]
    mixture: tuple[float, float, FloatArray]


@dataclass(frozen=True)
class GPLRanker(Draw):
    """Generalized Plackett–Luce, on top of the scores of any model.

    Attributes:
        k: Length of the lists that are evaluated; when serving, longer ones are possible.
        threshold: Smallest eligibility admitted at the first position, ≥ 0.
        decay: Factor from one position's threshold to the next, in (0, 1].
        temperature: Softness of the draw, > 0; small values approach the deterministic order.
        mean, deviation: Standardisation of the (mapped) raw scores.
        score_map: Strictly increasing map of raw scores, applied first.
        floor: Share of the deterministic utility that every query keeps, whatever is relevant, in [0, 1].
        anchor: Smallest probability of serving the order by score, in [0, 1].
        floor_weights: Weights of the positions in each metric that the floor is promised for, each with its own k;
            empty for the discounts 1/log2(1 + j) of k positions.
        boost: What is added to the standardised scores of a group's items, by group. The floor, the anchor and the
            deterministic order use the scores without it.
        boost_missing: What an item without a known group means: "refuse" raises an error, "none" adds nothing.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], query_ids=["q", "q", "q"])
        >>> GPLRanker(k=2).exposure(queries).round(3)
        array([0.843, 0.567, 0.221])
        >>> GPLRanker.deterministic(k=2).exposure(queries).round(3)
        array([1.   , 0.631, 0.   ])
    """

    k: int = 5
    threshold: float = 0.0
    decay: float = 1.0
    temperature: float = 1.0
    mean: float = 0.0
    deviation: float = 1.0
    score_map: ScoreMap | None = None
    floor: float = 0.0
    anchor: float = 0.0
    floor_weights: tuple[tuple[float, ...], ...] = ()
    boost: Boost = ()
    boost_missing: BoostMissing = "refuse"

    def __post_init__(self) -> None:
        if not is_length(self.k):
            raise ValueError(f"k must be a whole number ≥ 1, got {self.k!r}; it is the length of the list")
        object.__setattr__(self, "k", int(self.k))
        for name, (low, high, need) in RANGES.items():
            value = getattr(self, name)
            if type(value) is float and low <= value <= high:
                continue
            if isinstance(value, str) or not low <= float(value) <= high:
                raise ValueError(f"{name} must be {need}, got {value!r}")
            object.__setattr__(self, name, float(value))
        weights = tuple(tuple(checked_weights(way, "floor_weights").tolist()) for way in self.floor_weights)
        boost = checked_boost(self.boost, self.boost_missing)
        vars(self).update(floor_weights=weights, boost=boost)  # the class is frozen
        softness = self.deviation * self.temperature
        if not 1.0 / LARGEST <= softness < np.inf:
            raise ValueError(
                f"temperature {self.temperature:g} times deviation {self.deviation:g} is {softness:g}; scores are "
                "divided by it, expected a normal number"
            )

        floor, anchor, ordered = self.floor, self.anchor, not self.boost and self.threshold > 1.0
        thresholds = expand(self.threshold, self.decay, self.k)
        deterministic = floor == 1.0 or anchor == 1.0 or (ordered and bool(thresholds[-1] > 1.0))
        sampled = self.decay < 1.0 and self.threshold > 0.0  # exposures that are sampled give no sure floor
        promised = self.floor_weights or ((tuple(discount(self.k).tolist()),) if floor > 0.0 else ())
        if floor == 1.0 or sampled or anchor >= floor:  # the share of the order is never above the floor
            floor, anchor = 0.0, max(floor, anchor)
        vars(self).update(
            scale=1.0 / (self.deviation * self.temperature),
            thresholds=thresholds,
            is_deterministic=deterministic,
            is_sampled=sampled and not deterministic,
            promised_weights=promised,
            mixture=(floor, anchor, _padded(promised if floor > 0.0 else ())),
        )

    @classmethod
    def plackett_luce(cls, k: int = 5, temperature: float = 1.0, deviation: float = 1.0) -> GPLRanker:
        """Return the limit in which every item is eligible everywhere."""
        return cls(k=k, temperature=temperature, deviation=deviation)

    @classmethod
    def deterministic(cls, k: int = 5) -> GPLRanker:
        """Return the limit in which no item is eligible, so the best one is placed: the order by score."""
        return cls(k=k, threshold=DETERMINISTIC)

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.name not in DIALS or getattr(self, f.name) != f.default]
        return f"GPLRanker({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def of_length(self, k: int) -> GPLRanker:
        """Return the same ranker for lists of another length: same draws, and a floor for the k it was promised for."""
        return replace(self, k=k, floor_weights=self.promised_weights)

    def protects(self, weights: FloatArray) -> bool:
        """Return whether the floor holds for metrics with these weights of positions, (k,), up to a common factor."""
        if self.floor == 0.0:
            return False
        ours = tuple(weights.tolist())
        if any(_proportional(promised, ours) for promised in self.promised_weights):
            return True
        return self.decay < 1.0 and self.threshold > 0.0  # a constant share of the order keeps it for every metric

    @property
    def in_words(self) -> str:
        """Its settings in one line."""
        if self.is_deterministic:
            return f"the order by score, k = {self.k}"
        parts = [f"temperature {self.temperature:.4g}"]
        if self.threshold:
            parts.append(f"threshold {self.threshold:.4g}")
            parts += [f"decay {self.decay:.3g}"] if self.decay < 1 else []
        parts += [self.score_map.in_words] if self.score_map else []
        parts += [f"floor {self.floor:.4g}"] if self.floor else []
        parts += [f"anchor {self.anchor:.4g}"] if self.anchor else []
        if self.boost:
            added = [f"{group} {addition:+.3g}" for group, addition in dict(self.boost).items()]
            parts.append(f"boost {', '.join(added)}")
        return ", ".join([*parts, f"k = {self.k}"])

    def mapped(self, raw_scores: FloatArray) -> FloatArray:
        """Raw scores after the score map; standardising is left to `scale`, as a softmax ignores the mean."""
        return raw_scores if self.score_map is None else self.score_map(raw_scores)

    def prepare(self, queries: Queries) -> Prepared:
        """Return the queries as draws see them: scores mapped and boosted, items in their order."""
        scores = self.mapped(queries.need_scores())
        if self.boost:
            scores = scores + self.deviation * additions_by_row(self.boost, self.boost_missing, queries)
        return Prepared.of(queries, scores, boosted=bool(self.boost))

    def eligibility(self, queries: Queries) -> FloatArray:
        """Return each row's chance to be first in a draw, were every item admitted."""
        return self.prepare(queries).eligibility(self.scale)

    def exposure(
        self,
        queries: Queries,
        *,
        weights: ArrayLike | None = None,
        n_draws: int = N_DRAWS,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Expected weight of the position of each row's item: Σ_j θ_j · P(the item is placed at j).

        Exact (to 1e-7) for decay 1; for decay below 1, averaged over `n_draws` rankings.

        Args:
            queries: Scored queries.
            weights: What each position is worth, from the first on; by default the discounts 1/log2(1 + j) of k.
            n_draws: Draws per query for decay below 1.
            seed: Random seed, used only when rankings are sampled.
            progress: Called with (queries done, queries in total).
        """
        positions = discount(self.k) if weights is None else checked_weights(weights, "weights")
        return np.asarray(self._expected(queries, positions[None], n_draws, seed, progress)[0][0])

    def placement(self, queries: Queries, *, n_draws: int = N_DRAWS, seed: int = 0) -> FloatArray:
        """Chance of each row's item at each position, (n_rows, k); rows add up to the chance of being shown."""
        return np.ascontiguousarray(self._expected(queries, np.eye(self.k), n_draws, seed, None)[0].T)

    def order_share(self, queries: Queries) -> FloatArray:
        """Probability that a query gets its order by score instead of a draw, (n_queries,).

        It depends on the scores alone: the least that keeps the floor on the query, and the anchor at least.

        Example:
            >>> queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], query_ids=["q", "q", "q"])
            >>> GPLRanker(k=2, floor=0.95).order_share(queries).round(3)
            array([0.682])
        """
        floor, anchor, _ = self.mixture
        if floor == 0.0:
            return np.full(len(queries), anchor)
        return self._expected(queries, np.empty((0, 1)), N_DRAWS, 0, None)[1]

    def _expected(
        self, queries: Queries, weights: FloatArray, n_draws: int, seed: int, progress: Progress | None
    ) -> tuple[FloatArray, FloatArray]:
        """Expected weight of each row's position, in several weightings of the positions, (n_weights, k).

        Returns:
            The weights, (n_weights, n_rows), and the share of the order by score of each query, (n_queries,).
        """
        drawn, family = self.prepare(queries), Family.of([self], weights)
        out, shares = np.empty((len(weights), queries.n_rows)), np.empty(len(queries))

        def block(start: int, stop: int) -> None:
            shown = family.exposure(drawn, start, stop, n_draws=n_draws, seed=seed)
            rows = drawn.rows[queries.offsets[start] : queries.offsets[stop]]
            out[:, rows] = shown.mean[: len(weights), 0, : rows.size]
            shares[start:stop] = shown.shares[0]

        over_queries(block, queries.offsets, progress)
        for row in out:
            row[:] = queries.in_caller_order(row)
        return out, shares

    def sample(self, queries: Queries, n_draws: int = 1, seed: int = 0) -> NDArray[np.int64]:
        """Rankings drawn independently for each query.

        Returns:
            Positions within the query (row order as the caller gave it), (n_queries, n_draws, k);
            −1 where a list is shorter than k.
        """
        if n_draws < 1:
            raise ValueError(f"n_draws must be ≥ 1, got {n_draws}")
        return self._drawn(queries, streams(stream_seed(seed, CALIBRATION), queries.keys, n_draws), None)

    def rank_queries(
        self, queries: Queries, session: object = None, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """Return one order of each query, (n_queries, k): what `rank` serves for that query id, session and item ids.

        −1 beyond the end of a list.
        """
        names = [[self.noise_stream(query_id, session)] for query_id in queries.query_ids]
        return self._drawn(queries, np.array(names, np.int64).view(np.uint64), progress)[:, 0]

    def _drawn(self, queries: Queries, noise: NDArray[np.uint64], progress: Progress | None) -> NDArray[np.int64]:
        drawn, shares = self.prepare(queries), self.order_share(queries)
        out = np.empty((*noise.shape, self.k), np.int64)
        over_queries(
            lambda start, stop: kernels.sample_queries(
                queries.offsets, drawn.order, drawn.scores, self.scale, self.thresholds, noise,
                *memory_for(int(queries.n_items[start:stop].max()))[:2], start, stop, out,
            ),
            queries.offsets,
            progress,
        )  # fmt: skip
        if shares.any():
            ordered = coins(noise) < shares[:, None]
            out[ordered] = leading(queries, self.k)[np.nonzero(ordered)[0]]
        return out

    def rank(
        self,
        scores: ArrayLike,
        query_id: object = None,
        session: object = None,
        k: int | None = None,
        item_ids: Sequence[Any] | NDArray[Any] | None = None,
        groups: object = None,
    ) -> NDArray[np.int64]:
        """Return one order of one query, for serving.

        Scores on another scale than the calibration queries' are ranked all the same, and no promise covers them: a
        ranker does not know what calibration saw. `isrr serve`, `isrr rank` and `isrr check` do, and say so.

        Args:
            scores: Raw scores of the candidates, (n_items,); finite numbers.
            query_id: The query; required with a session, as both together determine the draw.
            session: With the same session, the same query gets the same order, however often and however far it is
                asked for; another session gets another draw. Without one, or with "", every call is a fresh draw.
            k: How many positions to fill, by default the ranker's k; the first positions do not depend on it.
            item_ids: Ids of the candidates, (n_items,). Equal scores are ordered by a hash of the query's id, its
                scores and these ids (without ids, the candidates' positions), as at calibration.
            groups: For each candidate its group, a list of groups, or None where it is missing; read by a ranker with
                a boost.

        Returns:
            Positions within `scores`, (min(k, n_items),).

        Example:
            >>> GPLRanker().rank([0.3, 2.0, 1.1], query_id="q7", session="u42", k=3)
            array([1, 0, 2])
        """
        ranking: NDArray[np.int64] = self._serve(False, scores, query_id, session, k, item_ids, groups)
        return ranking

    def rank_with_propensity(
        self,
        scores: ArrayLike,
        query_id: object = None,
        session: object = None,
        k: int | None = None,
        item_ids: Sequence[Any] | NDArray[Any] | None = None,
        groups: object = None,
    ) -> ServedList:
        """Return what `rank` returns, with the propensity of each position and the order by score.

        Example:
            >>> GPLRanker().rank_with_propensity([0.3, 2.0, 1.1], "q7", "u42", k=3).propensity.round(3)
            array([0.629, 0.31 , 1.   ])
        """
        served: ServedList = self._serve(True, scores, query_id, session, k, item_ids, groups)
        return served

    def _serve(
        self,
        propensities: bool,
        scores: ArrayLike,
        query_id: object,
        session: object,
        k: int | None,
        item_ids: Sequence[Any] | NDArray[Any] | None,
        groups: object,
    ) -> Any:
        """Rank one query; with propensities, return a `ServedList`."""
        raw = servable(scores)
        if item_ids is not None and len(item_ids) != raw.size:
            raise DataError(f"there are {len(item_ids)} item ids and {raw.size} scores; expected one id per score")
        drawn_by, thresholds = self._requested(raw, groups), self._served(raw, k)
        noise = self.noise_stream(query_id, session)
        if not (propensities or self.floor or self.anchor or self.boost):
            ranking = kernels.rank_one(raw, drawn_by, self.scale, thresholds, noise)
            if ranking.size:
                return ranking
        floor, _, weights = self.mixture
        for_floor: tuple[Any, ...] = NO_FLOOR
        if floor:
            for_floor = *laguerre_rules(), *memory_for(raw.size, weights.shape[1], len(weights))
        arguments = bool(self.boost), propensities, self.scale, thresholds, noise, *self.mixture, *for_floor
        served = kernels.serve_one(raw, drawn_by, NO_NAMES, *arguments)
        if not served[0].size:  # only where scores are equal are ids hashed
            served = kernels.serve_one(raw, drawn_by, hashed_names(query_id, item_ids, raw.size), *arguments)
            if not served[0].size:
                refuse_infinite(raw)
        return ServedList(*served) if propensities else served[0]

    def _requested(self, raw: FloatArray, groups: object) -> FloatArray:
        """Return the scores of one request used for drawing: mapped and boosted, (n_items,)."""
        if not self.boost:
            return self.mapped(raw)
        additions = additions_of_request(self.boost, self.boost_missing, groups, raw.size)
        return self.mapped(raw) + self.deviation * additions

    def _served(self, raw: FloatArray, k: int | None) -> FloatArray:
        """Return the thresholds of the positions to fill, (positions,)."""
        if k is None:
            return self.thresholds if self.k <= raw.size else self.thresholds[: raw.size]
        if not is_length(k):
            raise DataError(f"k must be a whole number ≥ 1, got {k!r}; it is the number of positions to fill")
        positions = min(int(k), raw.size)
        return self.thresholds[:positions] if positions <= self.k else _expanded(self.threshold, self.decay, positions)

    def log_prob(self, rankings: ArrayLike, queries: Queries) -> FloatArray:
        """Log probability of given rankings, (n_queries, …); −inf for one that cannot be drawn.

        `rankings` are positions within the query as `sample` returns them, (n_queries, …, ≤ k).
        """
        return np.asarray(self._log_propensity(rankings, queries).sum(axis=-1))

    def propensity(self, rankings: ArrayLike, queries: Queries) -> FloatArray:
        """Return the chance of each placed item given those above it; shaped as `rankings`, 1 where there is none."""
        return np.exp(self._log_propensity(rankings, queries))

    def _log_propensity(self, rankings: ArrayLike, queries: Queries) -> FloatArray:
        checked = checked_rankings(rankings, queries)
        if checked.shape[-1] > self.k:
            need = f"({len(queries)}, …, at most {self.k})"
            raise DataError(f"rankings have shape {checked.shape}; expected {need}")
        lists = np.ascontiguousarray(checked.reshape(len(queries), -1, checked.shape[-1]))
        drawn, shares, out = self.prepare(queries), self.order_share(queries), np.empty(lists.shape)
        over_queries(
            lambda start, stop: kernels.log_chances_of_queries(
                queries.offsets, drawn.order, drawn.scores, self.scale, self.thresholds, lists, queries.by_score,
                shares, start, stop, out,
            ),
            queries.offsets,
        )  # fmt: skip
        return out.reshape(checked.shape)

    def noise_stream(self, query_id: object, session: object) -> int:
        """Return the noise of a session's draw for a query, as a signed number of 64 bits.

        Without a session, or with "", it is another at every call.
        """
        return session_noise(self._key, query_id, session)

    @cached_property
    def _key(self) -> bytes:
        return session_key(repr(self.of_length(1)))  # how many positions are asked for must not change the draw
