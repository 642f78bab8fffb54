"""Spark beside the local engine on the same files: CPU seconds of all processes, and the same certificate.

A standalone master and two workers of one core on loopback; 16 Parquet files with the rows of a query together.

    python -m benchmarks.spark [QUERIES]
    python -m benchmarks.spark sizes       bytes of a query in Parquet, and of what a partition sends
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
N_QUERIES, N_ITEMS, N_FILES = 1_000_000, 24, 16
PROMISE = "ndcg@5 >= 90% of deterministic"


def rows(n_queries: int = N_QUERIES) -> list[dict]:
    """CPU seconds and throughput, Spark's beside the local engine's."""
    import spark_cluster

    if spark_cluster.LACKING:
        sys.exit(f"not installed: {', '.join(spark_cluster.LACKING)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, n_queries)
        _compile_kernels()
        local = _run("local", folder)
        meter = CpuMeter()
        meter.start()
        with cluster(folder) as master:
            spark = _run("spark", folder, master)
        cpu = meter.total()
    assert spark["certificate"] == local["certificate"], "the certificates differ"
    what = f"{n_queries:,} queries × {N_ITEMS} items × 21 configurations"
    return [
        {
            "what": f"{what}: CPU seconds, Spark (all processes) over local; same certificate",
            "ours": cpu,
            "baseline": local["cpu"],
            "ratio": cpu / local["cpu"],
            "unit": "s",
        },
        {
            "what": f"{what}: queries per CPU second, Spark beside local",
            "ours": n_queries / cpu,
            "baseline": n_queries / local["cpu"],
            "ratio": local["cpu"] / cpu,
            "unit": "1/s",
        },
        {
            "what": f"{what}: wall seconds, Spark beside local",
            "ours": spark["seconds"],
            "baseline": local["seconds"],
            "ratio": spark["seconds"] / local["seconds"],
            "unit": "s",
        },
    ]


def write_files(folder: Path, n_queries: int) -> None:
    """Judged queries with item ids, sorted by query."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(20230)
    for part, ids in enumerate(np.array_split(np.arange(n_queries), N_FILES)):
        relevance = rng.choice(5, ids.size * N_ITEMS, p=[0.5, 0.25, 0.15, 0.07, 0.03]).astype(np.float64)
        table = {
            "query_id": np.repeat(ids, N_ITEMS),
            "item_id": np.tile(np.arange(N_ITEMS), ids.size),
            "score": (relevance + rng.normal(scale=1.5, size=relevance.size)) / 1.8,
            "relevance": relevance,
        }
        pq.write_table(pa.table(table), folder / f"part-{part:02}.parquet")


def calibrate(engine: str, folder: str, master: str | None = None) -> None:
    """In a process of its own: prints the certificate, CPU and wall seconds as JSON."""
    import isrr

    path = [isrr.GPLRanker.deterministic(), *(isrr.GPLRanker(temperature=float(t)) for t in np.geomspace(0.02, 5, 20))]
    start = time.perf_counter()
    outcome = isrr.calibrate(f"{folder}/*.parquet", PROMISE, path=path, engine=engine, master=master, trust_layout=True)
    seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"certificate": str(outcome), "cpu": used.ru_utime + used.ru_stime, "seconds": seconds}))


def _compile_kernels() -> None:
    """Fill the kernel cache, so that neither engine is charged for compiling."""
    from isrr import GPLRanker, Queries, evaluate
    from isrr.risk import vb

    queries = Queries.from_arrays(scores=[2.0, 1.0, 0.5], relevance=[1, 0, 2], query_ids=[1, 1, 1], item_ids=[1, 2, 3])
    measured = evaluate(queries, [GPLRanker.deterministic(), GPLRanker()], method="draws", n_draws=4)
    vb.Summary.of(1.0 - measured["ndcg"], 0.3, 0.05)
    assert queries.fingerprint


class CpuMeter(threading.Thread):
    """CPU seconds of all processes below this one, looked up while they live; orphans stay below it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.used: dict[tuple[str, str], float] = {}  # by process id and start
        self.stopped = threading.Event()
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1)

    def run(self) -> None:
        while not self.stopped.wait(0.1):
            self.look()

    def look(self) -> None:
        stats = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                stats[file.parent.name] = file.read_text().rpartition(")")[2].split()
        below, found = {str(os.getpid())}, True
        while found:
            found = {pid for pid, stat in stats.items() if stat[1] in below} - below
            below |= found
        tick = os.sysconf("SC_CLK_TCK")
        for pid in below - {str(os.getpid())}:
            if pid in stats:
                self.used[pid, stats[pid][19]] = (int(stats[pid][11]) + int(stats[pid][12])) / tick

    def total(self) -> float:
        """What all of them have used."""
        self.stopped.set()
        self.join()
        return sum(self.used.values())


def _run(engine: str, folder: Path, *master: str) -> dict:
    call = f"from benchmarks.spark import calibrate; calibrate(*{[engine, str(folder), *master]!r})"
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", call]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def cluster(folder: Path, n_workers: int = 2, cores: int = 1) -> Iterator[str]:
    """Start it, wait until all workers have registered, give the master's address; stop it at the end."""
    import pyspark

    import isrr
    import spark_cluster

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PYTHONPATH": str(Path(isrr.__file__).parents[1]),
        "PYSPARK_PYTHON": sys.executable,
    }
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    log = (folder / "cluster.log").open("wb")

    def start(what: str, *arguments: str) -> subprocess.Popen:
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{what}", "--host", "127.0.0.1", *arguments]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    started = [start("master.Master", "--port", str(port), "--webui-port", str(page))]
    try:
        for worker in range(n_workers):
            place = ["--work-dir", str(folder / f"worker-{worker}"), "--webui-port", str(free_port())]
            started.append(start("worker.Worker", *place, "--cores", str(cores), "--memory", "2g", master))
        spark_cluster.wait_for(lambda: status(page).get("aliveworkers") == n_workers)
        yield master
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(30)
        log.close()


def status(page: int) -> dict:
    """What the master's page says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return {}


def sizes(n_queries: int = 20_000) -> None:
    """Print what docs/scale.md reckons with."""
    from isrr import GPLRanker, Promise
    from isrr.calibration.tasks import Fill, TakeCensus
    from isrr.engines.local import Files, summarise_file
    from isrr.promises import objectives

    promises = (Promise.parse(PROMISE),)
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), n_queries)
        files = sorted(Path(name).glob("*.parquet"))
        print(f"query in Parquet: {sum(file.stat().st_size for file in files) / n_queries:.0f} B")
        table = Files(files)

        def sent(task: Any) -> int:
            return int(summarise_file(files[0], task, table.columns.only(task.roles)).nbytes)

        print(f"census of a partition: {sent(TakeCensus(promises)):,} B")
        for n_grid in (21, 121):
            grid = (GPLRanker.deterministic(), *(GPLRanker(temperature=1.0 + c) for c in range(n_grid - 1)))
            task = Fill(grid, promises, objectives(promises), n_tested=10**9, summed=True)
            print(f"sums of a partition, {n_grid} configurations: {sent(task):,} B")


if __name__ == "__main__" and sys.argv[1:] == ["sizes"]:
    sizes()
elif __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else N_QUERIES):
        print(f"{row['what']}: {row['ours']:.4g} beside {row['baseline']:.4g}, ratio {row['ratio']:.3g}")
