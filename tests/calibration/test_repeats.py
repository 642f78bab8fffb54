"""Queries that repeat another under an id of their own are counted and told of, and count once where that is asked."""

import numpy as np
import pytest

from isrr import Queries, calibrate, write_queries
from isrr.calibration.judged import repeats
from isrr.cli.ledger import entry_of
from isrr.reporting.levels import explore
from isrr.reporting.portrait import retrace

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
    kept = thrice[~repeats(thrice)]
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
    assert not repeats(single).any()
    rare = Queries.concatenate([judged[:300], repeated(judged[:1], 1)])
    outcome = calibrate(rare, PROMISE)
    assert outcome.provenance.n_repeated == 1
    assert not any("repeated" in warning for warning in outcome.warnings)


def test_a_sample_of_distinct_queries_is_drawn_after_repeats_were_left_out(thrice, tmp_path):
    write_queries(thrice, tmp_path / "thrice.parquet")
    outcome = calibrate(thrice, PROMISE, distinct=True, sample=150)
    p = outcome.provenance
    assert (p.n_judged, p.n_repeated, p.n_table, p.sample) == (150, 400, 600, 150)
    assert calibrate(tmp_path / "thrice.parquet", PROMISE, distinct=True, sample=150) == outcome
    assert len(retrace(outcome, thrice)) == p.n_queries


def test_an_outcome_on_distinct_queries_is_retraced(thrice):
    outcome = calibrate(thrice, PROMISE, distinct=True)
    found = retrace(outcome, thrice)
    assert len(found) == outcome.provenance.n_queries
    chosen = [point.ranker for point in outcome.curve].index(outcome.ranker)
    assert explore(outcome, found).measured[chosen] == outcome.tests[0].measured


def test_distinct_queries_are_another_analysis_of_the_same_judgments(thrice):
    plain, once = (entry_of(calibrate(thrice, PROMISE, distinct=distinct)) for distinct in (False, True))
    assert (plain["judgments"], plain["data"]) == (once["judgments"], once["data"])
    assert plain != once
