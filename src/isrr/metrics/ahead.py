"""The kernels that a first command waits for: a second process compiles them, while this one reads and sorts."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from isrr.metrics import _kernels
from isrr.parallel import available_cores

COMMAND = [sys.executable, "-P", "-c", "from isrr.metrics.evaluate import compile_kernels; compile_kernels()"]
_beside: list["subprocess.Popen[bytes]"] = []


def kernels_are_compiled() -> bool:
    """Whether the kernels of `evaluate` were compiled on this machine before."""
    folder = _kernels.evaluate_exactly.stats.cache_path
    return folder is not None and any(Path(folder).glob("_kernels.evaluate_exactly-*.nbi"))


def compile_beside() -> bool:
    """Start to compile the kernels of `evaluate` in a second process, if they have to be.

    Returns:
        Whether they have to be.
    """
    if kernels_are_compiled():
        return False
    kept = _kernels.evaluate_exactly.stats.cache_path is not None
    if kept and available_cores() > 1 and not _beside:
        with suppress(OSError):
            nothing = subprocess.DEVNULL
            _beside.append(subprocess.Popen(COMMAND, stdin=nothing, stdout=nothing, stderr=nothing))
    return True


def await_kernels() -> None:
    """Wait for the second process, if there is one: it is ahead of what could be done here."""
    while _beside:
        _beside.pop().wait()
