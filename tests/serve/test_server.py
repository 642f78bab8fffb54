"""The service as processes: workers, reloads, kills, shutdown, a real client."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from scipy.stats import chisquare

import oracles
from command_line import isrr
from isrr import Queries
from isrr.data.served_log import read_log
from isrr.serve.connection import PIPELINED, PromptConnection
from isrr.serve.served_log import mend
from isrr.serve.server import Supervisor
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
    first, *_, last = map(json.loads, server.lines)
    assert (last["message"], last["logger"]) == ("stopped", "isrr.serve")
    assert (first["level"], first["message"], first["order"]) == ("warning", "nothing is promised", "deterministic")
    assert first["reason"].startswith("nothing was certified: 'ndcg@5 >= 0.99'")


def test_a_service_that_cannot_start_does_not_exit_with_0(ranker_file, tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "nowhere")
    program = (
        "from isrr.serve.worker import Worker\n"
        "def broken(self):\n    raise OSError('tested')\n"
        "Worker.warm_up = broken\n"
        "if __name__ == '__main__':\n    from isrr.cli.main import main; main()"
    )
    (tmp_path / "broken.py").write_text(program)
    for workers in ("1", "2"):
        command = ["serve", str(ranker_file), "--port", "0", "--workers", workers]
        broken = subprocess.run(
            [sys.executable, str(tmp_path / "broken.py"), *command], capture_output=True, text=True, timeout=60
        )
        unwritable = isrr(*command, "--log", tmp_path / "log", timeout=60)
        for done, code, said in ((unwritable, 2, "File exists"), (broken, 1, "tested")):
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
    started = len(server.lines)
    load = Load(server.url)
    server.wait(lambda: len(load.answers) > 50)
    victim = server.workers()[0]
    os.kill(victim, signal.SIGKILL)
    server.wait(lambda: victim not in server.workers() and len(server.workers()) == 2)
    server.wait(lambda: sum('"message": "ready"' in line for line in server.lines[started:]) == 1)
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
        server.process.send_signal(signal.SIGHUP)
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
    server.process.send_signal(signal.SIGHUP)
    server.wait(lambda: "reload_error" not in server.get("/ready").json())


def test_after_kill_9_of_everything_the_log_holds_every_answer_that_was_received(server, tmp_path):
    load = Load(server.url)
    server.wait(lambda: len(load.answers) > 200)
    server.kill()
    load.stop()
    mend(tmp_path / "log")
    logged = {line["query_id"]: line for line in read_log(tmp_path / "log").lines()}
    for query, _, answer in load.answers:
        assert logged[query]["items"] == [item["id"] for item in answer["items"]]
        assert logged[query]["list_id"] == answer["list_id"]
    unanswered = logged.keys() - {query for query, _, _ in load.answers}
    assert unanswered <= {query for query, _ in load.failures}
    for file in (tmp_path / "log").glob("*.jsonl"):
        content = file.read_bytes()
        assert content == b"" or content.endswith(b"\n")


def test_requests_in_flight_finish_when_the_service_is_told_to_stop(server):
    queries = [{**BODY, "query_id": str(n)} for n in range(1_000)]
    load = Load(server.url, n_clients=1)
    body = json.dumps({"queries": queries}).encode()

    def halves():
        yield body[:1000]
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        yield body[1000:]

    answer = httpx.post(f"{server.url}/rank/batch", content=halves(), timeout=30)
    assert len(answer.json()["results"]) == 1_000
    server.process.wait(30)
    load.stop()
    assert {code for _, code, _ in load.answers} == {200}


def test_workers_do_not_outlive_their_supervisor(server):
    workers = server.workers()
    os.kill(server.process.pid, signal.SIGKILL)
    server.wait(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


def test_a_client_that_does_not_finish_its_headers_is_cut_off_and_a_slow_body_is_not(ranker_file):
    settings = "Settings(Path(sys.argv[2]), header_timeout=0.5)"
    imports = "import sys; from pathlib import Path; from isrr.serve.server import run; from isrr.serve.settings import"
    server = Server(ranker_file, program=f'{imports} Settings; run({settings}, host="127.0.0.1", port=0)')
    body, half = json.dumps(BODY).encode(), b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Le"
    try:
        silent, first, second = (socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(3))
        with silent, first, second:
            first.sendall(half)
            second.sendall(half + f"ngth: {len(body)}\r\n\r\n".encode() + body[:10])
            assert (silent.recv(1), first.recv(1)) == (b"", b"")  # closed; the body below is later than that
            second.sendall(body[10:])
            answer = second.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200")
            second.sendall(half)
            while answer:
                answer = second.recv(1 << 16)
    finally:
        assert server.stop() == 0


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


def test_a_damaged_ranker_file_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "ranker.json").write_text("{}")
    found = isrr("serve", tmp_path / "ranker.json", timeout=60)
    assert found.returncode == 2
    assert "not a certificate" in found.stderr


@pytest.mark.parametrize("flooding", [False, True])
def test_a_client_that_asks_for_open_paths_and_never_reads_keeps_nobody_out_and_is_cut_off(ranker_file, flooding):
    settings = 'Settings(Path(sys.argv[2]), api_key="x", max_concurrency=1, send_timeout=3.0)'
    imports = "import sys; from pathlib import Path; from isrr.serve.server import run; from isrr.serve.settings import"
    server = Server(ranker_file, program=f'{imports} Settings; run({settings}, host="127.0.0.1", port=0)')
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * (PIPELINED // 2)
    deaf = socket.socket()
    try:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(1)
        deaf.connect(("127.0.0.1", server.port))
        with httpx.Client(base_url=server.url, headers={"X-API-Key": "x"}) as watching:
            answered, end = documents_sent(watching), time.monotonic() + 1
            while time.monotonic() < end:  # until answers fill all that lies between the two
                deaf.sendall(ask)
                answered, end = answered + PIPELINED // 2, time.monotonic() + 0.3
                while documents_sent(watching) < answered and time.monotonic() < end:
                    time.sleep(0.002)
        if flooding:
            with contextlib.suppress(OSError):
                deaf.sendall(2 * ask)
        for _ in range(5):
            assert server.post("/rank", BODY, headers={"X-API-Key": "x"}).status_code == 200
        server.wait(lambda: established(server.port) == 0, 10)
    finally:
        deaf.close()
        assert server.stop() == 0


def test_a_connection_that_is_closed_with_answers_unread_is_cut_off_in_time():
    async def closed():
        done, connection = [], object.__new__(PromptConnection)
        connection.transport = SimpleNamespace(close=lambda: done.append("close"), abort=lambda: done.append("abort"))
        connection.loop, connection._send_timeout, connection._unread = asyncio.get_running_loop(), 0.01, None
        connection.timeout_keep_alive_handler()
        await asyncio.sleep(0.05)
        return done

    assert asyncio.run(closed()) == ["close", "abort"]


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_key_is_refused(ranker_file, given):
    for more, environment in ((["--api-key", given], {}), ([], {"ISRR_API_KEY": given})):
        found = isrr("serve", ranker_file, "--port", 0, *more, timeout=60, env={**os.environ, **environment})
        assert found.returncode == 2, found.stderr
        assert "--api-key is empty, which would let everybody in" in found.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sighup_at_any_moment_of_the_start_ends_nothing(ranker_file, workers):
    early = "lambda event, args: args[:1] == ('isrr.cli.main',) and os.kill(os.getpid(), signal.SIGHUP)"
    begin = "sys.argv[0] = 'isrr'; runpy.run_module('isrr', run_name='__main__', alter_sys=True)"
    program = f"import os, runpy, signal, sys; sys.addaudithook({early}); {begin}"
    command = [sys.executable, "-c", program, "serve", str(ranker_file), "--port", "0", "--workers", workers]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        blocked = re.compile(r"SigBlk:\s+[0-9a-f]*[13579bdf]\n|SigCgt:\s+[0-9a-f]*[13579bdf]\n")
        while process.poll() is None and not blocked.search(Path(f"/proc/{process.pid}/status").read_text()):
            time.sleep(0.005)
        ready, end = 0, time.monotonic() + 60
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(process.stderr))
        reader.start()
        while process.poll() is None and ready < int(workers) and time.monotonic() < end:
            os.killpg(process.pid, signal.SIGHUP)
            time.sleep(0.02)
            ready = sum('"message": "ready"' in line for line in lines)
        assert process.poll() is None, lines
        assert ready == int(workers), lines
        assert not any("a worker died" in line for line in lines)
        process.terminate()
        assert process.wait(60) == 0
        reader.join()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stderr.close()


def test_a_worker_that_does_not_answer_yet_is_left_alone_and_a_dead_one_is_replaced(monkeypatch):
    class Worker:
        def __init__(self, alive, exitcode=None):
            self.process, self.alive, self.exitcode, self.pid = self, alive, exitcode, 0

        def is_alive(self, timeout=None):
            return self.alive and timeout is None  # no ping is answered

        def kill(self):
            assert not self.alive, "killed while it starts"

        def join(self):
            pass

    supervisor = object.__new__(Supervisor)
    starting, dead, hopeless, fresh = Worker(True), Worker(False, -9), Worker(False, 3), Worker(True)
    supervisor.config = SimpleNamespace(timeout_worker_healthcheck=0)
    supervisor.processes, supervisor._first = [starting, dead, hopeless], []
    supervisor.should_exit = threading.Event()
    monkeypatch.setattr(Supervisor, "_started", lambda self: fresh, raising=False)
    supervisor.keep_subprocess_alive()
    assert supervisor.processes == [starting, fresh, fresh]  # the last one may start yet: the service has once
    assert not supervisor.should_exit.is_set()
    supervisor.processes = supervisor._first = [hopeless]
    supervisor.keep_subprocess_alive()
    assert supervisor.should_exit.is_set()


def test_workers_count_together(lasting):
    server, _ = lasting

    def counted():
        text = server.get("/metrics").text
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def lists():
        return float(counted()['isrr_lists_total{status="valid"}'])

    before = lists()
    for n in range(40):  # connections of their own, so that both workers are asked
        server.post("/rank", {**BODY, "session": n})
    server.wait(lambda: {lists() - before for _ in range(10)} == {40.0}, 5)  # they tell each other once a second
    assert counted()['isrr_certificate_status{status="valid"}'] == "1.0"
    assert float(counted()["isrr_score_drift"]) > 0


def documents_sent(watching):
    """How many answers to /openapi.json have left a service of one worker."""
    counts = watching.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in counts if "openapi.json" in line and "_total" in line)


def established(port):
    """How many connections a server on a port has."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_a_flood_of_requests_on_one_connection_is_answered_400_and_closed(lasting):
    server, _ = lasting
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(1 << 16):
                answer += more
    assert b"400 Bad Request" in answer
    assert answer.count(b"HTTP/1.1 ") < 50
