"""Ctrl-C during training: the round at hand is finished, what was learnt is kept, and the user is told.

A second Ctrl-C interrupts at once.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class TrainingInterruptedError(KeyboardInterrupt):
    """Training was stopped early; its message says what was kept, and where."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within the body, Ctrl-C only sets a flag; the value given tells whether it is set.

    Signals reach the main thread alone; elsewhere the flag is never set.
    """
    asked = threading.Event()

    def note(_signal: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
