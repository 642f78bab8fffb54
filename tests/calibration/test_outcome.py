"""What an outcome says, and that it is the same again when it is loaded."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from isrr import Abstention, Certificate, CertificateError, Promise, calibrate, load
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
    text = str(outcome)
    for said in (PROMISE, "confidence   0.95", "judged queries", "betting, fixed_sequence", "set aside"):
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


def test_the_queries_that_an_abstention_asks_for_leave_enough_to_test_on(judged, monkeypatch):
    in_all = calibrate(judged[:25], PROMISE, floor=0).queries_needed
    monkeypatch.setattr("isrr.calibration.needed.judged_in_all", lambda n_tested, *_, **__: math.ceil(n_tested))
    tested = calibrate(judged[:25], PROMISE, floor=0).queries_needed
    assert in_all - n_set_aside(in_all, Request((Promise.parse(PROMISE),)), given=False) >= tested


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
    assert replace(outcome).id == name
    assert replace(outcome, confidence=0.9).id != name


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
