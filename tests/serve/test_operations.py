"""Health, metrics, OpenAPI, reloading, and the app mounted in another one."""

import asyncio
import errno
import json
import time
from datetime import UTC, datetime, timedelta

import fastapi
import httpx

from isrr import load
from isrr.data.log import read_log
from isrr.outcome.status import Status, status_file
from isrr.serve import create_app
from isrr.serve.app import Service, Settings
from isrr.serve.current import CurrentCertificate

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
    assert client.get("/ready").json() == {"status": "ok", "certificate": certificate.id}
    info = client.get("/info").json()
    assert info["certificate"]["id"] == certificate.id
    assert info["text"] == str(certificate)
    assert info["content"]["utility"]["value"] == certificate.utility.value
    assert "curve" not in info["content"]
    assert info["every_query"] == certificate.sure
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "on average over 100 visitors" in page.text


def test_the_ranker_file_is_watched(ranker_file, certificate, other_certificate):
    service = Service(Settings(ranker=ranker_file, poll=0.02))

    async def drive():
        current = service.current
        service.start()
        other_certificate.save(ranker_file)
        await until(lambda: current.now.note.id == other_certificate.id)
        ranker_file.write_text("{")
        await until(lambda: "not a certificate" in (current.reload_error or ""))
        assert current.now.note.id == other_certificate.id
        certificate.save(ranker_file)
        await until(lambda: current.now.note.id == certificate.id)
        assert current.reload_error is None
        await service.stop()

    asyncio.run(drive())
    text = service.metrics.render().decode()
    assert "isrr_reload_failures_total 1.0" in text
    assert f'isrr_certificate{{id="{certificate.id}"}} 1.0' in text
    assert f'isrr_certificate{{id="{other_certificate.id}"}} 0.0' in text


def test_a_log_folder_that_was_moved_gets_the_ranker_file_again(ranker_file, certificate, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    service, copy = (
        Service(Settings(ranker=ranker_file, poll=0.02, log=folder)),
        folder / f"ranker-{certificate.id}.json",
    )

    async def drive():
        service.start()
        assert copy.exists()
        folder.rename(tmp_path / "moved")
        await asyncio.sleep(0.1)
        assert not folder.exists()
        folder.mkdir()
        await until(copy.exists)
        await service.stop()

    asyncio.run(drive())
    assert load(copy).id == certificate.id


def test_whatever_a_look_at_the_files_runs_into_a_revocation_is_still_seen(
    ranker_file, certificate, monkeypatch, caplog
):
    service = Service(Settings(ranker=ranker_file, poll=0.02, trust_edited=True))
    load = service.current._load

    async def drive():
        service.start()
        monkeypatch.setattr(service.current, "_load", lambda: raises(ZeroDivisionError("odd")))
        document = certificate.document()
        document["ranker"]["score_map"] = 3  # and there are no maps
        ranker_file.write_text(json.dumps(document))
        await until(lambda: service.current.reload_error == "odd")
        await asyncio.sleep(0.1)
        monkeypatch.setattr(service.current, "_load", load)
        await until(lambda: "damaged certificate" in service.current.reload_error)
        certificate.save(ranker_file)
        Status(certificate.id, "revoked", "tested").save(ranker_file)
        await until(lambda: service.current.now.note.status == "revoked")
        await service.stop()

    asyncio.run(drive())
    assert caplog.text.count("reload failed") == 2  # once for each failure, however often it is tried


def test_a_watch_that_has_ended_begins_again_with_the_next_request(client, ranker_file, certificate):
    ask(client)  # in an event loop that is closed by now
    Status(certificate.id, "revoked", "tested").save(ranker_file)

    async def drive():
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://isrr") as asking:
            await asking.get("/health")
            await until(lambda: client.service.current.now.note.status == "revoked")

    asyncio.run(drive())


def test_mounted_in_fastapi_it_needs_no_lifespan_events(ranker_file, certificate, tmp_path):
    (tmp_path / "log").mkdir()
    host, app = fastapi.FastAPI(), create_app(ranker_file, log=tmp_path / "log", poll=0.02)
    host.mount("/rankings", app)
    assert list((tmp_path / "log").iterdir()) == []

    async def drive():
        transport = httpx.ASGITransport(app=host)
        async with httpx.AsyncClient(transport=transport, base_url="http://host/rankings") as asking:
            body = {"query_id": "q", "session": "s", "items": ITEMS}
            first = await asking.post("/rank", json=body)
            missing, wrong = await asking.get("/nowhere"), await asking.get("/rank")
            document, page = await asking.get("/openapi.json"), await asking.get("/")
            Status(certificate.id, "revoked", "tested").save(ranker_file)
            await until(lambda: app.state.service.current.now.note.status == "revoked")
            later = await asking.post("/rank", json=body)
            return first, later, missing, wrong, document, page

    first, later, missing, wrong, document, page = asyncio.run(drive())
    assert [item["id"] for item in first.json()["items"]] == [
        ITEMS[i]["id"] for i in certificate.rank([item["score"] for item in ITEMS], "q", "s")
    ]
    assert later.json()["certificate"]["status"] == "revoked"
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert "see /openapi.json" in missing.json()["error"]
    assert "/rank" in document.json()["paths"]
    assert page.headers["content-type"].startswith("text/html")
    logged = [line["list_id"] for line in read_log(tmp_path / "log").lines()]
    assert logged == [first.json()["list_id"], later.json()["list_id"]]


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
    assert 'isrr_list_items_bucket{le="5.0"} 21.0' in text
    assert 'isrr_request_seconds_count{path="/rank"} 22.0' in text
    assert 'isrr_score_bins_total{bin="above 99.9%"} 1.0' in text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert 0 < float(values["isrr_lists_changed_total"]) < 21
    assert float(values["isrr_score_drift"]) > 0
    assert float(values["isrr_eligibility_drift"]) > 0


def test_the_openapi_document_covers_every_path(client):
    document = client.get("/openapi.json").json()
    assert [*document["paths"]] == [route.path for route in client.app.routes]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody")
            given = {} if body is None else {"body": body["content"]["application/json"]["example"]}
            answer = client.get(path) if method == "get" else client.post(path, **given)
            assert str(answer.status_code) in operation["responses"], path
    assert "500" not in json.dumps(document["paths"])
