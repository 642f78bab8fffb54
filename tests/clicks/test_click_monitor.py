"""The monitor by clicks: silent while the promise holds, and heard when it breaks."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from isrr import Monitor
from isrr.clicks.click_certificate import calibrate_clicks
from isrr.clicks.click_table import read_clicks
from isrr.clicks.promised import checked_promise
from isrr.clicks.rollout import Rollout, arm_name
from isrr.clicks.sessions import Sessions, sessions_of
from isrr.clicks.steps import centred
from isrr.errors import DataError, PromiseError
from isrr.monitor.clicked import control_losses
from isrr.ranker.gpl import GPLRanker
from simulated_users import Users, simulate

NOBODY = pa.table({"list_id": pa.array([], pa.string()), "item_id": pa.array([], pa.string())})


@pytest.fixture(scope="module")
def certificate(queries, logger):
    promise = checked_promise("clicks@3 >= 85% of deterministic")
    return calibrate_clicks(simulate(queries, logger, 20_000, seed=3).impressions(), promise, anchor=0.3)


@pytest.fixture(scope="module")
def spoiled(queries):
    """Queries of which only the first item by score is worth a click."""
    best = np.zeros(queries.n_rows)
    best[queries.offsets[:-1] + queries.by_score[queries.offsets[:-1]]] = 3.0
    return replace(queries, relevance=best)


def served(certificate, queries, folder, n=20_000, users=None):
    return simulate(queries, certificate.ranker, n, users or Users(noise=0.02), seed=5).save(folder, certificate.id)


def test_a_promise_that_holds_raises_no_alarm(certificate, queries, tmp_path):
    log, clicks = served(certificate, queries, tmp_path)
    monitor = Monitor(certificate)
    assert monitor.update_clicks(log, read_clicks(clicks), now=1e9) is None
    assert 0.85 < monitor.kept[0] < 1.05
    assert monitor.n_counted == 20_000


def test_a_promise_that_breaks_does(certificate, spoiled, tmp_path):
    log, clicks = served(certificate, spoiled, tmp_path)
    monitor = Monitor(certificate)
    alarm = monitor.update_clicks(log, read_clicks(clicks), now=1e9)
    assert monitor.kept[0] < 0.85
    assert "is broken" in str(alarm)
    assert alarm.shortfall > 0


def test_lists_without_clicks_count_and_those_whose_clicks_may_still_come_wait(certificate, queries, tmp_path):
    log, _ = served(certificate, queries, tmp_path, 500)
    for now, n in ((1e9, 500), (300.0, 201)):
        monitor = Monitor(certificate, within=100.0)
        assert monitor.update_clicks(log, read_clicks(NOBODY), now=now) is None
        assert monitor.n_counted == n


def test_looks_add_up_and_survive_the_loss_of_old_lists(certificate, queries, tmp_path):
    log, clicks = served(certificate, queries, tmp_path, 3_000)
    clicks, table, file = read_clicks(clicks), pq.read_table(log), tmp_path / "state.json"
    at_once = Monitor(certificate, within=10.0)
    at_once.update_clicks(log, clicks, now=1e9)
    for now in (900.0, 900.0, 2_000.0, 1e9, 1e9):
        monitor = Monitor(certificate, within=10.0, state=file)
        monitor.update_clicks(log, clicks, now=now)
        pq.write_table(table.slice(max(0, min(int(now) - 20, 2_990))), log)  # what is older goes
    assert monitor.n_counted == at_once.n_counted == 3_000
    assert monitor.evidence == pytest.approx(at_once.evidence, rel=1e-9)
    assert monitor.kept == pytest.approx(at_once.kept)
    for other, said in (({"within": 20.0}, "within 10.0; this one has 20.0"), ({"delta": 0.2}, "delta")):
        with pytest.raises(DataError, match=said):
            Monitor(certificate, state=file, **{"within": 10.0, **other})
    file.write_text(file.read_text().replace('"n":3000', '"n":-1'))
    with pytest.raises(DataError, match="not the state of a monitor"):
        Monitor(certificate, within=10.0, state=file)


def rolled_out(certificate, queries, folder, users):
    """The log of a rollout's last step, and the clicks on its lists."""
    rollout = Rollout.begin(certificate)
    rollout = structs.replace(rollout, step=len(rollout.steps) - 1)
    rankers = (certificate.ranker, GPLRanker(k=3, anchor=1.0))
    drawn, ordered = (simulate(queries, ranker, 20_000, users, seed=6) for ranker in rankers)
    lot = [rollout.treated(f"user-{user}") for user in drawn.user_of]
    treated = np.array(lot)[:, None]
    here, there = (
        replace(
            one,
            rankings=np.where(treated, one.rankings, other.rankings),
            clicked=np.where(treated, one.clicked, other.clicked),
        )
        for one, other in ((drawn, ordered), (ordered, drawn))
    )
    log, clicks = here.save(folder, certificate.id)
    table, arms = pq.read_table(log), pa.array([arm_name(rollout.step, one) for one in lot])
    for name, column in (("arm", arms), ("other_arm", there.log(certificate.id)["ranking"])):
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, log)
    return rollout, log, read_clicks(clicks)


