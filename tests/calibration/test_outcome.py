"""What an outcome says, and that it is the same again when it is loaded."""

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from isrr import Abstention, Certificate, CertificateError, Promise, Queries, calibrate, load
from isrr.calibration.path import n_set_aside
from isrr.calibration.request import Request

PROMISE = "ndcg@5 >= 90% of deterministic"


def test_a_certificate_says_what_was_promised_chosen_and_measured(judged):
    outcome = calibrate(judged, PROMISE)
    assert isinstance(outcome, Certificate)
    assert not outcome.abstained
    assert outcome.utility.value >= 0.9 * outcome.deterministic_utility.value
    assert outcome.fairness_gain.value > 0.1
    (test,) = outcome.tests
    assert test.pvalue <= 0.05
    assert test.bound <= test.promise.alpha
    assert test.level >= 0.9
    text = outcome.text(verbose=True)
    for said in (
        PROMISE,
        "confidence   95 %: at most 5 %",
        f"(promised: 90 %, proven: ≥ {100 * test.level:.1f} %)",
        "judged queries",
        "betting, fixed_sequence",
        "set aside",
    ):
        assert said in text
    assert sum(point.certified for point in outcome.curve) >= 1
    assert outcome.rank([0.2, 0.1], query_id="q", session="s").size == 2


def test_an_abstention_says_why_and_what_would_help(judged):
    few = calibrate(judged[:25], PROMISE, floor=0)
    assert isinstance(few, Abstention)
    assert few.ranker.is_deterministic
    assert few.queries_needed > 25
    assert f"about {few.queries_needed} judged queries in all would be enough" in str(few)
    assert "cannot prove it" in few.reason
    impossible = calibrate(judged, "ndcg@5 >= 0.95")
    assert impossible.queries_needed is None
    assert "not met even by the safest" in impossible.reason
    assert "these queries prove at most ndcg@5 >= 0." in str(impossible)


def test_promises_that_pull_apart_are_each_measured_where_they_are_kept_best(judged):
    """Not at an end of the path, which is far from safe for one of them."""
    outcome = calibrate(judged, ["ndcg@5 >= 99% of deterministic", "normalized_disparity@5 <= 1% of deterministic"])
    assert "is not met by any ranker" in outcome.reason
    kept, fair = outcome.tests
    assert kept.measured >= 0.99
    assert f"the best reaches {100 * fair.measured:.1f} % of deterministic" in outcome.reason


def test_an_abstention_names_the_promise_that_fails_and_what_it_needs():
    queries = with_margins(60, bound=25.0)
    margin, others = "value(margin)@5 >= 98% of deterministic with bound 25", ["exposure(new)@5 >= 10%"]
    free = calibrate(queries, [*others, margin])
    assert f"'{margin}' is met by the best ranker" in free.reason
    assert f"cannot prove it: it needs about {free.queries_needed:,} queries, no labels needed" in free.reason
    assert free.reason.endswith("already proven: 'exposure(new)@5 >= 10%'")
    assert f"about {free.queries_needed:,} queries in all would be enough (8 times out of 10); no labels" in str(free)
    assert [test.promise for test in free.tests if test.pvalue > 0.05] == [Promise.parse(margin)]
    judged = calibrate(queries, [*others, "ndcg@5 >= 80% of deterministic", margin])
    assert f"cannot prove it: it needs about {judged.queries_needed:,} queries, no labels needed" in judged.reason
    assert "judged queries in all would be enough (8 times out of 10); only 'ndcg@5 >= 80% of" in str(judged)


def test_an_abstention_says_what_capping_a_value_would_need(tmp_path):
    queries = with_margins(150)
    wide = calibrate(queries, "value(margin)@5 >= 98% of deterministic with bound 400")
    (said,) = wide.cheaper
    capped, bound, needed = re.match(
        r"'(.* with bound ([\d.]+))', with values .* about ([\d,]+) queries", said
    ).groups()
    margins = queries.values["margin"]
    assert (margins < float(bound)).mean() == pytest.approx(0.995, abs=0.001)
    assert f"or           {said}" in str(wide)
    wide.save(tmp_path / "wide.json")
    assert load(tmp_path / "wide.json") == wide
    narrow = calibrate(replace(queries, values={"margin": np.minimum(margins, float(bound))}), capped)
    assert narrow.queries_needed == pytest.approx(int(needed.replace(",", "")), rel=0.05)
    assert narrow.queries_needed < wide.queries_needed / 3
    assert not narrow.cheaper
    assert not any("declared bound" in warning for warning in narrow.warnings)


