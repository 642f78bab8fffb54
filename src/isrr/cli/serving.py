"""`isrr serve` and `isrr monitor`: rankings over HTTP, and the watch over their promise."""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.cli.clicks import seconds, watch_clicks
from isrr.cli.console import BROKEN, UNUSABLE, as_options, say, show, warn
from isrr.cli.inputs import check_file, check_folder, opened
from isrr.cli.options import AsJson, RankerFile, Trust, with_columns
from isrr.counting import counted
from isrr.errors import MissingExtraError, PromiseError


def serve(
    ranker: RankerFile,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8080,
    workers: Annotated[int, typer.Option(help="Number of server processes.", min=1)] = 1,
    log: Annotated[Path | None, typer.Option(help="Folder for the served-ranking log.")] = None,
    log_megabytes: Annotated[int, typer.Option(help="Size at which a new log file is started.", min=1)] = 256,
    log_compress: Annotated[
        bool, typer.Option("--log-compress", help="Compress each log file (gzip) once it is closed.")
    ] = False,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="Roll out a certificate from clicks: split sessions at random.")
    ] = False,
    control: Annotated[float, typer.Option(help="In a rollout: share of sessions that get the order by score.")] = 0.5,
    budget: Annotated[
        int, typer.Option(help="In a rollout: number of sessions after which a step fails.", min=1)
    ] = 200_000,
    least_days: Annotated[
        float,
        typer.Option(
            help="In a rollout: days that a step takes at least; it is decided by whole periods of so many days. "
            "Choose a whole cycle of your traffic. 0 lets every look decide.",
            min=0,
        ),
    ] = 7.0,
    steps: Annotated[int, typer.Option(help="In a rollout: most steps.", min=1)] = 4,
    api_key: Annotated[
        str | None, typer.Option(help="Key that clients must send; safer in ISRR_API_KEY.", show_default=False)
    ] = None,
    max_items: Annotated[int, typer.Option(help="Longest list of candidates.", min=1)] = 10_000,
    max_body_megabytes: Annotated[int, typer.Option(help="Largest request body.", min=1)] = 16,
    max_concurrency: Annotated[int, typer.Option(help="Concurrent requests per worker.", min=1)] = 256,
    rotate: Annotated[
        str | None,
        typer.Option(
            help="Give requests without a session one order per query and period, such as 1d or 1h, instead of a "
            "fresh draw."
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="TLS certificate (PEM), with its chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the TLS certificate (PEM).")] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            help="URL of a rerank service that scores texts that come without scores, such as "
            "http://127.0.0.1:8081/rerank; its key is read from ISRR_UPSTREAM_KEY."
        ),
    ] = None,
    upstream_model: Annotated[
        str | None,
        typer.Option(
            help="With --upstream: the model to ask for, in the format of Cohere, Jina and vLLM. Without it, the "
            "format is that of text-embeddings-inference."
        ),
    ] = None,
    upstream_timeout: Annotated[
        float, typer.Option(help="With --upstream: seconds that it may take, a second attempt included.", min=0.001)
    ] = 10.0,
    upstream_calls: Annotated[int, typer.Option(help="With --upstream: concurrent calls per worker.", min=1)] = 64,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
    trust_edited: Trust = False,
) -> None:
    """Serve rankings over HTTP: send candidates with scores, get them in order.

    isrr serve ranker.json --port 8080 --workers 2 --log served/
    """
    try:
        from isrr.serve.command import run
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "serve") from None
    outcome = opened(ranker, trust_edited)
    if log is not None:
        check_folder(log)
    if (tls_cert is None) != (tls_key is None):
        raise PromiseError("TLS needs a certificate and its key; expected both `tls_cert=` and `tls_key=`")
    if upstream is not None and not upstream.startswith(("http://", "https://")):
        raise PromiseError(f"`upstream=` must be a URL, got {upstream}; expected one like http://127.0.0.1:8081/rerank")
    if rollout:
        from isrr.clicks.rollout import Rollout, read_rollout

        if log is None:
            raise PromiseError("a rollout needs a served-ranking log; expected a folder as `log=`")
        if read_rollout(ranker, outcome.id) is None:  # one that has begun goes on as it was declared
            Rollout.begin(outcome, control, budget, least_days, steps).save(ranker)
    run(
        ranker.absolute(), host=host, port=port, workers=workers, access_log=access_log, tls_cert=tls_cert,
        tls_key=tls_key, trust_edited=trust_edited,
        api_key=os.environ.get("ISRR_API_KEY") if api_key is None else api_key,
        log=None if log is None else log.absolute(), log_bytes=log_megabytes << 20, log_compress=log_compress,
        rotate=seconds(rotate), rollout=rollout, max_body=max_body_megabytes << 20, max_items=max_items,
        max_concurrency=max_concurrency, upstream=upstream, upstream_model=upstream_model,
        upstream_key=os.environ.get("ISRR_UPSTREAM_KEY"), upstream_timeout=upstream_timeout,
        upstream_calls=upstream_calls,
    )  # fmt: skip


