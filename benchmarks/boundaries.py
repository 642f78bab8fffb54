"""Errors of what is tested exactly at its boundary, counted over 2,000 repetitions where the tests count 400.

    python -m benchmarks.boundaries

The counts are those of `tests/guarantees`, run there with more repetitions; some, such as those of certificates by any
promise, are of 2,000 in the tests already. A line per count: how many errors there were, and how many are tolerated.
"""

import os
import subprocess
import sys

COUNTED = "test_compare_levels.py", "test_sample_levels.py", "test_calibration.py", "test_list_levels.py"


def main() -> int:
    """Run the tests and print what they counted; the exit code is pytest's."""
    files = [f"tests/guarantees/{name}" for name in COUNTED]
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-k", "delta_often", *files]
    return subprocess.run(command, env=os.environ | {"REPETITIONS": "2000"}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
