"""Counting false certificates: at most delta of the tables may be certified for what is not so.

Populations are finite pools whose risks are known exactly: calibration queries are drawn from them with replacement,
each draw under a fresh id, and a certificate is false when a configuration that it allows breaks a promise on the pool.
The promise is put where it hurts: just beyond what some configuration along the path can keep, and every one before it
does. How often anything is certified is asked too, for a promise is easily kept by always abstaining.
"""

from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
from scipy.stats import binomtest

from isrr import GPLRanker, evaluate
from isrr.calibration.certify import certify
from isrr.calibration.moments import Moments
from isrr.calibration.paths import Path, front_path, temperature_path
from isrr.calibration.table import Cell, RiskTable
from isrr.calibration.values import values_of
from isrr.data.letor import read_letor
from isrr.data.synthetic import generate
from isrr.gains import ideal_dcg
from isrr.guarantee import Guarantee
from isrr.metrics.disparity import disparity_bound
from isrr.scores.standardize import mean_and_deviation

pytestmark = pytest.mark.guarantee

DELTA, REPEATS = 0.1, 2_000
MQ2007 = File(__file__).parents[3] / "shared" / "data" / "mq2007" / "S1.txt"
UTILITY, SHARE_OF_UTILITY = Guarantee("ndcg", 5, 0.5), Guarantee("ndcg", 5, 0.5, relative=True)
FAIRNESS = Guarantee("normalized_disparity", 5, 0.5)
SHARE_OF_DISPARITY = replace(FAIRNESS, relative=True)
GROUPS = Guarantee("group_exposure", 5, 0.5)


def scored(fitted_on, *others):
    """The others under a linear scorer."""
    weights, *_ = np.linalg.lstsq(fitted_on.features, fitted_on.relevance, rcond=None)
    return [queries.with_scores(queries.features @ weights) for queries in others]


def synthetic_pool():
    made = generate("small", seed=20230)
    return scored(made.train, made.validation, made.test)


def real_pool():
    if not MQ2007.exists():
        pytest.skip(f"needs {MQ2007}")
    queries = read_letor(MQ2007)
    return scored(queries[:80], queries[80:160], queries[160:])


@pytest.fixture(scope="module", params=[synthetic_pool, real_pool])
def pool(request):
    """Validation queries and the pool: those with a relevant item, of two segments, items in three groups."""
    rng, parts = np.random.default_rng(20230), []
    for queries in request.param():
        judged = queries[ideal_dcg(queries) > 0]
        relevant = np.add.reduceat(judged.relevance > 0, judged.offsets[:-1]) / judged.n_items
        segments = np.where(relevant > np.median(relevant), "rich", "poor")
        groups = rng.choice(["large", "middle", "small"], judged.n_rows, p=[0.6, 0.3, 0.1])
        parts.append(replace(judged, segments=segments, item_groups=groups))
    return parts


def thinned(path, n=10):
    keep = np.unique(np.linspace(0, len(path.rankers) - 1, n).round().astype(int))
    return replace(path, rankers=tuple(path.rankers[c] for c in keep))


def paths_for(validation, guarantee):
    mean, deviation = mean_and_deviation(validation)
    temperatures = thinned(temperature_path(5, deviation, mean, [guarantee], ""))
    yield temperatures  # monotone risk, or nearly so
    yield thinned(front_path(validation, 5, [guarantee], ""))  # a search in several dimensions
    places = np.arange(len(temperatures.rankers)) + np.random.default_rng(20230).normal(scale=2, size=10)
    shuffled = tuple(temperatures.rankers[c] for c in np.argsort(places))
    yield Path(shuffled, "shuffled", "")  # a risk that rises and falls, and any choice among survivors


