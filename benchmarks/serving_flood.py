"""Hostile clients: each flood is kept up for a while, and others must be served all the same.

A flood may take 60 MB of memory at most, nobody else may wait longer than a second or get a 503. The machine should do
nothing else meanwhile. All of it stays on the loopback.

python -m benchmarks.serving_flood [SECONDS OF EACH FLOOD]
"""

import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from benchmarks.serving import made_ranker, request_body, running
from benchmarks.serving_soak import resident

HEAD = b"POST /rank HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
Flood = Callable[[str], list[socket.socket]]


def connected(url: str, data: bytes, timeout: float = 0.05) -> socket.socket:
    """A client with a small receive buffer that sends what it can."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(timeout)
    with suppress(OSError):
        client.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        client.sendall(data)
    return client


FLOODS: dict[str, Flood] = {
    "60 MB of headers": lambda url: [connected(url, HEAD + b"X: y\r\n" * 10_000_000, 30.0)],
    "one header of 60 MB": lambda url: [connected(url, HEAD + b"X: " + b"y" * 60_000_000, 30.0)],
    "500 half-sent headers": lambda url: [connected(url, HEAD + b"X") for _ in range(500)],
    "300 clients that never read": lambda url: [connected(url, GET * 500) for _ in range(300)],
    "600 unfinished bodies": lambda url: [
        connected(url, HEAD + b"Content-Length: 5000\r\n\r\n" + request_body()[:1_000]) for _ in range(600)
    ],
    "20 clients that pipeline 20,000 requests": lambda url: [
        connected(url, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000, 1.0) for _ in range(20)
    ],
}


@contextmanager
def others(url: str) -> Iterator[list[tuple[int, float]]]:
    """Somebody who asks ten times a second over connections of his own; codes and seconds waited."""
    seen, stop = list[tuple[int, float]](), threading.Event()

    def ask() -> None:
        while not stop.wait(0.1):
            started, code = time.monotonic(), 0
            with suppress(httpx.TransportError):
                code = httpx.post(f"{url}/rank", content=request_body(), timeout=30).status_code
            seen.append((code, time.monotonic() - started))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def main(seconds: float) -> None:
    failed = []
    with tempfile.TemporaryDirectory() as folder, running(made_ranker(Path(folder))) as url:
        for _ in range(200):
            httpx.post(f"{url}/rank", content=request_body())
        for name, flood in {"nobody": lambda url: [], **FLOODS}.items():
            before, most, end = resident(url), 0, time.monotonic() + seconds
            with others(url) as seen:
                hostile = flood(url)
                while time.monotonic() < end or not seen:
                    most = max(most, sum(resident(url)) - sum(before))
                    time.sleep(0.1)
            for client in hostile:
                client.close()
            codes, longest = {code for code, _ in seen}, max(waited for _, waited in seen)
            print(f"{name:42} {most:+4} MB, {len(seen)} others: {codes}, waited at most {longest:.2f} s", flush=True)
            failed += [name] if most >= 60 or codes != {200} or longest >= 1 else []
    assert not failed, failed


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 15.0)
