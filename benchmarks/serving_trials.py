"""The service under trial. The machine should do nothing else meanwhile; all of it stays on the loopback.

soak   half a million requests: memory stays flat, nothing fails
flood  hostile clients: a flood takes less than 60 MB, and nobody else waits longer than a second or gets a 503
chaos  killed workers, damaged certificates, a full disk: what was acknowledged is in the log, ready within 5 seconds

python -m benchmarks.serving_trials soak|flood|chaos [AMOUNT]   requests, seconds of each flood, seconds
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

from benchmarks.serving import Running, calibrated_ranker, load, request_body, resident, running, worker_ids
from isrr.data.log import read_log

HEAD, GET = b"POST /rank HTTP/1.1\r\nHost: x\r\n", b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
CLOSE = {"connection": "close"}  # every request over a connection of its own
BETWEEN = 6.0  # seconds from the start of a worker to a death that the service survives


def soak(service: Running, folder: Path, amount: float = 500_000) -> None:
    """Send that many requests and watch the memory."""
    asyncio.run(load(service, 2.0))
    first, served = resident(service), 0.0
    while served < amount:
        served += 15.0 * asyncio.run(load(service, 15.0))[0]
        print(f"{served:>10,.0f} requests, {first} MB at first, {resident(service)} MB now", flush=True)
    assert sum(resident(service)) < 1.05 * sum(first), "memory is not flat"


@contextmanager
def asking(url: str, n_clients: int, pause: float) -> Iterator[list[tuple[int, float, str]]]:
    """Clients that ask one question after the other; code, seconds and list id of each answer, code 0 for none."""
    answers, stop = list[tuple[int, float, str]](), threading.Event()

    def ask() -> None:
        with httpx.Client(headers=CLOSE, timeout=30) as client:
            while not stop.wait(pause):
                started, code, name = time.monotonic(), 0, ""
                with suppress(httpx.TransportError):
                    answer = client.post(f"{url}/rank", content=request_body())
                    code, name = answer.status_code, answer.json().get("list_id", "")
                answers.append((code, time.monotonic() - started, name))

    threads = [threading.Thread(target=ask) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def connected(url: str, data: bytes, timeout: float = 0.05) -> socket.socket:
    """A client with a small receive buffer that sends what it can."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(timeout)
    with suppress(OSError):
        client.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        client.sendall(data)
    return client


FLOODS = {  # number of clients, what each sends, seconds it may take to do so
    "nobody": (0, b"", 0.0),
    "60 MB of headers": (1, HEAD + b"X: y\r\n" * 10_000_000, 30.0),
    "one header of 60 MB": (1, HEAD + b"X: " + b"y" * 60_000_000, 30.0),
    "half-sent headers": (500, HEAD + b"X", 0.05),
    "clients that never read": (300, GET * 500, 0.05),
    "unfinished bodies": (600, HEAD + b"Content-Length: 5000\r\n\r\n" + b" " * 1_000, 0.05),
    "clients that pipeline 20,000 requests": (20, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000, 1.0),
}


def flood(service: Running, folder: Path, amount: float = 15.0) -> None:
    """Keep each flood up for so many seconds while somebody else asks ten times a second."""
    asyncio.run(load(service, 2.0))
    bad = []
    for name, (n_clients, data, timeout) in FLOODS.items():
        before, growth, end = sum(resident(service)), 0, time.monotonic() + amount
        with asking(service.url, 1, 0.1) as answers:
            hostile = [connected(service.url, data, timeout) for _ in range(n_clients)]
            while time.monotonic() < end or not answers:
                growth = max(growth, sum(resident(service)) - before)
                time.sleep(0.1)
        for client in hostile:
            client.close()
        codes, longest = Counter(code for code, _, _ in answers), max(waited for _, waited, _ in answers)
        print(f"{n_clients:4} {name:38} {growth:+4} MB, others {dict(codes)}, waited up to {longest:.2f} s", flush=True)
        bad += [name] if growth >= 60 or codes.keys() != {200} or longest >= 1 else []
    assert not bad, bad


