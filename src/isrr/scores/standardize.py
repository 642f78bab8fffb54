"""From raw scores to scores: an optional increasing map, then the mean and deviation of the validation set.

Ranking is untouched (both steps are strictly increasing); what changes is how much a difference in score weighs in
the softmax, and on which scale thresholds and temperatures are given.

Paper: appendix D.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError
from isrr.gains import Gain, gain_of
from isrr.scores._kernels import map_scores

LEAST_GAIN = 0.02  # of the mean gain: the logarithm of less would let the tail run away
LEAST_STEP = 1e-80  # between scores; slopes and quotients of less would overflow


@dataclass(frozen=True)
class ScoreMap:
    """A strictly increasing, piecewise linear map of raw scores; beyond its ends it goes on straight.

    Two raw scores next to each other may be rounded to one; never does the smaller come out larger.

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
                raise ValueError("a score map needs equally many inputs and outputs, two or more")
            if not np.isfinite(knots).all() or (np.diff(knots) <= 0).any():
                raise ValueError(f"the {name} of a score map must be finite and strictly increasing")

    def __call__(self, raw_scores: ArrayLike) -> FloatArray:
        raw = np.asarray(raw_scores, np.float64)
        mapped: FloatArray = map_scores(raw.ravel(), *self._knots)
        return mapped.reshape(raw.shape)

    @cached_property
    def _knots(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        inputs, outputs = np.array(self.inputs), np.array(self.outputs)
        return inputs, outputs, np.diff(outputs) / np.diff(inputs)


def mean_and_deviation(queries: Queries, score_map: ScoreMap | None = None) -> tuple[float, float]:
    """Mean and standard deviation of the (mapped) raw scores, over the rows of all queries."""
    raw_scores = queries.need_scores()
    mapped = np.sort(raw_scores if score_map is None else score_map(raw_scores))  # sums that no row order changes
    deviation = float(np.std(mapped))
    if mapped[0] == mapped[-1]:
        raise DataError("all scores are equal: they rank nothing, and have no deviation to divide by")
    if deviation < LEAST_STEP:
        raise DataError(
            f"the scores lie between {mapped[0]:g} and {mapped[-1]:g}; a deviation below {LEAST_STEP:g} is too small "
            "to divide by: multiply them by a constant"
        )
    return float(np.mean(mapped)), deviation


def fit_log_gain(queries: Queries, gain: Gain = "exponential") -> ScoreMap | None:
    """The map raw score → log E[gain | score], fitted by isotonic regression and made strictly increasing.

    Fair exposure is proportional to gain, and Plackett–Luce weights exp(score) are proportional to it when the score is
    the logarithm of the expected gain. The fit's steps become straight lines between the centres of its blocks, so the
    order of items is kept. None when the scores say nothing about the gain.
    """
    from scipy.optimize import isotonic_regression

    raw_scores, gains = queries.need_scores(), gain_of(queries.need_relevance(), gain)
    order = np.lexsort((gains, raw_scores))
    fit = isotonic_regression(gains[order])
    starts = fit.blocks[:-1]
    centre = np.add.reduceat(raw_scores[order], starts) / np.diff(fit.blocks)
    level = np.maximum(fit.x[starts], LEAST_GAIN * gains.mean()) if gains.any() else fit.x[starts] + 1.0
    inputs, outputs = np.maximum.accumulate(centre), np.maximum.accumulate(np.log(level))
    rises = np.concatenate(([True], (np.diff(inputs) > LEAST_STEP) & (np.diff(outputs) > 0)))
    if rises.sum() < 2:
        return None
    return ScoreMap(tuple(inputs[rises].tolist()), tuple(outputs[rises].tolist()))
