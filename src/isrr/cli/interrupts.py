"""Ctrl-C that is heard: libraries swallow `KeyboardInterrupt` in places (while they load, in callbacks from C)."""

import signal
from types import FrameType

_heard: list[int] = []


def hear_interrupts() -> None:
    """Remember Ctrl-C from now on, whoever catches what it raises."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:

        def note(number: int, frame: FrameType | None) -> None:
            _heard.append(number)
            signal.default_int_handler(number, frame)

        signal.signal(signal.SIGINT, note)


def stop_if_interrupted(*said: str) -> None:
    """Raise again what was swallowed."""
    if _heard:
        raise KeyboardInterrupt(*said)
