"""The whole test suite, as `make test` runs it, beside its processor time divided among the cores.

That is also its floor: no order of the tests takes less. The tests of an earlier commit may fail where a library has
moved on; they take their time all the same.
"""

import os
import subprocess
import sys
import time
from typing import Any

from isrr.parallel import available_cores


def rows() -> list[dict[str, Any]]:
    """Minutes, kernels compiled beforehand."""
    subprocess.run([sys.executable, "-m", "isrr", "doctor", "--compile"], capture_output=True)
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, capture_output=True)
    minutes, after = (time.perf_counter() - start) / 60, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    floor = spent / 60 / available_cores()
    row = {"what": "the test suite; its processor time divided among the cores", "ours": minutes, "unit": "min"}
    return [row | {"baseline": floor, "ratio": floor / minutes, "floor": floor}]
