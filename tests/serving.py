"""A client of the app without a server, a server in processes of its own, and load on it."""

import asyncio
import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path

import httpx

from command_line import start


def client_of(ranker_file, **settings):
    from isrr.serve import create_app

    return Client(create_app(ranker_file, **settings))


def unnamed(answer):
    """What an answer says, but for the name of its list, of which no two are the same."""
    found = answer.json()
    assert found.pop("list_id")
    return found


class Client:
    """A synchronous client of an ASGI app, without a server."""

    def __init__(self, app):
        self.app = app

    @property
    def service(self):
        return self.app.state.service

    def request(self, method, path, **given):
        async def once():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://isrr") as client:
                return await client.request(method, path, **given)

        return asyncio.run(once())

    def get(self, path, **given):
        return self.request("GET", path, **given)

    def post(self, path, body=None, **given):
        return self.request("POST", path, **({"json": body} if body is not None else {}), **given)


def children(pid):
    """Process ids of a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Server:
    """`isrr serve` in processes of its own, on a port of the loopback that the system gives and the log names."""

    def __init__(self, ranker_file, *options, program=None):
        command = ["-m", "isrr"] if program is None else ["-c", program]
        self.process = start(*command, "serve", ranker_file, "--port", "0", *options)
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr))
        self._reader.start()
        named = re.compile(r"accepting requests on (https?://127\.0\.0\.1:(\d+))")
        self.wait(lambda: any(map(named.search, self.lines)))
        self.url, port = next(found.groups() for found in map(named.search, self.lines) if found)
        self.port = int(port)
        self.wait(lambda: self.get("/ready").status_code == 200)

    def get(self, path, **given):
        """Ask over a connection of its own; without TLS, for which every client would load all certificates anew."""
        return httpx.get(f"{self.url}{path}", verify=False, **given)

    def post(self, path, body=None, **given):
        return httpx.post(f"{self.url}{path}", json=body, verify=False, **given)

    def wait(self, holds, seconds=60):
        """Wait until something holds; what raises a connection error does not."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                if holds():
                    return
            time.sleep(0.05)
        raise AssertionError("waited in vain\n" + "".join(self.lines))

    def workers(self):
        """Process ids of the workers."""
        return children(self.process.pid)

    def kill(self):
        """kill -9 of the whole service."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._ended()

    def stop(self, told=signal.SIGTERM):
        """SIGTERM, as an orchestrator sends it, or another signal; the exit code."""
        self.process.send_signal(told)
        return self._ended()

    def _ended(self):
        code = self.process.wait(60)
        self._reader.join()
        self.process.stderr.close()
        return code


class Load:
    """Clients that ask one question after the other until told to stop, and keep what they saw."""

    def __init__(self, url, n_clients=4, n_items=20):
        self.answers, self.failures, self._stop = [], [], threading.Event()
        self._url, self._n_items = url, n_items
        self._clients = [threading.Thread(target=self._ask, args=(n,)) for n in range(n_clients)]
        for client in self._clients:
            client.start()

    def _ask(self, name):
        items = [{"id": f"i{n}", "score": 1.0 + 0.01 * n} for n in range(self._n_items)]
        with httpx.Client(verify=False) as client:
            number = 0
            while not self._stop.is_set():
                number += 1
                body = {"query_id": f"{name}-{number}", "session": "s", "items": items}
                try:
                    answer = client.post(f"{self._url}/rank", json=body, timeout=30)
                    self.answers.append((body["query_id"], answer.status_code, answer.json()))
                except httpx.TransportError as error:
                    self.failures.append((body["query_id"], repr(error)))
                    time.sleep(0.05)

    def stop(self):
        self._stop.set()
        for client in self._clients:
            client.join()
