"""What commands do before any work: open what they are given, refuse what cannot be used, warn of what is odd."""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isrr.cli.console import as_options, warn
from isrr.errors import CertificateError, DataError, PromiseError

if TYPE_CHECKING:
    from isrr.data.queries import Queries
    from isrr.engines.local import InMemory
    from isrr.engines.spark import SparkRows
    from isrr.outcome.certificate import Outcome
    from isrr.outcome.status import Standing
    from isrr.promises import Promise
    from isrr.ranker.gpl import GPLRanker


def opened(ranker: Path, trust_edited: bool) -> "Outcome":
    """A ranker file; one that was edited by hand is read only on demand, and never without saying so."""
    from isrr.outcome.certificate import load

    try:
        return load(ranker)
    except CertificateError:
        from isrr.data.files import KINDS

        if ranker.is_file() and ranker.suffix.lower() in KINDS:
            raise CertificateError(
                f"{ranker}: expected a ranker file (.json), found a table of queries; to look at it: isrr data show "
                f"{ranker}"
            ) from None
        if not trust_edited:
            raise
    outcome = load(ranker, trust_edited=True)
    warn(f"{ranker} was edited by hand; the certificate does not cover its present content")
    return outcome


def promised(text: str, meaning: dict[str, Any]) -> "Promise":
    """A promise as it was written, and meant by the options of `with_meaning` or `with_worth`."""
    from isrr.promises import Promise

    others = {name: value for name, value in meaning.items() if name != "per_segment"}
    return Promise.parse(text, per="segment" if meaning.get("per_segment") else None, **others)


def opened_rows(scored: str, columns: dict[str, Any], where: dict[str, Any]) -> "InMemory | SparkRows":
    """Scored queries to rank, in memory or on Spark; to be closed."""
    from isrr.engines.local import InMemory
    from isrr.engines.source import open_source
    from isrr.engines.spark import SparkRows

    if where["engine"] == "dask":
        raise PromiseError("`engine=dask` cannot write rankings; expected local or spark")
    if where["engine"] == "local" and where["trust_layout"]:
        raise PromiseError("`trust_layout=` needs `engine=spark` here: the local engine ranks in memory")
    rows = open_source(scored, **columns, **where)
    assert isinstance(rows, InMemory | SparkRows)
    return rows


def status_of(ranker: Path, outcome: "Outcome") -> "tuple[Standing, str]":
    """Whether what a ranker file promises still stands, and the same in words."""
    from isrr.outcome.status import read_status

    status, now = read_status(ranker, outcome.id), datetime.now(UTC)
    return status.standing(now)[0], status.in_words(now)


def warn_of_no_promise(ranker: Path, outcome: "Outcome", used: "GPLRanker", what: str) -> None:
    """Warn if nothing was promised, or the promise is no longer valid; `what` is done with the ranker used instead."""
    standing, words = status_of(ranker, outcome)
    order = "the order by score" if used.is_deterministic else "its ranker anyway"
    if outcome.abstained:
        warn(f"{ranker} is an abstention: nothing was promised; {what} {order}")
    elif standing != "valid":
        warn(f"{ranker} is {words}; {what} {order}")


def warn_of_single_items(share: float, name: str) -> None:
    """Say so where most queries have a single item."""
    from isrr.outcome.findings import mostly_single

    if said := mostly_single(share):
        warn(as_options(f"{name}: {said}"))


def as_calibrated(judged_run: dict[str, Any], outcome: "Outcome") -> dict[str, Any]:
    """The options of `with_run`, unjudged items counted as in calibration unless something else was asked for."""
    if judged_run["run"] is None or judged_run["unjudged"] is not None:
        return judged_run
    return {**judged_run, "unjudged": outcome.provenance.unjudged}


def judged_or_run(
    judged: str | None, judged_run: dict[str, Any], columns: dict[str, Any], roles: Sequence[str] = ()
) -> "tuple[str | Queries, dict[str, Any], str]":
    """Judged queries as commands take them: a table, or a run with its judgments, which is read here with its notes.

    Returns:
        The table, or the queries read; the names of its columns where they are still to be read; what to call it.
    """
    from isrr.data.source import read_any

    run, qrels = judged_run["run"], judged_run["qrels"]
    if (judged is None) == (run is None):
        raise DataError("expected either a table of judged queries, or `run=` and `qrels=`")
    if judged is not None and qrels is not None:
        raise DataError(f"{judged}: found a table together with `qrels=`; expected the run as `run=`")
    if run is not None and qrels is None:
        raise DataError(f"{run}: a run has no grades; expected the judgments as `qrels=`")
    name = str(judged or run)
    if judged is not None and all(value is None for value in judged_run.values()):
        return judged, columns, name
    queries = read_any(judged, roles, **judged_run, **columns)
    warn_of_notes(queries)
    return queries, {}, name


def warn_of_notes(queries: "Queries") -> None:
    """Say what the reader of the queries had to leave out or to settle."""
    for note in queries.notes:
        warn(as_options(note))


def check_file(file: Path, *suffixes: str, read: Iterable[str | Path | None] = ()) -> None:
    """Refuse a file that could not be written at the end, or is one of those read: better now than after the work."""
    if suffixes and file.suffix.lower() not in suffixes:
        raise DataError(f"{file}: the file name must end in {' or '.join(suffixes)}")
    if file.is_dir():
        raise DataError(f"{file}: expected a file, found a folder")
    if not file.absolute().parent.is_dir():
        raise DataError(f"{file}: the folder {file.parent} does not exist; create it first")
    if not os.access(file.absolute().parent, os.W_OK):
        raise DataError(f"{file}: the folder {file.parent} is not writable; choose another")
    there = [
        source for source in read if source is not None and os.path.exists(source)
    ]  # no pattern, no lake's address
    if file.exists() and any(file.samefile(source) for source in there):
        raise DataError(f"{file}: this is an input file, and would be overwritten; choose another output file")


def check_folder(folder: Path) -> None:
    """Refuse a folder that could not be made or filled at the end."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise DataError(f"{folder}: expected a folder, but {'it' if there == folder.absolute() else there} is a file")
    if not os.access(there, os.W_OK):
        raise DataError(f"{folder}: {there} is not writable; choose another folder")


def warn_of_drift(outcome: "Outcome", outside: float) -> None:
    """Say so where a share of the scores lies outside the range that calibration saw."""
    if outside > 0.02:
        low, _, _, _, high = outcome.provenance.score_quantiles
        warn(
            f"{outside:.0%} of the scores lie outside [{low:.4g}, {high:.4g}], the range of 99.8 % of the scores at "
            "calibration; the promise covers only scores on that scale"
        )
