"""The order in which configurations are tested, fixed without the calibration queries.

A path runs from the safest configuration to the one that gives up most. Fixed-sequence testing has no price for length,
so paths are fine; it stops at the first configuration that fails, so their order is what matters.

temperature   Plackett–Luce from cold to hot: the best path that needs no labels
front         the Pareto front over (temperature, threshold, decay, score map) on validation queries
thresholds    thresholds at the quantiles of eligibility, temperature 1
paper         21 equally spaced thresholds from 0 to the largest eligibility, temperature 1

Deterministic comes first when utility is promised and last when fairness is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from isrr.data.queries import FloatArray, Queries
from isrr.guarantee import Guarantee
from isrr.metrics.evaluate import Evaluation, evaluate
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.thresholds import quantile_grid, uniform_grid
from isrr.scores.standardize import ScoreMap, fit_log_gain, mean_and_deviation

NAMES = ("auto", "temperature", "front", "thresholds", "paper")
N_TEMPERATURES = 120
COLDEST, HOTTEST = 0.02, 5.0
MOST_ON_FRONT = 150
FRONT_TEMPERATURES = np.geomspace(0.03, HOTTEST, 56)
FRONT_QUANTILES = (0.5, 0.75, 0.9)
FRONT_DECAYS = (0.6,)
HOPELESS = -5.0  # standard errors by which a configuration misses its promise on validation, and is not tested


@dataclass(frozen=True)
class Path:
    """Configurations in the order they are tested.

    Attributes:
        rankers: Safest first.
        name: What kind of path it is.
        basis: What it was fixed by, in words for the certificate.
        falling: Whether what is to be minimised falls along the path, so that the last one certified is the best.
    """

    rankers: tuple[GPLRanker, ...]
    name: str
    basis: str
    falling: bool = True


def temperature_path(k: int, deviation: float, mean: float, guarantees: Sequence[Guarantee], basis: str) -> Path:
    """Plackett–Luce at temperatures from 0.02 to 5 score deviations."""
    hot = [
        GPLRanker(k=k, temperature=float(t), mean=mean, deviation=deviation)
        for t in np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES)
    ]
    return _directed([GPLRanker.deterministic(k), *hot], guarantees, "temperature", basis)


def threshold_path(
    queries: Queries, k: int, guarantees: Sequence[Guarantee], *, paper: bool, basis: str, fixed_by: Queries
) -> Path:
    """Thresholds at temperature 1, from the largest eligibility down, on the quantiles or equally spaced."""
    mean, deviation = mean_and_deviation(fixed_by)
    eligibility = GPLRanker(k=k, mean=mean, deviation=deviation).eligibility(queries)
    grid = uniform_grid(eligibility) if paper else quantile_grid(eligibility)
    rankers = [GPLRanker(k=k, threshold=float(t), mean=mean, deviation=deviation) for t in grid[::-1]]
    path = _directed([GPLRanker.deterministic(k), *rankers], guarantees, "paper" if paper else "thresholds", basis)
    return replace(path, falling=False)


def front_path(validation: Queries, k: int, guarantees: Sequence[Guarantee], basis: str) -> Path:
    """The configurations no other one beats in both utility and disparity on the validation queries.

    For promises of one kind they come ordered by validation utility. For promises of both kinds they come ordered by
    the smallest slack of any promise, in standard errors: the safe configurations lie in the middle of the front.
    """
    rankers, measured = _candidates(validation, k, guarantees)
    slack = smallest_slack(measured, guarantees)
    front = pareto_front(measured.mean_ndcg, measured.mean_disparity)
    reachable = front[(slack[front] > HOPELESS) | np.array([rankers[c].is_deterministic for c in front])]
    if _mixed(guarantees):
        order = reachable[np.argsort(-slack[reachable], kind="stable")][:MOST_ON_FRONT]
        return Path(tuple(rankers[c] for c in order), "front", basis, falling=False)
    fine = _refined([rankers[c] for c in reachable], measured.mean_ndcg[reachable])
    return _directed(fine, guarantees, "front", basis)


def pareto_front(utility: ArrayLike, disparity: ArrayLike) -> np.ndarray:
    """Indices of the undominated points, by falling utility; of equal points the first.

    Example:
        >>> pareto_front([0.5, 0.4, 0.45, 0.3], [0.2, 0.1, 0.3, 0.1])
        array([0, 1])
    """
    u, d = np.asarray(utility), np.asarray(disparity)
    by_utility = np.lexsort((np.arange(u.size), d, -u))
    lowest = np.minimum.accumulate(d[by_utility])
    improves = np.concatenate(([True], lowest[1:] < lowest[:-1]))
    return by_utility[improves]


def smallest_slack(measured: Evaluation, guarantees: Sequence[Guarantee]) -> FloatArray:
    """For each configuration the least of (alpha − mean loss) / standard error over the promises."""
    slack = np.full(measured.ndcg.shape[1], np.inf)
    for guarantee in guarantees:
        values = measured.ndcg if guarantee.utility else measured.normalized_disparity
        if guarantee.metric == "disparity":
            values = measured.disparity
        kept = values[~np.isnan(values[:, 0])]
        losses = guarantee.losses(kept, kept[:, 0])
        error = np.maximum(losses.std(axis=0) / np.sqrt(len(losses)), 1e-9)
        slack = np.minimum(slack, (guarantee.alpha - losses.mean(axis=0)) / error)
    return slack


def _refined(rankers: list[GPLRanker], utility: FloatArray) -> list[GPLRanker]:
    """More configurations between neighbours of one family, the more the further their utilities lie apart."""
    room = MOST_ON_FRONT - len(rankers)
    gaps = np.abs(np.diff(utility))
    if room <= 0 or gaps.sum() == 0:
        keep = np.unique(np.linspace(0, len(rankers) - 1, MOST_ON_FRONT).round().astype(int))
        return [rankers[c] for c in keep]
    fine = [rankers[0]]
    for before, after, extra in zip(rankers, rankers[1:], (room * gaps / gaps.sum()).astype(int), strict=False):
        same_family = (before.score_map, before.decay) == (after.score_map, after.decay)
        if same_family and not before.is_deterministic:
            for share in np.arange(1, extra + 1) / (extra + 1):
                temperature = before.temperature ** (1 - share) * after.temperature**share
                threshold = before.threshold * (1 - share) + after.threshold * share
                fine.append(replace(after, temperature=float(temperature), threshold=float(threshold)))
        fine.append(after)
    return fine


def _candidates(
    validation: Queries, k: int, guarantees: Sequence[Guarantee]
) -> tuple[list[GPLRanker], Evaluation]:
    guarantee = guarantees[0]
    # Smoothed exposures, which decay below 1 needs, can leave the hull of rankings: no losses for a fairness promise.
    decays = FRONT_DECAYS if all(g.utility for g in guarantees) else ()
    fitted = fit_log_gain(validation, guarantee.gain_kind)
    maps: list[ScoreMap | None] = [None] if fitted is None else [None, fitted]
    rankers = [GPLRanker.deterministic(k)]
    for score_map in maps:
        mean, deviation = mean_and_deviation(validation, score_map)
        base = GPLRanker(k=k, mean=mean, deviation=deviation, score_map=score_map)
        rankers += [replace(base, temperature=float(t)) for t in FRONT_TEMPERATURES]
        for temperature in FRONT_TEMPERATURES[20::3]:
            warm = replace(base, temperature=float(temperature))
            levels = np.quantile(warm.eligibility(validation), FRONT_QUANTILES)
            rankers += [replace(warm, threshold=float(level)) for level in levels]
            rankers += [replace(warm, threshold=float(levels[-1]), decay=decay) for decay in decays]
    options = {"gain_kind": guarantee.gain_kind, "empty_query": guarantee.empty_query}
    return rankers, evaluate(validation, rankers, n_draws=20, **options)  # type: ignore[arg-type]


def _mixed(guarantees: Sequence[Guarantee]) -> bool:
    return len({guarantee.utility for guarantee in guarantees}) > 1


def _directed(rankers: list[GPLRanker], guarantees: Sequence[Guarantee], name: str, basis: str) -> Path:
    """Utility promised: deterministic first. Fairness promised: deterministic last."""
    safest_first = rankers if guarantees[0].utility else rankers[::-1]
    return Path(tuple(safest_first), name, basis, falling=not _mixed(guarantees))
