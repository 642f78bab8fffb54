"""Every metric is what adding up all rankings gives, and what evaluation tools say of a single order."""

from functools import partial

import numpy as np
import pytest

import oracles
from isrr import GPLRanker, Metric, PromiseError, Queries, calibrate, evaluate, metric
from isrr.metrics.metric import NAMES, measures

SCORES = np.array([1.2, 0.7, 0.1, -0.4, 0.9])
RELEVANCE = np.array([0.0, 2.0, 1.0, 0.0, 3.0])
GROUPS = np.array(["old", "new", "old", "new", "new"])
MARGIN = np.array([4.0, 0.5, -1.0, 2.0, 3.0])
K = 3
GRID = [GPLRanker.deterministic(K), GPLRanker(k=K), GPLRanker(k=K, temperature=0.4), GPLRanker(k=K, threshold=0.15)]


@pytest.fixture
def queries():
    return Queries.from_arrays(
        scores=SCORES, relevance=RELEVANCE, group=[5], item_groups=GROUPS, values={"margin": MARGIN}
    )


def of_list(ranking, values, weights):
    return sum(weights[j] * values[item] for j, item in enumerate(ranking))


LOG2 = 1.0 / np.log2(np.arange(2, K + 2))
GAINS = oracles.gain(RELEVANCE)
IDEAL = of_list([4, 1, 2], GAINS, LOG2)
BY_HAND = {
    "ndcg": lambda ranking: of_list(ranking, GAINS, LOG2) / IDEAL,
    "dcg": lambda ranking: of_list(ranking, GAINS, LOG2),
    "precision": lambda ranking: np.mean([RELEVANCE[item] > 0 for item in ranking]),
    "recall": lambda ranking: sum(RELEVANCE[item] > 0 for item in ranking) / 3,
    "rr": lambda ranking: max((1 / (j + 1) for j, item in enumerate(ranking) if RELEVANCE[item] > 0), default=0),
    "hit": lambda ranking: float(any(RELEVANCE[item] > 0 for item in ranking)),
    "precision(rel=2)": lambda ranking: np.mean([RELEVANCE[item] >= 2 for item in ranking]),
    "recall(rel=2)": lambda ranking: sum(RELEVANCE[item] >= 2 for item in ranking) / 2,
    "kept": lambda ranking: (
        of_list(ranking, [1.0, 0.5, 1 / np.log2(5), 1 / np.log2(6), LOG2[1]], LOG2) / (LOG2**2).sum()
    ),
    "value(margin)": lambda ranking: of_list(ranking, MARGIN, LOG2),
    "exposure(new)": lambda ranking: of_list(ranking, GROUPS == "new", LOG2) / LOG2.sum(),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_an_expected_metric_is_its_mean_over_all_rankings(queries, name):
    found = evaluate(queries, GRID, [name])[name]
    for column, ranker in enumerate(GRID):
        eligibility = ranker.eligibility(queries)
        law = oracles.ranking_law(SCORES, K, ranker.threshold, 1.0, ranker.temperature, eligibility)
        expected = sum(chance * BY_HAND[name](ranking) for ranking, chance in law.items())
        assert found[0, column] == pytest.approx(expected, abs=1e-7)


def test_every_named_metric_is_enumerated_here_or_among_disparities():
    quadratic = {"disparity", "normalized_disparity", "group_disparity"}
    assert {name.replace("COLUMN", "margin").replace("GROUP", "new") for name in NAMES} == {
        *(name for name in BY_HAND if "rel=" not in name),
        *quadratic,
        "clicks",
        "ap",  # from drawn lists: test_first.py
    }


def test_disparity_between_groups_is_unbiased_whether_exact_or_sampled(queries):
    many = Queries.from_arrays(
        scores=np.tile(SCORES, 3_000), relevance=np.tile(RELEVANCE, 3_000), group=[5] * 3_000,
        item_groups=np.tile(GROUPS, 3_000),
    )  # fmt: skip
    grid = [GPLRanker(k=K), GPLRanker(k=K, threshold=0.3, decay=0.5)]
    found = evaluate(many, grid, ["group_disparity"], n_draws=5, seed=7)["group_disparity"]
    for column, ranker in enumerate(grid):
        eligibility = ranker.eligibility(queries)
        exposure = oracles.exposure(SCORES, K, ranker.threshold, ranker.decay, 1.0, eligibility)
        shown, gains = ([values[GROUPS == name].sum() for name in ("new", "old")] for values in (exposure, GAINS))
        largest = 4 * LOG2.sum() ** 2 * np.square(gains).sum() / 2
        expected = oracles.disparity(shown, gains) / largest
        spread = found[:, column].std() / np.sqrt(len(many))
        assert found[:, column].mean() == pytest.approx(expected, abs=5 * spread + 1e-7)


def test_a_metric_of_one_s_own_is_evaluated_like_any_other(queries):
    own = Metric("margin", value=lambda queries: queries.column("margin"), columns=("value:margin",))
    found = evaluate(queries, GRID, [own, "value(margin)"])
    np.testing.assert_array_equal(found["margin"], found["value(margin)"])


@pytest.mark.parametrize(("row", "value"), [(3, 9.5), (3, -0.25)])
def test_one_item_outside_the_declared_bound_is_refused(row, value):
    margin = np.arange(8.0)
    queries = Queries.from_arrays(scores=margin, group=[4, 4], values={"margin": margin})
    own, bound = metric("value(margin)"), (0.0, 9.0)
    assert own.check_bound(queries, 2, bound) == pytest.approx(7 / 9)
    margin[row] = value
    queries = Queries.from_arrays(scores=np.arange(8.0), group=[4, 4], values={"margin": margin})
    with pytest.raises(PromiseError, match=f"an item has value.margin. {value}, outside the declared bound 9"):
        own.check_bound(queries, 2, bound)
    with pytest.raises(PromiseError, match="outside the declared bound"):
        calibrate(queries, "value(margin)@2 >= 1 with bound 9")
    with pytest.raises(PromiseError, match=r"outside the declared bound -0\.2 … 9"):
        own.check_bound(queries, 2, (-0.2, 9.0))


def test_metrics_over_fewer_places_than_the_rankers_fill(queries):
    longer = [GPLRanker(k=5, temperature=0.4)]
    short = [GPLRanker(k=2, temperature=0.4)]
    np.testing.assert_allclose(
        evaluate(queries, longer, ["ndcg@2"])["ndcg@2"], evaluate(queries, short, ["ndcg"])["ndcg"], atol=1e-7
    )
    with pytest.raises(ValueError, match="ndcg@3 looks at more positions than the rankers fill"):
        evaluate(queries, short, ["ndcg@3"])


def test_gain_and_discount_may_be_functions(queries):
    root = metric("ndcg", gain=np.sqrt, discount=lambda positions: 1 / positions)
    named = metric("ndcg", gain="linear", discount="reciprocal")
    squared = Queries.from_arrays(scores=SCORES, relevance=RELEVANCE**2, group=[5])
    np.testing.assert_allclose(
        evaluate(squared, GRID, [root])["ndcg"], evaluate(queries, GRID, [named])["ndcg"], atol=1e-12
    )
    with pytest.raises(ValueError, match="one finite number ≥ 0"):
        evaluate(queries, GRID, [metric("ndcg", gain=lambda grades: grades - 1)])


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nDGC", "did you mean ndcg"),
        ("exposure", r"did you mean exposure\(GROUP\)"),
        ("ndcg@five", "whole number of positions"),
        ("ndcg@0", "whole number of positions"),
        ("rr(rel=0)", r"expected rr\(rel=N\) with the lowest relevant grade"),
        ("Hit(2)", r"expected hit\(rel=N\)"),
        ("recall()", r"expected recall\(rel=N\)"),
        ("ndcg(rel=2)", r"ndcg takes no argument, got \(rel=2\); \(rel=N\) is for precision, recall, rr"),
    ],
)
def test_an_unknown_metric_is_refused_with_those_there_are(named, said):
    with pytest.raises(PromiseError, match=said):
        measures([named], k=5)


