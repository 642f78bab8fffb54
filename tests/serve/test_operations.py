"""Health, metrics, OpenAPI, reloading, the served-ranking log and the ledger made from it."""

import asyncio
import errno
import json
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from isrr import Queries
from isrr.errors import DataError
from isrr.monitor.exposure_ledger import ledger, write_ledger
from isrr.serve import served_log
from isrr.serve.current import CurrentCertificate
from isrr.serve.metrics import ServiceMetrics
from isrr.serve.served_log import ServedLog, mend, read_served, write_parquet
from isrr.serve.settings import Settings
from isrr.serve.worker import Worker
from isrr.status import Status, status_file
from serving import client_of

ITEMS = [{"id": name, "score": score} for name, score in (("a", 1.2), ("b", 1.0), ("c", 0.9), ("d", 0.2))]


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def raises(error):
    raise error


def ask(client, query="q", session="s", **given):
    return client.post("/rank", {"query_id": query, "session": session, "items": ITEMS, **given})


def test_the_small_endpoints_answer(client, certificate):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").status_code == 503  # not started
    info = client.get("/info").json()
    assert info["certificate"]["id"] == certificate.id
    assert info["text"] == str(certificate)
    assert info["content"]["utility"]["value"] == certificate.utility.value
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "Draw a hundred rankings" in page.text


def test_what_info_says_is_made_once_for_each_status(ranker_file, certificate, monkeypatch):
    texts, text = [], type(certificate).__str__
    monkeypatch.setattr(type(certificate), "__str__", lambda self: texts.append(text(self)) or texts[-1])
    client = client_of(ranker_file)
    first = client.get("/info").json()
    assert client.get("/info").json() == first
    Status(certificate.id, "revoked", "tested").save(ranker_file)
    client.worker.refresh()
    assert client.get("/info").json()["status"]["status"] == "revoked"
    assert len(texts) == 2
    assert "curve" not in first["content"]
    assert first["content"]["provenance"]["data"] == certificate.provenance.data


def test_starting_makes_the_service_ready_and_sighup_reloads(ranker_file, certificate, other_certificate):
    worker = Worker(Settings(ranker_file, poll=0.02))

    async def drive():
        current = worker.current
        async with worker.lifespan(None):
            assert worker.readiness == "ok"
            other_certificate.save(ranker_file)
            await until(lambda: current.now.note.id == other_certificate.id)
            ranker_file.write_text("{")
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: "not a certificate" in (current.reload_error or ""))
            assert current.now.note.id == other_certificate.id
            certificate.save(ranker_file)
            await until(lambda: current.now.note.id == certificate.id)
            assert current.reload_error is None
        assert worker.readiness == "starting"

    asyncio.run(drive())
    assert b"isrr_reload_failures_total 0.0" not in worker.metrics.render()


def test_whatever_a_step_of_the_watch_runs_into_a_revocation_is_still_seen(ranker_file, certificate, tmp_path, caplog):
    worker = Worker(Settings(ranker_file, poll=0.02, shared=tmp_path / "gone", trust_edited=True))

    async def drive():
        async with worker.lifespan(None):
            await until(lambda: "a step of the watch failed" in caplog.text)  # there is no folder to share counts in
            document = certificate.document()
            document["ranker"]["score_map"] = 3  # and there are no maps
            ranker_file.write_text(json.dumps(document))
            await until(lambda: "damaged certificate" in (worker.current.reload_error or ""))
            certificate.save(ranker_file)
            Status(certificate.id, "revoked", "tested").save(ranker_file)
            await until(lambda: worker.current.now.note.status == "revoked")
            await asyncio.sleep(0.1)

    asyncio.run(drive())
    assert caplog.text.count("a step of the watch failed") == 1


