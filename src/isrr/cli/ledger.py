"""A small ledger beside the output: which data were looked at before, and for what.

Trying again on the same judged queries until something certifies is not what the confidence speaks of. The ledger
counts looks at the same data, so that a certificate can say it is not the first.
"""

import json
from pathlib import Path

from isrr.certificate import Abstention, Certificate
from isrr.files import write_atomically

NAME = ".isrr-looks.jsonl"


def note_look(out_file: Path, outcome: Certificate | Abstention) -> int:
    """Add this look to the ledger; returns which look at these data it is, counting from 1.

    Asking the same question again (same promise, confidence and settings) is the same look.
    """
    ledger = out_file.absolute().parent / NAME
    known = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    p = outcome.provenance
    look = {
        "data": p.data,
        "promise": [str(guarantee) for guarantee in outcome.guarantees],
        "confidence": outcome.confidence,
        "search": [p.path, p.path_basis, p.evidence, p.selection, p.seed, p.planned_looks],
    }
    same_data = [entry for entry in known if entry["data"] == p.data]
    if look in same_data:
        return same_data.index(look) + 1
    write_atomically(ledger, "".join(json.dumps(entry) + "\n" for entry in [*known, look]).encode())
    return len(same_data) + 1
