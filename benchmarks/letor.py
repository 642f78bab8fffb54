"""Reading LETOR text, beside scikit-learn on the same file in the same run; text as item ids, beside integers.

python benchmarks/letor.py [FILE]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isrr.data.frames import read_queries, write_queries
from isrr.data.letor import read_letor
from isrr.data.queries import Queries

REAL_FILE = Path(__file__).parents[2] / "shared" / "data" / "mq2007" / "S1.txt"


def rows(file: Path | None = None) -> list[dict[str, Any]]:
    """Megabytes of text a second: one thread, two threads, and a converted copy.

    Without the real MQ2007 file a made one of the same shape takes its place.
    """
    from sklearn.datasets import load_svmlight_file

    with tempfile.TemporaryDirectory() as folder:
        source = file or (REAL_FILE if REAL_FILE.is_file() else _made(Path(folder) / "made.txt"))
        copy = Path(folder) / "copy.arrow"
        write_queries(read_letor(source), copy)
        megabytes = source.stat().st_size / 1e6
        theirs = megabytes / _seconds(lambda: load_svmlight_file(str(source), query_id=True), 3)
        floor = megabytes / _seconds(source.read_bytes, 9)  # a plain read, cached
        ways: list[tuple[str, Callable[[], object]]] = [
            ("LETOR text, 1 thread", lambda: read_letor(source, n_threads=1)),
            ("LETOR text, 2 threads", lambda: read_letor(source, n_threads=2)),
            ("converted copy (.arrow)", lambda: _touched(copy)),
        ]
        found = []
        for what, read in ways:
            ours = megabytes / _seconds(read, 9)
            row = {"what": f"{what}, against scikit-learn's text reader", "ours": ours, "baseline": theirs}
            found.append(row | {"ratio": ours / theirs, "unit": "MB/s of text", "floor": floor})
        return [*found, *_text_ids()]


def _text_ids(n_rows: int = 2_000_000) -> list[dict[str, Any]]:
    """Millions of rows a second that become queries of 100 items and are put in order."""
    rng = np.random.default_rng(20230)
    columns = {"scores": rng.normal(size=n_rows), "group": np.full(n_rows // 100, 100)}
    numbers = rng.permutation(n_rows)
    texts = np.array([f"item{number}" for number in numbers], object)

    def speed(item_ids: Any) -> float:
        return n_rows / 1e6 / _seconds(lambda: Queries.from_arrays(item_ids=item_ids, **columns).by_score, 3)

    beside, found = speed(numbers), []
    arrow = pa.array(texts)
    bytes_of_all = [np.frombuffer(buffer, np.uint8) for buffer in arrow.buffers() if buffer] + [columns["scores"]]
    floor = n_rows / 1e6 / _seconds(lambda: [part.copy() for part in bytes_of_all], 9)  # all bytes moved once
    for kind, item_ids in (("text of Arrow", arrow), ("strings of Python", texts)):
        ours = speed(item_ids)
        what = f"{n_rows:,} rows with {kind} as item ids; integers beside"
        row = {"what": what, "ours": ours, "baseline": beside, "ratio": ours / beside, "unit": "million rows/s"}
        found.append(row | {"floor": floor})
    return found


def _touched(copy: Path) -> float:
    """Load the copy and read its whole feature matrix, so that mapping alone does not count."""
    features = read_queries(copy).features
    assert features is not None
    return float(features.sum())


def _seconds(read: Callable[[], object], repeats: int) -> float:
    read()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        read()
        times.append(time.perf_counter() - started)
    return min(times)


def _made(file: Path) -> Path:
    rng = np.random.default_rng(20230)
    with file.open("w") as text:
        for query, length in enumerate(rng.integers(20, 60, 340)):
            for values in np.where(rng.random((length, 46)) < 0.4, 0, rng.random((length, 46))):
                features = " ".join(f"{index}:{value:.6f}" for index, value in enumerate(values, 1))
                text.write(f"{rng.integers(3)} qid:{query} {features} #docid = GX029-35-5894638 inc = 1\n")
    return file


if __name__ == "__main__":
    for row in rows(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        speeds = f"{row['ours']:10,.4g} {row['baseline']:8,.4g} {row['unit']}"
        print(f"{row['what']:60} {speeds} {row['ratio']:8.2f}×")
