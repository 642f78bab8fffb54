"""From raw scores to scores: an optional increasing map, then the middle and the spread of the validation set.

Ranking is untouched (both steps are strictly increasing); what changes is how much a difference in score weighs in
the softmax, and on which scale thresholds and temperatures are given. Both are fitted so that a few odd scores, of
promoted items or filled in where one was missing, leave them where they are.

Paper: appendix D.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError
from isrr.gains import Gain, gain_of
from isrr.ranker.kernels import map_scores

LEAST_GAIN = 0.02  # of the mean gain: the logarithm of less would let the tail run away
LEAST_STEP = 1e-80  # between scores; slopes and quotients of less would overflow
CONSISTENT = 1.4826  # the median distance from the median, times this, is the deviation of a normal distribution
KEPT = 5.0  # robust spreads from the median, within which scores count toward the deviation
FAR = 100  # deviations from a query's median, beyond which a score is odd
FLAT = 1e-3  # how much scores rise beyond the usual ones, as a share of the range of those


@dataclass(frozen=True)
class ScoreMap:
    """A strictly increasing, piecewise linear map of raw scores.

    Two adjacent raw scores may be rounded to the same value, but never change their order.

    Attributes:
        inputs: Raw scores at the knots, strictly increasing, two or more.
        outputs: Mapped scores there, strictly increasing.

    Example:
        >>> ScoreMap((0.0, 1.0), (0.0, 10.0))([0.5, 2.0])
        array([ 5., 20.])
    """

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(float(x) for x in self.inputs))
        object.__setattr__(self, "outputs", tuple(float(y) for y in self.outputs))
        for name in ("inputs", "outputs"):
            knots = np.array(getattr(self, name))
            if len(self.inputs) != len(self.outputs) or knots.size < 2:
                raise ValueError("expected a score map with as many inputs as outputs, at least two")
            if not np.isfinite(knots).all() or (np.diff(knots) <= 0).any():
                raise ValueError(f"the {name} of a score map must be finite and strictly increasing")

    def __call__(self, raw_scores: ArrayLike) -> FloatArray:
        raw = np.asarray(raw_scores, np.float64)
        mapped = np.empty(raw.shape)
        map_scores(raw.ravel(), *self._knots, mapped.ravel())  # a view, as the array is new
        return mapped

    @property
    def in_words(self) -> str:
        """What kind of map it is."""
        as_they_are = self.inputs[1:3] == self.outputs[1:3] or self.inputs[:2] == self.outputs[:2]
        return "far scores drawn in" if as_they_are else "log-gain score map"

    @cached_property
    def _knots(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        inputs, outputs = np.array(self.inputs), np.array(self.outputs)
        return inputs, outputs, np.diff(outputs) / np.diff(inputs)


class Scale(TypedDict):
    """How a ranker standardises raw scores, as its arguments."""

    mean: float
    deviation: float
    score_map: ScoreMap | None


def scale_of(queries: Queries, score_map: ScoreMap | None = None) -> Scale:
    """Return the scale of these queries under a map; without one, far scores are drawn in and others stay."""
    used = drawing_in(queries) if score_map is None else score_map
    mean, deviation = mean_and_deviation(queries, used)
    return {"mean": mean, "deviation": deviation, "score_map": used}


def mean_and_deviation(queries: Queries, score_map: ScoreMap | None = None) -> tuple[float, float]:
    """Middle and spread of the (mapped) raw scores within a typical query, whatever a minority of odd scores does.

    Only differences within a query matter to a softmax. The deviation is therefore the median, over the queries, of the
    standard deviation around the query's median, scores more than five robust spreads away from it left out: promoted
    items and fill values for missing scores do not move it. Where scores are so coarse that most queries have no
    spread, it is the median of the differences there are. The mean is the median of the queries' medians.
    """
    scores, away = _from_middle(queries, score_map)
    low, high, deviation = float(scores.min()), float(scores.max()), float(np.median(_spreads(queries, away)))
    if low == high:
        raise DataError("all scores are equal, so there is nothing to rank by")
    for differences in (away, scores - np.median(scores)):
        if deviation == 0.0 and (differences != 0).any():
            deviation = CONSISTENT * float(np.median(np.abs(differences[differences != 0])))
    if deviation < LEAST_STEP:
        raise DataError(
            f"the scores lie between {low:g} and {high:g}; a deviation below {LEAST_STEP:g} is too small to divide by: "
            "multiply them by a constant"
        )
    return float(np.median(_middle(queries, scores))), deviation


def far_scores(queries: Queries) -> tuple[int, int]:
    """Return how many scores lie more than 100 spreads above their query's median, and how many below.

    Example:
        >>> far_scores(Queries.from_arrays(scores=[1, 2, 3, 4, 1e6], group=[5]))
        (1, 0)
    """
    _, away = _from_middle(queries, None)
    far = FAR * mean_and_deviation(queries)[1]
    return int((away > far).sum()), int((away < -far).sum())


def drawing_in(queries: Queries) -> ScoreMap | None:
    """Return the map that draws far scores in, next to the rest, and leaves others; None where no score is far.

    How far out an odd score lies says nothing about its item, but would put it in the same place in every draw.
    """
    scores, away = _from_middle(queries, None)
    usual = scores[np.abs(away) <= FAR * mean_and_deviation(queries)[1]]
    low, high, lowest, highest = (float(end) for end in (usual.min(), usual.max(), scores.min(), scores.max()))
    if (low, high) == (lowest, highest) or low == high:
        return None
    rise = FLAT * (high - low)
    knots = [(low, low), (high, high)]
    if lowest < low:
        knots.insert(0, (lowest, low - rise))
    if highest > high:
        knots.append((highest, high + rise))
    return ScoreMap(*map(tuple, zip(*knots, strict=True)))


def _from_middle(queries: Queries, score_map: ScoreMap | None) -> tuple[FloatArray, FloatArray]:
    """Return the (mapped) raw scores of each query by falling score, and how far each is from its query's median."""
    rows = np.repeat(queries.offsets[:-1], queries.n_items) + queries.by_score
    raw_scores = queries.need_scores()[rows]
    scores = raw_scores if score_map is None else score_map(raw_scores)
    return scores, scores - np.repeat(_middle(queries, scores), queries.n_items)


