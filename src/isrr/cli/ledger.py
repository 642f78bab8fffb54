"""The ledger of analyses: which judged queries were analysed before, for what, and at which chance of error.

Trying again on the same judged queries until something certifies voids the confidence. The ledger
counts analyses of the same queries, recognised by their fingerprint, not by the file name, so that a certificate can
say it is not the first, and what holds for all of them together. New scores change nothing: what counts
is their judgments. The ledger lies beside the judged queries, where everybody who analyses them finds it; where nothing
may be written there, beside the ranker file. A copy of the data in another folder starts a new count.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec.structs import replace

from isrr.cli.console import say_aside
from isrr.errors import DataError
from isrr.files import read_json_lines

if TYPE_CHECKING:
    from isrr.outcome.certificate import Abstention, Certificate
NAME = ".isrr-looks.jsonl"
DIGITS = 9  # of what was measured: what is beyond differs between processors
Entry = dict[str, Any]


def ledger_at(judged: Path, out_file: Path) -> Path:
    """Return the file in which analyses of judged queries are counted; one that cannot be written is refused."""
    folders = (judged.absolute().parent, out_file.absolute().parent)
    ledger = next((folder for folder in folders if os.access(folder, os.W_OK)), folders[-1]) / NAME
    if ledger.exists() and not (ledger.is_file() and os.access(ledger, os.R_OK | os.W_OK)):
        raise DataError(
            f"{ledger}: analyses of the judged queries are counted in this file; expected a file that you can read and "
            "write"
        )
    return ledger


def noted(outcome: "Certificate | Abstention", ledger: Path) -> "Certificate | Abstention":
    """Add an analysis to the ledger, and return its outcome with what the ledger knows of those before it."""
    analysis, spent = note(entry_of(outcome), ledger)
    return replace(outcome, provenance=replace(outcome.provenance, analysis=analysis, spent=spent))


def note(entry: Entry, ledger: Path) -> tuple[int, float | None]:
    """Add an analysis to the ledger.

    Asking the same question again (same scores, promise, confidence, settings and validation queries) is the same
    analysis.

    Returns:
        Which analysis of these queries it is, counting from 1, and the tolerated chance of error of all up to it; for
        the first None: it says what a calibration without a ledger does.
    """
    with _alone_with(ledger) as file:
        first_of_all = file.tell() == 0
        before = [other for other in read_json_lines(ledger) if _of_the_same(other, entry)]
        questions = [_question(other) for other in before]
        if _question(entry) not in questions:
            _append(file, json.dumps(entry))
            before, questions = [*before, entry], [*questions, _question(entry)]
    if first_of_all:
        say_aside(f"analyses of judged queries are counted in {ledger}")
    analysis = questions.index(_question(entry)) + 1
    spent = sum((1 - other["confidence"]) / other["search"][-1] for other in before[:analysis])
    return analysis, None if analysis == 1 else spent


def entry_of(outcome: "Certificate | Abstention") -> Entry:
    """Return what an analysis asked of which data; segments, groups and validation are told apart by what was found."""
    p = outcome.provenance
    settings = p.clicks.left_out if p.clicks else {}
    last = [outcome.curve[-1].utility.value, outcome.curve[-1].disparity.value] if outcome.curve else []
    return {
        "data": p.data,
        "judgments": p.judgments,
        "table": p.table,
        "sample": p.sample,
        "promises": [promise.document() for promise in outcome.promises],
        "confidence": outcome.confidence,
        "search": [
            p.requested_path, p.path_basis, p.evidence, p.selection, p.unit, settings, p.distinct, p.seed, p.n_analyses
        ],
        "tests": [[test.segment, test.n_queries, round(test.measured, DIGITS)] for test in outcome.tests],
        "path": [len(outcome.curve), *(round(value, DIGITS) for value in last)],
    }  # fmt: skip


def _of_the_same(other: Entry, entry: Entry) -> bool:
    """Whether a line of the ledger is an analysis of the same queries, whatever their scores; not every line is one.

    A sample of a table, and the whole, are the same queries.
    """
    match other:
        case {"data": data, "confidence": int() | float() as confidence, "search": [*_, int() | float() as n_analyses]}:
            sampled = other.get("sample") is not None or entry.get("sample") is not None
            same_table = sampled and bool(entry.get("table")) and other.get("table") == entry.get("table")
            same = data == entry["data"] or other.get("judgments") == entry["judgments"] or same_table
            return bool(same and 0 <= confidence <= 1 <= n_analyses)
    return False


def _question(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if name != "judgments"}


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