@with_columns("query", "item", "score", "relevance", "segment", "item_group")
def monitor(
    ranker: RankerFile,
    columns: dict[str, Any],
    log: Annotated[
        Path | None, typer.Option(help="Served-ranking log: a folder, or a JSONL or Parquet file.", show_default=False)
    ] = None,
    judgments: Annotated[
        Path | None, typer.Option(help="Judged candidates: query, item, relevance; optionally segment and group.")
    ] = None,
    clicks: Annotated[
        Path | None, typer.Option(help="For a promise about clicks: table with list_id, item_id, time.")
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            help="With --clicks: how long after its list a click counts, the same at every look. By default 1h, "
            "or as in the present rollout."
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="File with the monitor's state; by default beside the ranker file.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Probability of ever raising a false alarm; by default 1 − confidence.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="Date on which the certificate expires, e.g. 2027-01-31.")] = None,
    reinstate: Annotated[
        str | None,
        typer.Option(help="Only put a revoked certificate back in force, for this reason; monitoring starts over."),
    ] = None,
    ledger_file: Annotated[Path | None, typer.Option("--ledger", help="Write the exposure ledger (Parquet).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw disparity over time: PNG, SVG or PDF.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Also write the log as one Parquet file.")] = None,
    as_json: AsJson = False,
    trust_edited: Trust = False,
) -> None:
    """Check the promise as judgments or clicks arrive; on an alarm, revoke the certificate (exit code 4).

    Exit code 2 if no judgment counts yet; a warning says why. Without judgments or clicks, shares of exposure of groups
    are monitored with the log alone.

    isrr monitor ranker.json --log served/ --judgments new.parquet

    isrr monitor ranker.json --log served/ --clicks clicks.parquet

    isrr monitor ranker.json --log served/
    """
    from isrr.data.files import write_table
    from isrr.data.frames import read_queries
    from isrr.data.log import log_parts, read_log
    from isrr.monitor import Monitor
    from isrr.monitor.matching import candidates
    from isrr.outcome.status import beside, reinstated_at, set_term
    from isrr.reporting.exposure_ledger import ledger, write_ledger

    outcome = opened(ranker, trust_edited)
    if reinstate is not None:
        _reinstate(ranker, outcome.id, reinstate, state)
        return
    if log is None:
        raise PromiseError("the monitor reads the lists that were served; expected the log of the service as `log=`")
    if clicks is not None:
        watch_clicks(ranker, outcome, log, clicks, within=within, delta=delta, state=state, as_json=as_json)
        return
    for file, suffixes in ((ledger_file, (".parquet",)), (parquet, (".parquet",)), (figure, (".png", ".svg", ".pdf"))):
        if file is not None:
            check_file(file, *suffixes, read=(ranker, judgments))
    by_log = judgments is None
    if by_log and (ledger_file is not None or figure is not None):
        raise PromiseError("a ledger compares exposure with relevance; give `judgments=`")
    kept_in = state or beside(ranker, "shares" if by_log else "monitor")
    watch = Monitor(outcome, delta=delta, state=kept_in, judged=not by_log)
    if judgments is None:
        judged = candidates(read_log(log))
    else:
        then = outcome.provenance.unjudged
        judged = read_queries(judgments, **columns, unjudged=None if then == "refuse" else then)  # type: ignore[arg-type]
    n_damaged, since = 0, reinstated_at(ranker, outcome.id)

    def served() -> Iterator[dict[str, Any]]:
        nonlocal n_damaged
        n_damaged = 0
        for part in log_parts(log):
            n_damaged += part.n_damaged
            yield from (line for line in part.lines() if line["time"] >= since)

    alarm = watch.update(served(), judged)
    if alarm is not None:
        watch.revoke(ranker)
    if n_damaged:
        warn(f"{log}: {counted(n_damaged, 'damaged line')} skipped")
    if watch.selected:
        warn(as_options(watch.selected))
    if not watch.n_counted:
        what = "list" if by_log else "judgment"
        warn(f"{judgments or log}: no {what} counts, so nothing is monitored: {watch.note}")
    if expires is not None:
        set_term(ranker, outcome.id, expires)
    if parquet is not None:
        write_table(read_log(log).table, parquet, "parquet")
    document = {
        "n_judged": watch.n_judged, "n_counted": watch.n_counted, "n_damaged": n_damaged, "evidence": watch.evidence,
        "note": watch.note or None, "alarm": alarm and asdict(alarm),
    }  # fmt: skip
    show(str(watch), document, as_json=as_json)
    if ledger_file is not None or figure is not None:
        items, groups = ledger(served(), judged, gain=outcome.promises[0].metric.gain)
        if ledger_file is not None:
            write_ledger(items, groups, ledger_file)
        if figure is not None:
            from isrr.reporting.figures import exposure_over_time

            by_group = None if groups is None else groups.disparity
            exposure_over_time(items.moments, items.disparity, by_group, figure)
        if not as_json:
            say(f"\nexposure by item\n{items}")
            if groups is not None:
                say(f"\nexposure by group\n{groups}")
    if alarm is not None:
        raise typer.Exit(BROKEN)
    if not watch.n_counted:
        raise typer.Exit(UNUSABLE)


def _reinstate(ranker: Path, certificate: str, reason: str, state: Path | None) -> None:
    """Put a revoked certificate back in force; the evidence against it is kept under another name."""
    from isrr.outcome.status import beside, reinstate

    reinstate(ranker, certificate, reason)
    for file in (beside(ranker, "monitor"), beside(ranker, "shares"), beside(ranker, "rollout.monitor"), state):
        if file is not None and file.exists():
            file.rename(kept := file.with_name(f"{file.name}.{time.strftime('%Y%m%dT%H%M%S')}"))
            say(f"the monitor starts over; its evidence so far is kept in {kept}")
    say(f"{ranker}: the certificate stands again; the service follows within a second")
