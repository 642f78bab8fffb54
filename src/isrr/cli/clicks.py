"""Commands on clicks: what `isrr calibrate --clicks` and `isrr monitor --clicks` do; `isrr rollout status`."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli.console import BROKEN, keep_outcome, progress, show
from isrr.cli.inputs import check_file, opened, promised
from isrr.cli.ledger import ledger_at
from isrr.cli.options import AsJson, RankerFile, Trust
from isrr.errors import CertificateError, PromiseError

if TYPE_CHECKING:
    from isrr.outcome.certificate import Outcome

SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str | None) -> float | None:
    """A length of time from text, in seconds.

    Example:
        >>> seconds("90s"), seconds("1.5h")
        (90.0, 5400.0)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([smhd])\s*", text)
    if not found:
        raise PromiseError(f"{text!r} is not a length of time; expected something like 90s, 30m, 1h or 2d")
    return float(found[1]) * SECONDS[found[2]]


def calibrate_by_clicks(
    promise: list[str],
    meaning: dict[str, Any],
    clicked: dict[str, Any],
    out_file: Path,
    confidence: float,
    n_analyses: int,
    as_json: bool,
) -> None:
    """What `isrr calibrate` does where clicks are given."""
    from isrr.clicks.calibrate import calibrate_clicks, checked_promise
    from isrr.metrics.ahead import compile_beside
    from isrr.outcome.certificate import ranker_path

    if len(promise) != 1:
        raise PromiseError(f"expected one promise with --clicks, found {len(promise)}")
    asked = checked_promise(promised(promise[0], meaning))
    log, clicks, within = clicked.pop("log"), clicked.pop("clicks"), seconds(clicked.pop("within"))
    check_file(out_file, read=(clicks, log))
    ranker_path(out_file)
    count_look = ledger_at(clicks, out_file)
    compile_beside()
    with progress("estimating clicks") as advance:
        outcome = calibrate_clicks(
            clicks, asked, confidence, log=log, within=within, n_analyses=n_analyses, count_look=count_look,
            progress=advance, **clicked,
        )  # fmt: skip
    keep_outcome(outcome, out_file, as_json=as_json)


def watch_clicks(
    ranker: Path,
    outcome: "Outcome",
    log: Path,
    clicks: Path,
    *,
    within: str | None,
    delta: float | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """What `isrr monitor` does where clicks are given; while a rollout runs, its control arm is compared with."""
    from isrr.clicks.rollout import read_rollout
    from isrr.clicks.table import read_clicks
    from isrr.monitor.clicks import ClickMonitor
    from isrr.outcome.status import beside, reinstated_at, revoke

    rolled = read_rollout(ranker, outcome.id)
    running = rolled if rolled is not None and rolled.stage == "running" else None
    file = state or beside(ranker, "monitor" if running is None else "rollout.monitor")
    since = reinstated_at(ranker, outcome.id)
    watch = ClickMonitor(outcome, delta=delta, rollout=running, within=seconds(within), state=file, since=since)
    alarm = watch.update(log, read_clicks(clicks, value=watch.column), now=time.time())
    if alarm is not None:
        revoke(ranker, outcome.id, alarm)
    document = {"n_units": watch.n_units, "share": watch.share, "evidence": watch.evidence, "alarm": alarm}
    show(str(watch), document, as_json=as_json)
    if alarm is not None:
        raise typer.Exit(BROKEN)


rollout = typer.Typer(no_args_is_help=True, help="Compare a ranker with the order by score on live traffic.")


@rollout.command()
def status(
    ranker: RankerFile,
    log: Annotated[Path, typer.Option(help="The served-ranking log that `isrr serve --rollout` wrote.")],
    clicks: Annotated[Path, typer.Option(help="Clicks on those lists: list_id, item_id, time.")],
    within: Annotated[
        str | None,
        typer.Option(
            help="How long after its list a click counts, e.g. 30m, 1h or 2d; fixed by the first look that counts "
            "sessions. By default 1h."
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(
            help="Lists of each session that count, the earliest ones; fixed like --within. By default 1.", min=1
        ),
    ] = None,
    as_json: AsJson = False,
    trust_edited: Trust = False,
) -> None:
    """Show how a rollout stands, and move it on: the service follows within a second.

    Run it as often as you like; the statistics allow for it. Exit code 4 if a step failed. When the last step is
    certified, the new certificate is written to ranker.confirmed.json. It assumes that sessions are independent, and
    later ones like these.

    isrr rollout status ranker.json --log served/ --clicks clicks.parquet
    """
    from isrr.clicks.calibrate import value_column
    from isrr.clicks.live import confirmed, looked_at, sessions_of
    from isrr.clicks.rollout import read_rollout
    from isrr.clicks.table import read_clicks
    from isrr.files import locked
    from isrr.outcome.certificate import Certificate
    from isrr.outcome.status import beside

    outcome = opened(ranker, trust_edited)
    with locked(beside(ranker, "rollout")):
        state = read_rollout(ranker, outcome.id)
        if state is None or not isinstance(outcome, Certificate):
            raise CertificateError(f"{ranker}: no rollout has begun; start one: isrr serve {ranker} --rollout")
        state = state.ruled(seconds(within), first)
        made = read_clicks(clicks, value=value_column(outcome.promises[0]))
        now = time.time()
        found = looked_at(outcome, state, sessions_of(log, made, state, outcome.k, now=now), now=now)
        if found.rollout.stage == "done" and state.stage == "running":
            confirmed(outcome, found).save(beside(ranker, "confirmed"))
        if len(found.sessions):  # a look that counted nothing fixes nothing
            found.rollout.save(ranker)
    step_ends, ends = found.earliest or (None, None)
    document = {
        "stage": found.rollout.stage, "step": found.step, "steps": len(state.steps), "share": found.share,
        "sessions": len(found.sessions), "too_recent": found.sessions.n_open, "later": found.n_later,
        "evidence": found.evidence / found.certifies_at, "earliest_step_end": step_ends, "earliest_end": ends,
        "reason": found.rollout.reason,
    }  # fmt: skip
    show(str(found), document, as_json=as_json)
    if found.rollout.stage == "failed":
        raise typer.Exit(BROKEN)
