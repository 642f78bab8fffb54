"""The whole way with a real service: explore, click, certify, roll out, watch."""

import contextlib
import os
import signal
import time

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from typer.testing import CliRunner

import isrr
from isrr.cli.main import app
from isrr.clicks.rollout import read_rollout
from isrr.data.log import read_log
from isrr.outcome.status import read_status
from serving import Server

SESSIONS, AT_ONCE, N_ITEMS = 20_000, 250, 8


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Scored queries, and how good their items are in the eyes of simulated users."""
    folder, rng = tmp_path_factory.mktemp("clicks"), np.random.default_rng(20230)
    worth = rng.choice([0.1, 0.4, 0.9], (50, N_ITEMS), p=[0.6, 0.3, 0.1])
    scores = worth + rng.normal(scale=0.4, size=worth.shape)
    ids = [f"d{i}" for i in range(N_ITEMS)]
    table = {"query_id": np.repeat(np.arange(50), N_ITEMS), "item_id": ids * 50, "score": scores.ravel()}
    pq.write_table(pa.table(table), folder / "scored.parquet")
    return folder, worth, scores, rng


@contextlib.contextmanager
def serving(*given):
    """A service, stopped in the end."""
    server = Server(*given)
    try:
        yield server
    finally:
        server.stop()


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def visit(server, world, n, name, halfway=lambda: None):
    """Send sessions to a service; the lists it acknowledged, and the clicks on them as a table."""
    _, worth, scores, rng = world
    acknowledged, clicks = [], []
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for start in range(0, n, AT_ONCE):
            if start == n // 2 // AT_ONCE * AT_ONCE:
                halfway()
            chosen = rng.integers(50, size=min(AT_ONCE, n - start))
            asked = [
                {
                    "query_id": int(query), "session": f"{name}-{start + i}",
                    "items": [{"id": f"d{d}", "score": float(scores[query, d])} for d in range(N_ITEMS)],
                }
                for i, query in enumerate(chosen)
            ]  # fmt: skip
            try:
                answer = client.post("/rank/batch", json={"queries": asked})
            except httpx.TransportError:  # the worker was killed: nothing was acknowledged
                continue
            assert answer.status_code == 200, answer.text
            for query, made in zip(chosen, answer.json()["results"], strict=True):
                acknowledged.append(made["list_id"])
                for item in made["items"]:
                    if rng.random() < worth[query, int(item["id"][1:])] / item["rank"]:
                        clicks.append({"list_id": made["list_id"], "item_id": item["id"], "time": time.time()})
    return acknowledged, pa.Table.from_pylist(clicks)


def test_from_scores_to_a_watched_certificate_by_clicks_alone(world):
    folder = world[0]
    explore, ranker, log = folder / "explore.json", folder / "ranker.json", folder / "served"
    promise = "clicks@3 >= 85% of deterministic"
    options = ("-p", "ndcg@3 >= 90% of deterministic", "--explore")
    assert run("start", folder / "scored.parquet", *options, "-o", explore)[0] == 0

    with serving(explore, "--log", str(log), "--workers", "2") as server:
        acknowledged, clicks = visit(
            server, world, SESSIONS, "explored", lambda: os.kill(server.workers()[0], signal.SIGKILL)
        )
    logged = read_log(log)
    assert len(acknowledged) >= SESSIONS - 2 * AT_ONCE
    assert set(acknowledged) <= set(logged.table["list_id"].to_pylist())  # kill -9 loses nothing that was answered
    check_propensities(logged, isrr.load(explore).ranker)
    pq.write_table(clicks, folder / "clicks.parquet")

    code, said = run(
        "clicks",
        "calibrate",
        "--log",
        log,
        "--clicks",
        folder / "clicks.parquet",
        "-p",
        promise,
        "--anchor",
        0.2,
        "-o",
        ranker,
    )
    assert code == 0, said
    outcome = isrr.load(ranker)
    assert outcome.provenance.clicks.n_impressions >= len(acknowledged)

    with serving(ranker, "--rollout", "--control", "0.5", "--log", str(log)) as server:
        _, clicks = visit(server, world, 3_000, "rollout")
        pq.write_table(clicks, folder / "clicks.parquet")
        time.sleep(1.5)
        words = ("--log", log, "--clicks", folder / "clicks.parquet", "--within", "1s")
        code, said = run("clicks", "rollout", ranker, *words)
        assert code == 0, said
        assert "3,000 counted" in said
        state = read_rollout(ranker, outcome.id)
        assert state.step >= 0
        structs.replace(state, step=1, stage="running").save(ranker)  # the service follows
        time.sleep(2.5)
        visit(server, world, 250, "later")
    arms = read_log(log).table["arm"].to_pylist()
    assert {arm for arm in arms[-250:] if arm} <= {"treatment 1", "control 1"}

    with serving(ranker, "--log", str(log)) as server:
        _, clicks = visit(server, world, 2_000, "watched")
    pq.write_table(clicks, folder / "clicks.parquet")
    time.sleep(1.5)
    code, said = run("monitor", ranker, *words, "--expires", "2999-01-01", "--parquet", folder / "log.parquet")
    assert code == 0, said
    assert "alarm        none" in said
    assert read_status(ranker, isrr.load(ranker).id).expires.startswith("2999-01-01")
    assert pq.read_table(folder / "log.parquet").num_rows


def check_propensities(logged, ranker):
    """The chance of each logged list, recomputed from the log, is what the service said it was."""
    some = logged.table.slice(0, 200).to_pylist()
    for line in some:
        one = isrr.Queries.from_arrays(
            scores=line["scores"], query_ids=[line["query_id"]] * len(line["scores"]), item_ids=line["item_ids"]
        )
        places = [line["ranking"][: ranker.k]]
        found = ranker.propensity(np.array(places), one)[0]
        np.testing.assert_allclose(found, line["propensities"][: ranker.k], atol=1e-7)
