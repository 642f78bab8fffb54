"""The re-rank service beside a bare endpoint of the same framework that parses the same JSON and sorts by score.

Both run on two workers of the same server, on the loopback, and are loaded in turns by wrk, or by a small generator
where wrk is not installed: 100 items, k = 10. Only the ratios mean something, and on a busy machine not much.

python -m benchmarks serving
python benchmarks/serving.py [SECONDS OF EACH TURN] [TURNS]
"""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

N_ITEMS, K, CONNECTIONS = 100, 10, 16
OURS = "from isrr.cli.main import main; main()"
BARE = "from benchmarks.serving import serve_bare; import sys; serve_bare(int(sys.argv[1]))"


def rows(seconds: float = 10.0, turns: int = 3) -> list[dict[str, Any]]:
    """Throughput and p99 beside the bare endpoint; each turn takes `seconds` for each of the two."""
    with tempfile.TemporaryDirectory() as folder, running(made_ranker(Path(folder))) as ours, running(None) as bare:
        found: dict[str, list[tuple[float, float]]] = {ours: [], bare: []}
        for url in (ours, bare):
            load(url, 2.0)  # warm up
        for _ in range(turns):
            for url in (ours, bare):
                found[url].append(load(url, seconds))
    result = []
    for what, column, unit in (("throughput", 0, "requests/s"), ("p99 latency", 1, "ms")):
        mine, theirs = (median(turn[column] for turn in found[url]) for url in (ours, bare))
        what = f"/rank, {N_ITEMS} items, k = {K}, 2 workers: {what} beside a bare endpoint that sorts"
        result.append({"what": what, "ours": mine, "baseline": theirs, "ratio": mine / theirs, "unit": unit})
    return result


def made_ranker(folder: Path) -> Path:
    """A certificate on made-up queries."""
    from isrr.calibration.calibrate import calibrate
    from isrr.data.synthetic import generate

    made = generate("small")
    weights, *_ = np.linalg.lstsq(made.train.features, made.train.relevance, rcond=None)
    judged, validation = (part.with_scores(part.features @ weights) for part in (made.test, made.validation))
    calibrate(judged, "ndcg@5 >= 95% of deterministic", validation=validation).save(folder / "ranker.json")
    return folder / "ranker.json"


def request_body() -> bytes:
    """One request, the same for both."""
    scores = np.random.default_rng(20230).normal(1.0, 0.4, N_ITEMS).round(6)
    items = [{"id": f"item-{n}", "score": score} for n, score in enumerate(scores.tolist())]
    return json.dumps({"query_id": "q7", "session": "u42", "k": K, "items": items}).encode()


@contextmanager
def running(ranker: Path | None, *options: str) -> Iterator[str]:
    """The service over a ranker file, or the bare endpoint; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [BARE, str(port)]
    if ranker is not None:
        arguments = [OURS, "serve", str(ranker), "--port", str(port), "--workers", "2", *options]
    process = subprocess.Popen([sys.executable, "-c", *arguments], stderr=subprocess.DEVNULL)
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


def worker_ids(url: str) -> list[int]:
    """Process ids of a service's workers."""
    wanted = f"--port\0{url.rsplit(':', 1)[1]}\0".encode()
    commands = {int(folder.name): _command(folder) for folder in Path("/proc").iterdir() if folder.name.isdecimal()}
    parents = {str(pid) for pid, command in commands.items() if wanted in command}
    return sorted(
        pid
        for pid, command in commands.items()
        if b"spawn_main" in command and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1] in parents
    )


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
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
    body, end, times = request_body(), time.perf_counter() + seconds, []
    head = f"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        while time.perf_counter() < end:
            started = time.perf_counter()
            writer.write(head + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not answer.startswith(b"http/1.1 200"):
                raise RuntimeError(answer.decode())
            await reader.readexactly(int(answer.split(b"content-length: ")[1].split(b"\r\n")[0]))
            times.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
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


def serve_bare(port: int) -> None:
    """The bare endpoint on two workers of the same server."""
    from uvicorn import Config

    from isrr.serve.server import supervise

    supervise(Config(bare_app, factory=True, port=port, workers=2, access_log=False))


if __name__ == "__main__":
    for row in rows(*(float(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else ()):
        print(f"{row['what']}: {row['ours']:.4g} beside {row['baseline']:.4g} {row['unit']}, ratio {row['ratio']:.2f}")
