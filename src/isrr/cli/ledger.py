"""The ledger of analyses: which judged queries were analysed before, and at which chance of error.

Trying again on the same queries until something certifies voids the confidence. So the command notes each certificate
in a file beside the judged queries (if that folder is not writable, beside the ranker file). Queries are recognised by
their judgments, not by the name of their file: new scores change nothing, nor does a sample of the same table.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from isrr.cli.console import say_aside
from isrr.errors import DataError
from isrr.files import read_json_lines

if TYPE_CHECKING:
    from isrr.outcome.certificate import Abstention, Certificate

NAME = ".isrr-analyses.jsonl"
DIGITS = 9  # of measured values; further ones differ between processors
Entry = dict[str, Any]


def ledger_at(judged: Path, out_file: Path) -> Path:
    """Return the ledger of judged queries; refuse one that cannot be read and written."""
    folders = (judged.absolute().parent, out_file.absolute().parent)
    ledger = next((folder for folder in folders if os.access(folder, os.W_OK)), folders[-1]) / NAME
    if ledger.exists() and not (ledger.is_file() and os.access(ledger, os.R_OK | os.W_OK)):
        raise DataError(
            f"{ledger}: analyses of the same data are counted in this file; expected a file that you can read and write"
        )
    return ledger


def noted(outcome: "Certificate | Abstention", ledger: Path) -> "Certificate | Abstention":
    """Add an analysis to the ledger, and return its outcome with what the ledger knows of those before it."""
    analysis, spent = note(entry_of(outcome), ledger)
    return replace(outcome, provenance=replace(outcome.provenance, analysis=analysis, spent=spent))


def note(entry: Entry, ledger: Path) -> tuple[int, float | None]:
    """Add an analysis to the ledger, unless it is there already.

    Returns:
        Which analysis of these queries it is, counting from 1, and the tolerated chance of error of all up to it; None
        for the first.
    """
    with ledger.open("a", encoding="utf-8") as file:
        with suppress(ImportError, OSError):  # not every system or file system has locks
            from fcntl import LOCK_EX, flock

            flock(file, LOCK_EX)
        is_new = file.seek(0, os.SEEK_END) == 0
        entries = [other for other in read_json_lines(ledger) if _same_queries(other, entry)]
        if entry not in entries:
            entries.append(entry)
            file.write(json.dumps(entry) if is_new else f"\n{json.dumps(entry)}")  # the last line may be cut off
    if is_new:
        say_aside(f"analyses of the same data are counted in {ledger}")
    analysis = entries.index(entry) + 1
    spent = sum((1 - other["confidence"]) / other["n_analyses"] for other in entries[:analysis])
    return analysis, None if analysis == 1 else spent


def entry_of(outcome: "Certificate | Abstention") -> Entry:
    """Return what identifies an analysis: its data, question and settings, and by its results all else it read."""
    p = outcome.provenance
    last = [outcome.curve[-1].utility.value, outcome.curve[-1].disparity.value] if outcome.curve else []
    return {
        "data": p.data,
        "judgments": p.judgments,
        "table": p.table,
        "sample": p.sample,
        "promises": [promise.document() for promise in outcome.promises],
        "confidence": outcome.confidence,
        "n_analyses": p.n_analyses,
        "settings": [p.requested_path, p.path_basis, p.evidence, p.selection, p.unit, p.distinct, p.seed],
        "left_out": p.clicks.left_out if p.clicks else {},
        "tests": [[test.segment, test.n_queries, round(test.measured, DIGITS)] for test in outcome.tests],
        "path": [len(outcome.curve), *(round(value, DIGITS) for value in last)],
    }


def _same_queries(other: Entry, entry: Entry) -> bool:
    """Return whether a line of the ledger is an analysis of the same queries; lines may be damaged."""
    match other:
        case {"data": data, "confidence": int() | float() as confidence, "n_analyses": int() as n_analyses}:
            sampled = other.get("sample") is not None or entry["sample"] is not None
            same_table = sampled and bool(entry["table"]) and other.get("table") == entry["table"]
            same = data == entry["data"] or other.get("judgments") == entry["judgments"] or same_table
            return bool(same and 0 <= confidence <= 1 <= n_analyses)
    return False
