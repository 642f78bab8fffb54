"""`calibrate` end to end: small, long and large."""

import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from isrr import Queries
from isrr.calibration.calibrate import calibrate
from isrr.metrics.evaluate import evaluate
from isrr.parallel import available_cores
from isrr.ranker.gpl import GPLRanker

PROMISE = "ndcg@5 >= 90% of deterministic"


def judged(n_queries: int, n_items: int, seed: int = 20230) -> Queries:
    """Queries of equal length with standardised scores that know something of the grades."""
    rng = np.random.default_rng(seed)
    relevance = rng.choice(5, n_queries * n_items, p=[0.5, 0.25, 0.15, 0.07, 0.03])
    scores = relevance + rng.normal(scale=1.5, size=relevance.size)
    scores = (scores - scores.mean()) / scores.std()
    return Queries.from_arrays(scores=scores, relevance=relevance, group=np.full(n_queries, n_items))


def hundred_temperatures() -> list[GPLRanker]:
    """100 configurations, safest first."""
    return [GPLRanker.deterministic(), *(GPLRanker(temperature=float(t)) for t in np.geomspace(0.02, 5, 99))]


def exponentials(n: int, n_threads: int = 1) -> float:
    """Seconds that numpy takes for so many exponentials, were they divided among threads: a floor of any evaluation."""
    scores = np.random.default_rng(20230).normal(size=4_096)
    best = np.inf
    for _ in range(2_000):
        start = time.perf_counter()
        np.exp(scores)
        best = min(best, time.perf_counter() - start)
    return best / scores.size * n / n_threads


def peak_memory() -> float:
    """GiB of this process. What `getrusage` counts includes the process that started it."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 2**20


def rows() -> list[dict]:
    """Seconds beside the limits that were set for them; the floor is an exponential per item and configuration."""
    found = []
    path, cores = hundred_temperatures(), available_cores()
    for n_items, limit in ((24, 2.0), (120, 5.0)):
        queries = judged(3_000, n_items)
        seconds = min(_seconds(lambda: calibrate(queries, PROMISE, path=path)) for _ in range(5))  # noqa: B023
        what = f"calibrate 3,000 queries × {n_items} items × 100 configurations, warm, against a limit"
        row = {"what": what, "ours": seconds, "baseline": limit, "ratio": limit / seconds, "unit": "s"}
        found.append(row | {"floor": exponentials(3_000 * n_items * 100, cores)})
    found += [groups(), first_relevant()]
    code = "from benchmarks.calibration import large; large()"
    seconds, memory = map(float, subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split())  # fmt: skip
    what = "calibrate 1,000,000 queries × 24 items × 100 configurations, against a limit"
    row = {"what": what, "ours": seconds, "baseline": 300.0, "ratio": 300.0 / seconds, "unit": "s"}
    found.append(row | {"floor": exponentials(1_000_000 * 24 * 100, cores)})
    found.append(
        {"what": f"{what}: peak memory", "ours": memory, "baseline": 4.0, "ratio": 4.0 / memory, "unit": "GiB"}
    )
    return found


def _seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def first_relevant() -> dict:
    """Seconds to measure NDCG and RR in one pass, beside the limit of twice those of NDCG alone."""
    queries, grid = judged(3_000, 24), hundred_temperatures()
    evaluate(queries, grid[:1], ["rr"])
    alone, both = (min(_seconds(lambda: evaluate(queries, grid, names)) for _ in range(5))  # noqa: B023
                   for names in (["ndcg"], ["ndcg", "rr"]))  # fmt: skip
    what = "evaluate ndcg and rr, 3,000 queries × 24 items × 100 configurations, against twice ndcg alone"
    return {"what": what, "ours": both, "baseline": 2 * alone, "ratio": 2 * alone / both, "unit": "s"}


def groups() -> dict:
    """Seconds to measure disparity between groups in one pass, beside those of one pass per configuration."""
    queries = judged(3_000, 24)
    providers = np.random.default_rng(20230).integers(0, 50, queries.n_rows).astype(str)
    queries = replace(queries, item_groups=providers)
    grid = hundred_temperatures()
    evaluate(queries, grid[:1], ["group_disparity"])
    start = time.perf_counter()
    once = evaluate(queries, grid, ["group_disparity"])["group_disparity"]
    middle = time.perf_counter()
    anew = [evaluate(queries, [ranker], ["group_disparity"])["group_disparity"][:, 0] for ranker in grid]
    ours, baseline = middle - start, time.perf_counter() - middle
    assert np.allclose(once, np.stack(anew, axis=1), atol=1e-12)
    what = "disparity between 50 groups, 3,000 queries × 24 items × 100 configurations, against one pass for each"
    return {"what": what, "ours": ours, "baseline": baseline, "ratio": baseline / ours, "unit": "s"}


def large() -> None:
    """One million queries in a process of its own; prints seconds and peak memory in GiB."""
    queries = judged(1_000_000, 24)
    start = time.perf_counter()
    outcome = calibrate(queries, PROMISE, path=hundred_temperatures())
    assert not outcome.abstained
    print(time.perf_counter() - start, peak_memory())
