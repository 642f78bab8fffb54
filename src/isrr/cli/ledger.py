"""The ledger of looks: which judged queries were looked at before, and for what.

Trying again on the same judged queries until something certifies is not what the confidence speaks of. The ledger
counts looks at the same data, told by their fingerprint whatever the file is called, so that a certificate can say it
is not the first. It lies beside the judged queries, where everybody who looks at them finds it; where nothing may be
written there, beside the ranker file. A copy of the data in another folder starts a count of its own.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from isrr.cli.console import say_aside
from isrr.json_files import read_json_lines

if TYPE_CHECKING:
    from isrr.certificate import Abstention, Certificate
    from isrr.data.queries import Queries

NAME = ".isrr-looks.jsonl"


def note_look(judged: Path, out_file: Path, outcome: "Certificate | Abstention", validation: "Queries | None") -> int:
    """Add this look to the ledger; returns which look at these data it is, counting from 1.

    Asking the same question again (same promise, confidence, settings and validation queries) is the same look. Which
    segments and groups of items it speaks of is told by the risks that were found.
    """
    ledger = _home(judged, out_file) / NAME
    p = outcome.provenance
    look = {
        "data": p.data,
        "promises": [asdict(guarantee) for guarantee in outcome.guarantees],
        "confidence": outcome.confidence,
        "search": [p.path, p.path_basis, p.evidence, p.selection, p.seed, p.planned_looks],
        "validation": None if validation is None else validation.fingerprint,
        "tests": [[test.segment, test.n_queries, round(test.risk, 9)] for test in outcome.tests],
    }
    known = read_json_lines(ledger) if ledger.exists() else []
    same_data = [entry for entry in known if entry.get("data") == p.data]
    if look in same_data:
        return same_data.index(look) + 1
    if not ledger.exists():
        say_aside(f"looks at judged queries are counted in {ledger}")
    _append(ledger, json.dumps(look))
    return len(same_data) + 1


def _append(ledger: Path, line: str) -> None:
    """Add a line of its own, also after one that was cut off."""
    with ledger.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())


def _home(judged: Path, out_file: Path) -> Path:
    folders = (judged.absolute().parent, out_file.absolute().parent)
    return next((folder for folder in folders if os.access(folder, os.W_OK)), folders[-1])
