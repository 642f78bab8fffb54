"""Queries that repeat another under an id of their own are counted and told of, and count once where that is asked."""

import numpy as np
import pytest

from isrr import Queries, calibrate, write_queries
from isrr.calibration import calibrate as module
from isrr.calibration.tasks import ALL, FindRepeats
from isrr.data import blocks
from isrr.reporting.explorer import explore
from isrr.reporting.retrace import retrace

PROMISE = "ndcg@5 >= 90% of deterministic"


def repeated(queries, times, seed=20230):
    """All queries so many times under fresh ids, the rows of each copy in another order."""
    rng, parts = np.random.default_rng(seed), []
    for copy in range(times):
        rows = rng.permutation(queries.n_rows)
        ids = np.repeat([f"{query}-{copy}" for query in queries.query_ids], queries.n_items)
        parts.append((queries.scores[rows], queries.relevance[rows], ids[rows]))
    scores, relevance, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Queries.from_arrays(scores=scores, relevance=relevance, query_ids=ids)


@pytest.fixture(scope="module")
def thrice(judged):
    return repeated(judged[:200], 3)


def test_repeats_are_told_of_and_left_out_on_demand(thrice):
    outcome = calibrate(thrice, PROMISE)
    assert outcome.provenance.n_repeated == 400
    (said,) = (warning for warning in outcome.warnings if "repeated" in warning)
    assert said.startswith("repeated queries: 400 of 600 have the same scores and relevance as another")
    once = calibrate(thrice, PROMISE, distinct=True)
    assert once.provenance.n_repeated == 400
    assert once.provenance.n_judged == 200
    assert not any("repeated" in warning for warning in once.warnings)
    assert "(400 left out: they repeat another)" in str(once)


def test_each_content_is_left_once(thrice):
    left_out = FindRepeats(ALL).summary([thrice]).repeats
    kept = thrice[~np.isin(thrice.keys, left_out)]
    contents = kept.content_keys(judged=True)
    assert np.unique(contents).size == contents.size == 200
    np.testing.assert_array_equal(np.unique(contents), np.unique(thrice.content_keys(judged=True)))


def test_queries_without_repeats_give_the_same_outcome_either_way(judged):
    plain, once = (calibrate(judged[:200], PROMISE, distinct=distinct) for distinct in (False, True))
    assert plain.provenance.n_repeated == once.provenance.n_repeated == 0
    assert plain.ranker == once.ranker
    assert plain.tests == once.tests


def test_single_items_and_a_rare_coincidence_are_no_repeats(judged):
    single = Queries.from_arrays(scores=np.ones(300), relevance=np.ones(300), query_ids=np.arange(300))
    assert FindRepeats(ALL).summary([single]).repeats.size == 0
    rare = Queries.concatenate([judged[:300], repeated(judged[:1], 1)])
    outcome = calibrate(rare, PROMISE)
    assert outcome.provenance.n_repeated == 1
    assert not any("repeated" in warning for warning in outcome.warnings)


def test_a_part_of_the_queries_tells_the_number_where_there_are_many(thrice, monkeypatch):
    monkeypatch.setattr(module, "LOOKED_AT", 200)
    assert calibrate(thrice, PROMISE).provenance.n_repeated == pytest.approx(400, rel=0.01)
    whole, task = FindRepeats(200).summary([thrice]), FindRepeats(200)
    parts = task.joined([task.summary([part]) for part in (thrice[350:], thrice[:90], thrice[90:350])])
    np.testing.assert_array_equal(parts.keys, whole.keys)


def test_streamed_files_leave_out_the_same_repeats(thrice, tmp_path, monkeypatch):
    expected = calibrate(thrice, PROMISE, distinct=True)
    for name, part in (("a", thrice[:250]), ("b", thrice[250:])):
        write_queries(part, tmp_path / f"{name}.parquet")
    monkeypatch.setattr(blocks.whole_queries, "__defaults__", (50,))
    files = f"{tmp_path}/*.parquet"
    assert calibrate(files, PROMISE, distinct=True, trust_layout=True) == expected
    pytest.importorskip("dask")
    assert calibrate(files, PROMISE, distinct=True, trust_layout=True, engine="dask") == expected


def test_an_outcome_on_distinct_queries_is_retraced(thrice):
    outcome = calibrate(thrice, PROMISE, distinct=True)
    found = retrace(outcome, thrice)
    assert len(found.tested) == outcome.provenance.n_queries
    chosen = [point.ranker for point in outcome.curve].index(outcome.ranker)
    assert explore(found).measured[chosen] == outcome.tests[0].measured


def test_distinct_queries_are_another_look_at_the_same_judgments(thrice):
    looks = []

    def count(look):
        looks.append(look)
        return len(looks), None

    for distinct in (False, True):
        calibrate(thrice, PROMISE, distinct=distinct, count_look=count)
    assert looks[0]["judgments"] == looks[1]["judgments"]
    assert looks[0]["data"] == looks[1]["data"]
    assert looks[0]["tests"] != looks[1]["tests"]
