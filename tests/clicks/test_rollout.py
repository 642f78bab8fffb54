"""A rollout: its lot, its evidence, its steps, and the service that follows it."""

import json
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from isrr.clicks.calibrate import certified, checked_promise
from isrr.clicks.live import BETS, Sessions, confirmed, differences, evidence, looked_at, sessions_of
from isrr.clicks.rollout import Rollout, read_rollout, step_and_arm
from isrr.clicks.simulate import simulate
from isrr.clicks.table import read_clicks
from isrr.data.served_log import read_log
from isrr.errors import CertificateError
from serving import client_of


@pytest.fixture
def certificate(queries, logger):
    found = simulate(queries, logger, 20_000, seed=3).impressions()
    return certified(found, checked_promise("clicks@3 >= 85% of deterministic"))


def slow(sessions, share, control, most):
    """Session by session, as the formula stands."""
    p, before, wealth, found = 1 - control, [], np.ones(len(BETS)), []
    bound = share * most / control
    for treated, same, y in zip(sessions.treated, sessions.same, sessions.clicks, strict=True):
        c = min((0.1 * most + sum(before)) / (1 + len(before)), p * bound)
        if same:
            z = (share - 1) * y
        elif treated:
            z = -(y - c) / p + (share - 1) * c
        else:
            z = share * (y - c) / control + (share - 1) * c
        assert z <= bound + 1e-12
        wealth = wealth * (1 - BETS * z / bound)
        found.append(np.log(wealth.mean()))
        before.append(y)
    return found


def test_the_evidence_equals_its_slow_twin():
    rng = np.random.default_rng(20230)
    for control in (0.2, 0.5, 0.9):
        sessions = Sessions(rng.random(200) > control, rng.random(200) < 0.3, rng.integers(0, 4, 200).astype(float))
        found = evidence(differences(sessions, 0.9, control, 3.0))
        np.testing.assert_allclose(found, slow(sessions, 0.9, control, 3.0), rtol=1e-9, atol=1e-12)


def test_the_lot_is_stable_fair_and_drawn_anew_in_each_step(certificate):
    rollout = Rollout.begin(certificate, control=0.3)
    lots = np.array([[replace(rollout, step=step).treated(f"s{i}") for i in range(5_000)] for step in (0, 1)])
    assert rollout.treated("s1") == rollout.treated("s1")
    assert abs(lots.mean() - 0.7) < 0.02
    assert abs(np.corrcoef(lots)[0, 1]) < 0.05


def test_steps_lead_to_the_certified_ranker_and_back_to_the_last_certified(certificate):
    rollout = Rollout.begin(certificate)
    assert certificate.curve[rollout.steps[-1]].ranker == certificate.ranker
    assert rollout.ranker(certificate).temperature < certificate.ranker.temperature
    assert replace(rollout, stage="failed").ranker(certificate).is_deterministic
    later = rollout.after(certified=True, reason="")
    assert (later.step, later.stage) == (1, "running")
    fallen = later.after(certified=False, reason="")
    assert fallen.ranker(certificate) == certificate.curve[rollout.steps[0]].ranker
    with pytest.raises(CertificateError, match="cannot be rolled out"):
        Rollout.begin(replace(certificate, provenance=replace(certificate.provenance, clicks=None)))


def test_a_step_is_decided_by_its_sessions(certificate):
    rollout = replace(Rollout.begin(certificate, budget=4_000), steps=Rollout.begin(certificate).steps[-1:])
    rng = np.random.default_rng(20231)
    treated, same = rng.random(4_000) < 0.5, np.zeros(4_000, bool)
    equal = Sessions(treated, same, rng.binomial(3, 0.4, 4_000).astype(float))
    found = looked_at(certificate, rollout, equal)
    assert found.rollout.stage == "done"
    proven = confirmed(certificate, found)
    assert proven.provenance.clicks.assumption == ""
    assert "depends on the query" not in str(proven)
    worse = Sessions(treated, same, rng.binomial(3, np.where(treated, 0.3, 0.4)).astype(float))
    assert looked_at(certificate, rollout, worse).rollout.stage == "failed"
    few = Sessions(treated[:50], same[:50], worse.clicks[:50])
    assert looked_at(certificate, rollout, few).rollout == rollout


def test_the_service_splits_sessions_logs_both_lists_and_follows_the_state(certificate, queries, tmp_path):
    file, log = tmp_path / "ranker.json", tmp_path / "served"
    log.mkdir()
    certificate.save(file)
    rollout = Rollout.begin(certificate)
    rollout.save(file)
    client = client_of(file, log=log, rollout=True)
    items = [{"id": f"d{i}", "score": float(-i) / 10} for i in range(8)]
    clicks = []
    for i in range(60):
        answer = client.post("/rank", {"query_id": "q", "session": f"s{i}", "items": items}).json()
        assert answer["certificate"]["order"] == ("drawn" if rollout.treated(f"s{i}") else "deterministic")
        clicks.append({"list_id": answer["list_id"], "item_id": answer["items"][0]["id"], "time": time.time()})
    lines = read_log(log).table.to_pylist()
    for line in lines:
        step, treated = step_and_arm(line["arm"])
        assert (step, treated) == (0, rollout.treated(line["session"]))
        by_score = line["other_arm"] if treated else line["ranking"]
        assert by_score == [*range(len(by_score))]
    clicks = read_clicks(pa.Table.from_pylist(clicks))
    found = sessions_of(log, clicks, rollout, 3, within=60.0, now=time.time() + 100)
    assert len(found) == 60
    assert found.clicks.tolist() == [1.0] * 60
    assert found.treated.tolist() == [rollout.treated(f"s{i}") for i in range(60)]
    assert sessions_of(log, clicks, rollout, 3, within=60.0, now=time.time()).n_open == 60
    later = rollout.after(certified=True, reason="")
    later.save(file)
    client.worker.refresh()
    client.post("/rank", {"query_id": "q", "session": "s1", "items": items})
    client.post("/rank", {"query_id": "q", "session": "new", "items": items})
    found = sessions_of(log, clicks, later, 3, within=60.0, now=time.time() + 100)
    assert (len(found), found.n_excluded) == (1, 1)
    replace(later, stage="failed").save(file)
    client.worker.refresh()
    client.post("/rank", {"query_id": "q", "session": "last", "items": items})
    assert read_log(log).table.to_pylist()[-1]["arm"] is None


def test_a_damaged_state_is_refused(certificate, tmp_path):
    file = tmp_path / "ranker.json"
    certificate.save(file)
    assert read_rollout(file, certificate.id) is None
    (tmp_path / "ranker.rollout.json").write_text(
        json.dumps({"certificate": certificate.id, "control": 7, "steps": [1]})
    )
    with pytest.raises(CertificateError, match="not the state of a rollout"):
        read_rollout(file, certificate.id)
