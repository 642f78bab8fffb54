"""The re-rank service, with its log, beside a bare Starlette endpoint that parses the same JSON and sorts by score.

Both run on two workers of the same server, on the loopback, and are loaded in turns: 100 items, k = 10. Only the ratios
mean something, and on a busy machine not much; the CPU time of the workers per request is the steadiest. The service of
another source tree can be put beside them.

python -m benchmarks serving
python -m benchmarks.serving [SECONDS OF EACH TURN] [TURNS] [SOURCE FOLDER OF ANOTHER TREE]
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx
import numpy as np

N_ITEMS, K, CONNECTIONS = 100, 10, 16
OURS = "from isrr.cli.main import main; main()"
BARE = "from benchmarks import serving; import sys; serving.serve_bare(int(sys.argv[2]))"
COLUMNS = (("throughput", "requests/s"), ("p99 latency", "ms"), ("CPU time of the workers", "µs/request"))


def rows(seconds: float = 10.0, turns: int = 3, other: str | None = None) -> list[dict[str, Any]]:
    """Throughput, p99 and CPU time beside the bare endpoint, and beside the `other` tree's service where one is named.

    Each turn takes `seconds` for each of them.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(running(calibrated_ranker(folder), "--log", str(folder / "log")))
        beside = {"a bare endpoint that sorts": stack.enter_context(running(None))}
        if other is not None:
            theirs = ranker_of(other, folder / "others ranker")  # each tree reads what it has written
            log = ("--log", str(folder / "other"))
            beside[f"the service of {other}"] = stack.enter_context(running(theirs, *log, source=other))
        services = (ours, *beside.values())
        turns_of: dict[Running, list[tuple[float, float, float]]] = {service: [] for service in services}
        for service in services:
            asyncio.run(load(service, 2.0))  # warm up
        for _ in range(turns):
            for service in services:
                before = cpu_seconds(service)
                rate, p99 = asyncio.run(load(service, seconds))
                turns_of[service].append((rate, p99, 1e6 * (cpu_seconds(service) - before) / (rate * seconds)))
    result = []
    for name, service in beside.items():
        for column, (what, unit) in enumerate(COLUMNS):
            mine, theirs = (median(turn[column] for turn in turns_of[each]) for each in (ours, service))
            what = f"/rank with log, {N_ITEMS} items, k = {K}, 2 workers: {what} beside {name}"
            result.append({"what": what, "ours": mine, "baseline": theirs, "ratio": mine / theirs, "unit": unit})
    return result


def calibrated_ranker(folder: Path) -> Path:
    """A certificate on synthetic queries."""
    from isrr.calibration.calibrate import calibrate
    from isrr.data.synthetic import generate

    generated = generate("small")
    weights, *_ = np.linalg.lstsq(generated.train.features, generated.train.queries.relevance, rcond=None)
    parts = generated.test, generated.validation
    judged, validation = (part.queries.with_scores(part.features @ weights) for part in parts)
    calibrate(judged, "ndcg@5 >= 95% of deterministic", validation=validation).save(folder / "ranker.json")
    return folder / "ranker.json"


def ranker_of(source: str, folder: Path) -> Path:
    """The same certificate, as another tree writes it."""
    folder.mkdir()
    program = "import runpy, sys, pathlib; runpy.run_path(sys.argv[1])['calibrated_ranker'](pathlib.Path(sys.argv[2]))"
    environment = {**os.environ, "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", program, __file__, str(folder)], env=environment, check=True)
    return folder / "ranker.json"


def request_body() -> bytes:
    """One request, the same for all."""
    scores = np.random.default_rng(20230).normal(1.0, 0.4, N_ITEMS).round(6)
    items = [{"id": f"item-{n}", "score": score} for n, score in enumerate(scores.tolist())]
    return json.dumps({"query_id": "q7", "session": "u42", "k": K, "items": items}).encode()


class Running(NamedTuple):
    """A service that runs: its address and the process id of its supervisor."""

    url: str
    pid: int