def test_a_worker_that_no_longer_watches_is_not_ready(ranker_file):
    client = client_of(ranker_file)

    async def drive():
        endpoint = next(route.endpoint for route in client.app._app.routes if route.path == "/ready")
        async with client.worker.lifespan(None):
            before = await endpoint(None)
            client.worker._watching.cancel()
            await until(lambda: client.worker._watching.done())
            return before.status_code, (await endpoint(None)).status_code

    assert asyncio.run(drive()) == (200, 503)


def test_what_could_not_be_read_once_is_read_at_the_next_look(ranker_file, certificate, monkeypatch):
    current = CurrentCertificate(ranker_file)
    Status(certificate.id, "revoked", "tested").save(ranker_file)
    with monkeypatch.context() as busy:
        busy.setattr("pathlib.Path.read_text", lambda *_, **__: raises(OSError(errno.EMFILE, "too many open files")))
        assert not current.refresh()
    assert current.refresh()
    assert (current.now.note.status, current.reload_error) == ("revoked", None)


def test_a_bad_status_file_keeps_the_last_word(ranker_file, certificate, caplog):
    current = CurrentCertificate(ranker_file)
    Status(certificate.id, "revoked", "tested").save(ranker_file)
    assert current.refresh()
    assert [(record.levelname, record.status) for record in caplog.records] == [("WARNING", "revoked")]
    status_file(ranker_file).write_text("damaged")
    assert not current.refresh()
    assert current.now.note.status == "revoked"
    assert "reload failed" in caplog.text


def test_a_term_that_is_set_while_it_is_served_is_kept(ranker_file, certificate):
    current = CurrentCertificate(ranker_file)
    ends = datetime.now(UTC) + timedelta(seconds=0.5)
    Status(certificate.id, expires=ends.isoformat()).save(ranker_file)
    assert not current.refresh()  # the answers are the same as before
    while datetime.now(UTC) < ends:
        assert current.now.note.status == "valid"
        time.sleep(0.05)
    assert current.refresh()
    assert current.now.note.status == "expired"


def test_a_certificate_expires_while_it_is_served(ranker_file, certificate, monkeypatch):
    Status(certificate.id, expires="2999-01-01").save(ranker_file)
    current = CurrentCertificate(ranker_file)
    assert not current.refresh()
    monkeypatch.setattr(Status, "standing", lambda self, now: ("expired", "its term ended"))
    assert current.refresh()
    assert (current.now.note.status, current.now.note.order) == ("expired", "deterministic")
    assert not current.refresh()


def test_metrics_count_requests_lists_and_drift(client):
    for session in range(20):
        ask(client, session=session)
    client.post("/rank", content=b"{")
    client.get("/nowhere")
    ask(client, query="drifted", items=[{"id": "a", "score": 1e9}])
    text = client.get("/metrics").text
    assert 'isrr_requests_total{code="200",path="/rank"} 21.0' in text
    assert 'isrr_requests_total{code="400",path="/rank"} 1.0' in text
    assert 'isrr_requests_total{code="404",path="other"} 1.0' in text
    assert 'isrr_lists_total{status="valid"} 20.0' in text
    assert 'isrr_lists_total{status="uncovered"} 1.0' in text
    assert 'isrr_list_items_bucket{le="5"} 21.0' in text
    assert 'isrr_request_seconds_count{path="/rank"} 22.0' in text
    assert 'isrr_score_bins_total{bin="above 99.9%"} 1.0' in text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert 0 < float(values["isrr_lists_changed_total"]) < 21
    assert float(values["isrr_score_drift"]) > 0
    assert float(values["isrr_eligibility_drift"]) > 0


def test_workers_see_each_others_counts(tmp_path, monkeypatch):
    workers = []
    for pid in (1, 2):
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        workers.append(ServiceMetrics(tmp_path))
    for worker in workers:
        worker.count_request("/rank", 200, 0.001)
        worker.share()
    for worker in workers:
        assert b'isrr_requests_total{code="200",path="/rank"} 2.0' in worker.render()


