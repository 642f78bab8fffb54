"""The re-rank service, with its log, beside a bare Starlette endpoint that parses the same JSON and sorts by score.

It stands beside itself without a log, too, and beside the floor: an ASGI app without a framework that reads the body
and answers with two bytes. Each runs on two workers of the same server, on the loopback, and they are loaded in turns
by wrk, or by a small generator where wrk is not installed: 100 items, k = 10. Only the ratios mean something, and on a
busy machine not much; the CPU time of the workers per request is the steadiest. Where the generator's own CPU time per
request is close to one core's, throughput says more about it than about the services. The service of another source
tree can be put beside them.

python -m benchmarks serving
python -m benchmarks.serving [SECONDS OF EACH TURN] [TURNS] [SOURCE FOLDER OF ANOTHER TREE]
"""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

N_ITEMS, K, CONNECTIONS = 100, 10, 16
OURS = "from isrr.cli.main import main; main()"
OTHERS = "from benchmarks import serving; import sys; serving.serve(getattr(serving, sys.argv[3]), int(sys.argv[2]))"


def rows(seconds: float = 10.0, turns: int = 3, other: str | None = None) -> list[dict[str, Any]]:
    """Throughput, p99 and CPU time beside the bare endpoint, and beside the `other` tree's service where one is named.

    Each turn takes `seconds` for each of them.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ranker = made_ranker(folder)
        ours = stack.enter_context(running(ranker, "--log", str(folder / "log")))
        beside = {
            "a bare endpoint that sorts": stack.enter_context(running(None, "bare_app")),
            "an endpoint that does nothing": stack.enter_context(running(None, "empty_app")),
            "itself without a log": stack.enter_context(running(ranker)),
        }
        if other is not None:
            theirs = ranker_of(other, folder / "others ranker")  # each tree reads what it has written
            options = ("--log", str(folder / "other"))
            beside[f"the service of {other}"] = stack.enter_context(running(theirs, *options, source=other))
        urls = (ours, *beside.values())
        found: dict[str, list[tuple[float, float, float]]] = {url: [] for url in urls}
        for url in urls:
            load(url, 2.0)  # warm up
        spent = []
        for _ in range(turns):
            for url in urls:
                before, spent_before = cpu_seconds(url), os.times()
                rate, p99 = load(url, seconds)
                found[url].append((rate, p99, 1e6 * (cpu_seconds(url) - before) / (rate * seconds)))
                own = [now - then for now, then in zip(os.times(), spent_before, strict=True)][:4]
                spent.append(1e6 * sum(own) / (rate * seconds))
        written = sorted((folder / "log").glob("*.jsonl"))
        n_lists = sum(file.read_bytes().count(b"\n") for file in written)
        size = sum(file.stat().st_size for file in written) / n_lists
    result = []
    columns = (("throughput", "requests/s"), ("p99 latency", "ms"), ("CPU time of the workers", "µs/request"))
    for name, url in beside.items():
        for column, (what, unit) in enumerate(columns):
            empty = beside["an endpoint that does nothing"]
            mine, theirs, floor = (median(turn[column] for turn in found[each]) for each in (ours, url, empty))
            what = f"/rank with log, {N_ITEMS} items, k = {K}, 2 workers: {what} beside {name}"
            row = {"what": what, "ours": mine, "baseline": theirs, "ratio": mine / theirs, "unit": unit}
            result.append(row | {"floor": floor})
    raw = 16.0 * N_ITEMS  # an id and a score of eight bytes each
    what = f"log, bytes per list of {N_ITEMS} candidates, beside eight for each id and score"
    result.append({"what": what, "ours": size, "baseline": raw, "ratio": size / raw, "unit": "bytes"})
    core, rate = 1e6 / median(turn[0] for turn in found[ours]), median(spent)
    what = "CPU time of the load generator, beside what one core has for each of our requests"
    return [*result, {"what": what, "ours": rate, "baseline": core, "ratio": rate / core, "unit": "µs/request"}]


def made_ranker(folder: Path) -> Path:
    """A certificate on made-up queries."""
    from isrr.calibration.calibrate import calibrate
    from isrr.data.synthetic import generate

    made = generate("small")
    weights, *_ = np.linalg.lstsq(made.train.features, made.train.queries.relevance, rcond=None)
    judged, validation = (part.queries.with_scores(part.features @ weights) for part in (made.test, made.validation))
    calibrate(judged, "ndcg@5 >= 95% of deterministic", validation=validation).save(folder / "ranker.json")
    return folder / "ranker.json"


def ranker_of(source: str, folder: Path) -> Path:
    """The same certificate, as another tree makes it."""
    folder.mkdir()
    program = "import sys, pathlib; from benchmarks.serving import made_ranker; made_ranker(pathlib.Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", program, str(folder)], env=environment, check=True)
    return folder / "ranker.json"


def request_body() -> bytes:
    """One request, the same for both."""
    scores = np.random.default_rng(20230).normal(1.0, 0.4, N_ITEMS).round(6)
    items = [{"id": f"item-{n}", "score": score} for n, score in enumerate(scores.tolist())]
    return json.dumps({"query_id": "q7", "session": "u42", "k": K, "items": items}).encode()


@contextmanager
def running(ranker: Path | None, *options: str, source: str | None = None) -> Iterator[str]:
    """The service over a ranker file, of this tree or another, or one of the apps below; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [OTHERS, "--port", str(port), *options]
    environment = os.environ if source is None else {**os.environ, "PYTHONPATH": source}
    if ranker is not None:
        arguments = [OURS, "serve", str(ranker), "--port", str(port), "--workers", "2", *options]
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
        yield url
    finally:
        process.terminate()
        process.wait(60)


