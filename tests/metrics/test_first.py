"""Reciprocal rank, hit rate and average precision: what adding up all lists gives, and what evaluation tools say."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from isrr import GPLRanker, Queries, evaluate, metric, read_queries

FIRST = {"rr": lambda position: 1 / position, "hit": lambda position: 1.0}


def of_list(name, relevant, ranking, k):
    """The metric of one list, by its definition."""
    hits = [bool(relevant[item]) for item in ranking[:k]]
    if name == "ap":
        return sum(sum(hits[: j + 1]) / (j + 1) for j, hit in enumerate(hits) if hit) / sum(relevant)
    return FIRST[name](hits.index(True) + 1) if any(hits) else 0.0


def law_of(ranker, scores, groups):
    """Chance of every list of a ranker, by enumeration."""
    order = oracles.standard_order(scores, query_id=0)
    boosted = scores + np.array([dict(ranker.boost).get(group, 0.0) for group in groups])
    positions = {
        item: -position for position, item in enumerate(order)
    }  # equal boosted scores come as in the order by score
    drawn = boosted + 1e-12 * np.array([positions[item] for item in range(len(scores))])
    eligibility = oracles.softmax(boosted / ranker.temperature)
    law = oracles.ranking_law(drawn, ranker.k, ranker.threshold, ranker.decay, ranker.temperature, eligibility)
    share = 0.0 if ranker.decay == 1.0 else ranker.floor
    if ranker.floor and ranker.decay == 1.0:
        whole = oracles.ranking_law(drawn, len(scores), ranker.threshold, 1.0, ranker.temperature, eligibility)
        share = oracles.order_share(whole, order, ranker.floor, ranker.floor_weights)
    return oracles.mixed_law(law, order, max(share, ranker.anchor))


@settings(max_examples=300, deadline=None)
@given(
    n=st.integers(1, 6),
    k=st.integers(1, 7),
    temperature=st.floats(0.05, 5),
    threshold=st.sampled_from([0.0, 0.0, 0.1, 0.3, 2.0]),
    dials=st.sampled_from(
        [{}, {"floor": 0.8, "floor_weights": ((1.0, 0.5),)}, {"floor": 0.6, "floor_weights": ((1.0,) * 7,)}]
    ),
    anchor=st.sampled_from([0.0, 0.3]),
    boost=st.sampled_from([{}, {"new": 1.5}]),
    ties=st.booleans(),
    rel=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**32),
)
def test_expected_values_are_means_over_all_lists(n, k, temperature, threshold, dials, anchor, boost, ties, rel, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=1.5, size=n)
    scores = np.round(scores) if ties else scores
    relevance, groups = rng.choice(4, n, p=[0.5, 0.2, 0.2, 0.1]), rng.choice(["new", "old"], n)
    ranker = GPLRanker(k=k, temperature=temperature, threshold=threshold, anchor=anchor, boost=boost, **dials)
    law = law_of(ranker, scores, groups)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, item_groups=groups, query_ids=[0] * n)
    for name in FIRST:
        value = evaluate(queries, [ranker], [f"{name}(rel={rel})"]).values[0][0, 0]
        relevant = relevance >= rel
        if not relevant.any():
            assert np.isnan(value)
            continue
        expected = sum(chance * of_list(name, relevant, ranking, k) for ranking, chance in law.items())
        assert value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["rr", "hit", "ap"])
@pytest.mark.parametrize("dials", [{}, {"floor": 0.4}, {"boost": {"new": 1.0}, "anchor": 0.3}])
def test_values_from_drawn_lists_agree_with_enumeration(name, dials):
    """For decay below 1, and average precision for every ranker."""
    scores, relevance = np.array([1.0, 0.5, 0.0, -0.5]), np.array([0, 2, 0, 1])
    groups = np.array(["old", "new", "old", "old"])
    decay = {"decay": 1.0, "floor_weights": ((1.0, 0.5),)} if name == "ap" else {"decay": 0.5}
    ranker = GPLRanker(k=3, threshold=0.2, **decay, **dials)
    n = 4_000
    queries = Queries.from_arrays(
        scores=np.tile(scores, n), relevance=np.tile(relevance, n), group=np.full(n, 4), item_groups=np.tile(groups, n)
    )
    values = evaluate(queries, [ranker, ranker], [f"{name}@2"], n_draws=5, seed=20230).values[0]
    law = law_of(ranker, scores, groups)
    expected = sum(chance * of_list(name, relevance > 0, ranking, 2) for ranking, chance in law.items())
    assert values.mean(axis=0) == pytest.approx(expected, abs=4 * values[:, 0].std() / np.sqrt(n))
    with pytest.raises(ValueError, match="n_draws must be ≥ 2"):
        evaluate(queries, [ranker], [name], n_draws=1)


@pytest.mark.parametrize(
    ("spread", "settings_"),
    [
        (1.0, {"k": 10}),
        (1.0, {"k": 5, "threshold": 0.02}),
        (30.0, {"k": 10, "temperature": 3.0}),  # lists that are cut into blocks
        (2_000.0, {"k": 4, "temperature": 5.0}),  # weights beyond the reach of floating point
    ],
)
def test_long_lists_agree_with_draws(spread, settings_):
    rng, n_lists = np.random.default_rng(20230), 4_000
    queries = Queries.from_arrays(
        scores=spread * rng.normal(size=20 * 60), relevance=rng.random(20 * 60) < 0.1, group=[60] * 20
    )
    ranker = GPLRanker(**settings_)
    lists = ranker.sample(queries, n_lists, seed=20230)
    for name in FIRST:
        drawn = metric(name).list_values(queries, lists, metric(name).at(ranker.k))
        exact = evaluate(queries, [ranker], [name])[name][:, 0]
        np.testing.assert_array_less(np.abs(drawn.mean(axis=1) - exact), 4.5 * drawn.std(axis=1) / n_lists**0.5 + 1e-3)


@pytest.mark.parametrize("name", FIRST)
def test_a_floor_keeps_its_share_on_every_query_whatever_is_relevant(name):
    """All label sets of 400 random lists, each a query, at several temperatures and lengths."""
    rng = np.random.default_rng(20230)
    for n in range(1, 7):
        labels = np.array(list(product([0, 1], repeat=n)))[1:]
        for _ in range(67):
            scores = np.round(rng.normal(scale=rng.choice([0.3, 2.0]), size=n), rng.choice([0, 8]))
            k, floor = int(rng.integers(1, 6)), float(rng.choice([0.5, 0.8, 0.95]))
            weights = (tuple(metric(name).position_weights(k).tolist()),)
            queries = Queries.from_arrays(
                scores=np.tile(scores, len(labels)),
                relevance=labels.ravel(),
                query_ids=np.repeat(labels @ 2 ** np.arange(n), n),
            )
            grid = [GPLRanker.deterministic(k)]
            grid += [GPLRanker(k=k, temperature=t, floor=floor, floor_weights=weights) for t in (0.2, 1.0, 100.0)]
            reference, *kept = evaluate(queries, grid, [name])[name].T
            assert (np.array(kept) >= floor * reference - 1e-7).all()


def test_the_floor_of_ndcg_protects_neither():
    """A relevant item that leaves the first position costs more in rr; one that leaves the second, more in hit."""
    grid = [GPLRanker.deterministic(2), GPLRanker(k=2, floor=0.5)]
    for name, first, relevance in (("rr", 0.0, [1, 0]), ("hit", 3.0, [0, 1])):
        scores = [first, *-1e-6 * np.arange(1, 22)]
        queries = Queries.from_arrays(scores=scores, relevance=[*relevance, *[0] * 20], group=[22])
        reference, kept = evaluate(queries, grid, [name])[name][0]
        assert kept < 0.5 * reference - 1e-3


@pytest.mark.parametrize("run", ["ada2", "bm25", "bm25_rm3", "splade", "tasb"])
def test_the_order_by_score_measures_as_evaluation_tools_say(real_data, run):
    ir_measures = pytest.importorskip("ir_measures")
    run_file, qrels_file = (real_data / "trec_dl" / name for name in (f"runs/{run}.txt.gz", "qrels.human.txt.gz"))
    queries = read_queries(run_file, qrels=qrels_file, unjudged="zero")
    named = {
        "rr@10": ir_measures.RR @ 10, "rr(rel=2)@10": ir_measures.RR(rel=2) @ 10, "hit@5": ir_measures.Success @ 5,
        "hit(rel=2)@5": ir_measures.Success(rel=2) @ 5, "precision(rel=2)@10": ir_measures.P(rel=2) @ 10,
        "recall(rel=2)@20": ir_measures.R(rel=2) @ 20, "ap@100": ir_measures.AP @ 100,
        "ap(rel=2)@10": ir_measures.AP(rel=2) @ 10,
    }  # fmt: skip
    ours = evaluate(queries, [GPLRanker.deterministic(100)], named, n_draws=2, empty_query="zero")
    qrels = list(ir_measures.read_trec_qrels(str(qrels_file)))
    scored = [  # without ties, which its providers order in different ways
        ir_measures.ScoredDoc(str(query.query_ids[0]), str(query.item_ids[item]), -float(position))
        for query in queries
        for position, item in enumerate(query.by_score)
    ]
    theirs = {(m.measure, m.query_id): m.value for m in ir_measures.iter_calc(named.values(), qrels, scored)}
    for name, measure in named.items():
        expected = [theirs[measure, str(query)] for query in queries.query_ids]
        np.testing.assert_allclose(ours[name][:, 0], expected, atol=1e-9, err_msg=name)