def test_the_openapi_document_covers_every_path(client):
    document = client.get("/openapi.json").json()
    paths = {route.path for route in client.app._app.routes}
    assert set(document["paths"]) == paths
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody")
            given = {} if body is None else {"body": body["content"]["application/json"]["example"]}
            answer = client.get(path) if method == "get" else client.post(path, **given)
            assert str(answer.status_code) in operation["responses"], path
    assert "500" not in json.dumps(document["paths"])


def test_the_log_holds_what_was_served_before_it_is_served(ranker_file, tmp_path):
    client = client_of(ranker_file, log=tmp_path / "log")
    client.worker.log = ServedLog(tmp_path / "log", 1 << 20)
    answers = [ask(client, session=n, k=2).json() for n in range(5)]
    page = ask(client, session=0, page=2, page_size=2).json()
    lines = list(read_served(tmp_path / "log"))
    for line, answer in zip(lines, [*answers, page], strict=True):
        assert line["items"] == [item["id"] for item in answer["items"]]
        assert line["propensities"] == [item["propensity"] for item in answer["items"]]
        assert line["certificate"] == answer["certificate"]["id"]
        assert line["deterministic"] == ["a", "b", "c", "d"]
    assert lines[5]["first_rank"] == 3
    assert lines[5]["top"] == lines[0]["top"]
    assert write_parquet(tmp_path / "log", tmp_path / "log.parquet") == 6
    kept = list(read_served(tmp_path / "log.parquet"))
    assert [line["items"] for line in kept] == [line["items"] for line in lines]
    assert kept[0]["session"] == "0"


def test_a_batch_that_is_refused_leaves_nothing_in_the_log(ranker_file, tmp_path):
    client = client_of(ranker_file)
    client.worker.log = ServedLog(tmp_path / "log", 1 << 20)
    good, bad = {"query_id": "q", "items": ITEMS}, {"query_id": "q", "items": ITEMS * 2}
    assert client.post("/rank/batch", {"queries": [good, bad]}).status_code == 422
    assert list(read_served(tmp_path / "log")) == []


