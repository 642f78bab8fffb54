"""The service as processes: workers, reloads, kills, shutdown, a real client."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
from scipy.stats import chisquare

import oracles
from command_line import run
from isrr import Queries
from isrr.data.log import read_log
from serving import Load, Server, unnamed

ITEMS = [{"id": f"i{n}", "score": 1.5 - 0.05 * n} for n in range(10)]
BODY = {"query_id": "q", "session": "s", "k": 10, "items": ITEMS}


@pytest.fixture(scope="module")
def lasting(certificate, tmp_path_factory):
    """A server that several tests share; they leave it as it was."""
    folder = tmp_path_factory.mktemp("lasting")
    certificate.save(folder / "ranker.json")
    server = Server(folder / "ranker.json", "--workers", "2")
    yield server, folder / "ranker.json"
    server.kill()


@pytest.fixture
def server(ranker_file, tmp_path):
    server = Server(ranker_file, "--workers", "2", "--log", str(tmp_path / "log"))
    yield server
    server.kill()


def test_two_differently_started_servers_answer_alike(lasting, ranker_file, client):
    server, _ = lasting
    alone = Server(ranker_file, "--api-key", "x")
    try:
        answers = [unnamed(server.post("/rank", BODY)) for _ in range(10)]
        answers.append(unnamed(alone.post("/rank", BODY, headers={"X-API-Key": "x"})))
        assert all(answer == unnamed(client.post("/rank", BODY)) for answer in answers)
    finally:
        assert alone.stop() == 0
    assert all(json.loads(line)["level"] == "info" for line in alone.lines)


@pytest.mark.parametrize(("workers", "told"), [("1", signal.SIGTERM), ("1", signal.SIGINT), ("2", signal.SIGINT)])
def test_told_to_stop_the_service_says_so_and_exits_with_0(abstention, tmp_path, workers, told):
    abstention.save(tmp_path / "ranker.json")
    server = Server(tmp_path / "ranker.json", "--workers", workers)
    assert server.stop(told) == 0
    first, started, last = map(json.loads, server.lines)
    assert started["message"] == f"accepting requests on {server.url}"
    assert (last["message"], last["logger"]) == ("stopped", "isrr.serve")
    assert (first["level"], first["message"], first["order"]) == ("warning", "nothing is promised", "deterministic")
    assert first["reason"].startswith("nothing was certified: 'ndcg@5 >= 0.99'")


def test_a_service_that_cannot_start_does_not_exit_with_0(ranker_file, tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "nowhere")
    program = (
        "import isrr.serve.app as service, os\n"
        "class Broken(service.Service):\n"
        "    def start(self):\n"
        "        raise ZeroDivisionError('tested')\n"
        "service.Service = Broken\n"
        "from isrr.cli.main import main; main()"
    )
    (tmp_path / "broken.py").write_text(program)
    (tmp_path / "damaged.json").write_text("{}")
    command, no_key = ["-m", "isrr", "serve", ranker_file, "--port"], "--api-key is empty, which would let everybody in"
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        for arguments, key, code, said in (
            ([tmp_path / "broken.py", *command[2:], 0], "key", 1, "tested"),
            ([*command, 0, "--log", tmp_path / "log"], "key", 2, "File exists"),
            ([*command, somebody.getsockname()[1]], "key", 2, "cannot listen"),
            (["-m", "isrr", "serve", tmp_path / "damaged.json"], "key", 2, "not a certificate"),
            ([*command, 0, "--api-key", ""], "key", 2, no_key),
            ([*command, 0], "  ", 2, no_key),
        ):
            done = run(*arguments, timeout=60, env={**os.environ, "ISRR_API_KEY": key})
            assert done.returncode == code, done.stderr
            assert said in done.stderr


def test_draws_follow_the_enumerated_law(lasting, certificate):
    server, _ = lasting
    scores, ranker = np.array([1.2, 1.0, 0.9, 0.5]), certificate.ranker
    eligibility = ranker.eligibility(Queries.from_arrays(scores=scores, query_ids=[0] * 4))
    scaled = scores * ranker.scale
    law = oracles.ranking_law(scaled, 4, ranker.threshold, ranker.decay, 1.0, eligibility)
    items = [{"id": f"i{n}", "score": score} for n, score in enumerate(scores.tolist())]
    counts = dict.fromkeys(law, 0)
    for batch in range(10):
        queries = [{"query_id": "q", "session": f"{batch}-{n}", "k": 4, "items": items} for n in range(1_000)]
        for result in server.post("/rank/batch", {"queries": queries}).json()["results"]:
            counts[tuple(int(item["id"][1:]) for item in result["items"])] += 1
    expected = np.array(list(law.values())) * 10_000
    common = expected >= 5  # chi-square needs expected counts; the rest is pooled
    observed = np.array(list(counts.values()))
    pooled = [np.append(x[common], x[~common].sum() + 1e-9) for x in (observed, expected)]
    assert chisquare(*pooled, sum_check=False).pvalue > 1e-3


def test_a_killed_worker_comes_back_and_takes_only_its_own_requests_with_it(lasting):
    server, _ = lasting
    load = Load(server.url)
    server.wait(lambda: len(load.answers) > 50)
    victim = server.workers()[0]
    os.kill(victim, signal.SIGKILL)
    server.wait(lambda: victim not in server.workers() and len(server.workers()) == 2)
    answered = len(load.answers)
    server.wait(lambda: len(load.answers) > answered + 50)
    load.stop()
    assert len(load.failures) <= 4  # one for each client at most
    assert {code for _, code, _ in load.answers} == {200}


def test_replacing_the_certificate_under_load_fails_no_request(lasting, certificate, other_certificate):
    server, ranker_file = lasting
    load = Load(server.url)
    server.wait(lambda: load.answers)
    for served in (other_certificate, certificate, other_certificate, certificate):
        time.sleep(0.1)
        served.save(ranker_file)
        server.wait(lambda served=served: load.answers[-1][2]["certificate"]["id"] == served.id)
    ranker_file.write_text("not a certificate")
    server.wait(lambda: sum("reload failed" in line for line in server.lines) >= 2)  # each worker looks once a second
    load.stop()
    assert load.failures == []
    assert {code for _, code, _ in load.answers} == {200}
    named = {answer["certificate"]["id"]: answer["certificate"]["promise"] for _, _, answer in load.answers}
    both = {c.id: str(c.promises[0]) for c in (certificate, other_certificate)}
    assert named == both
    by_id = {c.id: c for c in (certificate, other_certificate)}
    for query, _, answer in load.answers[:: max(len(load.answers) // 200, 1)]:
        order = by_id[answer["certificate"]["id"]].rank([1.0 + 0.01 * n for n in range(20)], query, "s")
        assert [item["id"] for item in answer["items"]] == [f"i{i}" for i in order]
    certificate.save(ranker_file)
    server.wait(lambda: "reload_error" not in server.get("/ready").json())


def test_after_kill_9_of_everything_the_log_holds_every_answer_that_was_received(server, tmp_path):
    load = Load(server.url)
    server.wait(lambda: len(load.answers) > 200)
    server.kill()
    load.stop()
    logged = {line["query_id"]: line for line in read_log(tmp_path / "log").lines()}
    for query, _, answer in load.answers:
        assert logged[query]["items"] == [item["id"] for item in answer["items"]]
        assert logged[query]["list_id"] == answer["list_id"]
    unanswered = logged.keys() - {query for query, _, _ in load.answers}
    assert unanswered <= {query for query, _ in load.failures}


def test_a_worker_that_is_killed_while_it_compresses_the_log_loses_no_acknowledged_list(ranker_file, tmp_path):
    folder = tmp_path / "log"
    server = Server(ranker_file, "--workers", "2", "--log", str(folder), "--log-megabytes", "1", "--log-compress")
    load = Load(server.url, n_items=200)
    try:
        for n_compressed in (2, 4):
            server.wait(lambda n=n_compressed: len([*folder.glob("*.jsonl.gz")]) >= n)
            before, compressing = set(server.workers()), set()
            while not compressing & before:
                compressing = {int(file.name.split(".jsonl")[0].split("-")[2]) for file in folder.glob(".*.tmp")}
            victim = min(compressing & before)
            os.kill(victim, signal.SIGKILL)
            server.wait(lambda pid=victim: pid not in server.workers() and len(server.workers()) == 2)
            time.sleep(6.0)  # a worker that dies twice within seconds ends the service
    finally:
        load.stop()
        server.kill()
    logged = Counter(line["list_id"] for line in read_log(folder).lines())
    assert len(load.answers) > 1_000
    assert {code for _, code, _ in load.answers} == {200}
    assert {logged[answer["list_id"]] for _, _, answer in load.answers} == {1}


def test_requests_in_flight_finish_when_the_service_is_told_to_stop(server):
    queries = [{**BODY, "query_id": str(n)} for n in range(1_000)]
    load = Load(server.url, n_clients=1)
    body = json.dumps({"queries": queries}).encode()
    head = f"POST /rank/batch HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(head.encode())
        assert client.recv(1 << 10) == b"HTTP/1.1 100 Continue\r\n\r\n"  # now the request is being answered
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        client.sendall(body)
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b'"list_id"') == 1_000
    server.process.wait(30)
    load.stop()
    assert {code for _, code, _ in load.answers} == {200}


def test_workers_do_not_outlive_their_supervisor(server):
    workers = server.workers()
    os.kill(server.process.pid, signal.SIGKILL)
    server.wait(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


def test_the_cohere_client_works_unchanged(lasting, certificate):
    server, _ = lasting
    cohere = pytest.importorskip("cohere", reason="the cohere SDK is not installed")
    texts, scores = [f"text {n}" for n in range(10)], [item["score"] for item in ITEMS]
    session, given = {"session": "u42"}, {"session": "u42", "scores": scores}
    with httpx.Client() as transport:
        client = cohere.ClientV2(api_key="none", base_url=server.url, httpx_client=transport)

        def rerank(documents, extra, **options):
            options |= {"request_options": {"additional_body_parameters": extra}}
            return client.rerank(model="isrr", query="q", documents=documents, **options).results

        found = rerank(texts, given, top_n=5)
        assert [result.index for result in found] == certificate.rank(scores, "q", "u42", 5).tolist()
        found = rerank(ITEMS, session)
        assert [result.index for result in found] == certificate.rank(scores, "q", "u42", 10).tolist()
        assert sorted(found, key=lambda result: -result.relevance_score) == found
        with pytest.raises(cohere.errors.UnprocessableEntityError):
            rerank(texts, session)


def test_workers_count_together(lasting):
    server, _ = lasting

    def counted():
        text = server.get("/metrics").text
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def lists():
        return float(counted()['isrr_lists_total{status="valid"}'])

    time.sleep(2)  # each worker hands over what it has counted once a second
    before = lists()
    for n in range(40):  # connections of their own, so that both workers are asked
        server.post("/rank", {**BODY, "session": n})
    server.wait(lambda: {lists() - before for _ in range(10)} == {40.0}, 5)
    assert counted()['isrr_certificate_status{status="valid"}'] == "1.0"
    assert float(counted()["isrr_score_drift"]) > 0


def test_sighup_replaces_the_workers_one_by_one(lasting):
    server, _ = lasting
    before = server.workers()
    server.process.send_signal(signal.SIGHUP)
    server.wait(lambda: len(server.workers()) == 2 and not set(before) & set(server.workers()), 30)
    assert server.post("/rank", BODY).status_code == 200


def test_requests_without_a_session_get_one_order_per_query_and_period(ranker_file):
    server = Server(ranker_file, "--workers", "2", "--rotate", "1d")
    try:
        body = {"query_id": "q", "items": ITEMS}
        answers = [server.post("/rank", {**body, "page": n % 2 + 1, "page_size": 5}).json() for n in range(20)]
    finally:
        server.stop()
    pages = {n: {tuple(item["id"] for item in answer["items"]) for answer in answers[n::2]} for n in (0, 1)}
    ((first,), (second,)) = pages.values()
    assert sorted(first + second) == sorted(item["id"] for item in ITEMS)
    assert {answer["certificate"]["status"] for answer in answers} == {"valid"}
    assert "one order per query and day" in answers[0]["certificate"]["covers"]


def test_with_tls_it_serves_https(ranker_file, tmp_path):
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    files = ("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    server = Server(ranker_file, *map(str, files))
    try:
        assert server.url.startswith("https://")
        assert server.post("/rank", BODY).status_code == 200
    finally:
        assert server.stop() == 0
    alone = run("-m", "isrr", "serve", ranker_file, "--port", 0, *files[:2], timeout=60)
    assert (alone.returncode, "--tls-key" in alone.stderr) == (2, True)
    (tmp_path / "key.pem").write_text("x")
    damaged = run("-m", "isrr", "serve", ranker_file, "--port", 0, *files, timeout=60)
    said = f"{files[1]} and {files[3]}: not a TLS certificate and its key"
    assert (damaged.returncode, said in damaged.stderr) == (2, True), damaged.stderr


def resident(server):
    """Resident memory of the workers, MB."""
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in server.workers()]
    return sum(int(line.split()[1]) for text in statuses for line in text.splitlines() if "VmRSS" in line) / 1024


def test_floods_take_no_memory_and_delay_nobody(ranker_file):
    program = "from isrr.serve import command; command.HEADER_TIMEOUT = 2; from isrr.cli.main import main; main()"
    server = Server(ranker_file, program=program)
    head, floods = b"POST /rank HTTP/1.1\r\nHost: x\r\n", []

    def connect(data):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0.05)
        floods.append(client)
        with contextlib.suppress(OSError):
            client.connect(("127.0.0.1", server.port))
            client.sendall(data)

    try:
        for _ in range(20):
            server.post("/rank", BODY)
        before = resident(server)
        for _ in range(100):
            connect(head + b"X")
            connect(head + b"Content-Length: 100\r\n\r\n{")
            connect(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        connect(head + b"X: y\r\n" * 2_000_000)
        waited = []
        for _ in range(20):
            started = time.monotonic()
            assert server.post("/rank", BODY).status_code == 200
            waited.append(time.monotonic() - started)
        assert resident(server) - before < 60
        assert max(waited) < 5  # far less on a machine that does nothing else
        floods[0].settimeout(30)
        assert floods[0].recv(1 << 10) == b""  # a request whose headers are never complete is cut off
    finally:
        for client in floods:
            client.close()
        assert server.stop() == 0


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 50\r\n\r\n{}   GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_requests_of_ambiguous_length_carry_no_second_one(lasting, smuggled):
    server, _ = lasting
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(b"POST /rank HTTP/1.1\r\nHost: x\r\n" + smuggled)
        answer = b""
        with contextlib.suppress(OSError):
            client.settimeout(1)
            while more := client.recv(1 << 16):
                answer += more
    assert b"HTTP/1.1 200" not in answer
