"""The order in which configurations are tested, fixed without the queries they are tested on.

A path runs from the safest configuration to the one that gives up most. Fixed-sequence testing has no price for length,
so paths are fine; it stops at the first configuration that fails, so their order is what matters.

temperature   Plackett–Luce from cold to hot: the best path that needs no labels
front         the best family on validation queries: score map, admitted share, then temperature
thresholds    thresholds at the quantiles of eligibility, temperature 1
paper         21 equally spaced thresholds from 0 to the largest eligibility, temperature 1; the paper takes it over the
              tested queries, and so does `calibrate` where no others are given: such a certificate carries a warning

Deterministic comes first when utility is promised and last when fairness is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isrr.calibration.values import values_of
from isrr.data.queries import FloatArray, Queries
from isrr.guarantee import Guarantee, move_together
from isrr.metrics.evaluate import evaluate
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.thresholds import quantile_grid, uniform_grid
from isrr.scores.standardize import ScoreMap, fit_log_gain, mean_and_deviation

NAMES = ("auto", "temperature", "front", "thresholds", "paper")
N_TEMPERATURES = 120
COLDEST, HOTTEST = 0.02, 5.0
MOST_TESTED = 150
HOPELESS = -3.0  # standard errors by which a promise is missed on validation queries
COARSE_TEMPERATURES = np.geomspace(COLDEST, HOTTEST, 32)
SHARES_TURNED_AWAY = (0.0, 0.3, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class Path:
    """Configurations in the order they are tested.

    Attributes:
        rankers: Safest first.
        name: What kind of path it is.
        basis: What it was fixed by, in words for the certificate.
    """

    rankers: tuple[GPLRanker, ...]
    name: str
    basis: str


def temperature_path(k: int, deviation: float, mean: float, guarantees: Sequence[Guarantee], basis: str) -> Path:
    """Plackett–Luce at temperatures from 0.02 to 5 score deviations."""
    hot = [
        GPLRanker(k=k, temperature=float(t), mean=mean, deviation=deviation)
        for t in np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES)
    ]
    return _directed([GPLRanker.deterministic(k), *hot], guarantees, "temperature", basis)


def threshold_path(fixed_by: Queries, k: int, guarantees: Sequence[Guarantee], *, paper: bool, basis: str) -> Path:
    """Thresholds at temperature 1, from the largest eligibility down, on the quantiles or equally spaced."""
    mean, deviation = mean_and_deviation(fixed_by)
    eligibility = GPLRanker(k=k, mean=mean, deviation=deviation).eligibility(fixed_by)
    grid = uniform_grid(eligibility) if paper else quantile_grid(eligibility)
    rankers = [GPLRanker(k=k, threshold=float(t), mean=mean, deviation=deviation) for t in grid[::-1]]
    return _directed([GPLRanker.deterministic(k), *rankers], guarantees, "paper" if paper else "thresholds", basis)


def front_path(validation: Queries, k: int, guarantees: Sequence[Guarantee], basis: str) -> Path:
    """The family that does best at the promise on the validation queries, from cold to hot.

    A family is a score map (none, or log-gain) and a share of the items that thresholds turn away at every temperature.
    Its curve over temperature is smooth, so a fixed sequence along it is not stopped by one unlucky configuration, as
    it is along the front of single configurations. Where fairness is promised it starts at the fairest temperature:
    beyond that, lists hardly longer than k get less fair again. For promises of both kinds, or about groups,
    configurations of all families come in the order of their slack: the safe ones may lie anywhere on the curves.
    """
    families = _families(validation, k, guarantees[0])
    grids = [[GPLRanker.deterministic(k), *family.curve(COARSE_TEMPERATURES, validation)] for family in families]
    trials = [_Trial.on(validation, grid, guarantees) for grid in grids]
    if not move_together(guarantees):
        slack = {ranker: value for trial in trials for ranker, value in zip(trial.grid, trial.slack, strict=True)}
        plausible = sorted((ranker for ranker in slack if slack[ranker] > HOPELESS), key=lambda ranker: -slack[ranker])
        tested = plausible[:: -(-len(plausible) // MOST_TESTED)] if plausible else [max(slack, key=slack.__getitem__)]
        return Path(tuple(tested), "front", basis)
    best = min(range(len(families)), key=lambda family: trials[family].regret())
    temperatures = np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES)
    fine = families[best].curve(temperatures[temperatures <= trials[best].hottest()], validation)
    return _directed([GPLRanker.deterministic(k), *fine], guarantees, "front", basis)


@dataclass(frozen=True)
class _Family:
    """Configurations that differ in temperature alone, given a score map and a share of items turned away."""

    base: GPLRanker
    turned_away: float

    def curve(self, temperatures: FloatArray, queries: Queries) -> list[GPLRanker]:
        rankers = [replace(self.base, temperature=float(t)) for t in temperatures]
        if self.turned_away == 0.0:
            return rankers
        levels = [float(np.quantile(ranker.eligibility(queries), self.turned_away)) for ranker in rankers]
        return [replace(ranker, threshold=level) for ranker, level in zip(rankers, levels, strict=True)]


def _families(validation: Queries, k: int, guarantee: Guarantee) -> list[_Family]:
    fitted = fit_log_gain(validation, guarantee.gain_kind)
    maps: list[ScoreMap | None] = [None] if fitted is None else [None, fitted]
    families = []
    for score_map in maps:
        mean, deviation = mean_and_deviation(validation, score_map)
        base = GPLRanker(k=k, mean=mean, deviation=deviation, score_map=score_map)
        families += [_Family(base, share) for share in SHARES_TURNED_AWAY]
    return families


@dataclass(frozen=True, eq=False)
class _Trial:
    """A family tried on the validation queries.

    Attributes:
        grid: Its configurations from cold to hot.
        slack: For each the least of (alpha − mean loss) / standard error over the promises.
        cost: What is to be minimised.
        utility: Whether it is utility that is promised, so that the coldest is the safest.
    """

    grid: Sequence[GPLRanker]
    slack: FloatArray
    cost: FloatArray
    utility: bool

    @classmethod
    def on(cls, queries: Queries, grid: Sequence[GPLRanker], guarantees: Sequence[Guarantee]) -> "_Trial":
        first = guarantees[0]
        found = evaluate(queries, grid, gain_kind=first.gain_kind, empty_query=first.empty_query)
        slack = [_slack(values_of(found, guarantee, queries, grid), guarantee) for guarantee in guarantees]
        cost = found.mean_disparity if first.utility else -found.mean_ndcg
        return cls(grid, np.min(slack, axis=0), cost, first.utility)

    def safest_first(self) -> slice:
        """The configurations in the order they would be tested."""
        return slice(None) if self.utility else slice(int(np.argmax(self.slack)), None, -1)

    def hottest(self) -> float:
        """The temperature beyond which this family has nothing to offer."""
        return HOTTEST if self.utility else float(self.grid[int(np.argmax(self.slack))].temperature)

    def regret(self) -> tuple[float, float]:
        """What families are chosen by, smallest first: how doubtful the first test is, then what the promises cost.

        The first is what the safest configuration lacks of two standard errors to spare: where it fails, nothing is
        certified. The cost is the least of those with one to spare, as all safer ones have; between the last of them
        and the next it is interpolated.
        """
        slack, cost = self.slack[self.safest_first()] - 1.0, self.cost[self.safest_first()]
        doubt = max(1.0 - float(slack[0]), 0.0)
        last = int(np.argmax(slack < 0)) if (slack < 0).any() else slack.size
        if last in (0, slack.size):
            return doubt, float(cost[: last + 1].min())
        share = slack[last - 1] / (slack[last - 1] - slack[last])
        return doubt, float(min(cost[:last].min(), cost[last - 1] + share * (cost[last] - cost[last - 1])))


def _slack(values: FloatArray, guarantee: Guarantee) -> FloatArray:
    kept = values[~np.isnan(values[:, 0])]
    losses = guarantee.losses(kept, kept[:, 0])
    error = np.maximum(losses.std(axis=0) / np.sqrt(len(losses)), 1e-9)
    return np.asarray((guarantee.alpha - losses.mean(axis=0)) / error)


def _directed(rankers: list[GPLRanker], guarantees: Sequence[Guarantee], name: str, basis: str) -> Path:
    """Utility promised: deterministic first. Fairness promised: deterministic last."""
    safest_first = rankers if guarantees[0].utility else rankers[::-1]
    return Path(tuple(safest_first), name, basis)
