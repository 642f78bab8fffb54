"""Counting false certificates: at most delta of the calibrations may promise what is not so.

Populations are finite pools whose risks are known exactly: calibration queries are drawn from them with replacement,
each draw under a fresh id, and a certificate is false when the chosen configuration breaks its promise on the pool.
The promise is put where it hurts: just beyond what the configuration in the middle of the path can keep.
"""

from pathlib import Path as File

import numpy as np
import pytest
from scipy.stats import binomtest

from isrr import GPLRanker, Queries, evaluate
from isrr.calibration.calibrate import calibrate
from isrr.calibration.certify import certify
from isrr.calibration.paths import Path, front_path, temperature_path, threshold_path
from isrr.calibration.table import Cell, Moments, RiskTable
from isrr.data.letor import read_letor
from isrr.data.synthetic import generate
from isrr.gains import ideal_dcg
from isrr.guarantee import Guarantee
from isrr.scores.standardize import mean_and_deviation

pytestmark = pytest.mark.guarantee

DELTA, REPEATS = 0.1, 2_000
MQ2007 = File(__file__).parents[3] / "shared" / "data" / "mq2007" / "S1.txt"
UTILITY = Guarantee("ndcg", 5, 0.5)


def synthetic_pool():
    made = generate("small", seed=20230)
    weights, *_ = np.linalg.lstsq(made.train.features, made.train.relevance, rcond=None)
    return made.validation.with_scores(made.validation.features @ weights), made.test.with_scores(
        made.test.features @ weights
    )


def real_pool():
    if not MQ2007.exists():
        pytest.skip(f"needs {MQ2007}")
    queries = read_letor(MQ2007)
    queries = queries.with_scores(queries.features[:, 24])  # BM25 of the whole document: a scorer nobody trained
    queries = queries[ideal_dcg(queries) > 0]
    return queries[:80], queries[80:]


@pytest.fixture(scope="module", params=[synthetic_pool, real_pool])
def pool(request):
    validation, queries = request.param()
    queries = queries[ideal_dcg(queries) > 0]
    segments = np.where(queries.n_items > np.median(queries.n_items), "long", "short")
    return validation, queries, segments


def thinned(path, n=24):
    keep = np.unique(np.linspace(0, len(path.rankers) - 1, n).round().astype(int))
    return Path(tuple(path.rankers[c] for c in keep), path.name, path.basis)


def paths_for(validation, guarantees):
    mean, deviation = mean_and_deviation(validation)
    yield thinned(temperature_path(5, deviation, mean, guarantees, ""))  # monotone risk
    yield thinned(front_path(validation, 5, guarantees, ""))  # a search in several dimensions
    thresholds = threshold_path(validation, 5, guarantees, paper=True, basis="")
    shuffled = np.random.default_rng(20230).permutation(len(thresholds.rankers))
    yield Path(tuple(thresholds.rankers[c] for c in shuffled), "shuffled", "", False)  # a risk curve of any shape


