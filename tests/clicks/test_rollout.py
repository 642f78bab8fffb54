"""A rollout: its lot, its evidence, its steps, and the service that follows it."""

import json
import time
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from typer.testing import CliRunner

from isrr.cli.main import app
from isrr.clicks.click_certificate import calibrate_clicks
from isrr.clicks.click_table import read_clicks
from isrr.clicks.promised import checked_promise
from isrr.clicks.rollout import Rollout, read_rollout, step_and_arm
from isrr.clicks.sessions import Sessions, sessions_of
from isrr.clicks.steps import BETS, confirmed, decide_step, differences, evidence
from isrr.data.log import COLUMNS, read_log
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.outcome.status import revoke
from serving import client_of
from simulated_users import simulate

DAY, HOUR = 86_400.0, 3_600.0


@pytest.fixture(scope="module")
def certificate(queries, logger):
    found = simulate(queries, logger, 20_000, seed=3).impressions()
    return calibrate_clicks(found, checked_promise("clicks@3 >= 85% of deterministic"))


def sessions(n, clicks=0.4, bad=0, seed=20234):
    """Sessions, one per minute: the treatment gets as many clicks as control, and none in the last `bad`."""
    rng = np.random.default_rng(seed)
    treated = rng.random(n) < 0.5
    seen = rng.binomial(3, np.where(treated & (np.arange(n) >= n - bad), 0.0, clicks)).astype(float)
    names = rng.integers(1 << 60, size=n).astype(np.uint64)
    return Sessions(treated, np.zeros(n, bool), seen, names=names, starts=60.0 * np.arange(n))


def with_clicks(found, clicks):
    return Sessions(found.treated, found.same, clicks, names=found.names, starts=found.starts)


def slow(found, share, control, most):
    """Session by session, as the formula stands."""
    p, before, wealth, logarithms = 1 - control, [], np.ones(len(BETS)), []
    bound = share * most / control
    for treated, same, y in zip(found.treated, found.same, found.clicks, strict=True):
        c = min((0.1 * most + sum(before)) / (1 + len(before)), p * bound)
        if same:
            z = (share - 1) * y
        elif treated:
            z = -(y - c) / p + (share - 1) * c
        else:
            z = share * (y - c) / control + (share - 1) * c
        assert z <= bound + 1e-12
        wealth = wealth * (1 - BETS * z / bound)
        logarithms.append(np.log(wealth.mean()))
        before.append(y)
    return logarithms


@pytest.mark.parametrize("control", [0.2, 0.5, 0.9])
def test_the_evidence_equals_its_slow_twin(control):
    rng = np.random.default_rng(20230)
    found = Sessions(rng.random(200) > control, rng.random(200) < 0.3, rng.integers(0, 4, 200).astype(float))
    fast = evidence(differences(found, 0.9, control, 3.0))
    np.testing.assert_allclose(fast, slow(found, 0.9, control, 3.0), rtol=1e-9, atol=1e-12)


def test_the_lot_is_stable_fair_and_drawn_anew_in_each_step(certificate):
    rollout = Rollout.begin(certificate, control=0.3)
    lots = [[structs.replace(rollout, step=step).treated(f"s{i}") for i in range(5_000)] for step in (0, 1, 0)]
    assert lots[0] == lots[2]
    assert abs(np.mean(lots) - 0.7) < 0.02
    assert abs(np.corrcoef(lots[:2])[0, 1]) < 0.05


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
    with pytest.raises(CertificateError, match=r"lead to ranker 900 of the certificate's path.*was edited"):
        structs.replace(rollout, steps=(1, 900)).ranker(certificate)
    with pytest.raises(ValueError, match="`least_days=` must be a number ≥ 0, got -1"):
        Rollout.begin(certificate, least_days=-1)


def test_a_step_is_decided_by_its_sessions(certificate):
    rollout, equal = Rollout.begin(certificate, budget=4_000, least_days=0, steps=1), sessions(4_000)
    found = decide_step(certificate, rollout, equal, now=0.0)
    assert (found.rollout.stage, found.earliest) == ("done", None)
    proven = confirmed(certificate, found)
    assert proven.provenance.clicks.assumption == ""
    assert "depends on the query" not in str(proven)
    assert "the sessions are a random sample of the traffic to come, each independent of the others" in str(proven)
    worse = sessions(4_000, np.where(equal.treated, 0.3, 0.4))
    assert decide_step(certificate, rollout, worse, now=0.0).rollout.stage == "failed"
    few = decide_step(certificate, rollout, worse[:50], now=0.0).rollout
    assert (few.stage, few.step, few.n_counted) == ("running", 0, 50)


