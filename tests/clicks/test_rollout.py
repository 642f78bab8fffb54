"""A rollout: its lot, its evidence, its steps, and the service that follows it."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from typer.testing import CliRunner

from isrr.cli.main import app
from isrr.clicks.click_table import read_clicks
from isrr.clicks.evidence import certify_clicks, checked_promise
from isrr.clicks.rollout import Rollout, read_rollout, step_and_arm
from isrr.clicks.sessions import Sessions, sessions_of
from isrr.clicks.steps import BETS, confirmed, decide_step, differences, evidence
from isrr.data.log import COLUMNS, read_log
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.outcome.status import revoke
from serving import client_of
from simulated_users import simulate


@pytest.fixture
def certificate(queries, logger):
    found = simulate(queries, logger, 20_000, seed=3).impressions()
    return certify_clicks(found, checked_promise("clicks@3 >= 85% of deterministic"))


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
    lots = np.array([[structs.replace(rollout, step=step).treated(f"s{i}") for i in range(5_000)] for step in (0, 1)])
    assert rollout.treated("s1") == rollout.treated("s1")
    assert abs(lots.mean() - 0.7) < 0.02
    assert abs(np.corrcoef(lots)[0, 1]) < 0.05


def test_steps_lead_to_the_certified_ranker_and_back_to_the_last_certified(certificate):
    rollout = Rollout.begin(certificate)
    assert certificate.curve[rollout.steps[-1]].ranker == certificate.ranker
    assert rollout.ranker(certificate).temperature < certificate.ranker.temperature
    assert structs.replace(rollout, stage="failed").ranker(certificate).is_deterministic
    later = rollout.after(certified=True, reason="")
    assert (later.step, later.stage) == (1, "running")
    fallen = later.after(certified=False, reason="")
    assert fallen.ranker(certificate) == certificate.curve[rollout.steps[0]].ranker
    with pytest.raises(CertificateError, match="cannot be rolled out"):
        Rollout.begin(structs.replace(certificate, provenance=structs.replace(certificate.provenance, clicks=None)))


def test_a_step_is_decided_by_its_sessions(certificate):
    rollout = Rollout.begin(certificate, budget=4_000, least_days=0, steps=1)
    rng = np.random.default_rng(20231)
    treated, same = rng.random(4_000) < 0.5, np.zeros(4_000, bool)
    equal = Sessions(treated, same, rng.binomial(3, 0.4, 4_000).astype(float))
    found = decide_step(certificate, rollout, equal, now=0.0)
    assert (found.rollout.stage, found.earliest) == ("done", None)
    proven = confirmed(certificate, found)
    assert proven.provenance.clicks.assumption == ""
    assert "depends on the query" not in str(proven)
    assert "the sessions are a random sample of the traffic to come, each independent of the others" in str(proven)
    worse = Sessions(treated, same, rng.binomial(3, np.where(treated, 0.3, 0.4)).astype(float))
    assert decide_step(certificate, rollout, worse, now=0.0).rollout.stage == "failed"
    few = decide_step(certificate, rollout, worse[:50], now=0.0).rollout
    assert (few.stage, few.step, few.n_counted) == ("running", 0, 50)


def good_then_bad(n, bad):
    """Sessions, one per minute: the treatment gets as many clicks as control, and none in the last `bad`."""
    rng = np.random.default_rng(20234)
    treated = rng.random(n) < 0.5
    clicks = rng.binomial(3, np.where(treated & (np.arange(n) >= n - bad), 0.0, 0.4)).astype(float)
    names = rng.integers(1 << 60, size=n).astype(np.uint64)
    return Sessions(treated, np.zeros(n, bool), clicks, names=names, starts=60.0 * np.arange(n))


def test_a_step_is_certified_from_its_threshold_on(certificate):
    rollout, found = Rollout.begin(certificate, least_days=0, steps=1), good_then_bad(4_000, 0)
    strength = evidence(differences(found, 0.85, 0.5, 3.0))
    enough = int(np.argmax(strength >= np.log(20)))
    assert np.log(0.8 * 20) < strength[enough - 1] < np.log(20)
    assert decide_step(certificate, rollout, found[:enough], now=0.0).rollout.stage == "running"
    assert decide_step(certificate, rollout, found[: enough + 1], now=0.0).rollout.stage == "done"


def test_a_step_is_decided_by_the_evidence_at_the_look_and_not_by_its_maximum(certificate):
    rollout, sessions = Rollout.begin(certificate, least_days=0, steps=1), good_then_bad(4_000, 400)
    strength = evidence(differences(sessions, 0.85, 0.5, 3.0))
    assert strength[-1] < np.log(20) < strength.max()
    found = decide_step(certificate, rollout, sessions, now=0.0)
    assert (found.rollout.stage, found.evidence) == ("running", pytest.approx(np.exp(strength[-1])))
    found = decide_step(certificate, rollout, sessions[:3_600], now=0.0)
    assert found.rollout.stage == "done"
    assert confirmed(certificate, found).tests[0].pvalue == pytest.approx(np.exp(-strength[3_599]))


def test_only_whole_periods_decide_a_step(certificate):
    day, hour, sessions = 86_400.0, 3_600.0, good_then_bad(8_000, 3_680)  # three good days, and two and a half bad ones
    rollout = Rollout.begin(certificate, least_days=3, steps=1, budget=1_000)
    early = decide_step(certificate, rollout, sessions[:4_300], now=3 * day + hour - 1)
    assert early.evidence > 20
    assert (early.rollout.stage, early.rollout.n_counted) == ("running", 4_300)  # the budget ends nothing either
    assert early.earliest == (3 * day + hour, 3 * day + hour)
    late = decide_step(certificate, early.rollout, sessions, now=5.9 * day)
    assert (late.rollout.stage, len(late.sessions), late.n_later) == ("done", 4_320, 3_680)
    bad = replace(sessions, treated=sessions.treated[::-1], clicks=sessions.clicks[::-1])  # the bad days first
    assert decide_step(certificate, rollout, bad[:4_300], now=3 * day).rollout.stage == "running"
    failed = decide_step(certificate, rollout, bad, now=5.9 * day)
    assert (failed.rollout.stage, len(failed.sessions)) == ("failed", 4_320)
    more = decide_step(certificate, structs.replace(rollout, budget=5_000), bad, now=5.9 * day)
    assert (more.rollout.stage, more.n_later) == ("running", 3_680)
    assert more.earliest[0] == 6 * day + hour
    longer = good_then_bad(9_000, 0)
    longer = replace(longer, clicks=np.where(longer.treated & (longer.starts < 2 * day), 0.0, longer.clicks))
    late = decide_step(certificate, rollout, longer, now=6.2 * day)  # the second period is beyond the budget
    assert (late.rollout.stage, len(late.sessions)) == ("failed", 4_320)
    with pytest.raises(DataError, match="it is unknown when sessions began"):
        decide_step(certificate, rollout, replace(sessions, starts=np.empty(0)), now=5.9 * day)


def test_sessions_beyond_the_budget_do_not_count(certificate):
    rollout, found = Rollout.begin(certificate, least_days=0, steps=1, budget=300), good_then_bad(4_000, 0)
    assert decide_step(certificate, structs.replace(rollout, budget=4_000), found, now=0.0).rollout.stage == "done"
    late = decide_step(certificate, rollout, found, now=0.0)
    assert (late.rollout.stage, len(late.sessions), late.n_later) == ("failed", 300, 3_700)
    assert "is not certified after 300 sessions" in str(late)


def test_the_earliest_end_counts_every_step(certificate):
    day, hour, state = 86_400.0, 3_600.0, Rollout.begin(certificate)
    assert (len(state.steps), state.least_days) == (4, 7)
    assert Rollout.begin(certificate, steps=1).steps == state.steps[-1:]
    nothing = decide_step(certificate, state, Sessions(np.empty(0, bool), np.empty(0, bool), np.empty(0)), now=0.0)
    assert nothing.earliest == (7 * day + hour, 4 * (7 * day + hour))
    assert "earliest end 1970-01-08 01:00:00 UTC for step 1, 1970-01-29 04:00:00 UTC for the rollout" in str(nothing)
    found = decide_step(certificate, state, good_then_bad(10_080, 0), now=8 * day)
    assert found.rollout.step == 1
    assert found.earliest == (15 * day + hour, 15 * day + hour + 2 * (7 * day + hour))
    at_any_look = decide_step(certificate, structs.replace(state, least_days=0), good_then_bad(50, 0), now=2 * hour)
    assert at_any_look.earliest == (2 * hour, 2 * hour + 3 * hour)
    with pytest.raises(ValueError, match="`least_days=` must be a number ≥ 0, got -1"):
        Rollout.begin(certificate, least_days=-1)


def test_a_look_that_counts_nothing_says_what_it_waits_for_and_fixes_nothing(certificate, tmp_path):
    file, log, clicks = (tmp_path / name for name in ("ranker.json", "log.parquet", "clicks.csv"))
    certificate.save(file)
    Rollout.begin(certificate).save(file)
    now = time.time()
    lines = [list_of("s", now - 90, [0, 1, 2], [0, 1, 2]), list_of("t", now - 30, [0, 1, 2], [0, 1, 2])]
    pq.write_table(pa.Table.from_pylist([line | {"certificate": certificate.id} for line in lines], COLUMNS), log)
    clicks.write_text(f"list_id,item_id,time\ns-{now - 90:g},a,{now - 80}\n")

    def status(within, *options):
        words = ("clicks", "rollout", file, "--log", log, "--clicks", clicks, "--within", within, *options)
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    over, end = (f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S} UTC" for t in (now + 3_570, now + 608_310))
    said = " ".join(status("1h").split())
    assert f"too recent 2 sessions: clicks on a list count for 3,600 s, so the last of these is over at {over}" in said
    assert f"earliest end {end} for step 1" in said
    assert read_rollout(file, certificate.id).within is None
    document = json.loads(status("1m", "--json"))
    assert (document["sessions"], document["too_recent"]) == (1, 1)
    assert document["earliest_step_end"] == pytest.approx(now - 90 + 7 * 86_400 + 60)
    assert read_rollout(file, certificate.id).within == 60.0


def test_a_log_that_lost_counted_sessions_is_refused(certificate):
    rng = np.random.default_rng(20232)
    names = rng.integers(1 << 60, size=90).astype(np.uint64)
    found = Sessions(rng.random(90) < 0.5, np.zeros(90, bool), np.ones(90), names=names, starts=np.arange(90.0))
    state = decide_step(certificate, Rollout.begin(certificate), found[:60], now=90.0).rollout
    assert decide_step(certificate, state, found, now=90.0).rollout.n_counted == 90
    for lost in (found[1:], found[:50]):
        with pytest.raises(DataError, match="the log has lost sessions of step 1"):
            decide_step(certificate, state, lost, now=90.0)


def test_what_counts_is_the_same_at_every_look(certificate, tmp_path):
    file = tmp_path / "ranker.json"
    Rollout.begin(certificate).ruled(within=60.0, first=3).save(file)
    state = read_rollout(file, certificate.id)
    assert state.rules == (60.0, 3)
    assert state.ruled() == state.ruled(60.0, 3) == state
    with pytest.raises(PromiseError, match="`first=` was 3 when this rollout was first looked at, and is 1 now"):
        state.ruled(first=1)
    with pytest.raises(PromiseError, match="`within=` was 60"):
        state.ruled(within=90.0)
    assert Rollout.begin(certificate).ruled().rules == (3_600.0, 1)


def test_a_confirmed_certificate_knows_how_many_lists_counted(certificate):
    rollout = Rollout.begin(certificate, least_days=0, steps=1).ruled(first=2)
    rng = np.random.default_rng(20233)
    treated, same = rng.random(20_000) < 0.5, np.zeros(20_000, bool)
    clicks = rng.binomial(6, 0.4, 20_000).astype(float)
    found = decide_step(certificate, rollout, Sessions(treated, same, clicks), now=0.0)
    proven = confirmed(certificate, found)
    assert proven.provenance.path_basis == f"the path of certificate {certificate.id}; first 2 lists per session"
    shares = differences(found.sessions, 0.85, 0.5, 6.0)
    assert proven.tests[0].pvalue == pytest.approx(np.exp(-evidence(shares)[-1]))


def list_of(session, time, ranking, other, arm="treatment 0", **more):
    """A line of the log, of a rollout."""
    given = {
        "list_id": f"{session}-{time:g}", "time": time, "certificate": "c", "status": "valid", "order": "drawn",
        "query_id": "q", "session": session, "first_rank": 1, "n_shown": 2, "item_ids": ["a", "b", "d"],
        "scores": [3.0, 2.0, 1.0], "ranking": ranking, "propensities": [1.0] * len(ranking), "deterministic": [0, 1],
        "arm": arm, "other_arm": other,
    }  # fmt: skip
    return given | more


def test_sessions_are_their_first_lists_within_their_time(tmp_path):
    log = tmp_path / "log.parquet"
    lines = [
        list_of("s", 100.0, [0, 1, 2], [0, 1, 2]),
        list_of("s", 120.0, [1, 0, 2], [0, 1, 2]),
        list_of("s", 130.0, [0, 1, 2], [0, 1, 2]),  # beyond the first two
        list_of("t", 100.5, [0, 1, 2], [0, 1, 2]),
        list_of("t", 900.0, [1, 0, 2], [0, 1, 2]),  # after the session's time
        list_of("u", 101.0, [0, 1, 2], [0, 1, 2], arm="control 0"),
        list_of("u", 102.0, [0, 1, 2], [0, 1, 2], arm="treatment 1"),  # counted in the first step
        list_of("v", 103.0, [1, 0, 2], [1, 0], n_shown=1, arm="treatment 1"),
        list_of("w", 104.0, [1, 0, 2], [1, 2, 0], n_shown=1, arm="treatment 1"),
        list_of("x", 105.0, [1, 0, 2], [1, 2, 0], arm="treatment 1"),
        list_of("y", 106.0, [1, 0, 2], [1], arm="treatment 1"),
    ]
    lines.insert(1, lines[0])  # the log has it twice: it counts once
    pq.write_table(pa.Table.from_pylist(lines, COLUMNS), log)
    pairs = [("s-100", "a"), ("s-100", "a"), ("s-120", "a"), ("s-120", "b"), ("s-130", "a"), ("t-900", "a")]
    clicks = read_clicks(
        pa.table({"list_id": [a for a, _ in pairs], "item_id": [b for _, b in pairs], "time": [131.0] * len(pairs)})
    )
    state = Rollout("c", 0.5, (1, 2)).ruled(within=60.0, first=2)
    found = sessions_of(log, clicks, state, 2, now=1e6)
    assert found.starts.tolist() == [100.0, 100.5, 101.0]
    assert found.clicks.tolist() == [3.0, 0.0, 0.0]
    assert found.same.tolist() == [False, True, True]
    assert found.treated.tolist() == [True, True, False]
    assert sessions_of(log, clicks, state, 2, now=220.5).n_open == 1  # the last of its lists can come at 161
    later = sessions_of(log, clicks, structs.replace(state, step=1), 2, now=1e6)
    assert (later.same.tolist(), later.n_excluded) == ([True, True, False, False], 1)
    assert len(sessions_of(log, clicks, state, 2, now=1e6, every_step=True)) == 7


def test_values_are_added_up_place_by_place(tmp_path):
    log = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist([list_of("s", 100.0, [1, 0, 2], [0, 1, 2])], COLUMNS), log)
    table = {"list_id": ["s-100"] * 3, "item_id": ["a", "a", "b"], "time": [101.0] * 3, "margin": [2.0, 7.0, 0.5]}
    clicks = read_clicks(pa.table(table), value="margin")
    found = sessions_of(log, clicks, Rollout("c", 0.5, (1,)).ruled(), 2, now=1e6)
    assert found.clicks.tolist() == [7.5]


def test_the_service_splits_sessions_logs_both_lists_and_follows_the_state(certificate, queries, tmp_path):
    file, log = tmp_path / "ranker.json", tmp_path / "served"
    log.mkdir()
    certificate.save(file)
    rollout = Rollout.begin(certificate).ruled(within=60.0)
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
    found = sessions_of(log, clicks, rollout, 3, now=time.time() + 100)
    assert len(found) == 60
    assert found.clicks.tolist() == [1.0] * 60
    assert found.treated.tolist() == [rollout.treated(f"s{i}") for i in range(60)]
    assert sessions_of(log, clicks, rollout, 3, now=time.time()).n_open == 60
    later = rollout.after(certified=True, reason="")
    later.save(file)
    client.service.refresh()
    client.post("/rank", {"query_id": "q", "session": "s1", "items": items})
    client.post("/rank", {"query_id": "q", "session": "new", "items": items})
    found = sessions_of(log, clicks, later, 3, now=time.time() + 100)
    assert (len(found), found.n_excluded) == (1, 1)
    structs.replace(later, stage="failed").save(file)
    client.service.refresh()
    client.post("/rank", {"query_id": "q", "session": "last", "items": items})
    assert read_log(log).table.to_pylist()[-1]["arm"] is None
    later.save(file)
    revoke(file, certificate.id, "broken")  # both arms get the order by score then, which says nothing
    client.service.refresh()
    client.post("/rank", {"query_id": "q", "session": "revoked", "items": items})
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
