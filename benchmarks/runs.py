"""Reading a TREC run with its qrels beside pandas.read_csv and merge, and a table in CSV beside polars.read_csv.

Each pair reads the same files in the same run.

python benchmarks/runs.py [LINES]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isrr.data.tables import read_queries

LINES, TABLE_ROWS = 10_000_000, 1_000_000
PER_QUERY = 1_000


def rows(n_lines: int = LINES) -> list[dict[str, Any]]:
    """Millions of lines a second, of runs with ids that are text and numbers, and of a table in CSV."""
    measured = []
    for kind, prefix in (("text", "D"), ("numbers", "")):
        with tempfile.TemporaryDirectory() as folder:
            few = _made(Path(folder), 10 * PER_QUERY, prefix)
            read_queries(few[0], qrels=few[1])  # compiles
            run, qrels = _made(Path(folder), n_lines, prefix)
            ours, theirs = _side_by_side(partial(read_queries, run, qrels=qrels), partial(_pandas, run, qrels))
        what = f"a TREC run of {n_lines:,} lines with its qrels, item ids that are {kind}; pandas.read_csv and merge"
        measured.append(_row(what, n_lines, ours, theirs))
    with tempfile.TemporaryDirectory() as folder:
        file = _table(Path(folder) / "judged.csv", TABLE_ROWS)
        ours, theirs = _side_by_side(partial(read_queries, file), partial(_polars, file))
    measured.append(_row(f"a table in CSV, {TABLE_ROWS:,} rows; polars.read_csv", TABLE_ROWS, ours, theirs))
    return measured


def _row(what: str, n_lines: int, ours: float, theirs: float) -> dict[str, Any]:
    speeds = {"ours": n_lines / 1e6 / ours, "baseline": n_lines / 1e6 / theirs}
    return {"what": what, **speeds, "ratio": theirs / ours, "unit": "million lines/s"}


def _polars(file: Path) -> Any:
    import polars as pl

    return pl.read_csv(file)


def _table(file: Path, n_rows: int) -> Path:
    """A table of lists of 20 items with text ids, scores and grades."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(20230)
    columns = {
        "query_id": _named(np.repeat(np.arange(n_rows // 20), 20), "q"),
        "item_id": _named(rng.permutation(n_rows), "item-"),
        "score": rng.normal(size=n_rows).round(6),
        "relevance": rng.integers(0, 4, n_rows),
    }
    csv.write_csv(pa.table(columns), file)
    return file


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
    query = np.repeat(np.arange(n_queries), PER_QUERY)
    place = np.tile(np.arange(PER_QUERY), n_queries)
    item = np.repeat(rng.integers(2_000_000, size=n_queries), PER_QUERY) + place * 1_999  # distinct, spread out
    score = (30 - place / 50 + rng.random(n_lines)).round(6)
    run, qrels = folder / "run.txt", folder / "qrels.txt"
    _write(run, query, "Q0", _named(item, prefix), place + 1, score, "made")
    judged = place < 50
    pairs = np.repeat(item[judged], 2) + np.tile([0, 1], judged.sum())
    _write(qrels, np.repeat(query[judged], 2), "0", _named(pairs, prefix), pairs % 4)
    return run, qrels


def _named(items: Any, prefix: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(prefix, pa.array(items).cast(pa.string()), "")


def _write(file: Path, *columns: Any) -> None:
    """Columns as text with blanks between them; a word stands for itself in every row."""
    import pyarrow as pa
    from pyarrow import csv

    n_rows = len(columns[0])
    table = pa.table(
        {str(i): pa.repeat(column, n_rows) if isinstance(column, str) else column for i, column in enumerate(columns)}
    )
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    csv.write_csv(table, file, options)


def _side_by_side(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """The best of two times of each, taken in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(2):
        for read, taken in zip((ours, theirs), times, strict=True):
            started = time.perf_counter()
            read()
            taken.append(time.perf_counter() - started)
    return min(times[0]), min(times[1])


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else LINES):
        speeds = f"{row['ours']:8,.3g} {row['baseline']:8,.3g} {row['unit']}"
        print(f"{row['what']:120} {speeds} {row['ratio']:8.2f}×")
