"""Checks before any work: open the inputs, refuse what cannot be used, warn of what is odd."""

import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isrr.cli.console import warn
from isrr.cli.options import COLUMNS
from isrr.errors import CertificateError, DataError, PromiseError

if TYPE_CHECKING:
    import typer

    from isrr.data.columns import Columns
    from isrr.data.queries import Queries
    from isrr.outcome.certificate import Outcome
    from isrr.outcome.status import Standing
    from isrr.promises import Promise
    from isrr.ranker.gpl import GPLRanker

NAMING = (*COLUMNS, "group_separator", "missing_group")  # the options that are fields of `Columns`
READING = ("run", "qrels", "unjudged", "ties", "run_format", "qrels_format", "missing_score", "duplicates")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str | None) -> float | None:
    """Return a length of time in seconds.

    Example:
        >>> seconds("90s"), seconds("1.5h")
        (90.0, 5400.0)
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([smhd])\s*", text)
    if not match:
        raise PromiseError(f"{text!r} is not a length of time; expected something like 90s, 30m, 1h or 2d")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(sample: str) -> int | None:
    """Return how many queries to draw; None for all.

    Example:
        >>> parse_size("20000"), parse_size("all")
        (20000, None)
    """
    if sample == "all":
        return None
    if not sample.isdecimal() or int(sample) < 1:
        raise PromiseError(f"`sample=` must be a number of queries or all, got {sample!r}")
    return int(sample)


def parse_promises(texts: Sequence[str], per_segment: bool, meaning: dict[str, Any]) -> "list[Promise]":
    """Return promises as they were written; `meaning` holds further arguments of `Promise.parse`."""
    from isrr.promises import Promise

    return [Promise.parse(text, per="segment" if per_segment else None, **meaning) for text in texts]


def load_ranker(file: Path, trust_edited: bool) -> "Outcome":
    """Load a ranker file; one that was edited by hand is read only on demand, and with a warning."""
    from isrr.outcome.certificate import load

    try:
        return load(file)
    except CertificateError:
        from isrr.data.formats import KINDS

        if file.is_file() and file.suffix.lower() in KINDS:
            raise CertificateError(
                f"{file}: expected a ranker file (.json), found a table of queries; to look at it: isrr data show "
                f"{file}"
            ) from None
        if not trust_edited:
            raise
    outcome = load(file, trust_edited=True)
    warn(f"{file} was edited by hand; the certificate does not cover its present content")
    return outcome


def status_of(file: Path, outcome: "Outcome") -> "tuple[Standing, str]":
    """Return whether the promise of a ranker file is still valid, and the same in words."""
    from isrr.outcome.status import read_status

    status, now = read_status(file, outcome.id), datetime.now(UTC)
    return status.standing(now)[0], status.in_words(now)


def reading_options(context: "typer.Context") -> "tuple[Columns, dict[str, Any]]":
    """Return the options of a command that name columns, and those that say how to read, as far as they were given."""
    from isrr.data.columns import Columns

    given = {name: value for name, value in context.params.items() if value is not None}
    columns = Columns(**{name: given[name] for name in NAMING if name in given})
    return columns, {name: given[name] for name in READING if name in given}


def read_judged(
    judged: str | None, reading: dict[str, Any], columns: "Columns", roles: Sequence[str] = ()
) -> "tuple[str | Queries, Columns | None, str]":
    """Read judged queries if an option says how, such as a run with its judgments; leave a plain table to the library.

    Returns:
        The table, or the queries; the names of its columns if it is still to be read; what to call it.
    """
    run = reading.get("run")
    if (judged is None) == (run is None):
        raise DataError("expected a table of judged queries, or `run=` and `qrels=`")
    if judged is not None and "qrels" in reading:
        raise DataError(f"{judged}: found a table together with `qrels=`; expected the run as `run=`")
    if judged is None and "qrels" not in reading:
        raise DataError(f"{run}: a run has no grades; expected the judgments as `qrels=`")
    name = str(judged or run)
    if not reading:
        return name, columns, name
    return read_table(judged, reading, columns.with_roles(roles)), None, name


def read_table(source: "str | Path | None", reading: dict[str, Any], columns: "Columns") -> "Queries":
    """Read the queries of a table, or of a run with its judgments, and print the reader's notes."""
    from isrr.data.tables import read_queries

    if source is not None and ("run" in reading or "qrels" in reading):
        raise DataError("expected a table of queries, or `run=` and `qrels=`")
    if source is None and "run" not in reading:
        raise DataError(
            "qrels hold grades but no scores; expected the run they belong to, as `run=`"
            if "qrels" in reading
            else "no input; expected a file of queries, or `run=` and `qrels=`"
        )
    options = {name: value for name, value in reading.items() if name not in ("run", "run_format")}
    queries = read_queries(reading.get("run", source), columns, format=reading.get("run_format"), **options)
    for note in queries.notes:
        warn(note)
    return queries


