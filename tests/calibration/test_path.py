"""Which queries fix the path: others, or some that are set aside and not tested on."""

from dataclasses import replace

import numpy as np
import pytest

from isrr import Certificate, Columns, DataError, Queries, calibrate, write_queries
from isrr.calibration.needed import judged_in_all
from isrr.calibration.path import n_set_aside
from isrr.calibration.request import Request
from isrr.data.sample import canonical_order
from isrr.promises import Promise

PROMISE = "ndcg@5 >= 90% of deterministic"


@pytest.mark.parametrize(("n_queries", "n_aside"), [(2, 1), (20, 4), (250, 5), (300, 60), (20_000, 2_000)])
def test_most_queries_are_left_to_test_on(n_queries, n_aside):
    assert n_set_aside(n_queries, Request((Promise.parse(PROMISE),)), validated=False) == n_aside


def test_validation_queries_fix_the_path_and_all_judged_ones_are_tested(judged):
    outcome = calibrate(judged[200:], PROMISE, validation=judged[:200])
    assert outcome.provenance.n_set_aside == 0
    assert outcome.provenance.n_queries + outcome.provenance.n_skipped == 500
    assert "200 validation queries" in outcome.text(verbose=True)


def test_validation_queries_must_be_others(judged):
    with pytest.raises(DataError, match="validation queries too: 50"):
        calibrate(judged[100:], PROMISE, validation=judged[50:150])


@pytest.mark.parametrize("where", ["memory", "files"])
def test_validation_queries_must_be_others_also_where_ids_were_made(judged, where, tmp_path):
    plain = Queries.from_arrays(scores=judged.scores, relevance=judged.relevance, group=judged.n_items)
    data = plain[200:]
    if where == "files":
        data = tmp_path / "judged.parquet"
        write_queries(plain[200:], data)
    unjudged = replace(plain, relevance=None)
    for others in (plain[200:], plain[150:250], unjudged[150:250], judged[150:250]):
        n_shared = 500 if len(others) == 500 else 50
        with pytest.raises(DataError, match=rf"by their scores and relevance .*: {n_shared}, '.*200' among them"):
            calibrate(data, PROMISE, validation=others)
    assert calibrate(data, PROMISE, validation=plain[:200], path="temperature").provenance.made_ids


@pytest.mark.parametrize("path", ["temperature", "front"])
def test_every_path_starts_with_the_deterministic_ranker(judged, path):
    outcome = calibrate(judged, "ndcg@5 >= 0.4", path=path)
    assert isinstance(outcome, Certificate)
    assert outcome.curve[0].ranker.is_deterministic
    assert outcome.curve[0].certified


@pytest.mark.parametrize(("path", "n_aside"), [("temperature", 5), ("front", 1_800)])
def test_every_query_is_tested_or_set_aside_where_ids_were_made(path, n_aside):
    rng = np.random.default_rng(1)
    queries = Queries.from_arrays(scores=rng.normal(size=27_000), relevance=[0, 1, 2] * 9_000, group=[3] * 9_000)
    found = calibrate(queries, "ndcg@2 >= 90% of deterministic", path=path).provenance
    assert (found.n_set_aside, found.n_queries, found.n_skipped) == (n_aside, 9_000 - n_aside, 0)


def test_queries_are_set_aside_until_their_scores_vary(judged):
    few, scores = judged[:200], judged[:200].scores.copy()
    scores[: few.offsets[196]] = 0.0  # of 200 queries, four have scores that differ
    outcome = calibrate(few.with_scores(scores), PROMISE)
    order = canonical_order(few.keys, few.with_scores(scores).scores_fingerprint)
    n_aside = outcome.provenance.n_set_aside
    assert n_aside > 5
    assert (order[: n_aside // 2] < 196).all()
    assert (order[:n_aside] >= 196).any()


def test_too_few_queries_set_aside_fix_a_scale_and_learn_nothing(judged):
    assert calibrate(judged[:60], PROMISE, path="front").provenance.path == "temperature"
    assert calibrate(judged[:300], PROMISE, path="front").provenance.path == "front"


def test_the_queries_needed_include_those_set_aside_and_those_without_a_relevant_item():
    request = Request((Promise.parse(PROMISE),))
    for n_tested in (10, 91, 290, 296, 400, 9_000):
        n_judged = judged_in_all(n_tested, request, share_counted=0.8)
        assert 0.8 * (n_judged - n_set_aside(n_judged, request, validated=False)) >= n_tested
        assert 0.8 * (n_judged - 2 - n_set_aside(n_judged - 2, request, validated=False)) < n_tested
    assert judged_in_all(800, request, validated=True, share_counted=0.8) == 1_000


def test_validation_queries_may_be_a_path_or_a_table(judged, tmp_path):
    write_queries(judged[:200], tmp_path / "validation.parquet")
    table = {"q": np.repeat(judged.query_ids[:200], judged.n_items[:200]), "score": judged[:200].scores}
    import pandas

    frame = pandas.DataFrame({**table, "relevance": judged[:200].relevance})
    at_hand = calibrate(judged[200:], PROMISE, validation=judged[:200])
    assert calibrate(judged[200:], PROMISE, validation=tmp_path / "validation.parquet") == at_hand
    write_queries(judged[200:], tmp_path / "judged.parquet")
    renamed = pandas.read_parquet(tmp_path / "judged.parquet").rename(columns={"query_id": "q"})
    assert calibrate(renamed, PROMISE, columns=Columns(query="q"), validation=frame).ranker == at_hand.ranker