def test_columns_that_a_metric_reads_must_be_there(queries):
    bare = Queries.from_arrays(scores=SCORES, group=[5])
    for name in ("ndcg", "exposure(new)", "value(margin)"):
        with pytest.raises(ValueError, match=r"unjudged|no item groups|no column|margin"):
            evaluate(bare, GRID, [name])
    assert evaluate(bare, GRID, ["kept"])["kept"][0, 0] == pytest.approx(1.0)


def test_orders_by_score_measure_as_evaluation_tools_say():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(20230)
    sizes = rng.integers(3, 40, 200)
    relevance = rng.choice(4, sizes.sum(), p=[0.6, 0.2, 0.15, 0.05])
    scores = rng.permutation(sizes.sum()).astype(float)
    ids = np.repeat(np.arange(200), sizes)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=ids)
    qrels, run = [], []
    for row in range(sizes.sum()):
        qrels.append(ir_measures.Qrel(str(ids[row]), f"d{row}", int(relevance[row])))
        run.append(ir_measures.ScoredDoc(str(ids[row]), f"d{row}", float(scores[row])))
    order_by_score = [GPLRanker.deterministic(10)]
    relevant = np.add.reduceat(relevance > 0, queries.offsets[:-1]) > 0
    theirs = {
        "ndcg": (ir_measures.nDCG @ 10, {"gain": "linear"}),
        "precision": (ir_measures.P @ 10, {}),
        "recall": (ir_measures.R @ 10, {}),
    }
    for name, (measure, options) in theirs.items():
        ours = evaluate(queries, order_by_score, [name], empty_query="zero", **options)[name][:, 0]
        expected = {int(found.query_id): found.value for found in ir_measures.iter_calc([measure], qrels, run)}
        assert all(ours[q] == pytest.approx(expected[q], abs=1e-9) for q in range(200) if relevant[q])


def test_values_are_checked(queries):
    broken = Metric("broken", value=lambda queries: np.full(queries.n_rows, np.nan))
    with pytest.raises(ValueError, match="metric 'broken' must be one finite number per row"):
        evaluate(queries, GRID, [broken])
    with pytest.raises(PromiseError, match="name such as ndcg or value"):
        Metric("two words", value=partial(np.ones, 3))


def test_one_metric_may_be_named_alone():
    assert measures("ndcg", k=5) == measures(["ndcg"], k=5)