class Mishaps:
    """Each leaves the service as it was, but for the time it needs to come back."""

    def __init__(self, service: Running, folder: Path) -> None:
        self._service, self._rng = service, random.Random(20230)
        self._ranker, self._log = folder / "ranker.json", folder / "disk/log"

    def kill(self, n_workers: int = 1) -> None:
        """kill -9 of so many workers."""
        for pid in self._rng.sample(workers := worker_ids(self._service), min(n_workers, len(workers))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """kill -9 of all workers, but not of their supervisor."""
        self.kill(2)

    def damage_the_certificate(self) -> None:
        """Nonsense in its place while a worker starts; then it is replaced."""
        content = self._ranker.read_bytes()
        self._ranker.write_text("nonsense")
        self.kill()
        time.sleep(self._rng.uniform(0.5, 2.0))
        self._ranker.write_bytes(content)

    def move_the_log(self) -> None:
        """Its folder is gone for a while, a worker starts without it, and the service says so."""
        away = self._log.with_name("away")
        self._log.rename(away)
        try:
            self.kill(self._rng.choice((0, 1)))
            time.sleep(self._rng.uniform(1.0, 4.0))
            with suppress(httpx.TransportError):
                assert httpx.get(f"{self._service.url}/ready").status_code == 503, "ready without a log"
        finally:
            assert not self._log.exists(), "the service made a folder of its own"
            away.rename(self._log)

    def hang_up(self) -> None:
        """SIGHUP: workers are replaced one by one."""
        before = set(worker_ids(self._service))
        os.kill(self._service.pid, signal.SIGHUP)
        while before & (now := set(worker_ids(self._service))) or len(now) != len(before):
            time.sleep(0.1)

    def fill_the_disk(self) -> None:
        """No room is left for a while."""
        filler = self._log.with_name("filler")
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1):
                with suppress(OSError):
                    while True:
                        file.write(b"\0" * size)
        time.sleep(self._rng.uniform(0.5, 2.0))
        filler.unlink()


def seconds_until_ready(url: str) -> float:
    """Until ten new connections in a row are told that the service is ready."""
    started, in_a_row = time.monotonic(), 0
    with httpx.Client(headers=CLOSE, timeout=2) as client:
        while in_a_row < 10:
            assert time.monotonic() < started + 60, "not ready again after a minute"
            in_a_row += 1
            try:
                in_a_row *= client.get(f"{url}/ready").is_success
            except httpx.TransportError:
                in_a_row = 0
    return time.monotonic() - started


def chaos(service: Running, folder: Path, amount: float = 600.0) -> None:
    """One mishap after the other for so many seconds, under load."""
    rng, mishaps, waits = random.Random(20230), Mishaps(service, folder), defaultdict[str, list[float]](list)
    skipped = "_" if os.path.ismount(folder / "disk") else ("_", "fill_the_disk")
    names, end = [name for name in vars(Mishaps) if not name.startswith(skipped)], time.monotonic() + amount
    with asking(service.url, 4, 0.005) as answers:
        while time.monotonic() < end:
            for name in rng.sample(names, len(names)):
                time.sleep(rng.uniform(BETWEEN, BETWEEN + 1.0))
                getattr(mishaps, name)()
                waits[name].append(seconds_until_ready(service.url))
    for name, seconds in sorted(waits.items()):
        print(f"{name:24} {len(seconds):4} times, ready again within {max(seconds):.2f} s")
    log, codes = read_log(folder / "disk/log"), Counter(code for code, _, _ in answers)
    logged, acknowledged = Counter(log.table["list_id"].to_pylist()), [name for code, _, name in answers if code == 200]
    lost = [name for name in acknowledged if logged[name] != 1]
    print(f"answers {dict(codes)}; {len(log):,} lists in the log, {log.n_damaged} damaged lines")
    print(f"{len(acknowledged):,} lists acknowledged, {len(lost)} of them not in the log exactly once")
    assert not lost, lost[:5]
    assert codes.keys() <= {200, 503, 0}, codes
    assert max(map(max, waits.values())) <= 5.0, "not ready again within 5 seconds"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A tmpfs mounted on a folder, or the folder alone where none may be mounted."""
    command = ["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True)


if __name__ == "__main__":
    trial = {"soak": soak, "flood": flood, "chaos": chaos}[sys.argv[1]]
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (root / "disk").mkdir()
        if trial is chaos:
            stack.enter_context(small_disk(root / "disk"))
        process = stack.enter_context(running(calibrated_ranker(root), "--log", str(root / "disk/log")))
        trial(process, root, *map(float, sys.argv[2:]))
