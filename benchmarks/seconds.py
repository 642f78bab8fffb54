"""What people wait for: the first result of a machine and of a process, and one evaluation of one query.

Each beside a floor, the least that could do the same: what Python and numba take to start, or the exponentials.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.calibration import judged
from isrr.metrics.evaluate import evaluate
from isrr.parallel import use_threads
from isrr.ranker.gpl import GPLRanker

FIRST = """
import numpy as np
from isrr import GPLRanker, Queries, evaluate
evaluate(Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[0, 2, 1], group=[3]), [GPLRanker()])
"""
CALIBRATION = """
import numpy as np
from isrr import Queries, calibrate
rng = np.random.default_rng(20230)
relevance = rng.choice(3, 9_600)
scores = relevance + rng.normal(size=9_600)
calibrate(Queries.from_arrays(scores=scores, relevance=relevance, group=[24] * 400), "ndcg@5 >= 90% of deterministic")
"""
BARE = """
import numpy as np
from numba import njit
@njit
def doubled(x):
    return 2.0 * x
doubled(1.0)
"""


def rows() -> list[dict]:
    """Seconds of whole processes, then microseconds per query and temperature on one thread."""
    bare = _process(BARE, times=3)
    found = []
    for name, code in (("result", FIRST), ("calibration", CALIBRATION)):
        with tempfile.TemporaryDirectory() as cache:
            first = _process(code, cache)
            later = _process(code, cache, times=3)
        beside = "Python, numba and a kernel of one line beside"
        for what, ours in ((f"first {name} after installing", first), (f"first {name} of a later process", later)):
            found.append(
                {"what": f"{what}; {beside}", "ours": ours, "baseline": bare, "ratio": bare / ours, "unit": "s"}
            )
    for n_items in (24, 120):
        queries = judged(600, n_items)
        floor = _exponentials(queries.need_scores()) / len(queries)
        for temperature in (0.02, 0.1, 0.5, 2.0):
            ours = _evaluation(queries, temperature)
            what = f"evaluate {n_items} items at temperature {temperature}, per query; the exponentials of their scores"
            found.append({"what": what, "ours": ours, "baseline": floor, "ratio": floor / ours, "unit": "µs"})
    return found


def _process(code: str, cache: str | None = None, times: int = 1) -> float:
    chosen = {} if cache is None else {"NUMBA_CACHE_DIR": cache}
    return min(
        _seconds(lambda: subprocess.run([sys.executable, "-c", code], env={**os.environ, **chosen}, check=True))
        for _ in range(times)
    )


def _evaluation(queries, temperature: float) -> float:
    """Microseconds for one query at one temperature, by the difference between 22 and 2 temperatures like it."""
    with use_threads(1):
        few, many = ([GPLRanker(temperature=temperature * (1 + 1e-6 * i)) for i in range(n)] for n in (2, 22))
        evaluate(queries, few)
        best = [min(_seconds(lambda: evaluate(queries, grid)) for _ in range(30)) for grid in (few, many)]  # noqa: B023
    return 1e6 * (best[1] - best[0]) / 20 / len(queries)


def _exponentials(scores) -> float:
    return 1e6 * min(_seconds(lambda: np.exp(scores)) for _ in range(30))


def _seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
