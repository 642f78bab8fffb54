"""What people wait for: the first result of a machine and of a process, and one evaluation of one query.

Each beside a floor, the least that could do the same: what Python and numba take to start, or the exponentials.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
@njit(cache=True)
def doubled(x):
    return 2.0 * x
doubled(1.0)
"""


def rows() -> list[dict]:
    """Seconds of whole processes, then microseconds per query and temperature on one thread."""
    found = []
    whens = ("after installing", "of a later process")
    bare = _first_and_later(BARE)
    floors = bare[0], _first_and_later("import numba")[1]  # a kernel must be compiled, or numba at least be loaded
    for name, code in (("result", FIRST), ("calibration", CALIBRATION)):
        for when, ours, beside, floor in zip(whens, _first_and_later(code), bare, floors, strict=True):
            what = f"first {name} {when}; Python, numba and a kernel of one line beside"
            row = {"what": what, "ours": ours, "baseline": beside, "ratio": beside / ours, "unit": "s"}
            found.append(row | {"floor": floor})
    for n_items in (24, 120):
        queries = judged(600, n_items)
        floor = _exponentials(queries.need_scores()) / len(queries)
        for temperature in (0.02, 0.1, 0.5, 2.0):
            ours = _evaluation(queries, temperature)
            what = f"evaluate {n_items} items at temperature {temperature}, per query; the exponentials of their scores"
            row = {"what": what, "ours": ours, "baseline": floor, "ratio": floor / ours, "unit": "µs"}
            found.append(row | {"floor": floor})
    return found


def _first_and_later(code: str) -> tuple[float, float]:
    """Seconds of a process that has to compile its kernels, and the least of five that find them compiled."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(code)
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        seconds = [
            _seconds(lambda: subprocess.run([sys.executable, script], env=environment, check=True)) for _ in range(6)
        ]
    return seconds[0], min(seconds[1:])


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
