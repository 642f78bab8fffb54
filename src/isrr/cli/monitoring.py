"""`isrr monitor`: test the promise as judgments or clicks arrive, and revoke the certificate if it breaks."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli import inputs
from isrr.cli import options as o
from isrr.cli.console import BROKEN, UNUSABLE, say, show, warn
from isrr.counting import counted
from isrr.errors import CertificateError, PromiseError

if TYPE_CHECKING:
    from isrr.outcome.certificate import Outcome


def monitor(
    context: typer.Context,
    ranker: o.RankerFile,
    log: Annotated[
        Path | None, o.option("Log of served rankings: a folder, or a JSONL or Parquet file.", show_default=False)
    ] = None,
    judgments: Annotated[
        Path | None, o.option("Judged items of served queries: query, item, relevance; optionally segment and group.")
    ] = None,
    clicks: Annotated[Path | None, o.option("For a promise about clicks: list_id, item_id, time.")] = None,
    within: o.Within = None,
    state: Annotated[Path | None, o.option("File with the monitor's state; by default beside the ranker file.")] = None,
    delta: Annotated[
        float | None, o.option("Largest probability of ever raising a false alarm; by default 1 − confidence.")
    ] = None,
    expires: Annotated[str | None, o.option("Date on which the certificate expires, e.g. 2027-01-31.")] = None,
    reinstate: Annotated[
        str | None,
        o.option("Put a revoked certificate back in force, record this reason, and stop; monitoring starts over."),
    ] = None,
    ledger_file: Annotated[Path | None, o.option("Write exposure got and earned (Parquet).", "--ledger")] = None,
    figure: Annotated[Path | None, o.option("Draw disparity over time: PNG, SVG or PDF.")] = None,
    parquet: Annotated[Path | None, o.option("Also write the log as one Parquet file.")] = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    duplicates: o.Duplicates = None,
    as_json: o.AsJson = False,
    trust_edited: o.Trust = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Check the promise as judgments or clicks arrive; on an alarm, revoke the certificate (exit code 4).

    Exit code 2 if nothing counts yet; a warning says why. A promise about groups' shares of exposure needs the log
    alone.

    isrr monitor ranker.json --log served/ --judgments new.parquet

    isrr monitor ranker.json --log served/ --clicks clicks.parquet

    isrr monitor ranker.json --log served/
    """
    from isrr.clicks.click_table import read_clicks
    from isrr.clicks.rollout import read_rollout
    from isrr.data.formats import write_table
    from isrr.data.log import log_parts, read_log
    from isrr.data.tables import read_queries
    from isrr.data.unjudged import checked_policy
    from isrr.monitor import Monitor
    from isrr.monitor.judgments import candidates
    from isrr.monitor.stream import STATE_NAMES, Source
    from isrr.outcome.status import beside, reinstated_at, set_term

    outcome = inputs.load_ranker(ranker, trust_edited)
    if reinstate is not None:
        _reinstate(ranker, outcome.id, reinstate, {beside(ranker, name) for name in STATE_NAMES.values()} | {state})
        return
    _warn_of_status(ranker, outcome)
    if log is None:
        raise PromiseError("the monitor reads the lists that were served; expected the log of the service as `log=`")
    for file, suffixes in ((ledger_file, (".parquet",)), (parquet, (".parquet",)), (figure, (".png", ".svg", ".pdf"))):
        if file is not None:
            inputs.check_file(file, *suffixes, read=(ranker, judgments))
    with_ledger = ledger_file is not None or figure is not None
    if judgments is None and with_ledger:
        raise PromiseError("a ledger compares exposure with relevance; give `judgments=`")
    rollout = None if clicks is None else read_rollout(ranker, outcome.id)
    running = rollout if rollout is not None and rollout.stage == "running" else None
    source: Source = "control" if running else "anchor" if clicks else "judgments" if judgments else "log"
    watch = Monitor(
        outcome, delta=delta, state=state or beside(ranker, STATE_NAMES[source]), judged=judgments is not None,
        rollout=running, within=inputs.seconds(within), since=reinstated_at(ranker, outcome.id),
    )  # fmt: skip
    n_damaged = 0

    def served() -> Iterator[dict[str, Any]]:
        nonlocal n_damaged
        n_damaged = 0
        for part in log_parts(log):
            n_damaged += part.n_damaged
            yield from part.lines()

    if clicks is not None:
        alarm = watch.update_clicks(log, read_clicks(clicks, value=watch.column), now=time.time())
        n_damaged = watch.left_out.get("damaged lines", 0)
    else:
        if outcome.provenance.clicks is not None:
            raise PromiseError(
                f"'{outcome.promises[0]}' is about clicks; expected those on the served lists as `clicks=`"
            )
        columns, reading = inputs.reading_options(context)
        calibrated = outcome.provenance.unjudged
        policy = None if calibrated == "refuse" else checked_policy(calibrated)
        judged = (
            read_queries(judgments, columns.with_roles(outcome.columns), unjudged=policy, **reading)
            if judgments
            else candidates(read_log(log))
        )
        alarm = watch.update(served(), judged)
    if alarm is not None:
        try:
            watch.revoke(ranker)
        except OSError as error:
            warn(
                f"{error.filename}: {error.strerror}, so the certificate is not revoked and the service goes on as "
                "before: let this command write there, and run it again"
            )
    if n_damaged:
        warn(f"{log}: {counted(n_damaged, 'damaged line')} skipped")
    if watch.batch.selected:
        warn(watch.batch.selected)
    unusable = not watch.n_counted
    if unusable:
        what = "list" if judgments is None else "judgment"
        note = watch.batch.note or "a list counts when its time for clicks is over (`within=`)"
        warn(f"{judgments or log}: no {what} counts, so nothing is monitored: {note}")
    if expires is not None:
        set_term(ranker, outcome.id, expires)
    if parquet is not None:
        write_table(read_log(log).table, parquet, "parquet")
    show(str(watch), watch.document() | {"n_damaged": n_damaged}, as_json=as_json)
    if with_ledger:
        from isrr.reporting.exposure_ledger import ledger, write_ledger
        from isrr.reporting.figures import exposure_over_time

        accounts = ledger(served(), judged, gain=outcome.promises[0].metric.gain)
        if ledger_file is not None:
            write_ledger(accounts, ledger_file)
        if figure is not None:
            exposure_over_time(accounts, figure)
        for kind, account in accounts.items() if not as_json else ():
            say(f"\nexposure by {kind}\n{account}")
    if alarm is not None:
        raise typer.Exit(BROKEN)
    if unusable:
        raise typer.Exit(UNUSABLE)


def _warn_of_status(ranker: Path, outcome: "Outcome") -> None:
    """Warn if the certificate no longer stands, so that new lists do not count, or if nobody can tell."""
    try:
        standing, words = inputs.status_of(ranker, outcome)
    except CertificateError as error:
        warn(f"{error}; the service keeps the status it read last: repair or remove the file")
        return
    if standing != "valid":
        warn(f"{ranker} is {words}; lists served since then do not count")


def _reinstate(ranker: Path, certificate: str, reason: str, states: Iterable[Path | None]) -> None:
    """Put a revoked certificate back in force; the evidence against it is kept under another name."""
    from isrr.outcome.status import reinstate

    reinstate(ranker, certificate, reason)
    for file in states:
        if file is not None and file.exists():
            copy = file.rename(file.with_name(f"{file.name}.{time.strftime('%Y%m%dT%H%M%S')}"))
            say(f"the monitor starts over; its evidence so far is kept in {copy}")
    say(f"{ranker}: the certificate is valid again; the service follows within a second")
