"""The service under mishaps: every list that was acknowledged is in the log, and it is ready again within 5 seconds.

Clients ask without a pause while, one after the other and in random order, workers are killed, certificates replaced
and damaged, the log's folder moved away and restored, its disk filled, signals sent, and connections opened that never
read. A new worker that dies within seconds ends the service, so mishaps leave six seconds between them. An answer is a
200, whose list must be in the log exactly once, or a 503. All of it stays on the loopback. The disk is a small tmpfs;
where none may be mounted, that mishap is left out, and the output says so.

python -m benchmarks.serving_chaos [--seconds 600] [--seed 20230]
"""

import argparse
import os
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from benchmarks.serving import made_ranker, running, supervisor_id, worker_ids
from isrr.data.log import read_log
from isrr.outcome.certificate import load

WITHIN = 5.0  # seconds to be ready again
BETWEEN = 6.0  # seconds from the start of a worker to a death that the service survives
SIZE = "512m"  # of the disk
ITEMS = [{"id": f"i{n}", "score": 1.0 + 0.01 * n} for n in range(20)]


class Clients:
    """Ask one question after the other, and remember which lists were acknowledged."""

    def __init__(self, url: str, n_clients: int = 4) -> None:
        self.acknowledged: list[str] = []
        self.codes: Counter[str] = Counter()
        self._url, self._stop = url, threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(n_clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, name: int) -> None:
        number = 0
        while not self._stop.is_set():
            with suppress(httpx.TransportError), httpx.Client(timeout=10) as client:
                while not self._stop.is_set():
                    number += 1
                    body = {"query_id": f"{name}-{number}", "session": "s", "items": ITEMS}
                    try:
                        answer = client.post(f"{self._url}/rank", json=body)
                    except httpx.TransportError:
                        self.codes["no answer"] += 1
                        raise
                    self.codes[str(answer.status_code)] += 1
                    if answer.status_code == 200:
                        self.acknowledged.append(answer.json()["list_id"])
                    time.sleep(0.005)
            time.sleep(0.05)

    def stop(self) -> None:
        """Let the last questions be answered."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Chaos:
    """The mishaps. Each leaves the service as it found it, but for the time it needs to come back."""

    def __init__(self, url: str, ranker: Path, log: Path, disk: Path | None, rng: random.Random) -> None:
        self._url, self._ranker, self._log, self._disk, self._rng = url, ranker, log, disk, rng
        self._supervisor = supervisor_id(url)
        self.mishaps: list[Callable[[], None]] = [
            self.kill_a_worker, self.kill_all_workers, self.replace_the_certificate, self.damage_the_certificate,
            self.move_the_log, self.kill_while_the_log_is_gone, self.hang_up, self.never_read,
        ]  # fmt: skip
        if disk is not None:
            self.mishaps.append(self.fill_the_disk)

    def kill_a_worker(self) -> None:
        """kill -9 of one."""
        self._kill(1)

    def kill_all_workers(self) -> None:
        """kill -9 of all, but not of their supervisor."""
        self._kill(2)

    def replace_the_certificate(self) -> None:
        """The same file written again, several times."""
        outcome = load(self._ranker)
        for _ in range(5):
            outcome.save(self._ranker)
            time.sleep(0.1)

    def damage_the_certificate(self) -> None:
        """Nonsense in its place while a worker starts."""
        content = self._ranker.read_bytes()
        self._ranker.write_text("nonsense")
        self._kill(1)
        time.sleep(self._rng.uniform(0.5, 2.0))
        self._ranker.write_bytes(content)

    def move_the_log(self) -> None:
        """Its folder is gone for a while; the service says so."""
        with self._moved():
            time.sleep(self._rng.uniform(0.5, 2.0))
            assert httpx.get(f"{self._url}/ready").status_code == 503, "ready without a log"

    def kill_while_the_log_is_gone(self) -> None:
        """A worker that starts finds no folder."""
        with self._moved():
            self._kill(1)
            time.sleep(self._rng.uniform(1.0, 4.0))

    def hang_up(self) -> None:
        """SIGHUP, several times: workers are replaced one by one."""
        before = set(worker_ids(self._url))
        for _ in range(5):
            os.kill(self._supervisor, signal.SIGHUP)
            time.sleep(0.1)
        seen, since = before, time.monotonic()
        while before & seen or len(seen) != len(before) or time.monotonic() < since + BETWEEN:  # several rounds
            time.sleep(0.1)
            if (now := set(worker_ids(self._url))) != seen:
                seen, since = now, time.monotonic()

    def never_read(self) -> None:
        """Connections that ask for open paths on and on."""
        deaf = []
        for _ in range(300):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(0.01)
            deaf.append(client)
            with suppress(OSError):
                client.connect(("127.0.0.1", int(self._url.rsplit(":", 1)[1])))
                client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
        codes = [httpx.post(f"{self._url}/rank", json={"query_id": "q", "items": []}).status_code for _ in range(10)]
        assert codes == [200] * 10, f"shut out by clients that never read: {codes}"
        for client in deaf:
            client.close()

    def fill_the_disk(self) -> None:
        """No room is left for a while."""
        assert self._disk is not None
        filler = self._disk / "filler"
        with filler.open("wb", buffering=0) as file:
            with suppress(OSError):
                while True:
                    file.write(b"\0" * (1 << 20))
            with suppress(OSError):
                while True:
                    file.write(b"\0")
        time.sleep(self._rng.uniform(0.5, 2.0))
        filler.unlink()

    def _kill(self, n_workers: int) -> None:
        workers = worker_ids(self._url)
        for pid in self._rng.sample(workers, min(n_workers, len(workers))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextmanager
    def _moved(self) -> Iterator[None]:
        away = self._log.with_name("away")
        self._log.rename(away)
        try:
            yield
        finally:
            assert not self._log.exists(), "the service made a folder of its own"
            away.rename(self._log)


def seconds_until_ready(url: str) -> float:
    """Until ten new connections in a row are told that the service is ready."""
    started, in_a_row = time.monotonic(), 0
    while in_a_row < 10:
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=2):
                in_a_row += 1
        except OSError:  # refused, cut off, or answered 503
            in_a_row = 0
        if time.monotonic() - started > 60:
            raise AssertionError("not ready again after a minute")
        if not in_a_row:
            time.sleep(0.02)
    return time.monotonic() - started


@contextmanager
def small_disk(folder: Path) -> Iterator[str]:
    """A tmpfs mounted on a folder; why there is none, or an empty text."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True, text=True
    )
    try:
        yield done.stderr.strip()
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", folder], check=True)


