"""Commands on clicks: `isrr calibrate --clicks`."""

import re
from pathlib import Path
from typing import Any

import typer

from isrr.cli.console import progress, say, show_json, show_outcome, tell_of_compiling
from isrr.cli.exits import ABSTAINED
from isrr.cli.inputs import check_file, promised
from isrr.cli.ledger import check_ledger, ledger_at
from isrr.errors import PromiseError

SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str | None) -> float | None:
    """A length of time as people write it.

    Example:
        >>> seconds("90s"), seconds("1.5h")
        (90.0, 5400.0)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([smhd])\s*", text)
    if not found:
        raise PromiseError(f"{text!r} is no length of time; expected one like 90s, 30m, 1h or 2d")
    return float(found[1]) * SECONDS[found[2]]


def calibrate_by_clicks(
    promise: list[str],
    meaning: dict[str, Any],
    clicked: dict[str, Any],
    out_file: Path,
    confidence: float,
    attempts: int,
    as_json: bool,
) -> None:
    """What `isrr calibrate` does where clicks are given."""
    from isrr.certificate import ranker_path
    from isrr.clicks.calibrate import calibrate_clicks, checked_promise

    if len(promise) != 1:
        raise PromiseError(f"clicks prove one promise at a time; {len(promise)} were given")
    asked = checked_promise(promised(promise[0], meaning))
    log, clicks, within = clicked.pop("log"), clicked.pop("clicks"), seconds(clicked.pop("within"))
    check_file(out_file, read=(clicks, log))
    ranker_path(out_file)
    check_ledger(clicks, out_file)
    tell_of_compiling()
    with progress("estimating clicks") as advance:
        outcome = calibrate_clicks(
            clicks, asked, confidence, log=log, within=within, attempts=attempts,
            count_look=ledger_at(clicks, out_file), progress=advance, **clicked,
        )  # fmt: skip
    outcome.save(out_file)
    if as_json:
        show_json(outcome.document())
    else:
        show_outcome(outcome)
        say(f"written to {out_file}")
    if outcome.abstained:
        raise typer.Exit(ABSTAINED)