def supervisor_id(url: str) -> int:
    """Process id of a service's supervisor."""
    wanted = f"--port\0{url.rsplit(':', 1)[1]}\0".encode()
    pids = sorted(int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return next(pid for pid in pids if wanted in _command(pid))  # workers are forked from it and come later


def worker_ids(url: str) -> list[int]:
    """Process ids of a service's workers: the processes under its supervisor that have no children."""
    ids, workers = _children(supervisor_id(url)), list[int]()
    while ids:
        pid = ids.pop()
        ids += (below := _children(pid))
        workers += [] if below or b"resource_tracker" in _command(pid) else [pid]
    return sorted(workers)


def cpu_seconds(url: str) -> float:
    """CPU time that the workers of a service have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in worker_ids(url)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has ended
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def load(url: str, seconds: float) -> tuple[float, float]:
    """Requests a second and p99 in milliseconds; raises where a request fails."""
    return _wrk(url, seconds) if shutil.which("wrk") else asyncio.run(_generator(url, seconds))


def _wrk(url: str, seconds: float) -> tuple[float, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f"wrk.method = 'POST'\nwrk.body = [==[{request_body().decode()}]==]\n")
        script.flush()
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(round(seconds), 1)}", "--latency", "-s", script.name]
        said = subprocess.run([*command, f"{url}/rank"], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(said)
    rate, p99 = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"99%\s+([\d.]+)(us|ms|s)", said)
    if rate is None or p99 is None:
        raise RuntimeError(said)
    return float(rate[1]), float(p99[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[p99[2]]


async def _generator(url: str, seconds: float) -> tuple[float, float]:
    loop, body, times = asyncio.get_running_loop(), request_body(), list[float]()
    request = f"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    end = time.perf_counter() + seconds

    class Asking(asyncio.Protocol):
        """A client that asks again as soon as it is answered."""

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

    port = int(url.rsplit(":", 1)[1])
    clients = [(await loop.create_connection(Asking, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    await asyncio.gather(*(client.done for client in clients))
    return len(times) / seconds, 1e3 * float(np.quantile(times, 0.99))


def _answers(url: str) -> bool:
    request = urllib.request.Request(f"{url}/rank", request_body(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def bare_app() -> Any:
    """Parse the same JSON into the same structs, sort by score, answer with k ids."""
    import msgspec
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from isrr.serve.schema import RankRequest

    decoder = msgspec.json.Decoder(RankRequest)

    async def rank(request: Request) -> Response:
        asked = decoder.decode(await request.body())
        best = sorted(asked.items, key=lambda item: -item.score)[: asked.k]
        return Response(msgspec.json.encode({"items": best}), media_type="application/json")

    return Starlette(routes=[Route("/rank", rank, methods=["POST"])])


def empty_app() -> Any:
    """Read the body and answer with two bytes: what no service on this server can do without."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for done in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{done}.complete"})
            return
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    return app


def serve(app: Any, port: int) -> None:
    """One of these apps on two workers of the same server."""
    from granian import Granian

    Granian("bare", port=port, interface="asgi", workers=2, websockets=False).serve(target_loader=lambda _: app())


if __name__ == "__main__":
    for row in rows(*(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]) if len(sys.argv) > 2 else ()):
        print(f"{row['what']}: {row['ours']:.4g} beside {row['baseline']:.4g} {row['unit']}, ratio {row['ratio']:.2f}")
