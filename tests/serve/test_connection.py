"""Connections over a transport in memory: requests that arrive as a whole get the same answers without a task."""

import asyncio
import json
import os
import re

import pytest
from uvicorn.server import ServerState

from isrr.data.served_log import read_log
from isrr.serve.connection import PIPELINED
from isrr.serve.server import _config
from isrr.serve.settings import Settings

ITEMS = [{"id": f"i{n}", "score": 1.5 - 0.05 * n} for n in range(10)]


class Transport:
    """What a connection writes."""

    def __init__(self):
        self.written, self.closing = b"", False

    def write(self, data):
        assert not self.closing
        self.written += data

    def close(self):
        self.closing = True

    abort = close

    def is_closing(self):
        return self.closing

    def get_extra_info(self, name):
        return None

    def pause_reading(self):
        pass

    resume_reading = pause_reading


class Service:
    """A worker's connections, without sockets."""

    def __init__(self, ranker_file, **settings):
        self.config = _config(Settings(ranker_file, **settings), "127.0.0.1", 0, 1, access_log=False)
        self.config.load()
        self.app, self.state = self.config.loaded_app.app, ServerState()
        self.state.default_headers = [(b"date", b"today")]

    def connect(self):
        connection = self.config.http_protocol_class(
            config=self.config, server_state=self.state, app_state={"soon": self.app.soon}
        )
        connection.access_log = False
        connection.connection_made(Transport())
        return connection

    def metrics(self):
        return self.app._metrics.render().decode()


@pytest.fixture
def service(ranker_file, tmp_path):
    (tmp_path / "log").mkdir()
    return Service(ranker_file, log=tmp_path / "log")


def post(query="q", path="/rank", headers="", body=None, version="1.1"):
    body = json.dumps({"query_id": query, "session": "s", "items": ITEMS}) if body is None else body
    return f"POST {path} HTTP/{version}\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode()


def answers(connection):
    """Status code, headers and body of every answer so far."""
    found, rest = [], connection.transport.written
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        size = int(headers.get("content-length", 0))
        found.append((int(lines[0].split()[1]), headers, rest[:size].decode()))
        rest = rest[size:]
    return found


def codes(connection):
    return [code for code, _, _ in answers(connection)]


async def turns(n=20):
    for _ in range(n):
        await asyncio.sleep(0)


def test_a_request_as_a_whole_needs_no_task_and_gets_the_answer_that_a_task_gives(service):
    async def drive():
        whole, pieces = service.connect(), service.connect()
        whole.data_received(post())
        n_tasks = [len(service.state.tasks)]
        pieces.data_received(post()[:200])
        n_tasks.append(len(service.state.tasks))
        await turns()
        pieces.data_received(post()[200:])
        await turns()
        return n_tasks, *answers(whole), *answers(pieces)

    n_tasks, one, other = asyncio.run(drive())
    assert n_tasks == [0, 1]
    name = re.compile(r'"list_id":"[^"]*"')
    assert one[:2] == other[:2]
    assert name.sub("", one[2]) == name.sub("", other[2])
    assert one[1] == {"date": "today", "content-type": "application/json", "content-length": str(len(one[2]))}
    assert 'isrr_requests_total{code="200",path="/rank"} 2.0' in service.metrics()
    assert service.state.total_requests == 2


def test_pipelined_requests_are_answered_in_order_with_a_task_or_without(service):
    batch = json.dumps({"queries": [{"query_id": "b", "items": ITEMS}] * 3})
    get = b"GET /health HTTP/1.1\r\n\r\n"

    async def drive():
        connection = service.connect()
        both = post(path="/rank/batch", body=batch)
        connection.data_received(post("1") + post("2") + get + post("3") + both + post("4") + get)
        await turns()
        connection.data_received(post("5"))
        await turns()
        return [body for _, _, body in answers(connection)]

    found = asyncio.run(drive())
    assert [body[2:9] for body in found] == [
        "list_id", "list_id", 'status"', "list_id", "results", "list_id", 'status"', "list_id",
    ]  # fmt: skip
    lines = {line["list_id"]: line["query_id"] for line in read_log(service.app._settings.log).lines()}
    lists = [json.loads(body)["list_id"] for body in found if "list_id" in body[:9]]
    assert [lines[name] for name in lists] == ["1", "2", "3", "4", "5"]


