"""What a sample of a large table costs, in seconds, memory and certified gain.

    python -m benchmarks.scale [QUERIES]                  bound and gain at several samples; default 1,000,000 queries
    python -m benchmarks.scale before FOLDER              a million queries here and in another source tree
    python -m benchmarks.scale files QUERIES              a certificate from so many queries in Parquet files

Every calibration runs in a process of its own; its seconds are those of the call, its memory the most the process held.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from inspect import signature
from pathlib import Path

import numpy as np

N_ITEMS, PER_FILE, PROMISE = 24, 500_000, "ndcg@5 >= 95% of deterministic"
SAMPLES = (2_000, 20_000, 200_000, 1_000_000)


def write(folder: Path, n_queries: int, seed: int = 20230) -> str:
    """Write judged queries in files of at most half a million, and return a glob of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    for part, start in enumerate(range(0, n_queries, PER_FILE)):
        n = min(PER_FILE, n_queries - start)
        relevance = rng.choice(4, n * N_ITEMS, p=[0.6, 0.25, 0.1, 0.05]).astype(np.float32)
        columns = {
            "query_id": np.repeat(np.arange(start, start + n), N_ITEMS),
            "item_id": np.tile(np.arange(N_ITEMS), n),
            "score": (relevance + rng.normal(scale=1.2, size=relevance.size)).astype(np.float32),
            "relevance": relevance,
        }
        pq.write_table(pa.table(columns), folder / f"part-{part:03}.parquet")
    return f"{folder}/*.parquet"


def child(files: str, sample: int | None, n_configurations: int) -> None:
    """Calibrate, and print what came of it."""
    import isrr

    temperatures = np.geomspace(0.02, 5, n_configurations - 1).tolist()
    hot = [isrr.GPLRanker(temperature=temperature, mean=0.6, deviation=1.48) for temperature in temperatures]
    path = [isrr.GPLRanker.deterministic(5), *hot]
    options = {} if sample == -1 else {"sample": sample}
    sampled = "sample" in signature(isrr.calibrate).parameters
    few = {"sample": 100} if sampled else {}
    isrr.calibrate(files.replace("*", "part-000"), PROMISE, path=path[:3], **few)  # kernels are loaded
    began, used = time.perf_counter(), time.process_time()
    outcome = isrr.calibrate(files, PROMISE, path=path, **options)
    test = outcome.tests[0]
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - began,
                "used": time.process_time() - used,
                "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
                "n": test.n_queries,
                "bound": None if test.bound is None else test.bound - test.risk,
                "gain": outcome.fairness_gain.value,
            }
        )
    )


def measured(files: str, sample: int | None = -1, n_configurations: int = 100, tree: Path | None = None) -> dict:
    """Run a child, with the source of another tree if one is given."""
    here = Path(__file__).parents[1]
    paths = os.pathsep.join(map(str, ((tree or here) / "src", here)))
    call = f"from benchmarks.scale import child; child({files!r}, {sample!r}, {n_configurations})"
    done = subprocess.run(
        [sys.executable, "-c", call], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def show(rows: list[dict]) -> None:
    """Print a table of measurements."""
    print("| tested on | seconds | of all cores | GiB | bound above the mean loss | disparity removed |")
    print("|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        bound = "" if row["bound"] is None else f"{row['bound']:.5f}"
        times = f"{row['seconds']:.1f} | {row['used']:.1f} | {row['gib']:.2f}"
        print(f"| {row['n']:,} | {times} | {bound} | {100 * row['gain']:.2f} % |")


def main(arguments: list[str]) -> None:
    """Run what was named."""
    with tempfile.TemporaryDirectory() as folder:
        if arguments[:1] == ["files"]:
            show([measured(write(Path(folder), int(arguments[1])))])
        elif arguments[:1] == ["before"]:
            files = write(Path(folder), 1_000_000)
            show([measured(files, tree=Path(arguments[1])), measured(files)])
        else:
            files = write(Path(folder), int(arguments[0]) if arguments else 1_000_000)
            show([measured(files, None if n == SAMPLES[-1] else n) for n in SAMPLES])


if __name__ == "__main__":
    main(sys.argv[1:])
