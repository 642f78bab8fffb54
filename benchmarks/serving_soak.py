"""Half a million requests: memory stays flat, nothing fails.

python -m benchmarks.serving_soak [REQUESTS]
"""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.serving import load, made_ranker, running, worker_ids


def resident(url: str) -> list[int]:
    """Resident memory of each worker, MB."""
    statuses = [Path(f"/proc/{pid}/status").read_text().splitlines() for pid in worker_ids(url)]
    return [int(line.split()[1]) // 1024 for lines in statuses for line in lines if line.startswith("VmRSS")]


def main(wanted: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running(made_ranker(Path(folder))) as url:
        served, started = 0.0, time.monotonic()
        load(url, 2.0)
        first = resident(url)
        print(f"workers: {first} MB at the start")
        while served < wanted:
            served += 15.0 * load(url, 15.0)[0]
            print(f"{served:>10,.0f} requests, {time.monotonic() - started:5.0f} s, {resident(url)} MB", flush=True)
        growth = sum(resident(url)) / sum(first) - 1
        print(f"memory grew by {growth:.1%}; no request failed")
        assert growth < 0.05, "memory is not flat"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