def test_too_many_requests_ahead_of_their_answers_are_refused_without_tasks_too(service):
    async def drive():
        fair, flooding = service.connect(), service.connect()
        for _ in range(2):
            fair.data_received(post() * (PIPELINED + 1))
            await turns()
        flooding.data_received(post() * (PIPELINED + 2))
        await turns()
        return codes(fair), codes(flooding), flooding.transport.closing

    assert asyncio.run(drive()) == ([200] * (2 * PIPELINED + 2), [400], True)


def test_lists_of_one_turn_are_logged_in_one_write_or_none_of_them_is_served(service, tmp_path, monkeypatch):
    whole, sizes, full = os.write, [], []

    def write(file, data):
        sizes.append(len(data))
        return whole(file, data[: 10 if full else len(data)])

    monkeypatch.setattr("os.write", write)

    async def drive(connections):
        for n, connection in enumerate(connections):
            connection.data_received(post(f"q{n}") if n < 4 else b"POST /rank HTTP/1.1\r\nContent-Length: 1\r\n\r\n{")
        await turns()
        return [codes(connection)[-1] for connection in connections]

    async def both():
        connections = [service.connect() for _ in range(5)]
        found = [await drive(connections)]
        full.append(True)
        return [*found, await drive(connections)]

    assert asyncio.run(both()) == [[200] * 4 + [400], [503] * 4 + [400]]
    assert len(sizes) == 2
    found = read_log(tmp_path / "log")
    assert found.table["query_id"].to_pylist() == ["q0", "q1", "q2", "q3"]
    assert found.n_damaged == 0
    assert 'isrr_lists_total{status="valid"} 4.0' in service.metrics()


def test_whoever_wants_the_connection_closed_or_goes_on_waiting_gets_a_task(service):
    body = json.dumps({"query_id": "q", "items": ITEMS})

    async def drive():
        last, old, asking = service.connect(), service.connect(), service.connect()
        last.data_received(post(headers="Connection: close\r\n"))
        old.data_received(post(version="1.0"))
        asking.data_received(post(headers="Expect: 100-continue\r\n")[: -len(body)])
        await turns()
        asked = asking.transport.written
        return codes(last), last.transport.closing, codes(old), old.transport.closing, asked

    *closed, asked = asyncio.run(drive())
    assert closed == [[200], True, [200], True]
    assert asked == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_limits_hold_for_requests_without_tasks(ranker_file):
    service = Service(ranker_file, api_key="x", max_body=1_000)
    key = "X-API-Key: x\r\n"

    async def drive():
        connection, long = service.connect(), service.connect()
        connection.data_received(post())
        connection.data_received(post(headers=key))
        connection.data_received(post(headers=key, path="/nowhere"))
        long.data_received(post(headers=key, body=" " * 2_000))
        await turns()
        return codes(connection), codes(long), long.transport.closing

    assert asyncio.run(drive()) == ([401, 200, 404], [413], True)


def test_told_to_stop_a_connection_sends_what_is_owed_and_closes(service):
    async def drive():
        connection, idle, gone = service.connect(), service.connect(), service.connect()
        for each in (gone, connection):
            each.data_received(post())
        gone.transport.close()  # by the other side
        connection.shutdown()
        idle.shutdown()
        await turns()
        return codes(connection), connection.transport.closing, idle.transport.closing

    assert asyncio.run(drive()) == ([200], True, True)


def test_a_connection_is_closed_when_nothing_follows_an_answer_in_time(service):
    service.config.timeout_keep_alive = 0.2

    async def drive():
        connection, seen = service.connect(), []
        for pause in (0.12, 0.12, 0.12, 0.5):
            connection.data_received(post())
            await turns()
            await asyncio.sleep(pause)
            seen.append(connection.transport.closing)
        return seen, codes(connection)

    assert asyncio.run(drive()) == ([False, False, False, True], [200] * 4)


@pytest.mark.parametrize("together", [False, True])
def test_a_connection_with_half_a_request_is_not_idle(service, together):
    service.config.timeout_keep_alive = 0.1
    whole = post()

    async def drive():
        connection = service.connect()
        for piece in [whole + whole[:200]] if together else [whole, whole[:200]]:
            connection.data_received(piece)
            await turns()
        await asyncio.sleep(0.3)
        connection.data_received(whole[200:])
        await turns()
        return codes(connection)

    assert asyncio.run(drive()) == [200, 200]