def test_a_step_is_decided_by_the_evidence_at_present_and_not_by_its_maximum(certificate):
    rollout, found = Rollout.begin(certificate, least_days=0, steps=1), sessions(4_000, bad=400)
    strength = evidence(differences(found, 0.85, 0.5, 3.0))
    enough = int(np.argmax(strength >= np.log(20)))
    assert np.log(0.8 * 20) < strength[enough - 1] < np.log(20)
    for n, stage in ((enough, "running"), (enough + 1, "done"), (3_600, "done")):
        assert decide_step(certificate, rollout, found[:n], now=0.0).rollout.stage == stage
    proven = confirmed(certificate, decide_step(certificate, rollout, found[:3_600], now=0.0))
    assert proven.tests[0].pvalue == pytest.approx(np.exp(-strength[3_599]))
    assert strength[-1] < np.log(20) < strength.max()
    last = decide_step(certificate, rollout, found, now=0.0)
    assert (last.rollout.stage, last.evidence) == ("running", pytest.approx(np.exp(strength[-1])))


def test_only_whole_periods_decide_a_step(certificate):
    found = sessions(8_000, bad=3_680)  # three good days, and two and a half bad ones
    rollout = Rollout.begin(certificate, least_days=3, steps=1, budget=1_000)
    early = decide_step(certificate, rollout, found[:4_300], now=3 * DAY + HOUR - 1)
    assert early.evidence > 20
    assert (early.rollout.stage, early.rollout.n_counted) == ("running", 4_300)  # the budget ends nothing either
    assert early.earliest == (3 * DAY + HOUR, 3 * DAY + HOUR)
    late = decide_step(certificate, early.rollout, found, now=5.9 * DAY)
    assert (late.rollout.stage, len(late.sessions), late.n_later) == ("done", 4_320, 3_680)
    bad = Sessions(found.treated[::-1], found.same, found.clicks[::-1], starts=found.starts)  # the bad days first
    assert decide_step(certificate, rollout, bad[:4_300], now=3 * DAY).rollout.stage == "running"
    failed = decide_step(certificate, rollout, bad, now=5.9 * DAY)
    assert (failed.rollout.stage, len(failed.sessions)) == ("failed", 4_320)
    more = decide_step(certificate, structs.replace(rollout, budget=5_000), bad, now=5.9 * DAY)
    assert (more.rollout.stage, more.n_later, more.earliest[0]) == ("running", 3_680, 6 * DAY + HOUR)
    longer = sessions(9_000)
    longer = with_clicks(longer, np.where(longer.treated & (longer.starts < 2 * DAY), 0.0, longer.clicks))
    late = decide_step(certificate, rollout, longer, now=6.2 * DAY)  # the second period is beyond the budget
    assert (late.rollout.stage, len(late.sessions)) == ("failed", 4_320)
    with pytest.raises(DataError, match="it is unknown when sessions began"):
        decide_step(certificate, rollout, Sessions(found.treated, found.same, found.clicks), now=5.9 * DAY)


def test_sessions_beyond_the_budget_do_not_count(certificate):
    rollout, found = Rollout.begin(certificate, least_days=0, steps=1, budget=300), sessions(4_000)
    larger = structs.replace(rollout, budget=4_000)
    assert decide_step(certificate, larger, found, now=0.0).rollout.stage == "done"
    late = decide_step(certificate, rollout, found, now=0.0)
    assert (late.rollout.stage, len(late.sessions), late.n_later) == ("failed", 300, 3_700)
    assert "is not certified after 300 sessions" in str(late)


def test_the_earliest_end_counts_every_step(certificate):
    state = Rollout.begin(certificate)
    assert (len(state.steps), state.least_days) == (4, 7)
    assert Rollout.begin(certificate, steps=1).steps == state.steps[-1:]
    nothing = decide_step(certificate, state, sessions(0), now=0.0)
    assert nothing.earliest == (7 * DAY + HOUR, 4 * (7 * DAY + HOUR))
    assert "earliest end 1970-01-08 01:00:00 UTC for step 1, 1970-01-29 04:00:00 UTC for the rollout" in str(nothing)
    found = decide_step(certificate, state, sessions(10_080), now=8 * DAY)
    assert found.rollout.step == 1
    assert found.earliest == (15 * DAY + HOUR, 15 * DAY + HOUR + 2 * (7 * DAY + HOUR))
    at_any_time = decide_step(certificate, structs.replace(state, least_days=0), sessions(50), now=2 * HOUR)
    assert at_any_time.earliest == (2 * HOUR, 2 * HOUR + 3 * HOUR)


