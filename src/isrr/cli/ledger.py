"""The ledger of looks: which judged queries were looked at before, for what, and at which chance of error.

Trying again on the same judged queries until something certifies voids the confidence. The ledger
counts looks at the same queries, recognised by their fingerprint, not by the file name, so that a certificate can say
it is not the first, and what holds for all looks together. New scores change nothing: what counts
is their judgments. The ledger lies beside the judged queries, where everybody who looks at them finds it; where nothing
may be written there, beside the ranker file. A copy of the data in another folder starts a new count.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from isrr.cli.console import say_aside
from isrr.errors import DataError
from isrr.files import read_json_lines

NAME = ".isrr-looks.jsonl"
Look = dict[str, Any]


def ledger_at(judged: Path, out_file: Path) -> Callable[[Look], tuple[int, float | None]]:
    """What counts analyses of the judged queries, see `note_look`; a ledger that cannot be written is refused now."""
    folders = (judged.absolute().parent, out_file.absolute().parent)
    ledger = next((folder for folder in folders if os.access(folder, os.W_OK)), folders[-1]) / NAME
    if ledger.exists() and not (ledger.is_file() and os.access(ledger, os.R_OK | os.W_OK)):
        raise DataError(
            f"{ledger}: analyses of the judged queries are counted in this file; expected a file that you can read and "
            "write"
        )
    return partial(note_look, ledger)


def note_look(ledger: Path, look: Look) -> tuple[int, float | None]:
    """Add an analysis to the ledger.

    Asking the same question again (same scores, promise, confidence, settings and validation queries) is the same
    analysis.

    Returns:
        Which analysis of these queries it is, counting from 1, and the tolerated chance of error of all up to it; for
        the first None: it says what a calibration without a ledger does.
    """
    with _alone_with(ledger) as file:
        first_of_all = file.tell() == 0
        looks = [entry for entry in read_json_lines(ledger) if _at_the_same(entry, look)]
        asked = [_question(entry) for entry in looks]
        if _question(look) not in asked:
            _append(file, json.dumps(look))
            looks, asked = [*looks, look], [*asked, _question(look)]
    if first_of_all:
        say_aside(f"analyses of judged queries are counted in {ledger}")
    number = asked.index(_question(look)) + 1
    spent = sum((1 - entry["confidence"]) / entry["search"][-1] for entry in looks[:number])
    return number, None if number == 1 else spent


def _at_the_same(entry: Look, look: Look) -> bool:
    """Whether a line of the ledger is a look at the same queries, whatever their scores; not every line is a look."""
    match entry:
        case {"data": data, "confidence": int() | float() as confidence, "search": [*_, int() | float() as n_analyses]}:
            same = data == look["data"] or entry.get("judgments") == look["judgments"]
            return bool(same and 0 <= confidence <= 1 <= n_analyses)
    return False


def _question(look: Look) -> Look:
    return {name: value for name, value in look.items() if name != "judgments"}


@contextmanager
def _alone_with(ledger: Path) -> Iterator[IO[bytes]]:
    """The ledger, open at its end, and closed to others meanwhile; not every system or file system can do that."""
    with ledger.open("ab+") as file:
        with suppress(ImportError, OSError):
            from fcntl import LOCK_EX, flock

            flock(file, LOCK_EX)
        file.seek(0, os.SEEK_END)
        yield file


def _append(file: IO[bytes], line: str) -> None:
    """Add a new line, also after one that was cut off."""
    if file.tell():
        file.seek(-1, os.SEEK_END)
        line = line if file.read(1) == b"\n" else f"\n{line}"
    file.write(f"{line}\n".encode())
