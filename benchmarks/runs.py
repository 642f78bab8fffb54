"""Reading a TREC run with its qrels, beside pandas.read_csv and merge on the same files in the same run.

python benchmarks/runs.py [LINES]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isrr.data.frames import read_queries

LINES = 10_000_000
PER_QUERY = 1_000


def rows(n_lines: int = LINES) -> list[dict[str, Any]]:
    """Millions of lines of the run a second, for ids that are text and for ids that are numbers."""
    found = []
    for kind, prefix in (("text", "D"), ("numbers", "")):
        with tempfile.TemporaryDirectory() as folder:
            run, qrels = _made(Path(folder), n_lines, prefix)
            ours = n_lines / 1e6 / _seconds(lambda run=run, qrels=qrels: read_queries(run=run, qrels=qrels), 2)
            theirs = n_lines / 1e6 / _seconds(lambda run=run, qrels=qrels: _pandas(run, qrels), 1)
        what = f"a TREC run of {n_lines:,} lines with its qrels, item ids that are {kind}; pandas.read_csv and merge"
        row = {"what": what, "ours": ours, "baseline": theirs, "ratio": ours / theirs, "unit": "million lines/s"}
        found.append(row)
    return found


def _pandas(run: Path, qrels: Path) -> Any:
    import pandas as pd

    ids = {"query": str, "item": str}
    lists = pd.read_csv(
        run, sep=" ", header=None, names=["query", "q0", "item", "rank", "score", "tag"],
        usecols=["query", "item", "score"], dtype=ids,
    )  # fmt: skip
    judged = pd.read_csv(
        qrels, sep=" ", header=None, names=["query", "iteration", "item", "grade"],
        usecols=["query", "item", "grade"], dtype=ids,
    )  # fmt: skip
    return lists.merge(judged, on=["query", "item"], how="left").fillna({"grade": 0})


def _made(folder: Path, n_lines: int, prefix: str) -> tuple[Path, Path]:
    """A run of lists of 1,000 out of 2,000,000 items, and qrels of 100 pairs per query, half of them retrieved."""
    rng = np.random.default_rng(20230)
    n_queries = n_lines // PER_QUERY
    run, qrels = folder / "run.txt", folder / "qrels.txt"
    with run.open("w") as lists, qrels.open("w") as judgments:
        for query in range(n_queries):
            items = (rng.integers(2_000_000) + np.arange(PER_QUERY) * 1_999).tolist()  # distinct, spread out
            scores = np.sort(rng.normal(20, 5, PER_QUERY).round(6))[::-1].tolist()
            lists.writelines(
                f"{query} Q0 {prefix}{item} {place} {score} made\n"
                for place, (item, score) in enumerate(zip(items, scores, strict=True), 1)
            )
            judgments.writelines(
                f"{query} 0 {prefix}{item + side} {side + item % 3}\n" for item in items[:50] for side in (0, 1)
            )
    return run, qrels


def _seconds(read: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        read()
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else LINES):
        speeds = f"{row['ours']:8,.3g} {row['baseline']:8,.3g} {row['unit']}"
        print(f"{row['what']:120} {speeds} {row['ratio']:8.2f}×")
