"""Counting false certificates: at most delta of the tables may be certified for what is not so.

Populations are finite pools of short lists: calibration queries are drawn from them with replacement, each draw under a
fresh id. What a configuration does on the pool is found by enumerating its lists (`truth.py`), by nothing that is
tested, and a certificate is false when a configuration that it allows breaks a promise on the pool as it is written.
The promise is put where it hurts: just beyond what some configuration along the path can keep, and every one before it
does. How often anything is certified is asked too, for a promise is easily kept by always abstaining.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path as File

import numpy as np
import pytest

from counts import COUNTS, Count
from evidence_kinds import KINDS
from isrr import GPLRanker, Queries, evaluate
from isrr.calibration.certify import Tested, certify, choose
from isrr.calibration.path import SearchPath, front_path, temperature_path
from isrr.data.synthetic import generate
from isrr.gains import discount
from isrr.metrics.disparity import Disparity
from isrr.promises import Promise
from isrr.ranker.scale import scale_of
from isrr.risk import betting
from isrr.risk.select import NAMED
from isrr_paper.features import Featured
from isrr_paper.further_evidence import BONFERRONI, POINTWISE
from isrr_paper.letor import read_letor
from truth import Truth

pytestmark = pytest.mark.guarantee

COUNT, AT_ONCE = COUNTS["certificates, any kind of promise"], 250
REPEATS, DELTA = COUNT.repeats, COUNT.delta
K, N_ITEMS = 3, 6
SELDOM = 0.15  # not kept by always abstaining; on short lists, neighbours on a path hardly differ
MQ2007 = File(__file__).parents[3] / "shared" / "data" / "mq2007" / "S1.txt"
UTILITY, SHARE_OF_UTILITY = Promise("ndcg", K, at_least=0.5), Promise("ndcg", K, at_least=0.5, of="deterministic")
FAIRNESS = Promise("normalized_disparity", K, at_most=0.5)
SHARE_OF_DISPARITY = Promise("normalized_disparity", K, at_most=0.5, of="deterministic")
GROUPS = Promise("group_disparity", K, at_most=0.5)
PRECISION = Promise("precision", K, at_least=0.5)
RECALL = Promise("recall", K, at_least=0.5, of="deterministic")
RR = Promise("rr", K, at_least=0.5, of="deterministic")
HIT = Promise("hit(rel=2)", K, at_least=0.5, empty_query="zero")
MARGIN = Promise("value(margin)", K, at_least=0.9, of="deterministic", bound=10.0)
LEAST_MARGIN = Promise("value(margin)", K, at_least=1.0, bound=10.0)
EXPOSURE = Promise("exposure(small)", K, at_least=0.2)
MERIT = Promise("exposure(small)", K, at_least=0.5, of="merit")


def scored(fitted_on, *others):
    """The others under a linear scorer."""
    weights, *_ = np.linalg.lstsq(fitted_on.features, fitted_on.relevance, rcond=None)
    return [part.without_features.with_scores(part.in_caller_order(part.features @ weights)) for part in others]


def shortened(queries, rng):
    """Six items of each query that has so many."""
    long = np.flatnonzero(queries.n_items >= N_ITEMS)
    rows = [queries.offsets[q] + rng.choice(queries.n_items[q], N_ITEMS, replace=False) for q in long]
    chosen = np.concatenate(rows)
    return Queries.from_arrays(
        scores=queries.scores[chosen], relevance=queries.relevance[chosen], group=np.full(len(long), N_ITEMS)
    )


def synthetic_pool():
    made = generate("small", seed=20230)
    return scored(*(Featured.of(*part) for part in made))


def real_pool():
    if not MQ2007.exists():
        pytest.skip(f"needs {MQ2007}")
    queries = read_letor(MQ2007)
    return scored(queries[:80], queries[80:160], queries[160:])


@pytest.fixture(scope="module", params=[synthetic_pool, real_pool])
def pool(request):
    """Validation queries and the pool: those with a relevant item, of two segments, items in three groups."""
    rng, parts = np.random.default_rng(20230), []
    for whole in request.param():
        queries = shortened(whole, rng)
        judged = queries[np.add.reduceat(queries.relevance, queries.offsets[:-1]) > 0]
        relevant = np.add.reduceat(judged.relevance > 0, judged.offsets[:-1]) / judged.n_items
        segments = np.where(relevant > np.median(relevant), "rich", "poor")
        groups = rng.choice(["large", "middle", "small"], judged.n_rows, p=[0.6, 0.3, 0.1])
        margin = np.clip(rng.gamma(2.0, 1.5, judged.n_rows) + judged.scores, 0.0, 10.0)
        parts.append(replace(judged, segments=segments, item_groups=groups, values={"margin": margin}))
    return parts


def thinned(path, n=10):
    keep = np.unique(np.linspace(0, len(path.rankers) - 1, n).round().astype(int))
    return replace(path, rankers=tuple(path.rankers[c] for c in keep))


def paths_for(validation, promise, **floor):
    scale = scale_of(validation)
    if promise.metric.kind == "share":  # temperature hardly moves it, a boost does
        base = GPLRanker(k=K, **scale, temperature=0.5)
        yield SearchPath(tuple(replace(base, boost={"small": b}) for b in np.linspace(1.8, 0, 10)), "boost", "")
        return
    temperatures = thinned(temperature_path(K, scale, [promise], "", floor))
    yield temperatures  # monotone risk, or nearly so
    yield thinned(front_path(validation, K, [promise], "", floor))  # a search in several dimensions
    positions = np.arange(len(temperatures.rankers)) + np.random.default_rng(20230).normal(scale=2, size=10)
    shuffled = tuple(temperatures.rankers[c] for c in np.argsort(positions))
    yield SearchPath(shuffled, "shuffled", "")  # a risk that rises and falls, and any choice among survivors


class Population:
    """A pool, what calibration measures of every configuration on it, and what is true of them."""

    def __init__(self, queries, path):
        self.queries, self.path, self.truth = queries, path, Truth(queries)
        self._values = {}

    def values(self, promise):
        """The metric of each configuration, and what it is compared with, as calibration finds them."""
        if promise.measure not in self._values:
            grid = [GPLRanker.deterministic(K), *self.path.rankers]
            self._values[promise.measure] = evaluate(self.queries, grid, [promise.measure])[promise.measure]
        values = self._values[promise.measure]
        return values[:, 1:], promise.reference(self.queries, values[:, 0])

    def rows(self, promise):
        """The queries of each segment that a promise speaks of."""
        return list(promise.segments(self.queries).values())

    def levels(self, promise):
        """The level that each configuration just keeps, where it is hardest, (n_grid,)."""
        return np.array([self.truth.level(promise, ranker) for ranker in self.path.rankers])

    def hurting(self, promise):
        """The promise at a level that one configuration, halfway, just cannot keep and all before it on the path do."""
        along, sign = self.levels(promise), -1 if promise.at_least is not None else 1
        risk = sign * along
        step = 1e-3 * np.ptp(along)
        riskier = [c for c in range(2, len(risk)) if risk[c] > max(risk[:c]) + step]
        at = along[riskier[len(riskier) // 2]]
        return promise.at(float(at - sign * 1e-5))

    def broken(self, promises):
        """Which configurations break one of the promises on the pool."""
        return np.array([any(self.truth.breaks(p, ranker) for p in promises) for ranker in self.path.rankers])

    def false_certificates(self, promises, n, *, judged_by=None, delta=DELTA, repeats=REPEATS):
        """In how many runs a configuration is certified that breaks these promises (or others), and in how many any."""
        rng, n_grid = np.random.default_rng([20230, n]), len(self.path.rankers)
        broken, wrong, certified = self.broken(judged_by or promises), 0, 0
        for start in range(0, repeats, AT_ONCE):  # repetitions stand side by side, as columns
            drawn = rng.integers(0, len(self.queries), (n, AT_ONCE))
            passing, left = np.zeros((AT_ONCE, n_grid), bool), np.arange(AT_ONCE)
            for c in range(n_grid):  # beyond the first that fails, nothing is certified
                for promise in promises:
                    if left.size and not promise.kept_by_definition(self.path.rankers[c]):
                        left = left[self.passes(promise, c, drawn[:, left], delta)]
                passing[left, c] = True
            if start == 0:
                self.as_calibration_does(promises, drawn, passing, delta)
            for row, times in zip(*np.unique(passing[: repeats - start], axis=0, return_counts=True), strict=True):
                before = np.logical_and.accumulate(row)
                certified += times * (choose(before, self.path.rankers, promises, np.zeros(n_grid)) is not None)
                wrong += times * bool((before & broken).any())  # whichever of them is chosen
        return wrong, certified

    def passes(self, promise, c, drawn, delta):
        """In which of the repetitions a configuration passes, in every segment, (repetitions,)."""
        ranker, answers = self.path.rankers[c], []
        loss = promise.loss(ranker.floor if promise.floored(ranker) else 0.0)
        values, reference = self.values(promise)
        losses = loss.of(values[:, [c]], reference)[:, 0]
        for rows in self.rows(promise):
            if rows.all():
                answers.append(betting.certifies(losses[drawn], loss.level, delta, loss.prior))
                continue
            inside, passed = rows[drawn].T, np.empty(drawn.shape[1], bool)
            counts = inside.sum(axis=1)
            for n in np.unique(counts):  # repetitions with as many queries in the segment
                part = losses[drawn.T[counts == n][inside[counts == n]]].reshape(-1, n).T
                passed[counts == n] = betting.certifies(part, loss.level, delta, loss.prior)
            answers.append(passed)
        return np.all(answers, axis=0)

    def as_calibration_does(self, promises, drawn, passing, delta):
        """The first repetitions again, by the code that calibration runs: its order of queries is the one drawn."""
        for repetition in range(20):
            rows = drawn[:, repetition]
            samples = []
            for promise in promises:
                values, reference = self.values(promise)
                for inside in self.rows(promise):
                    chosen = rows[inside[rows]]
                    padded = np.column_stack([reference, values])[chosen]
                    tested = promise, None, KINDS["betting"], padded, reference[chosen], self.path.rankers
                    samples.append(Tested.of(*tested))
            certified = certify(samples, NAMED["fixed_sequence"], delta)
            np.testing.assert_array_equal(certified, np.logical_and.accumulate(passing[repetition]))


@pytest.mark.parametrize("n", [75, 200, 1_000])
def test_an_absolute_promise_is_false_at_most_delta_often(pool, n):
    validation, queries = pool
    for path in paths_for(validation, UTILITY):
        population = Population(queries, path)
        wrong, certified = population.false_certificates([population.hurting(UTILITY)], n)
        assert COUNT.tolerates(wrong)
        assert certified > SELDOM * REPEATS


@pytest.mark.parametrize(
    ("promise", "n"),
    [
        (SHARE_OF_UTILITY, 400), (FAIRNESS, 1_000), (PRECISION, 1_000), (LEAST_MARGIN, 1_000),
        (RECALL, 1_000), (RR, 1_000), (HIT, 1_000), (MARGIN, 1_000), (SHARE_OF_DISPARITY, 1_000), (GROUPS, 1_000),
    ],
    ids=str,
)  # fmt: skip
def test_other_promises_are_false_at_most_delta_often(pool, promise, n):
    validation, queries = pool
    for path in paths_for(validation, promise):
        population = Population(queries, path)
        wrong, certified = population.false_certificates([population.hurting(promise)], n)
        assert COUNT.tolerates(wrong)
        assert certified > SELDOM * REPEATS


@pytest.mark.parametrize(
    ("promise", "n", "floor"),
    [
        *((SHARE_OF_UTILITY, n, floor) for n in (60, 100, 500) for floor in (0.5, 0.7)),
        *((promise, 100, 0.7) for promise in (RR, replace(HIT, of="deterministic"))),
    ],
    ids=str,
)
def test_a_promise_on_a_path_with_a_floor_is_false_at_most_delta_often(pool, promise, n, floor):
    validation, queries = pool
    weights = (tuple(promise.metric.position_weights(K).tolist()),)
    for path in paths_for(validation, promise, floor=floor, floor_weights=weights):
        population = Population(queries, path)
        hurting = population.hurting(promise)
        assert hurting.floored(path.rankers[-1])
        assert hurting.target > floor  # there is something to test
        wrong, _ = population.false_certificates([hurting], n)
        assert COUNT.tolerates(wrong)


def test_a_disparity_with_a_declared_bound_is_false_at_most_delta_often(pool):
    largest = [Disparity().largest(part, K) for part in pool]
    limit = float(np.quantile(largest[1], 0.7))
    validation, queries = (part[bound <= limit] for part, bound in zip(pool, largest, strict=True))
    bounded = Promise("disparity", K, at_most=0.01 * limit, bound=limit)
    for path in paths_for(validation, bounded):
        population = Population(queries, path)
        wrong, certified = population.false_certificates([population.hurting(bounded)], 400)
        assert COUNT.tolerates(wrong)
        assert certified > 0.5 * REPEATS


def test_two_promises_at_once_are_false_at_most_delta_often(pool):
    validation, queries = pool
    rankers = next(paths_for(validation, UTILITY)).rankers
    outward = sorted(range(len(rankers)), key=lambda c: abs(c - 5))
    population = Population(queries, SearchPath(tuple(rankers[c] for c in outward), "outward", ""))
    hot, cold = (outward.index(c) for c in (7, 3))
    promises = [
        UTILITY.at(float(population.levels(UTILITY)[hot] + 1e-5)),  # the configurations between keep both
        FAIRNESS.at(float(population.levels(FAIRNESS)[cold] - 1e-5)),
    ]
    wrong, certified = population.false_certificates(promises, 1_000)
    assert COUNT.tolerates(wrong)
    assert certified > 0.5 * REPEATS


def share_alone(promise, validation, queries):
    population = Population(queries, next(paths_for(validation, promise)))
    return population, [population.hurting(promise)]


def share_and_utility(hurts, validation, queries):
    """One promise hurts; the other has so much slack that it never decides."""
    floor = {"floor": 0.5, "floor_weights": (tuple(discount(K).tolist()),)}
    together = [EXPOSURE.at(0.15), SHARE_OF_UTILITY.at(0.9)]
    path = front_path(validation, K, together, "", {}, floor)
    assert any(ranker.boost and ranker.floor for ranker in path.rankers)
    population = Population(queries, thinned(path, 20))
    hurting, other = together if hurts == "share" else together[::-1]
    hurting = population.hurting(hurting)
    before = int(np.argmax(population.broken([hurting])))
    return population, [hurting, other.at(0.9 * float(population.levels(other)[: before + 1].min()))]


@pytest.mark.parametrize(
    ("asked", "n"),
    [
        pytest.param(partial(share_alone, EXPOSURE), 400, id="share"),
        pytest.param(partial(share_alone, MERIT), 1_000, id="share of merit"),
        pytest.param(partial(share_alone, replace(EXPOSURE, per="segment")), 1_000, id="share per segment"),
        pytest.param(partial(share_and_utility, "share"), 400, id="share that hurts, and utility"),
        pytest.param(partial(share_and_utility, "utility"), 400, id="utility that hurts, and share"),
    ],
)
def test_shares_are_false_at_most_delta_often_and_more_often_at_three_times_delta(pool, asked, n):
    population, promises = asked(*pool)
    wrong, certified = population.false_certificates(promises, n)
    assert COUNT.tolerates(wrong)
    assert certified > 0.5 * REPEATS
    wrong, _ = population.false_certificates(promises, n, delta=3 * DELTA, repeats=500)
    assert wrong > Count(500, DELTA).most


def test_a_promise_per_segment_is_false_at_most_delta_often_and_a_pooled_one_is_not_enough(pool):
    validation, queries = pool
    population = Population(queries, next(paths_for(validation, UTILITY)))
    promise = population.hurting(replace(UTILITY, per="segment"))
    wrong, certified = population.false_certificates([promise], 400)
    assert COUNT.tolerates(wrong)
    assert certified > 0.5 * REPEATS
    pooled = replace(promise, per=None)
    wrong, _ = population.false_certificates([pooled], 400, judged_by=[promise], repeats=300)
    assert wrong > 2 * DELTA * 300  # the worse segment is not protected by the average


@pytest.mark.parametrize("promise", [UTILITY, FAIRNESS, RR, HIT], ids=str)
def test_the_count_catches_a_level_that_is_too_large(pool, promise):
    validation, queries = pool
    population = Population(queries, next(paths_for(validation, promise)))
    promise = population.hurting(promise)
    wrong, _ = population.false_certificates([promise], 1_000, delta=3 * DELTA, repeats=300)
    assert wrong > Count(300, DELTA).most


def test_independent_configurations_at_the_boundary_need_the_fixed_sequence():
    rng, n, count = np.random.default_rng(20230), 300, COUNTS["independent configurations"]
    rankers = [GPLRanker(temperature=1.0 + c) for c in range(21)]
    promise = Promise("ndcg", K, at_least=0.7)
    wrong = dict.fromkeys((*NAMED.values(), BONFERRONI, POINTWISE), 0)
    for _ in range(count.repeats):
        values = rng.binomial(1, promise.target - 1e-4, (n, 22)).astype(float)
        sample = Tested.of(promise, None, KINDS["hoeffding_bentkus"], values, values[:, 0], rankers)
        for selection in wrong:
            wrong[selection] += certify([sample], selection, count.delta).any()
    for selection in (*NAMED.values(), BONFERRONI):
        assert wrong[selection] <= count.most
    assert wrong[POINTWISE] > count.most