def with_margins(n_queries, bound=np.inf):
    """Lists of 12 items, some of them new, with margins whose tail is heavy."""
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, n_queries * 12, p=[0.5, 0.3, 0.15, 0.05])
    return Queries.from_arrays(
        scores=relevance + rng.normal(size=relevance.size),
        relevance=relevance,
        group=[12] * n_queries,
        item_groups=rng.choice(["new", "known"], relevance.size, p=[0.3, 0.7]),
        values={"margin": np.minimum((1 + relevance) * rng.lognormal(0.5, 0.6, relevance.size), bound)},
    )


def test_the_queries_that_an_abstention_asks_for_leave_enough_to_test_on(judged, monkeypatch):
    in_all = calibrate(judged[:25], PROMISE, floor=0).queries_needed
    monkeypatch.setattr("isrr.calibration.needed.judged_in_all", lambda n_tested, *_, **__: math.ceil(n_tested))
    tested = calibrate(judged[:25], PROMISE, floor=0).queries_needed
    assert in_all - n_set_aside(in_all, Request((Promise.parse(PROMISE),)), validated=False) >= tested


def test_a_notebook_shows_the_outcome_and_a_shell_its_name(judged):
    outcome = calibrate(judged, PROMISE)
    assert repr(outcome) == f"<Certificate {outcome.id}: {PROMISE}, confidence 0.95>"
    shown = []
    outcome._repr_pretty_(SimpleNamespace(text=shown.append), cycle=False)
    assert shown == [str(outcome)]


def test_the_name_of_an_outcome_is_made_once_and_follows_its_content(judged):
    outcome = calibrate(judged, PROMISE)
    name = outcome.id
    assert outcome.id is name
    assert structs.replace(outcome).id == name
    assert structs.replace(outcome, confidence=0.9).id != name


def test_an_outcome_survives_being_saved_and_loaded(judged, tmp_path):
    for promise in (PROMISE, "ndcg@5 >= 0.95"):
        outcome = calibrate(judged, promise)
        outcome.save(tmp_path / "ranker.json")
        back = load(tmp_path / "ranker.json")
        assert back == outcome
        assert (back.rank(np.arange(9.0), "q", "s") == outcome.rank(np.arange(9.0), "q", "s")).all()


def test_an_edited_or_damaged_certificate_is_refused(judged, tmp_path):
    file = tmp_path / "ranker.json"
    calibrate(judged, PROMISE).save(file)
    document = json.loads(file.read_text())
    document["confidence"] = 0.999
    file.write_text(json.dumps(document))
    with pytest.raises(CertificateError, match="does not match its digest"):
        load(file)
    assert load(file, trust_edited=True).confidence == 0.999
    file.write_text(json.dumps({**document, "schema": 99}))
    with pytest.raises(CertificateError, match="schema 99"):
        load(file)
    file.write_text("{")
    with pytest.raises(CertificateError, match="not a certificate"):
        load(file)
    file.write_text("[]")
    with pytest.raises(CertificateError, match="it has no kind"):
        load(file)
    with pytest.raises(CertificateError, match="no such file"):
        load(tmp_path / "nowhere.json")


def test_a_full_disk_leaves_the_old_certificate_whole(judged, tmp_path, monkeypatch):
    from pathlib import Path

    outcome = calibrate(judged, PROMISE)
    outcome.save(tmp_path / "ranker.json")
    before = (tmp_path / "ranker.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        calibrate(judged, "ndcg@5 >= 0.4").save(tmp_path / "ranker.json")
    assert (tmp_path / "ranker.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ranker.json"]
