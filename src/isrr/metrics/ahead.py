"""The kernels that a first command waits for: other processes compile most of them, while this one reads and sorts."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from isrr.metrics import _kernels
from isrr.parallel import threads

PARTS = ["compile_kernels", "compile_parts"]  # of `isrr.metrics.evaluate`, each in a process that starts no others
ALONE = "import gc; gc.disable(); from isrr.metrics import ahead, evaluate; ahead.PARTS.clear(); evaluate."
_beside: list["subprocess.Popen[bytes]"] = []


def kernels_are_compiled() -> bool:
    """Whether the kernels of `evaluate` were compiled, in this process or on this machine before."""
    if _kernels.evaluate_exactly.overloads:
        return True
    folder = _kernels.evaluate_exactly.stats.cache_path
    return folder is not None and any(Path(folder).glob("_kernels.evaluate_exactly-*.nbi"))


def compile_beside() -> bool:
    """Start to compile the kernels of `evaluate` in processes of their own, if they have to be.

    Returns:
        Whether they have to be.
    """
    if kernels_are_compiled():
        return False
    kept = _kernels.evaluate_exactly.stats.cache_path is not None
    embedded = "python" not in Path(sys.executable or "").name  # another program, which would be started instead
    if kept and threads() > 1 and not embedded and not _beside:
        with suppress(OSError):
            nothing = subprocess.DEVNULL
            for part in PARTS:
                command = [sys.executable, "-P", "-c", f"{ALONE}{part}()"]
                _beside.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing))
    return True


def await_kernels() -> None:
    """Wait for the other processes, if there are any: they are ahead of what could be done here."""
    while _beside:
        _beside.pop().wait()
