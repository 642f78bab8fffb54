"""The generalized Plackett–Luce ranker: one draw per position among the items that are eligible there.

    eligibility(d) = softmax(scores / temperature)(d)        the chance of first place under Plackett–Luce
    position j admits the unplaced items with eligibility ≥ threshold · decay^(j−1), and draws one with
    probability ∝ exp(score / temperature); if none is admitted, it takes the best unplaced item.

Threshold 0 is Plackett–Luce; a threshold above every eligibility is the deterministic order.

Paper: section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.identifiers import Ids, identifier_key, identifier_text
from isrr.data.ordering import NO_IDS
from isrr.data.queries import FloatArray, Queries
from isrr.data.rankings import checked_rankings
from isrr.errors import DataError
from isrr.gains import discount
from isrr.noise import CALIBRATION, stream_seed, streams
from isrr.parallel import Progress, over_queries
from isrr.ranker._exposure_kernels import exposure_of_queries
from isrr.ranker._kernels import eligibility_of_queries, rank_one, sample_queries
from isrr.ranker._nodes import laguerre_rules
from isrr.ranker._propensity_kernels import place_probabilities_of_queries, rank_one_with_propensity
from isrr.ranker.serving import ServedList, is_length, refuse_infinite, servable, session_key, session_noise
from isrr.ranker.thresholds import expand
from isrr.scores.standardize import ScoreMap

DETERMINISTIC = 2.0  # eligibility is a probability: a threshold above 1 admits nobody
SMOOTHING_DRAWS = 100


@dataclass(frozen=True)
class GPLRanker:
    """Generalized Plackett–Luce, on top of the scores of any model.

    Attributes:
        k: Length of the lists that are evaluated; longer ones can still be asked for when serving.
        threshold: Least eligibility at the first position, ≥ 0.
        decay: Factor from one position's threshold to the next, in (0, 1].
        temperature: Softness of the draw, > 0; small values approach the deterministic order.
        mean, deviation: Standardisation of the (mapped) raw scores.
        score_map: Strictly increasing map of raw scores, applied first.

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

    def __post_init__(self) -> None:
        if not is_length(self.k):
            raise ValueError(f"k must be a whole number ≥ 1, got {self.k!r}; it is the length of the list")
        object.__setattr__(self, "k", int(self.k))
        checks = {
            "threshold": (self.threshold >= 0 and np.isfinite(self.threshold), "a number ≥ 0"),
            "decay": (0 < self.decay <= 1, "in (0, 1]"),
            "temperature": (self.temperature > 0 and np.isfinite(self.temperature), "a number > 0"),
            "mean": (np.isfinite(self.mean), "finite"),
            "deviation": (self.deviation > 0 and np.isfinite(self.deviation), "a number > 0"),
        }
        for name, (good, need) in checks.items():
            if not good:
                raise ValueError(f"{name} must be {need}, got {getattr(self, name)!r}")
            object.__setattr__(self, name, float(getattr(self, name)))
        softness = self.deviation * self.temperature
        if not (0 < softness < np.inf and self.scale < np.inf):
            raise ValueError(
                f"temperature {self.temperature:g} times deviation {self.deviation:g} is {softness:g}; scores are "
                "divided by it, and it must neither vanish nor run over"
            )

    @classmethod
    def plackett_luce(cls, k: int = 5, temperature: float = 1.0, deviation: float = 1.0) -> GPLRanker:
        """The limit in which every item is eligible everywhere."""
        return cls(k=k, temperature=temperature, deviation=deviation)

    @classmethod
    def deterministic(cls, k: int = 5) -> GPLRanker:
        """The limit in which nobody is eligible and the best item is placed: the order by score."""
        return cls(k=k, threshold=DETERMINISTIC)

    @property
    def is_deterministic(self) -> bool:
        """Whether no position can ever draw among two items."""
        return bool(self.thresholds[-1] > 1.0)

    @cached_property
    def thresholds(self) -> FloatArray:
        """The threshold of each position, (k,)."""
        return expand(self.threshold, self.decay, self.k)

    @property
    def scale(self) -> float:
        """What a difference of (mapped) raw scores is multiplied by before the softmax."""
        return 1.0 / (self.deviation * self.temperature)

    def mapped(self, raw_scores: FloatArray) -> FloatArray:
        """Raw scores after the score map; standardising is left to `scale`, as a softmax ignores the mean."""
        return raw_scores if self.score_map is None else self.score_map(raw_scores)

    def eligibility(self, queries: Queries) -> FloatArray:
        """Each row's chance of first place under Plackett–Luce."""
        scores, order = self.mapped(queries.need_scores()), queries.by_score
        out = np.empty(queries.n_rows)
        over_queries(
            lambda start, stop: eligibility_of_queries(queries.offsets, order, scores, self.scale, start, stop, out),
            queries.offsets,
        )
        return queries.in_caller_order(out)

    def exposure(
        self,
        queries: Queries,
        *,
        n_draws: int = SMOOTHING_DRAWS,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Expected discount of each row's item: Σ_j θ_j · P(the item is placed at j).

        Exact (to 1e-7) for decay 1. For decay below 1, Rao–Blackwellised over `n_draws` draws: unbiased, and at each
        position every candidate counts with its chance of being drawn.
        """
        return self._expected(queries, discount(self.k), n_draws, seed, progress)

    def placement(self, queries: Queries, *, n_draws: int = SMOOTHING_DRAWS, seed: int = 0) -> FloatArray:
        """Chance of each row's item at each position, (n_rows, k); rows add up to the chance of being shown."""
        columns = [self._expected(queries, unit, n_draws, seed, None) for unit in np.eye(self.k)]
        return np.stack(columns, axis=1)

    def _expected(
        self, queries: Queries, weights: FloatArray, n_draws: int, seed: int, progress: Progress | None
    ) -> FloatArray:
        exact = self.decay == 1.0 or self.is_deterministic or self.threshold == 0.0
        if not exact and n_draws < 1:
            raise ValueError(f"n_draws must be ≥ 1 for decay below 1, got {n_draws}")
        scores, order = self.mapped(queries.need_scores()), queries.by_score
        keys = np.empty(0, np.uint64) if exact else queries.keys
        out, rules, name = np.empty(queries.n_rows), laguerre_rules(), stream_seed(seed, CALIBRATION)
        over_queries(
            lambda start, stop: exposure_of_queries(
                queries.offsets, order, scores, self.scale, self.thresholds, weights, rules,
                keys, name, 0 if exact else n_draws, start, stop, out,
            ),
            queries.offsets,
            progress,
        )  # fmt: skip
        return queries.in_caller_order(out)

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
        """One order of each query, (n_queries, k): what `rank` serves for that query id, session and item ids.

        −1 beyond the end of a list.
        """
        names = [[session_noise(self._key, query_id, session)] for query_id in queries.query_ids]
        return self._drawn(queries, np.array(names, np.uint64), progress)[:, 0]

    def _drawn(self, queries: Queries, noise: NDArray[np.uint64], progress: Progress | None) -> NDArray[np.int64]:
        scores, order = self.mapped(queries.need_scores()), queries.by_score
        out = np.empty((*noise.shape, self.k), np.int64)
        over_queries(
            lambda start, stop: sample_queries(
                queries.offsets, order, scores, self.scale, self.thresholds, noise, start, stop, out
            ),
            queries.offsets,
            progress,
        )
        return out

    def rank(
        self,
        scores: ArrayLike,
        query_id: object = None,
        session: object = None,
        k: int | None = None,
        item_ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> NDArray[np.int64]:
        """One order of one query, for serving.

        Scores on another scale than the calibration queries' are ranked all the same, and no promise covers them: a
        ranker does not know what calibration saw. `isrr serve`, `isrr rank` and `isrr evaluate` do, and say so.

        Args:
            scores: Raw scores of the candidates, (n_items,); finite numbers.
            query_id: The query; with a session it names the draw, and is needed there.
            session: With the same session, the same query gets the same order, however often and however far it is
                asked for; another session gets another draw. Without one, every call is a fresh draw.
            k: How many places to fill, the ranker's own k unless given; the first places do not depend on it.
            item_ids: Ids of the candidates, (n_items,). Equal scores are ordered by a hash of the query's id, its
                scores and these ids (without ids, the candidates' positions), as at calibration.

        Returns:
            Positions within `scores`, (min(k, n_items),).

        Example:
            >>> GPLRanker().rank([0.3, 2.0, 1.1], query_id="q7", session="u42", k=3)
            array([1, 0, 2])
        """
        ranking: NDArray[np.int64] = self._serve(rank_one, scores, query_id, session, k, item_ids)[0]
        return ranking

    def rank_with_propensity(
        self,
        scores: ArrayLike,
        query_id: object = None,
        session: object = None,
        k: int | None = None,
        item_ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> ServedList:
        """What `rank` returns, with the propensity of each place and the order by score beside it.

        Example:
            >>> GPLRanker().rank_with_propensity([0.3, 2.0, 1.1], "q7", "u42", k=3).propensity.round(3)
            array([0.629, 0.31 , 1.   ])
        """
        return ServedList(*self._serve(rank_one_with_propensity, scores, query_id, session, k, item_ids))

    def _serve(
        self,
        kernel: Any,
        scores: ArrayLike,
        query_id: object,
        session: object,
        k: int | None,
        item_ids: Sequence[Any] | NDArray[Any] | None,
    ) -> Any:
        """What a kernel makes of one query; ids are hashed only where scores are equal."""
        raw = servable(scores)
        if item_ids is not None and len(item_ids) != raw.size:
            raise DataError(f"there are {len(item_ids)} item ids and {raw.size} scores; expected one id per score")
        noise = session_noise(self._key, query_id, session)
        arguments = raw, self.mapped(raw), self.scale, self._served(raw, k), noise
        found = kernel(*arguments, np.uint64(0), NO_IDS)
        ranking, tied = found[0], found[-1]
        if ranking.size == 0:
            refuse_infinite(raw)
        if tied and not (query_id is None and item_ids is None):
            query = 0 if query_id is None else identifier_key(identifier_text(query_id))
            items = NO_IDS if item_ids is None else Ids.of(item_ids, "item_ids", raw.size).hashes()
            found = kernel(*arguments, np.uint64(query), items)
        return found

    def _served(self, raw: FloatArray, k: int | None) -> FloatArray:
        """The thresholds of the places to fill, (places,)."""
        if k is None:
            return self.thresholds[: raw.size]
        if not is_length(k):
            raise DataError(f"k must be a whole number ≥ 1, got {k!r}; it is the number of places to fill")
        places = min(int(k), raw.size)
        return self.thresholds[:places] if places <= self.k else expand(self.threshold, self.decay, places)

    def log_prob(self, rankings: ArrayLike, queries: Queries) -> FloatArray:
        """Log probability of given rankings, (n_queries, …); −inf for one that cannot be drawn.

        `rankings` are positions within the query as `sample` returns them, (n_queries, …, ≤ k).
        """
        return np.asarray(self._log_propensity(rankings, queries).sum(axis=-1))

    def propensity(self, rankings: ArrayLike, queries: Queries) -> FloatArray:
        """Chance of each placed item at its place given those above it; shaped as `rankings`, 1 where there is none."""
        return np.exp(self._log_propensity(rankings, queries))

    def _log_propensity(self, rankings: ArrayLike, queries: Queries) -> FloatArray:
        given = checked_rankings(rankings, queries)
        if given.shape[-1] > self.k:
            need = f"({len(queries)}, …, at most {self.k})"
            raise DataError(f"rankings have shape {given.shape}; expected {need}")
        lists = np.ascontiguousarray(given.reshape(len(queries), -1, given.shape[-1]))
        scores, order = self.mapped(queries.need_scores()), queries.by_score
        out = np.empty(lists.shape)
        over_queries(
            lambda start, stop: place_probabilities_of_queries(
                queries.offsets, order, scores, self.scale, self.thresholds, lists, start, stop, out
            ),
            queries.offsets,
        )
        return out.reshape(given.shape)

    @cached_property
    def _key(self) -> bytes:
        return session_key(repr(replace(self, k=1)))  # how many places are asked for must not change the draw