def main(seconds: float, seed: int) -> None:
    rng, times, loads = random.Random(seed), dict[str, list[float]](), [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder) / "disk") as no_disk:
        if no_disk:
            print(f"the disk is not filled: {no_disk}")
        disk = Path(folder) / "disk"
        ranker, log = made_ranker(Path(folder)), disk / "log"
        with running(ranker, "--log", str(log)) as url:
            chaos, clients = Chaos(url, ranker, log, None if no_disk else disk, rng), Clients(url)
            try:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    for mishap in rng.sample(chaos.mishaps, len(chaos.mishaps)):
                        time.sleep(rng.uniform(BETWEEN, BETWEEN + 1.0))
                        mishap()
                        loads.append(os.getloadavg()[0])
                        times.setdefault(mishap.__name__, []).append(seconds_until_ready(url))
                        if time.monotonic() >= end:
                            break
            finally:
                clients.stop()
        found = read_log(log)
        logged = Counter(found.table["list_id"].to_pylist())
    for name, waited in sorted(times.items()):
        again = f"ready again after {statistics.median(waited):.2f} s, at most {max(waited):.2f} s"
        print(f"{name.replace('_', ' '):32} {len(waited):4} times, {again}")
    print(f"load, this benchmark included: {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} processors")
    lost = [name for name in clients.acknowledged if logged[name] != 1]
    n_mishaps, slowest = sum(map(len, times.values())), max(max(waited) for waited in times.values())
    print(f"answers: {dict(clients.codes)}; {len(found):,} lists in the log, {found.n_damaged} damaged lines")
    print(f"{n_mishaps} mishaps, {len(clients.acknowledged):,} lists acknowledged, {len(lost)} of them not in the log")
    assert not lost, lost[:5]
    assert clients.codes.keys() <= {"200", "503", "no answer"}, clients.codes
    assert slowest <= WITHIN, f"ready again after {slowest:.1f} s only"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=20230)
    given = parser.parse_args()
    main(given.seconds, given.seed)