def read_reference(
    reference: str | None, reference_run: Path | None, reading: dict[str, Any]
) -> "str | Queries | None":
    """Return the order of production: the column of its scores, or its run with the judgments of the other run."""
    from isrr.data.columns import Columns

    if reference is not None and reference_run is not None:
        raise PromiseError("found `reference=` and `reference_run=`; expected one of them")
    if reference_run is None:
        return reference
    if "run" not in reading:
        raise PromiseError("`reference_run=` needs `run=` and `qrels=`; in a table, name the column by `reference=`")
    others = {name: value for name, value in reading.items() if name != "run_format"}
    return read_table(None, {**others, "run": reference_run}, Columns())


def as_calibrated(reading: dict[str, Any], outcome: "Outcome") -> dict[str, Any]:
    """Return the options for reading, with unjudged items counted as in calibration unless told otherwise."""
    policy = outcome.provenance.unjudged
    if not reading or "unjudged" in reading or (policy == "refuse" and "run" not in reading):
        return reading
    return {**reading, "unjudged": policy}


def warn_of_no_promise(file: Path, outcome: "Outcome", ranker: "GPLRanker", verb: str) -> None:
    """Warn if nothing was promised, or the promise is no longer valid, and say which order is used instead."""
    standing, words = status_of(file, outcome)
    order = "the order by score" if ranker.is_deterministic else "its ranker anyway"
    if outcome.abstained:
        warn(f"{file} is an abstention: nothing was promised; {verb} {order}")
    elif standing != "valid":
        warn(f"{file} is {words}; {verb} {order}")


def warn_of_single_items(share: float, name: str) -> None:
    """Warn if most queries have a single item."""
    from isrr.outcome.text import MOSTLY, mostly_single

    if share > MOSTLY:
        warn(f"{name}: {mostly_single(share)}")


def warn_of_drift(outcome: "Outcome", outside: float) -> None:
    """Warn if a share of the scores lies outside the range seen at calibration."""
    if outside > 0.02:
        low, _, _, _, high = outcome.provenance.score_quantiles
        warn(
            f"{outside:.0%} of the scores lie outside [{low:.4g}, {high:.4g}], the range of 99.8 % of the scores at "
            "calibration; the promise covers only scores on that scale"
        )


def check_file(file: Path, *suffixes: str, read: Iterable[str | Path | None] = ()) -> None:
    """Refuse an output file that could not be written at the end, or that is one of the input files."""
    folder = file.absolute().parent
    if suffixes and file.suffix.lower() not in suffixes:
        raise DataError(f"{file}: the file name must end in {' or '.join(suffixes)}")
    if file.is_dir():
        raise DataError(f"{file}: expected a file, found a folder")
    if not folder.is_dir():
        raise DataError(f"{file}: the folder {file.parent} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{file}: the folder {file.parent} is not writable; choose another")
    inputs = [source for source in read if source is not None and os.path.exists(source)]  # patterns do not exist
    if file.exists() and any(file.samefile(source) for source in inputs):
        raise DataError(f"{file}: this is an input file, and would be overwritten; choose another output file")


def check_folder(folder: Path) -> None:
    """Refuse an output folder that could not be made or filled at the end."""
    parent = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not parent.is_dir():
        name = "it" if parent == folder.absolute() else parent
        raise DataError(f"{folder}: expected a folder, but {name} is a file")
    if not os.access(parent, os.W_OK):
        raise DataError(f"{folder}: {parent} is not writable; choose another folder")
