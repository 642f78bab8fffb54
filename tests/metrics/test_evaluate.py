"""A grid evaluated in one pass equals its rankers evaluated one by one, in any way it can be done."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import oracles
from isrr import GPLRanker, Metric, Queries, ScoreMap, evaluate
from isrr.gains import gain_of, ideal_dcg, ndcg
from isrr.metrics.disparity import disparity
from isrr.metrics.kernels import weighted_sums
from isrr.parallel import MANY_ROWS, over_queries, use_threads

GRID = [
    GPLRanker(threshold=0.2),
    GPLRanker(),
    GPLRanker(threshold=0.05, decay=0.7),
    GPLRanker(temperature=0.3),
    GPLRanker.deterministic(),
    GPLRanker(temperature=0.3, threshold=0.1),
    GPLRanker(score_map=ScoreMap((-1.0, 0.0, 1.0), (-3.0, 0.0, 1.0)), threshold=0.1),
    GPLRanker(threshold=0.2),
]


MIXED = [
    GPLRanker(threshold=0.2, floor=0.6),
    GPLRanker(temperature=0.3),
    GPLRanker(threshold=0.2, anchor=0.3, boost={"new": 6.0}),
    GPLRanker(temperature=0.3, floor=0.6, boost={"new": 6.0}),
]


@pytest.mark.parametrize("grid", [GRID, MIXED])
def test_a_grid_equals_its_rankers_one_by_one(many_queries, grid):
    groups = np.random.default_rng(20231).choice(["new", "old"], many_queries.n_rows)
    many_queries = replace(many_queries, item_groups=groups)
    together = evaluate(many_queries, grid, n_draws=30, seed=5)
    for c, ranker in enumerate(grid):
        exposure = ranker.exposure(many_queries, n_draws=30, seed=5)
        gains = gain_of(many_queries.relevance)
        found = np.add.reduceat(exposure * gains, many_queries.offsets[:-1])
        kept = ~np.isnan(together["ndcg"][:, c])
        np.testing.assert_allclose(together["ndcg"][kept, c], found[kept] / ideal_dcg(many_queries)[kept], atol=1e-12)
        if not ranker.is_sampled:  # the disparity of averages is overstated
            by_hand = disparity(exposure, many_queries)
            np.testing.assert_allclose(together["disparity"][kept, c], by_hand[kept], atol=1e-12)
        assert (kept == (ideal_dcg(many_queries) > 0)).all()


def test_threads_blocks_and_the_order_of_queries_change_no_bit(many_queries):
    turned = np.random.default_rng(20230).permutation(len(many_queries))
    with use_threads(1):
        alone = evaluate(many_queries, GRID, n_draws=10)
    for n_threads in (2, 3):
        with use_threads(n_threads):
            moved = evaluate(many_queries[turned], GRID, n_draws=10)
        np.testing.assert_array_equal(moved["ndcg"], alone["ndcg"][turned])
        np.testing.assert_array_equal(moved["disparity"], alone["disparity"][turned])
    parts = [evaluate(part, GRID, n_draws=10) for part in (many_queries[:77], many_queries[77:])]
    np.testing.assert_array_equal(np.concatenate([part["ndcg"] for part in parts]), alone["ndcg"])


def test_the_deterministic_column_is_the_ndcg_of_the_order_by_score(many_queries):
    found = evaluate(many_queries, [GPLRanker.deterministic()])
    np.testing.assert_allclose(found["ndcg"][:, 0], ndcg(many_queries), atol=1e-12)


def test_sampled_values_agree_with_enumeration():
    scores, relevance = np.array([1.0, 0.5, 0.0, -0.5]), [0, 2, 1, 0]
    ranker = GPLRanker(k=3, threshold=0.3, decay=0.5)
    queries = Queries.from_arrays(
        scores=np.tile(scores, 4_000), relevance=np.tile(relevance, 4_000), group=np.full(4_000, 4)
    )
    exposure = oracles.exposure(scores, 3, ranker.threshold, ranker.decay, 1.0, ranker.eligibility(queries)[:4])
    sampled = evaluate(queries, [ranker], n_draws=4, seed=20230)
    for name, expected in (
        ("ndcg", exposure @ oracles.gain(relevance) / oracles.dcg(relevance, [1, 2])),
        ("disparity", oracles.disparity(exposure, oracles.gain(relevance))),
    ):
        error = sampled[name].std() / np.sqrt(len(queries))
        assert sampled.mean(name)[0] == pytest.approx(expected, abs=4 * error)


def test_empty_queries_follow_the_policy():
    queries = Queries.from_arrays(scores=[1, 0, 1, 0], relevance=[1, 0, 0, 0], group=[2, 2])
    assert np.isnan(evaluate(queries, GRID[:2])["ndcg"][1]).all()
    assert np.isnan(evaluate(queries, GRID[:2])["disparity"][1]).all()
    assert (evaluate(queries, GRID[:2], empty_query="zero")["ndcg"][1] == 0).all()
    assert (evaluate(queries, GRID[:2], empty_query="one")["ndcg"][1] == 1).all()
    assert (evaluate(queries, GRID[:2], empty_query="one")["disparity"][1] == 0).all()


def test_means_are_over_the_queries_that_count():
    queries = Queries.from_arrays(scores=[1, 0, 1, 0], relevance=[1, 0, 0, 0], group=[2, 2])
    found = evaluate(queries, GRID[:2])
    for name in ("ndcg", "disparity", "normalized_disparity"):
        np.testing.assert_array_equal(found.mean(name), found[name][0])
        assert np.isnan(evaluate(queries[1:], GRID[:2]).mean(name)).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((GPLRanker(), "queries"), r"takes queries, then .* is a GPLRanker: evaluate\(queries, \[ranker\]\)"),
        (("queries", GPLRanker()), r"a list of rankers, got a GPLRanker; evaluate\(queries, \[ranker\]\)"),
        (("queries", object()), r"got a object; .* to check a promise use isrr\.check\(outcome, queries\)"),
        (("queries", [GPLRanker(), "deterministic"]), "a list of rankers, got a str"),
    ],
)
def test_arguments_of_another_kind_are_refused_with_the_call_that_was_meant(many_queries, arguments, said):
    with pytest.raises(TypeError, match=said):
        evaluate(*(many_queries if argument == "queries" else argument for argument in arguments))


@pytest.mark.parametrize(
    ("grid", "options", "said"),
    [
        ([], {}, "grid is empty"),
        ([GPLRanker(k=3), GPLRanker(k=5)], {}, "with the same k"),
        ([GPLRanker(threshold=0.1, decay=0.5)], {"n_draws": 1}, "n_draws must be ≥ 2"),
    ],
)
def test_a_grid_that_cannot_be_evaluated_is_refused(many_queries, grid, options, said):
    with pytest.raises(ValueError, match=said):
        evaluate(many_queries, grid, **options)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_progress_rises_and_ends_once(many_queries, n_threads):
    seen = []
    with use_threads(n_threads):
        evaluate(many_queries, [GPLRanker()], progress=lambda done, total: seen.append((done, total)))
    done, totals = zip(*seen, strict=True)
    assert set(totals) == {len(many_queries)}
    assert all(before < after for before, after in pairwise(done))
    assert done[-1] == len(many_queries)


def test_an_error_in_one_block_ends_all():
    offsets, begun = np.arange(0, 40 * MANY_ROWS, MANY_ROWS), []

    def work(start, stop):
        begun.append(start)
        raise ArithmeticError("tested")

    with use_threads(3), pytest.raises(ArithmeticError, match="tested"):
        over_queries(work, offsets)
    assert len(begun) <= 3


def test_a_metric_whose_values_lie_otherwise_in_memory_is_not_compiled_for_anew(many_queries):
    def measured(values):
        return evaluate(many_queries, [GPLRanker()], [Metric("m", lambda _: values)])["m"]

    values = np.random.default_rng(20239).random(many_queries.n_rows)
    expected, n_compiled = measured(values), len(weighted_sums.signatures)
    fixed = values.copy()
    fixed.setflags(write=False)
    for same in (fixed, np.repeat(values, 2)[::2]):
        assert (measured(same) == expected).all()
    assert len(weighted_sums.signatures) == n_compiled


def test_an_evaluation_prints_a_small_table_of_means():
    queries = Queries.from_arrays(
        scores=[2, 1, 0, 5, 4], relevance=[0, 2, 1, 0, 0], query_ids=[7, 7, 7, 8, 8], item_groups=["new"] * 5
    )
    found = evaluate(queries, [GPLRanker(), GPLRanker.deterministic()], ["ndcg", "disparity@3", "exposure(new)@3"])
    ours, first = found.mean("disparity")
    assert str(found).splitlines() == [
        "Means over 2 queries, one row per ranker",
        "  ranker  ndcg@5  disparity@3  exposure(new)@3",
        f"       0  0.7271       {ours:.4f}           1.0000",
        f"       1  0.6590       {first:.4f}           1.0000",
        "left out       1            1                0",
    ]
    longer = str(evaluate(queries, [GPLRanker(temperature=t) for t in range(1, 31)], ["ndcg"])).splitlines()
    assert len(longer) == 24
    assert [line.split()[0] for line in longer[11:14]] == ["9", "…", "20"]
