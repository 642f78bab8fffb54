"""The kernels that a first command waits for: another process compiles most of them, while this one reads and sorts."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from isrr.metrics import _kernels
from isrr.parallel import threads

CODE = """
import gc
gc.disable()
from isrr.metrics import ahead, evaluate
ahead.CODE = ""  # a process that starts no other
evaluate.compile_kernels()
"""
NOTICE = "isrr: compiling kernels, only this first time: 5 to 10 seconds"
_beside: list["subprocess.Popen[bytes]"] = []
_told: list[str] = []


def kernels_are_compiled() -> bool:
    """Whether the kernels of `evaluate` were compiled, in this process or on this machine before."""
    if _kernels.evaluate_exactly.overloads:
        return True
    folder = _kernels.evaluate_exactly.stats.cache_path
    return folder is not None and any(Path(folder).glob("_kernels.evaluate_exactly-*.nbi"))


def interactive() -> bool:
    """Whether somebody is watching: at a terminal, or in a notebook."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()


def compile_beside() -> bool:
    """Start to compile the kernels of `evaluate` in a process of its own, if they have to be, and say so once.

    Returns:
        Whether they have to be.
    """
    if kernels_are_compiled():
        return False
    if not _told and interactive():
        _told.append(NOTICE)
        print(NOTICE, file=sys.stderr, flush=True)
    kept = _kernels.evaluate_exactly.stats.cache_path is not None
    embedded = "python" not in Path(sys.executable or "").name  # another program, which would be started instead
    if CODE and kept and threads() > 1 and not embedded and not _beside:
        with suppress(OSError):
            command, nothing = [sys.executable, "-P", "-c", CODE], subprocess.DEVNULL
            _beside.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing))
    return True


def await_kernels(compile_parts: Callable[[], None]) -> None:
    """Wait for the other process, if there is one; what it would compile last is compiled here meanwhile."""
    if _beside:
        compile_parts()
    while _beside:
        _beside.pop().wait()
