"""Ctrl-C that is not lost: some libraries swallow `KeyboardInterrupt` while they load, or in callbacks from C."""

import signal
from types import FrameType

_interrupts: list[int] = []


def remember_interrupts() -> None:
    """Remember Ctrl-C from now on, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _remember)


def _remember(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def stop_if_interrupted(*message: str) -> None:
    """Raise `KeyboardInterrupt` again if it was swallowed."""
    if _interrupts:
        raise KeyboardInterrupt(*message)