def test_the_control_arm_of_a_rollout_is_a_reference(certificate, queries, tmp_path):
    rollout, log, clicks = rolled_out(certificate, queries, tmp_path, Users(model="cascade"))
    at_once = Monitor(certificate, rollout=rollout)
    assert at_once.update_clicks(log, clicks, now=1e9) is None
    assert at_once.n_counted == 20_000
    arms = sessions_of(log, clicks, rollout, certificate.k, now=1e9, every_step=True)
    treated, control = (arms.clicks[arm].mean() for arm in (arms.treated, ~arms.treated))
    assert at_once.kept[0] == pytest.approx(treated / control)
    assert "the control arm" in str(at_once)
    other = replace(clicks, list_ids=clicks.item_ids)
    confused = Monitor(certificate, rollout=rollout)
    confused.update_clicks(log, other, now=1e9)
    assert f"left out     {len(other):,} clicks on lists that do not count" in str(confused)
    assert confused.document()["left_out"] == dict(confused.left_out)
    file = tmp_path / "state.json"
    for now in (5_000.0, 12_000.0, 1e9):
        monitor = Monitor(certificate, rollout=rollout, state=file)
        monitor.update_clicks(log, clicks, now=now)
    assert (monitor.n_counted, monitor.evidence) == (20_000, pytest.approx(at_once.evidence, rel=1e-9))
    with pytest.raises(DataError, match="source control; this one has anchor"):
        Monitor(certificate, state=file)


def test_harm_in_a_rollout_raises_an_alarm(certificate, spoiled, tmp_path):
    rollout, log, clicks = rolled_out(certificate, spoiled, tmp_path, Users(noise=0.02))
    assert "is broken" in str(Monitor(certificate, rollout=rollout).update_clicks(log, clicks, now=1e9))


@pytest.mark.parametrize("control", [0.05, 0.5, 0.95])
def test_losses_by_control_stay_within_their_bounds(control):
    low, high = 3 / (1 - control), 0.9 * 3 / control
    largest = min((1 - control) * high, low / (0.9 / control + 0.1))
    for clicks in np.ndindex(4, 4, 4, 2, 2):
        arms = np.array([False, True, bool(clicks[3])])
        sessions = Sessions(arms, np.array([False, bool(clicks[4]), False]), np.array(clicks[:3], float))
        z = centred(sessions, 0.9, control, 3.0, largest)
        np.testing.assert_allclose(control_losses(sessions, 0.9, control, 3.0), (z + low) / (low + high), atol=1e-12)


def test_what_cannot_be_monitored_is_refused(certificate, queries):
    with pytest.raises(PromiseError, match="has no anchor"):
        Monitor(structs.replace(certificate, ranker=replace(certificate.ranker, anchor=0.0)))
    with pytest.raises(PromiseError, match="monitor it with `clicks=`"):
        Monitor(certificate).update([], queries)