@contextmanager
def running(ranker: Path | None, *options: str, source: str | None = None) -> Iterator[Running]:
    """The service over a ranker file, of this tree or another, or the bare endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [BARE, "--port", str(port)]
    if ranker is not None:
        arguments = [OURS, "serve", str(ranker), "--port", str(port), "--workers", "2", *options]
    environment = os.environ | ({} if source is None else {"PYTHONPATH": source})
    process = subprocess.Popen(
        [sys.executable, "-c", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + 120
        while not _answers(url):
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError(f"{arguments[1:]} does not answer")
            time.sleep(0.1)
        time.sleep(2.0)  # the second worker
        yield Running(url, process.pid)
    finally:
        process.terminate()
        process.wait(60)


def worker_ids(service: Running) -> list[int]:
    """Process ids of a service's workers: the processes under its supervisor that have no children."""
    ids, workers = [service.pid], list[int]()
    for pid in ids:  # grows meanwhile
        ids += (below := [*map(int, _read(pid, f"task/{pid}/children").split())])
        workers += [] if below or b"resource_tracker" in _read(pid, "cmdline") else [pid]
    return sorted(workers)


def cpu_seconds(service: Running) -> float:
    """CPU time that the workers of a service have used."""
    fields = [_read(pid, "stat").rsplit(b")", 1)[1].split() for pid in worker_ids(service)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def resident(service: Running) -> list[int]:
    """Resident memory of each worker, MB."""
    sizes = [re.search(rb"VmRSS:\s+(\d+)", _read(pid, "status")) for pid in worker_ids(service)]
    return [int(size[1]) // 1024 for size in sizes if size]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:  # it has ended
        return b""


async def load(service: Running, seconds: float) -> tuple[float, float]:
    """Requests per second and p99 in milliseconds; raises where a request fails."""
    loop, body, times = asyncio.get_running_loop(), request_body(), list[float]()
    request = f"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    end = time.perf_counter() + seconds

    class Client(asyncio.Protocol):
        """Sends the next request as soon as the last one is answered."""

        def __init__(self) -> None:
            self.done = loop.create_future()

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.ask()

        def ask(self) -> None:
            self.answer, self.started = b"", time.perf_counter()
            self.transport.write(request)

        def data_received(self, data: bytes) -> None:
            self.answer += data
            head, _, rest = self.answer.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                self.done.set_exception(RuntimeError(self.answer.decode()))
                return self.transport.abort()
            if len(rest) < int(re.findall(rb"content-length: (\d+)", head)[0]):
                return None
            now = time.perf_counter()
            times.append(now - self.started)
            return self.ask() if now < end else self.transport.close()

        def connection_lost(self, error: Exception | None) -> None:
            if not self.done.done():
                self.done.set_result(None)

    port = int(service.url.rsplit(":", 1)[1])
    clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    await asyncio.gather(*(client.done for client in clients))
    return len(times) / seconds, 1e3 * float(np.quantile(times, 0.99))


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.post(f"{url}/rank", content=request_body()).status_code == 200
    return False


def serve_bare(port: int) -> None:
    """Parse the same JSON into the same structs, sort by score and answer with k ids, on two workers of granian."""
    import msgspec
    from granian import Granian
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from isrr.serve.schema import RankRequest

    decoder = msgspec.json.Decoder(RankRequest)

    async def rank(request: Request) -> Response:
        query = decoder.decode(await request.body())
        best = sorted(query.items, key=lambda item: -item.score)[: query.k]
        return Response(msgspec.json.encode({"items": best}), media_type="application/json")

    app = Starlette(routes=[Route("/rank", rank, methods=["POST"])])
    Granian("bare", port=port, interface="asgi", workers=2, websockets=False).serve(target_loader=lambda _: app)


if __name__ == "__main__":
    for row in rows(*(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]) if len(sys.argv) > 2 else ()):
        print(f"{row['what']}: {row['ours']:.4g} beside {row['baseline']:.4g} {row['unit']}, ratio {row['ratio']:.2f}")