def test_an_analysis_that_counts_nothing_says_what_it_waits_for_and_fixes_nothing(certificate, tmp_path):
    file, log, clicks = (tmp_path / name for name in ("ranker.json", "log.parquet", "clicks.csv"))
    certificate.save(file)
    Rollout.begin(certificate).save(file)
    now = time.time()
    lines = [list_of(name, start, [0, 1, 2], [0, 1, 2]) for name, start in (("s", now - 90), ("t", now - 30))]
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
    assert "kept so far nothing, promised ≥ 85.0 %; evidence for the promise 1.00" in said
    assert read_rollout(file, certificate.id).within is None
    clicks.write_text("list_id,item_id\n" + 2 * f"s-{now - 90:g},a\n")
    words = ["clicks", "rollout", str(file), "--log", str(log), "--clicks", str(clicks)]
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, "2 of 2 have no time; expected a column 'time'" in refused.output) == (2, True)
    clicks.write_text(f"list_id,item_id,time\nelsewhere,a,{now}\ns-{now - 90:g},z,{now - 80}\n")
    document = json.loads(status("1m", "--json"), parse_constant=pytest.fail)
    assert document["left_out"] == {"clicks on lists that do not count": 1, "clicks on items not shown": 1}
    assert "left out 1 clicks on items not shown" in " ".join(status("1m").split())
    assert (document["sessions"], document["too_recent"]) == (1, 1)
    assert document["earliest_step_end"] == pytest.approx(now - 90 + 7 * DAY + 60)
    assert read_rollout(file, certificate.id).within == 60.0


def test_a_rollout_that_has_begun_says_that_it_goes_on_as_it_began(certificate, tmp_path, monkeypatch):
    monkeypatch.setattr("isrr.serve.command.run", lambda *_, **settings: None)
    certificate.save(tmp_path / "ranker.json")
    command = ["serve", str(tmp_path / "ranker.json"), "--rollout", "--log", str(tmp_path / "log")]
    first, second = (CliRunner().invoke(app, [*command, "--control", share]) for share in ("0.25", "0.5"))
    assert (first.exit_code, second.exit_code, first.output) == (0, 0, "")
    assert "this rollout goes on as it began: control 0.25, budget 200,000, least days 7, 4 steps" in second.output


def test_a_log_that_lost_counted_sessions_is_refused(certificate):
    found = sessions(90)
    state = decide_step(certificate, Rollout.begin(certificate), found[:60], now=90.0).rollout
    assert decide_step(certificate, state, found, now=90.0).rollout.n_counted == 90
    for lost in (found[1:], found[:50]):
        with pytest.raises(DataError, match="the log has lost sessions of step 1"):
            decide_step(certificate, state, lost, now=90.0)


def test_what_counts_is_the_same_every_time(certificate, tmp_path):
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
    rollout, found = Rollout.begin(certificate, least_days=0, steps=1).ruled(first=2), sessions(20_000)
    proven = confirmed(certificate, decide_step(certificate, rollout, with_clicks(found, 2 * found.clicks), now=0.0))
    assert proven.provenance.path_basis == f"the path of certificate {certificate.id}; first 2 lists per session"
    strength = evidence(differences(with_clicks(found, 2 * found.clicks), 0.85, 0.5, 6.0))
    assert proven.tests[0].pvalue == pytest.approx(np.exp(-strength[-1]))


def list_of(session, time, ranking, other, arm="treatment 0", **more):
    """A line of the log, of a rollout."""
    fields = {
        "list_id": f"{session}-{time:g}", "time": time, "certificate": "c", "status": "valid", "order": "drawn",
        "query_id": "q", "session": session, "first_rank": 1, "n_shown": 2, "item_ids": ["a", "b", "d"],
        "scores": [3.0, 2.0, 1.0], "ranking": ranking, "propensities": [1.0] * len(ranking), "deterministic": [0, 1],
        "arm": arm, "other_arm": other,
    }  # fmt: skip
    return fields | more


def clicked(*pairs, **more):
    table = {"list_id": [a for a, _ in pairs], "item_id": [b for _, b in pairs], "time": [131.0] * len(pairs)}
    return pa.table(table | more)


