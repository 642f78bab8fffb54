"""`isrr clicks calibrate`, `rollout` and `simulate`: certificates from clicks on lists that explored."""

import time
from math import isnan
from pathlib import Path
from typing import Annotated, Literal

import typer

from isrr.cli import console, inputs
from isrr.cli import options as o
from isrr.cli.ledger import ledger_at, noted
from isrr.errors import CertificateError, PromiseError

app = typer.Typer(no_args_is_help=True, help="Certify a ranker from clicks, and roll it out on live traffic.")


@app.command()
def calibrate(
    promise: o.ClickPromises,
    clicks: Annotated[
        Path,
        o.option(
            "Clicks on the lists of --log: list_id, item_id, time. Without --log, one row per impression and "
            "candidate: impression_id, query_id, item_id, score, position, click."
        ),
    ],
    log: Annotated[Path | None, o.option("The log of served rankings, from `isrr serve --log`.")] = None,
    out_file: o.NewRankerFile = Path("ranker.json"),
    confidence: o.Confidence = 0.95,
    within: o.Within = None,
    unit: Annotated[
        Literal["impression", "session", "user"] | None,
        o.option("What is independent of each other; the first list of each counts. Default: session, if logged."),
    ] = None,
    kind: Annotated[str | None, o.option("Count only clicks of this kind, such as purchase.")] = None,
    anchor: Annotated[
        float, o.option("Share of lists that the new ranker leaves in the order by score, for later monitoring.")
    ] = 0.0,
    logger: Annotated[
        list[Path] | None, o.option("Ranker file (or several) that served the lists; by default those in the log.")
    ] = None,
    most_clicks: Annotated[int, o.expert("If more items of a list were clicked, no click on it counts (a bot).")] = 30,
    n_analyses: o.Analyses = 1,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    help_all: o.HelpAll = False,
) -> None:
    """Find the fairest ranker that keeps a share of the clicks, and certify it.

    Exit code 3 if nothing can be certified.

    isrr clicks calibrate --log served/ --clicks clicks.parquet -p 'clicks@5 >= 95% of deterministic'
    """
    from isrr.clicks.click_certificate import calibrate_clicks
    from isrr.clicks.promised import checked_promise
    from isrr.outcome.certificate import ranker_path

    if len(promise) != 1:
        raise PromiseError(f"expected one promise about clicks, found {len(promise)}")
    promised = checked_promise(promise[0])
    inputs.check_file(out_file, read=(clicks, log))
    ranker_path(out_file)
    ledger = ledger_at(clicks, out_file)
    with console.progress("estimating clicks") as advance:
        outcome = calibrate_clicks(
            clicks, promised, confidence, log=log, logger=logger, unit=unit, within=inputs.seconds(within),
            most_clicks=most_clicks, kind=kind, anchor=anchor, n_analyses=n_analyses, progress=advance,
        )  # fmt: skip
    console.save_outcome(noted(outcome, ledger), out_file, as_json=as_json, verbose=verbose)


@app.command()
def simulate(
    ranker: o.RankerFile,
    queries: Annotated[Path, o.option("Judged queries: query, item, score, relevance.")],
    folder: Annotated[Path, o.option("Folder for served.parquet and clicks.parquet.")],
    n_lists: Annotated[int, o.option("Number of lists to serve.", min=1)] = 100_000,
    noise: Annotated[float, o.option("Chance of a click on an examined item that is irrelevant.", min=0, max=1)] = 0.1,
    seed: Annotated[int, o.option("Random seed.")] = 0,
    trust_edited: o.Trust = False,
) -> None:
    """Simulate traffic on judged queries, to see what a log of that size would prove.

    Writes a log of served rankings and the clicks on them. Queries follow Zipf's law; position j is examined with
    chance 1/j.

    isrr clicks simulate explore.json --queries judged.parquet --folder simulated/

    isrr clicks calibrate --log simulated/served.parquet --clicks simulated/clicks.parquet -p 'clicks@5 >= 95% of
    deterministic' --logger explore.json
    """
    from isrr.clicks.simulate import Users
    from isrr.clicks.simulate import simulate as simulated
    from isrr.data.tables import read_queries

    outcome = inputs.load_ranker(ranker, trust_edited)
    inputs.check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shown = simulated(read_queries(queries), outcome.ranker, n_lists, Users(noise=noise), seed=seed)
    log, clicks = shown.save(folder, outcome.id)
    console.say(f"{n_lists:,} lists in {log}, {int(shown.clicked.sum()):,} clicks on them in {clicks}")


@app.command()
def rollout(
    ranker: o.RankerFile,
    log: Annotated[Path, o.option("The log of served rankings, from `isrr serve --rollout`.")],
    clicks: Annotated[Path, o.option("Clicks on the lists of --log: list_id, item_id, time.")],
    within: o.Within = None,
    first: Annotated[
        int | None,
        o.option("How many lists of each session count, earliest first; fixed like --within. By default 1.", min=1),
    ] = None,
    as_json: o.AsJson = False,
    trust_edited: o.Trust = False,
) -> None:
    """Show the state of a rollout and advance it; the service follows within a second.

    Run it as often as you like; the statistics allow for it. The first analysis that counts sessions fixes --within
    (1h by default). Exit code 4 if a step failed. When the last step is certified, the new certificate is written to
    ranker.confirmed.json. It assumes that sessions are independent, and that later ones are like these.

    isrr clicks rollout ranker.json --log served/ --clicks clicks.parquet
    """
    from isrr.clicks.click_table import read_clicks
    from isrr.clicks.promised import value_column
    from isrr.clicks.rollout import read_rollout
    from isrr.clicks.sessions import sessions_of
    from isrr.clicks.steps import confirmed, decide_step
    from isrr.files import locked
    from isrr.outcome.certificate import Certificate
    from isrr.outcome.status import beside

    outcome = inputs.load_ranker(ranker, trust_edited)
    with locked(beside(ranker, "rollout")):
        state = read_rollout(ranker, outcome.id)
        if state is None or not isinstance(outcome, Certificate):
            raise CertificateError(f"{ranker}: no rollout has begun; start one: isrr serve {ranker} --rollout")
        state = state.ruled(inputs.seconds(within), first)
        table = read_clicks(clicks, value=value_column(outcome.promises[0]))
        now = time.time()
        look = decide_step(outcome, state, sessions_of(log, table, state, outcome.k, now=now), now=now)
        if look.rollout.stage == "done" and state.stage == "running":
            confirmed(outcome, look).save(beside(ranker, "confirmed"))
        if len(look.sessions):  # an analysis that counted nothing fixes nothing
            look.rollout.save(ranker)
    step_ends, ends = look.earliest or (None, None)
    document = {
        "stage": look.rollout.stage, "step": look.step, "steps": len(state.steps),
        "share": None if isnan(look.share) else look.share, "sessions": len(look.sessions),
        "too_recent": look.sessions.n_open, "later": look.n_later,
        "evidence": look.evidence / look.certifies_at, "earliest_step_end": step_ends, "earliest_end": ends,
        "left_out": dict(look.sessions.left_out), "reason": look.rollout.reason,
    }  # fmt: skip
    console.show(str(look), document, as_json=as_json)
    if look.rollout.stage == "failed":
        raise typer.Exit(console.BROKEN)