def test_what_cannot_be_logged_is_not_served(ranker_file, tmp_path, monkeypatch):
    client = client_of(ranker_file)
    client.worker.log = ServedLog(tmp_path / "log", 1 << 20)
    ask(client)
    whole = os.write
    monkeypatch.setattr("os.write", lambda file, data: whole(file, data[: len(data) // 2]))
    assert ask(client).status_code == 503
    monkeypatch.undo()
    assert ask(client).status_code == 200
    assert len(list(read_served(tmp_path / "log"))) == 2


def test_the_log_rotates_by_size_and_mends_what_a_killed_worker_left(tmp_path):
    log = ServedLog(tmp_path, 120)
    for n in range(10):
        log.write(json.dumps({"n": n, "filler": "x" * 30}).encode())
    files = sorted(tmp_path.glob("served-*.jsonl"))
    assert len(files) == 5
    assert [line["n"] for line in read_served(tmp_path)] == list(range(10))
    torn = tmp_path / "served-0-0.jsonl"
    torn.write_bytes(b'{"n": -1}\n{"n": -')
    os.write(log._file, b'{"n": 1')  # in the middle of a line; the writer lives
    assert [line["n"] for line in read_served(tmp_path)][:2] == [-1, 0]
    assert mend(tmp_path) == 1
    assert torn.read_bytes() == b'{"n": -1}\n'
    assert files[-1].read_bytes().endswith(b'{"n": 1')
    log.close()
    assert mend(tmp_path) == 1


def test_a_log_that_could_not_begin_another_file_writes_on_once_it_can(tmp_path, monkeypatch):
    log = ServedLog(tmp_path, 10)
    log.write(b'{"n": 0}')
    with monkeypatch.context() as full:
        full.setattr("os.open", lambda *_: raises(OSError(errno.EMFILE, "too many open files")))
        with pytest.raises(OSError, match="too many"):
            log.write(b'{"n": 1}')
    with open(os.devnull, "rb") as somebody_elses:  # takes the number of a file that was closed
        log.write(b'{"n": 2}')
        log.write(b'{"n": 3}')
        os.fstat(somebody_elses.fileno())
        assert [line["n"] for line in read_served(tmp_path)] == [0, 2, 3]
        log.close()


def test_a_new_file_that_is_held_by_another_is_given_up_for_another(tmp_path, monkeypatch):
    hold, held = served_log._hold, iter([True, False])
    with monkeypatch.context() as mending:  # another worker looks at the file before its writer holds it
        mending.setattr(served_log, "_hold", lambda file: not next(held) and hold(file))
        log = ServedLog(tmp_path, 100)
    os.write(log._file, b'{"n": ')
    assert mend(tmp_path) == 0
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b'{"n": ']
    log.close()
    monkeypatch.setattr(served_log, "_hold", lambda file: False)
    with pytest.raises(OSError, match="cannot be locked"):
        ServedLog(tmp_path, 100)


def test_mending_reads_no_more_than_the_end_and_passes_over_what_it_cannot_open(tmp_path, caplog):
    torn, endless, whole = (tmp_path / f"served-{n}.jsonl" for n in range(3))
    torn.write_bytes(b"{}\n" + b"x" * 200_000)
    endless.write_bytes(b"x" * 200_000)
    with whole.open("wb") as file:
        file.truncate(80 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    (tmp_path / "served-3.jsonl").mkdir()
    before = bytes_read()
    assert mend(tmp_path) == 2
    assert bytes_read() - before < 1 << 20
    assert (torn.read_bytes(), endless.read_bytes(), whole.stat().st_size) == (b"{}\n", b"", (80 << 20) + 1)
    assert "served-3.jsonl" in caplog.records[-1].error


def bytes_read():
    """What this process has read so far, from files and elsewhere."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_log_that_is_not_there_or_not_a_log_is_refused(tmp_path):
    with pytest.raises(DataError, match="no served-ranking log"):
        list(read_served(tmp_path))
    (tmp_path / "x.jsonl").write_text("nonsense\n")
    with pytest.raises(DataError, match=r"x\.jsonl:1"):
        list(read_served(tmp_path / "x.jsonl"))


def test_the_ledger_adds_up_exposure_and_gain(tmp_path):
    judged = Queries.from_arrays(
        relevance=[1, 1, 0, 1],
        query_ids=["q", "q", "q", "p"],
        item_ids=["a", "b", "c", "a"],
        item_groups=["x", "y", "y", "x"],
    )
    lines = [
        {"time": 1.0, "query_id": "q", "first_rank": 1, "items": ["a", "b"]},
        {"time": 2.0, "query_id": "q", "first_rank": 1, "items": ["b", "a"]},
        {"time": 3.0, "query_id": "q", "first_rank": 3, "items": ["c"]},
        {"time": 0.0, "query_id": "unjudged", "first_rank": 1, "items": ["a"]},
    ]
    items, groups = ledger(lines, judged)
    second = 1 / np.log2(3)
    found = dict(zip(items.names, zip(items.exposure, items.gain, strict=True), strict=True))
    assert found == {"a": (1 + second, 2.0), "b": (1 + second, 2.0), "c": (0.5, 0.0)}
    assert items.moments.tolist() == [1.0, 2.0, 3.0]
    assert items.disparity.tolist() == pytest.approx([1 / (1 + second) - 0.5, 0.0, 0.5 / (2.5 + 2 * second)])
    assert groups.names == ("y", "x")
    assert "would have to move" in str(items)
    write_ledger(items, groups, tmp_path / "ledger.parquet")
    table = pq.read_table(tmp_path / "ledger.parquet")
    assert table["kind"].to_pylist() == ["item"] * 3 + ["group"] * 2
    assert sum(table["exposure_share"].to_pylist()) == pytest.approx(2.0)
    with pytest.raises(DataError, match="nothing to account for"):
        ledger(lines[3:], judged)