def test_sessions_are_their_first_lists_within_their_time(tmp_path):
    log, by_score = tmp_path / "log.parquet", [0, 1, 2]
    lines = [
        list_of("s", 100.0, by_score, by_score),
        list_of("s", 100.0, by_score, by_score),  # the log has it twice: it counts once
        list_of("s", 120.0, [1, 0, 2], by_score),
        list_of("s", 130.0, by_score, by_score),  # beyond the first two
        list_of("t", 100.5, by_score, by_score),
        list_of("t", 900.0, [1, 0, 2], by_score),  # after the session's time
        list_of("u", 101.0, by_score, by_score, arm="control 0"),
        list_of("u", 102.0, by_score, by_score, arm="treatment 1"),  # counted in the first step
        list_of("v", 103.0, [1, 0, 2], [1, 0], n_shown=1, arm="treatment 1"),
        list_of("w", 104.0, [1, 0, 2], [1, 2, 0], n_shown=1, arm="treatment 1"),
        list_of("x", 105.0, [1, 0, 2], [1, 2, 0], arm="treatment 1"),
        list_of("y", 106.0, [1, 0, 2], [1], arm="treatment 1"),
    ]
    pq.write_table(pa.Table.from_pylist(lines, COLUMNS), log)
    pairs = [("s-100", "a"), ("s-100", "a"), ("s-120", "a"), ("s-120", "b"), ("s-130", "a"), ("t-900", "a")]
    clicks, state = read_clicks(clicked(*pairs)), Rollout("c", 0.5, (1, 2)).ruled(within=60.0, first=2)
    found = sessions_of(log, clicks, state, 2, now=1e6)
    assert found.starts.tolist() == [100.0, 100.5, 101.0]
    assert found.clicks.tolist() == [3.0, 0.0, 0.0]
    assert found.same.tolist() == [False, True, True]
    assert found.treated.tolist() == [True, True, False]
    assert sessions_of(log, clicks, state, 2, now=220.5).n_open == 1  # the last of its lists can come at 161
    later = sessions_of(log, clicks, structs.replace(state, step=1), 2, now=1e6)
    assert (later.same.tolist(), later.n_excluded) == ([True, True, False, False], 1)
    assert len(sessions_of(log, clicks, state, 2, now=1e6, every_step=True)) == 7
    worth = clicked(("s-120", "a"), ("s-120", "a"), ("s-120", "b"), margin=[2.0, 7.0, 0.5])  # once per position
    valued = sessions_of(log, read_clicks(worth, value="margin"), state, 2, now=1e6)
    assert valued.clicks.tolist() == [7.5, 0.0, 0.0]


def test_the_service_splits_sessions_logs_both_lists_and_follows_the_state(certificate, tmp_path):
    file, log = tmp_path / "ranker.json", tmp_path / "served"
    log.mkdir()
    certificate.save(file)
    rollout = Rollout.begin(certificate).ruled(within=60.0)
    rollout.save(file)
    client, clicks = client_of(file, log=log, rollout=True), []
    items = [{"id": f"d{i}", "score": float(-i) / 10} for i in range(8)]

    def visit(*sessions):
        client.service.current.refresh()
        for session in sessions:
            answer = client.post("/rank", {"query_id": "q", "session": session, "items": items}).json()
        return answer

    asked = {"query_id": "q", "session": "s0", "items": items}
    arms = {client.post("/preview", {"queries": [asked | {"seed": n}]}).json()["results"][0]["certificate"]["order"]
            for n in range(30)}  # fmt: skip
    assert arms == {"drawn" if rollout.treated("s0") else "deterministic"}  # another draw is not another arm

    for i in range(60):
        answer = visit(f"s{i}")
        assert answer["certificate"]["order"] == ("drawn" if rollout.treated(f"s{i}") else "deterministic")
        clicks.append({"list_id": answer["list_id"], "item_id": answer["items"][0]["id"], "time": time.time()})
    for line in read_log(log).table.to_pylist():
        step, treated = step_and_arm(line["arm"])
        assert (step, treated) == (0, rollout.treated(line["session"]))
        by_score = line["other_arm"] if treated else line["ranking"]
        assert by_score == [*range(len(by_score))]
    clicks = read_clicks(pa.Table.from_pylist(clicks))
    found = sessions_of(log, clicks, rollout, 3, now=time.time() + 100)
    assert found.clicks.tolist() == [1.0] * 60
    assert found.treated.tolist() == [rollout.treated(f"s{i}") for i in range(60)]
    assert sessions_of(log, clicks, rollout, 3, now=time.time()).n_open == 60
    later = rollout.after(certified=True, reason="")
    later.save(file)
    visit("s1", "new")
    found = sessions_of(log, clicks, later, 3, now=time.time() + 100)
    assert (len(found), found.n_excluded) == (1, 1)
    structs.replace(later, stage="failed").save(file)
    visit("last")
    assert read_log(log).table.to_pylist()[-1]["arm"] is None
    later.save(file)
    revoke(file, certificate.id, "broken")  # both arms get the order by score then, which says nothing
    visit("revoked")
    assert read_log(log).table.to_pylist()[-1]["arm"] is None


@pytest.mark.parametrize(
    "more", [{"control": 7}, {"control": "half"}, {"steps": []}, {"step": 3}, {"stage": "?"}, {"a": 1}, {"within": -1}]
)
def test_a_damaged_state_is_refused(tmp_path, more):
    assert read_rollout(tmp_path / "ranker.json", "c") is None
    state = {"certificate": "c", "control": 0.5, "steps": [1]} | more
    (tmp_path / "ranker.rollout.json").write_text(json.dumps(state))
    with pytest.raises(CertificateError, match="not the state of a rollout"):
        read_rollout(tmp_path / "ranker.json", "c")
