"""The protocol on small pools: its limits, its procedures, and figures that come out the same again."""

import json
from pathlib import Path

import numpy as np
import pytest

from isrr import GPLRanker, Queries, evaluate
from isrr.gains import ideal_dcg
from isrr_paper.experiments import coverage, decay, rcscore, tradeoff
from isrr_paper.experiments.pools import Pool, Pools, data_sets
from isrr_paper.experiments.protocol import DELTA, Protocol
from isrr_paper.experiments.repetition import bootstrap_violations, run_splits, splits

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def pool():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(4, 15, 500)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.25, 0.15, 0.1])
    scores = 0.8 * relevance + rng.normal(size=relevance.size)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, group=sizes)
    queries = queries[ideal_dcg(queries) > 0]
    return Pool("made-up", "given", "given", queries[:100], queries[100:])


def test_the_tradeoff_ends_in_both_limits(pool):
    found = tradeoff.measure(pool, n_splits=5)
    base = Protocol(pool).base
    limits = evaluate(pool.judged, [base, GPLRanker.deterministic()])
    parts = [test for _, test in splits(len(pool.judged), 5)]
    for name, values in (("risk", 1 - limits["ndcg"]), ("disparity", limits["disparity"])):
        stochastic, deterministic = np.mean([values[test].mean(axis=0) for test in parts], axis=0)
        assert found[name]["mean"][0] == pytest.approx(stochastic, abs=1e-9)
        assert found[name]["mean"][-1] == pytest.approx(deterministic, abs=1e-9)
        assert found[name]["plackett_luce"] == pytest.approx(stochastic, abs=1e-9)
        assert found[name]["deterministic"] == pytest.approx(deterministic, abs=1e-9)


def test_figures_regenerate_to_the_last_digit(pool):
    sizes = {"n_splits": 4, "many_splits": 6, "n_bootstrap": 4}
    first, second = (json.dumps(coverage.measure(pool, **sizes)) for _ in range(2))
    assert first == second


def test_the_paper_grid_ends_at_the_largest_eligibility_of_the_calibration_queries(pool):
    protocol = Protocol(pool)
    rows, _ = next(splits(len(pool.judged), 1))
    thresholds = [ranker.threshold for ranker in protocol.paper().evaluated(rows).path.rankers]
    largest = protocol.base.eligibility(pool.judged[rows]).max()
    np.testing.assert_allclose(thresholds, np.linspace(largest, 0.0, 21), atol=1e-12)


def test_splits_that_share_a_grid_share_its_evaluation(pool):
    protocol = Protocol(pool)
    run_splits(pool, protocol.paper(), 20)
    assert len(protocol._by_maximum) < 20


def test_abstentions_are_shown_both_ways(pool):
    runs = run_splits(pool, Protocol(pool).paper("DKWM"), 10)
    assert runs.abstained.any()
    certified = runs.gain[~runs.abstained]
    assert runs.gain_overall == pytest.approx(certified.sum() / 10)
    gain = runs.over_certified(runs.gain)
    assert gain == pytest.approx(certified.mean()) if certified.size else gain is None


def test_averages_read_the_gain_over_the_papers_both_ways():
    """Gains of 0.1, 0.4 and 0 by the paper become 0.3, 0.6 and 0.3: 2.4 times its average, 3 and 1.5 times its own."""
    records = []
    for data, gains in (("a", (0.1, 0.3)), ("b", (0.4, 0.6)), ("c", (0.0, 0.3))):
        shared = {"coverage": None, "bootstrap_violations": 0.0, "oracle": 0.8}
        procedures = [{"by": "", "name": str(i), "gain_overall": gain, **shared} for i, gain in enumerate(gains)]
        records.append({"data": data, "procedures": procedures})
    *_, ours = coverage.averages(records)
    assert (ours["× the paper's"], ours["× the paper's, by pool"], ours["pools left out"]) == ("2.4", "2.2", 1)
    assert ours["share of the oracle"] == "50.0 %"


@pytest.mark.guarantee
def test_the_default_keeps_its_promise_in_bootstrap_repetitions(pool):
    *_, relative = Protocol(pool).defaults
    assert bootstrap_violations(pool, relative, 100) <= 2 * DELTA
    assert run_splits(pool, relative, 10).gain_overall > 0.1  # not kept by always abstaining


def test_the_oracle_beats_what_is_certified(pool):
    protocol = Protocol(pool)
    relative = protocol.defaults[2]
    assert protocol.oracle(relative) > run_splits(pool, relative, 10).gain_overall


def test_smaller_decays_reach_less_utility(pool):
    found = decay.measure(pool, n_splits=2)["decays"]
    best = [1 - min(figures["risk"]["mean"]) for figures in found]
    assert best[0] < best[-1]
    rows = decay.rows([{"data": "", "title": "", "decays": found}])
    assert [row["ζ"] for row in rows] == [f"{value:g}" for value in decay.DECAYS]


def test_drawing_by_first_place_agrees_with_the_exact_evaluation(pool):
    few = Pool(pool.data, pool.scorer, pool.title, pool.validation, pool.judged[:60])
    found = rcscore.measure(few, n_splits=2)
    protocol = Protocol(few)
    exact = evaluate(few.judged, protocol.rankers(np.array(found["eligibility"]["first place"]["thresholds"])))
    assert [row["eligibility"] for row in rcscore.rows([{"data": "", "title": "", **found}])] == list(rcscore.CHANCES)
    np.testing.assert_allclose(found["eligibility"]["first place"]["utility"], exact.mean("ndcg"), atol=0.015)


def test_the_chance_of_a_later_place_does_not_rise_with_the_chance_of_the_first():
    """Appendix D says it does; the strongest of three items is rarely second."""
    queries = Queries.from_arrays(scores=[3.0, 1.0, 0.0], query_ids=[1, 1, 1])
    first, second = GPLRanker(k=2).placement(queries).T
    assert first[0] > first[1]
    assert second[0] < second[1]


@pytest.mark.skipif(not (DATA / "ohsumed").is_dir(), reason="needs ../shared/data/ohsumed")
def test_out_of_fold_pools_score_every_query_once(tmp_path):
    pytest.importorskip("lightgbm")
    (data_set,) = data_sets([str(DATA / "ohsumed")])
    pools = Pools(tmp_path, rounds=20, threads=1, say=lambda _: None)
    pool = pools.get(data_set, "lightgbm")
    again = pools.get(data_set, "lightgbm")
    assert len(pool.judged) + len(pool.validation) == 105
    assert pool.judged.fingerprint == again.judged.fingerprint