class Population:
    """Losses of every promise for every configuration on the whole pool."""

    def __init__(self, queries, path):
        self.queries, self.path = queries, path
        self.grid = tuple(dict.fromkeys([GPLRanker.deterministic(), *path.rankers]))
        self.measured = evaluate(queries, self.grid)
        self._values = {}

    def values(self, guarantee):
        if guarantee.metric not in self._values:
            found = values_of(self.measured, guarantee, self.queries, self.grid)
            self._values[guarantee.metric] = found
        return self._values[guarantee.metric]

    def losses(self, guarantee):
        values = self.values(guarantee)
        return guarantee.losses(values, values[:, 0])

    def rows(self, guarantee):
        """The queries of each segment that a promise speaks of."""
        names = self.queries.segments
        return [names == name for name in np.unique(names)] if guarantee.per else [np.ones(len(names), bool)]

    def levels(self, guarantee):
        """The level that each configuration just keeps, where it is hardest, (n_grid,)."""
        values, worst = self.values(guarantee), min if guarantee.utility else max
        means = [values[rows].mean(axis=0) for rows in self.rows(guarantee)]
        kept = [mean / mean[0] if guarantee.relative else mean for mean in means]
        return [worst(levels) for levels in zip(*kept, strict=True)]

    def hurting(self, guarantee):
        """The promise at a level that one configuration, halfway, just cannot keep and all before it on the path do."""
        along = np.array([self.levels(guarantee)[self.grid.index(ranker)] for ranker in self.path.rankers])
        risk = -along if guarantee.utility else along
        riskier = [c for c in range(2, len(risk)) if risk[c] > max(risk[:c]) + 1e-3]
        at = along[riskier[len(riskier) // 2]]
        return guarantee.at(float(at + 1e-5 if guarantee.utility else at - 1e-5))

    def broken(self, guarantees, column):
        """Whether a configuration breaks one of the promises on the pool."""
        return any(
            self.losses(guarantee)[rows, column].mean() > guarantee.alpha
            for guarantee in guarantees
            for rows in self.rows(guarantee)
        )

    def false_certificates(self, guarantees, n, *, judged_by=None, delta=DELTA, repeats=REPEATS):
        """In how many runs a configuration is certified that breaks these promises (or others), and in how many any."""
        rng = np.random.default_rng([20230, n])
        parts = [(guarantee, rows) for guarantee in guarantees for rows in self.rows(guarantee)]
        losses = {guarantee: self.losses(guarantee) for guarantee in guarantees}
        broken = {c: self.broken(judged_by or guarantees, c) for c in range(len(self.grid))}
        moments = Moments.of(self.measured.ndcg, self.measured.disparity)
        wrong = certified = 0
        for _ in range(repeats):
            drawn = rng.integers(0, len(self.queries), n)
            keys = rng.integers(0, 2**63, n, dtype=np.uint64)
            cells = [
                Cell(guarantee, None, keys[rows[drawn]], losses[guarantee][drawn[rows[drawn]]])
                for guarantee, rows in parts
            ]
            table = RiskTable(self.grid, moments, tuple(cells), 0, "exact", 0)
            verdict = certify(table, self.path, delta=delta, evidence="betting", selection="fixed_sequence")
            certified += verdict.chosen is not None
            wrong += any(broken[column] for column in verdict.certified)  # whichever of them is chosen
        return wrong, certified


def within_delta(wrong, repeats=REPEATS):
    return binomtest(wrong, repeats, DELTA, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("n", [50, 200, 1_000])
def test_an_absolute_promise_is_false_at_most_delta_often(pool, n):
    validation, queries = pool
    for path in paths_for(validation, UTILITY):
        population = Population(queries, path)
        wrong, certified = population.false_certificates([population.hurting(UTILITY)], n)
        assert within_delta(wrong)
        assert certified > 0.5 * REPEATS


@pytest.mark.parametrize("guarantee", [SHARE_OF_UTILITY, FAIRNESS, SHARE_OF_DISPARITY, GROUPS], ids=str)
def test_other_promises_are_false_at_most_delta_often(pool, guarantee):
    validation, queries = pool
    for path in paths_for(validation, guarantee):
        population = Population(queries, path)
        wrong, certified = population.false_certificates([population.hurting(guarantee)], 400)
        assert within_delta(wrong)
        assert certified > 0.5 * REPEATS


def test_a_disparity_with_a_declared_bound_is_false_at_most_delta_often(pool):
    limit = np.quantile(disparity_bound(pool[1]), 0.7)
    validation, queries = (part[disparity_bound(part) <= limit] for part in pool)
    bounded = Guarantee("disparity", 5, 0.01, bound=float(limit))
    for path in paths_for(validation, bounded):
        population = Population(queries, path)
        wrong, certified = population.false_certificates([population.hurting(bounded)], 400)
        assert within_delta(wrong)
        assert certified > 0.5 * REPEATS


def test_two_promises_at_once_are_false_at_most_delta_often(pool):
    validation, queries = pool
    rankers = next(paths_for(validation, UTILITY)).rankers
    outward = sorted(range(len(rankers)), key=lambda c: abs(c - 5))
    population = Population(queries, Path(tuple(rankers[c] for c in outward), "outward", ""))
    hot, cold = (population.grid.index(rankers[c]) for c in (7, 3))
    promises = [
        UTILITY.at(population.levels(UTILITY)[hot] + 1e-5),  # the configurations between keep both
        FAIRNESS.at(population.levels(FAIRNESS)[cold] - 1e-5),
    ]
    wrong, certified = population.false_certificates(promises, 1_000)
    assert within_delta(wrong)
    assert certified > 0.5 * REPEATS


def test_a_promise_per_segment_is_false_at_most_delta_often_and_a_pooled_one_is_not_enough(pool):
    validation, queries = pool
    population = Population(queries, next(paths_for(validation, UTILITY)))
    promise = population.hurting(replace(UTILITY, per="segment"))
    wrong, certified = population.false_certificates([promise], 400)
    assert within_delta(wrong)
    assert certified > 0.5 * REPEATS
    pooled = replace(promise, per=None)
    wrong, _ = population.false_certificates([pooled], 400, judged_by=[promise], repeats=300)
    assert wrong > 2 * DELTA * 300  # the worse segment is not protected by the average


@pytest.mark.parametrize("guarantee", [UTILITY, FAIRNESS], ids=str)
def test_the_count_catches_a_level_that_is_too_large(pool, guarantee):
    validation, queries = pool
    population = Population(queries, next(paths_for(validation, guarantee)))
    promise = population.hurting(guarantee)
    wrong, _ = population.false_certificates([promise], 1_000, delta=3 * DELTA, repeats=300)
    assert not within_delta(wrong, 300)


def test_independent_configurations_at_the_boundary_need_the_fixed_sequence():
    rng, n, repeats = np.random.default_rng(20230), 300, 500
    path = Path(tuple(GPLRanker(temperature=1.0 + c) for c in range(21)), "custom", "")
    promise = Guarantee("ndcg", 5, 0.7)
    grid = (GPLRanker.deterministic(), *path.rankers)
    wrong = dict.fromkeys(("fixed_sequence", "bonferroni", "holm", "pointwise"), 0)
    for _ in range(repeats):
        losses = rng.binomial(1, promise.alpha + 1e-4, (n, 22)).astype(float)
        cell = Cell(promise, None, rng.integers(0, 2**63, n, dtype=np.uint64), losses)
        table = RiskTable(grid, Moments.of(1 - losses, losses), (cell,), 0, "exact", 0)
        for selection in wrong:
            verdict = certify(table, path, delta=DELTA, evidence="hoeffding_bentkus", selection=selection)
            wrong[selection] += verdict.chosen is not None
    for selection in ("fixed_sequence", "bonferroni", "holm"):
        assert within_delta(wrong[selection], repeats)
    assert not within_delta(wrong["pointwise"], repeats)
