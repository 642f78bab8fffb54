"""Compiling all kernels in advance, so that nothing has to wait for them later."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from isrr.errors import EngineError
from isrr.parallel import Progress, available_cores

SETTING = """
from pathlib import Path
from tempfile import TemporaryDirectory
import numpy as np, isrr
from isrr import GPLRanker, Queries, calibrate, evaluate

rng = np.random.default_rng(0)
scores, grades, ids = rng.normal(size=400), rng.choice(3, 400), np.arange(400) // 10
queries = Queries.from_arrays(scores=scores, relevance=grades, query_ids=ids)
widening = GPLRanker(threshold=0.1, decay=0.9)

def read(text, as_run=False, **options):
    with TemporaryDirectory() as folder:
        (Path(folder) / "data.txt").write_text(text)
        isrr.read_queries(**{"run" if as_run else "source": Path(folder) / "data.txt"}, **options)
"""
FIRST = 'calibrate(queries, "ndcg@5 >= 10% of deterministic")'  # what all the others share
OTHERS = (
    """
for ranker in (GPLRanker(), GPLRanker(floor=0.5), GPLRanker(k=8, floor=0.5)):
    ranker.rank([2.0, 1.0], "q", "s")
    ranker.rank_with_propensity([2.0, 1.0], "q", "s")
""",
    "evaluate(queries, [GPLRanker(k=8)]); GPLRanker(k=8).exposure(queries)",
    """
evaluate(queries, [widening])
evaluate(queries, [widening], method="draws")
widening.propensity(widening.rank_queries(queries), queries)
""",
    """
GPLRanker().exposure(queries)
widening.exposure(queries)
read("q Q0 a 1 2.0 tag\\nq Q0 b 2 1.0 tag\\n", as_run=True)
read('{"query": 1, "score": 2.0}\\n')
""",
)


def compile_all(progress: Progress | None = None) -> None:
    """Compile what commands and the service have in common, in a process for each core."""
    _run(FIRST)
    with ThreadPoolExecutor(available_cores()) as pool:
        for done, _ in enumerate(pool.map(_run, OTHERS), 1):
            if progress:
                progress(done, len(OTHERS))


def _run(code: str) -> None:
    faster = "import gc; gc.disable()"
    command = [sys.executable, "-P", "-c", faster + SETTING + code]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise EngineError(f"the kernels could not be compiled: {said}")
