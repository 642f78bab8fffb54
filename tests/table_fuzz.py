"""Files with one bit flipped, of every kind: a clear refusal or a valid table; no crash, hang, noise or growing memory.

python tests/table_fuzz.py 10000 [seed] [kind ...]    reads that many damaged files of each kind

Files are read in a process of their own, so that a crash is a result. It writes a line per file; should it die, a new
one goes on behind the file that killed it.
"""

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from command_line import run

TABLES = ("parquet", "zstd.parquet", "arrow", "lists.arrow", "graded.arrow", "zstd.arrow")
KINDS = (*TABLES, "csv", "csv.gz", "jsonl")
SECONDS = 20  # for one file; they take milliseconds
GROWTH = 400  # MB, over all files of one process
ROOM = 6 << 30  # bytes of address space beyond what reading starts with


def whole_file(kind: str) -> bytes:
    """A file of that kind without a flaw: text ids, categories, lists of features, numbers, metadata."""
    rng = np.random.default_rng(7)
    n = 40
    columns = {
        "query_id": pa.array([f"q{i // 5}" for i in range(n)]).dictionary_encode(),
        "item_id": pa.array([f"item-{i}" for i in range(n)]),
        "score": rng.normal(size=n).round(3),
        "relevance": rng.integers(0, 4, n),
        "segment": pa.array(["mobile" if i // 5 % 2 else "desktop" for i in range(n)]),
        "group": rng.integers(0, 5, n),
    }
    matrix = rng.normal(size=(n, 3)).astype(np.float32).round(3)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 3)
    lists = pa.array(matrix.tolist(), pa.list_(pa.float32()))
    plain = pa.table(columns)
    if kind == "jsonl":
        rows = plain.append_column("features", lists).to_pylist()
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind.startswith("csv"):
        text = plain.to_pandas().to_csv(index=False).encode()
        return gzip.compress(text, mtime=0) if kind.endswith("gz") else text
    if kind == "graded.arrow":
        marks = pa.DictionaryArray.from_arrays(pa.array([0, *[None] * (n - 1)], pa.int32()), pa.array(["zero"]))
        beside = [[3.0, 1.0], *[[]] * (n - 1)]
        plain = plain.append_column("unjudged", marks).append_column("unretrieved", pa.array(beside))
        plain = plain.replace_schema_metadata({b"isrr.unjudged": b"zero", b"isrr.ties": b"trec"})
    compression = "zstd" if kind.startswith("zstd") else None
    table = plain.append_column("features", lists if kind == "lists.arrow" or "zstd" in kind else fixed)
    sink = pa.BufferOutputStream()
    if kind.endswith("parquet"):
        pq.write_table(table, sink, compression=compression or "none", row_group_size=16)
    else:
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=25)
    return sink.getvalue().to_pybytes()


def damaged(whole: bytes, case: int, seed: int) -> bytes:
    """The file with a bit flipped; every tenth is cut off behind it as well."""
    rng = np.random.default_rng([seed, case])
    data = bytearray(whole)
    at = int(rng.integers(len(data)))
    data[at] ^= 1 << int(rng.integers(8))
    return bytes(data[: at + 1] if case % 10 == 9 else data)


def read(file: Path) -> str:
    """What becomes of a file: "refused", or "read" where everything in it can be used."""
    from blocks import read_blocks
    from isrr.data.tables import read_queries
    from isrr.errors import DataError

    readers = [read_queries] + ([lambda path: list(read_blocks(path, rows=10))] if file.suffix == ".parquet" else [])
    outcomes = set()
    for reader in readers:
        try:
            found = reader(file)
            for queries in found if isinstance(found, list) else [found]:
                assert queries.offsets[-1] == len(queries.need_relevance())
                assert queries.item_ids is None or len(queries.judgments) == 32
                assert queries.scores is None or queries.tied_positions(5).max() >= 0
            outcomes.add("read")
        except DataError as error:
            said = str(error)
            assert said.startswith(str(file)), said
            assert len(said) < 2_000, said[:500]
            assert "\n" not in said, said
            outcomes.add("refused")
    return "/".join(sorted(outcomes))


def work(kind: str, first: int, stop: int, seed: int, folder: str) -> None:
    """Read the damaged files first … stop − 1; a line for each."""
    whole, file = whole_file(kind), Path(folder) / f"damaged.{kind}"
    file.write_bytes(whole)
    assert read(file) == "read", "the file is damaged before any bit is flipped"
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for case in range(first, stop):
        file.write_bytes(damaged(whole, case, seed))
        try:
            outcome = read(file)
        except BaseException as error:
            outcome = f"uncaught {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        print(json.dumps([case, outcome if grown < GROWTH else f"{outcome}, memory grew by {grown} MB"]), flush=True)
        if grown >= GROWTH:
            sys.exit(3)


def fuzz(kind: str, count: int, seed: int = 0) -> tuple[Counter[str], dict[int, str]]:
    """How files of a kind ended, and those that ended badly."""
    ended: Counter[str] = Counter()
    bad: dict[int, str] = {}
    case = 0
    with tempfile.TemporaryDirectory() as folder:
        while case < count:
            try:
                done = run(__file__, "--work", kind, case, count, seed, folder, timeout=SECONDS + 0.05 * (count - case))
            except subprocess.TimeoutExpired:
                bad[case] = "this file, or one behind it, took too long"
                break
            out, noise = done.stdout, done.stderr
            for line in out.splitlines():
                case, outcome = json.loads(line)
                ended[outcome.split(":")[0]] += 1
                if outcome.startswith("uncaught") or "memory" in outcome:
                    bad[case] = outcome
            case = json.loads(out.splitlines()[-1])[0] + 1 if out.strip() else case
            if done.returncode or noise:
                at = case if done.returncode and done.returncode != 3 else case - 1
                bad.setdefault(at, f"exit {done.returncode}, {len(noise)} letters on stderr: {noise[-300:]}")
                case = max(case, at + 1)
            assert out.strip() or bad, noise
    return ended, bad


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        kind, first, stop, seed, folder = sys.argv[2:]
        work(kind, int(first), int(stop), int(seed), folder)
        sys.exit()
    for kind in sys.argv[3:] or KINDS:
        start = time.perf_counter()
        ended, bad = fuzz(kind, int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
        print(f"{kind:13} {dict(ended)} in {time.perf_counter() - start:.0f} s")
        for case, what in list(bad.items())[:20]:
            print(f"    case {case}: {what}")