def _spreads(queries: Queries, away: FloatArray) -> FloatArray:
    """Return the standard deviation around the median of each query of two items or more, far scores left out."""
    query = np.repeat(np.arange(len(queries)), queries.n_items)
    distance = np.abs(away)
    by_distance = distance[np.lexsort((-distance, query))]
    robust = CONSISTENT * _middle(queries, by_distance)
    near = by_distance <= KEPT * np.repeat(robust, queries.n_items)
    squares = np.add.reduceat(np.where(near, by_distance, 0.0) ** 2, queries.offsets[:-1])
    n_near = np.add.reduceat(near.astype(np.int64), queries.offsets[:-1])
    spreads = np.sqrt(squares / np.maximum(n_near - 1, 1))
    return spreads[queries.n_items > 1] if (queries.n_items > 1).any() else np.zeros(1)


def _middle(queries: Queries, ordered: FloatArray) -> FloatArray:
    """Return the median of each query's values, which stand in order within their query."""
    starts, last = queries.offsets[:-1], queries.n_items - 1
    middle: FloatArray = ordered[starts + last // 2] / 2 + ordered[starts + (last + 1) // 2] / 2
    return middle


def fit_log_gain(queries: Queries, gain: Gain = "exponential") -> ScoreMap | None:
    """Return the map raw score → log E[gain | score], fitted by isotonic regression and made strictly increasing.

    Fair exposure is proportional to gain, and Plackett–Luce weights exp(score) are proportional to it when the score is
    the logarithm of the expected gain. The fit's steps become straight lines between the centres of its blocks, so the
    order of items is kept. Far scores have no part in the fit, and are drawn in. None when the scores say nothing about
    the gain.
    """
    from scipy.optimize import isotonic_regression

    drawn = drawing_in(queries)
    raw_scores, gains = queries.need_scores(), gain_of(queries.need_relevance(), gain)
    if drawn is not None:
        unmoved = [x for x, y in zip(drawn.inputs, drawn.outputs, strict=True) if x == y]
        usual = (raw_scores >= unmoved[0]) & (raw_scores <= unmoved[-1])
        raw_scores, gains = raw_scores[usual], gains[usual]
    order = np.lexsort((gains, raw_scores))
    fit = isotonic_regression(gains[order])
    levels, edges = fit.x[fit.blocks[:-1]], fit.blocks
    centre = np.add.reduceat(raw_scores[order], edges[:-1]) / np.diff(edges)
    level = np.maximum(levels, LEAST_GAIN * gains.mean()) if gains.any() else levels + 1.0
    fitted = _rising(np.maximum.accumulate(centre), np.maximum.accumulate(np.log(level)))
    if fitted is None or drawn is None:
        return fitted
    inputs = np.union1d(fitted.inputs, drawn.inputs)
    return _rising(inputs, fitted(drawn(inputs)))


def _rising(inputs: FloatArray, outputs: FloatArray) -> ScoreMap | None:
    """Return the map through those of these knots that rise; None where fewer than two do."""
    rises = np.concatenate(([True], (np.diff(inputs) > LEAST_STEP) & (np.diff(outputs) > 0)))
    return ScoreMap(tuple(inputs[rises].tolist()), tuple(outputs[rises].tolist())) if rises.sum() > 1 else None