class Population:
    """Losses of every promise for every configuration on the whole pool."""

    def __init__(self, queries, segments, path):
        self.path = path
        self.grid = tuple(dict.fromkeys([GPLRanker.deterministic(), *path.rankers]))
        self.measured = evaluate(queries, self.grid, n_draws=20)
        self.segments = segments

    def values(self, guarantee):
        return self.measured.ndcg if guarantee.utility else self.measured.normalized_disparity

    def hurting(self, metric, relative=False, per=None):
        """A promise that the configuration in the middle of the path just cannot keep."""
        middle = self.grid.index(self.path.rankers[len(self.path.rankers) // 2])
        values = self.measured.ndcg if metric == "ndcg" else self.measured.normalized_disparity
        rows = [np.ones(len(values), bool)]
        if per:
            rows = [self.segments == name for name in np.unique(self.segments)]
        means = [(values[r, middle].mean(), values[r, 0].mean()) for r in rows]
        levels = [value / reference if relative else value for value, reference in means]
        level = min(levels) + 1e-5 if metric == "ndcg" else max(levels) - 1e-5
        return Guarantee(metric, 5, float(np.clip(level, 1e-3, 1 - 1e-3)), relative=relative, per=per)

    def broken(self, guarantees, column):
        """Whether a configuration breaks one of the promises on the pool."""
        for guarantee in guarantees:
            losses = guarantee.losses(self.values(guarantee), self.values(guarantee)[:, 0])[:, column]
            cells = [losses]
            if guarantee.per:
                cells = [losses[self.segments == name] for name in np.unique(self.segments)]
            if any(cell.mean() > guarantee.alpha for cell in cells):
                return True
        return False

    def false_certificates(self, guarantees, n, selection="fixed_sequence", repeats=REPEATS):
        rng = np.random.default_rng([20230, n])
        losses = [g.losses(self.values(g), self.values(g)[:, 0]) for g in guarantees]
        broken = {c: self.broken(guarantees, c) for c in range(len(self.grid))}
        wrong = certified = 0
        for _ in range(repeats):
            rows = rng.integers(0, len(self.segments), n)
            keys = rng.integers(0, 2**63, n, dtype=np.uint64)
            cells = []
            for guarantee, values in zip(guarantees, losses, strict=True):
                for segment in np.unique(self.segments) if guarantee.per else [None]:
                    chosen = rows if segment is None else rows[self.segments[rows] == segment]
                    cells.append(Cell(guarantee, segment, keys[: chosen.size], values[chosen]))
            moments = Moments.of(self.measured.ndcg[rows[:2]], self.measured.disparity[rows[:2]])
            table = RiskTable(self.grid, moments, tuple(cells), 0, "exact", 0)
            column = certify(table, self.path, delta=DELTA, evidence="betting", selection=selection).chosen
            certified += column is not None
            wrong += column is not None and broken[column]
        return wrong, certified


def within_delta(wrong, repeats=REPEATS):
    return binomtest(wrong, repeats, DELTA, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("n", [50, 200, 1_000])
def test_an_absolute_promise_is_false_at_most_delta_often(pool, n):
    validation, queries, segments = pool
    for path in paths_for(validation, [UTILITY]):
        population = Population(queries, segments, path)
        wrong, certified = population.false_certificates([population.hurting("ndcg")], n, repeats=REPEATS)
        assert within_delta(wrong)
        assert path.name == "shuffled" or n < 1_000 or certified > 0.05 * REPEATS  # not kept by always abstaining


def test_a_paired_promise_is_false_at_most_delta_often(pool):
    validation, queries, segments = pool
    for path in paths_for(validation, [UTILITY]):
        population = Population(queries, segments, path)
        wrong, _ = population.false_certificates([population.hurting("ndcg", relative=True)], 200)
        assert within_delta(wrong)


@pytest.mark.parametrize("relative", [False, True])
def test_a_promise_on_disparity_is_false_at_most_delta_often(pool, relative):
    validation, queries, segments = pool
    fair = Guarantee("normalized_disparity", 5, 0.5)
    for path in paths_for(validation, [fair]):
        population = Population(queries, segments, path)
        wrong, _ = population.false_certificates([population.hurting(fair.metric, relative)], 200)
        assert within_delta(wrong)


def test_two_promises_at_once_are_false_at_most_delta_often(pool):
    validation, queries, segments = pool
    for path in paths_for(validation, [UTILITY]):
        population = Population(queries, segments, path)
        promises = [population.hurting("ndcg"), population.hurting("normalized_disparity")]
        assert within_delta(population.false_certificates(promises, 200)[0])


def test_a_promise_per_segment_is_false_at_most_delta_often_and_a_pooled_one_is_not_enough(pool):
    validation, queries, segments = pool
    path = next(paths_for(validation, [UTILITY]))
    population = Population(queries, segments, path)
    promise = population.hurting("ndcg", per="segment")
    assert within_delta(population.false_certificates([promise], 400)[0])
    pooled = Guarantee("ndcg", 5, promise.target)
    rng, wrong = np.random.default_rng(20231), 0
    losses = pooled.losses(population.values(pooled), population.values(pooled)[:, 0])
    for _ in range(300):
        rows = rng.integers(0, len(segments), 400)
        cell = Cell(pooled, None, rng.integers(0, 2**63, 400, dtype=np.uint64), losses[rows])
        moments = Moments.of(population.measured.ndcg[rows[:2]], population.measured.disparity[rows[:2]])
        table = RiskTable(population.grid, moments, (cell,), 0, "exact", 0)
        column = certify(table, path, delta=DELTA, evidence="betting", selection="fixed_sequence").chosen
        wrong += column is not None and population.broken([promise], column)
    assert wrong > 2 * DELTA * 300  # the worse segment is not protected by the average


def test_independent_configurations_at_the_boundary_need_the_fixed_sequence():
    rng, n, repeats = np.random.default_rng(20230), 300, 500
    path = Path(tuple(GPLRanker(temperature=1.0 + c) for c in range(21)), "custom", "", False)
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


@pytest.mark.parametrize("options", [{}, {"path": "temperature"}, {"selection": "split"}])
def test_the_whole_procedure_is_false_at_most_delta_often(options):
    _, queries = synthetic_pool()
    queries = queries[ideal_dcg(queries) > 0]
    rng, repeats, wrong = np.random.default_rng(20230), 60, 0
    parts = [(queries.scores[s], queries.relevance[s]) for s in map(slice, queries.offsets[:-1], queries.offsets[1:])]
    for _ in range(repeats):
        drawn = [parts[i] for i in rng.integers(0, len(parts), 120)]
        resampled = Queries.from_arrays(
            scores=np.concatenate([scores for scores, _ in drawn]),
            relevance=np.concatenate([relevance for _, relevance in drawn]),
            query_ids=np.repeat(rng.integers(0, 2**60, 120), [scores.size for scores, _ in drawn]),
        )
        outcome = calibrate(resampled, "ndcg@5 >= 90% of deterministic", 1 - DELTA, **options)
        measured = evaluate(queries, [GPLRanker.deterministic(), outcome.ranker])
        wrong += measured.mean_ndcg[1] < 0.9 * measured.mean_ndcg[0]
    assert within_delta(wrong, repeats)
