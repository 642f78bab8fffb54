"""`isrr calibrate`, `rank`, `check`, `show` and `plan`: the main job, from judged table to ranked lists."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.cli import console, inputs
from isrr.cli.clicks import calibrate_by_clicks
from isrr.cli.ledger import ledger_at
from isrr.cli.options import (
    TESTING,
    AsJson,
    Judged,
    NewRankerFile,
    Promises,
    RankerFile,
    Scored,
    StartPromise,
    Trust,
    choice,
    with_clicks,
    with_columns,
    with_engine,
    with_meaning,
    with_run,
    with_worth,
)
from isrr.counting import counted
from isrr.errors import PromiseError


@with_columns("query", "item", "score", "relevance", "segment", "item_group")
@with_run
@with_engine
@with_meaning
@with_clicks
def calibrate(
    promise: Promises,
    meaning: dict[str, Any],
    columns: dict[str, Any],
    where: dict[str, Any],
    judged_run: dict[str, Any],
    clicked: dict[str, Any],
    judged: Judged = None,
    out_file: NewRankerFile = Path("ranker.json"),
    confidence: Annotated[float, typer.Option(help="How sure the certificate must be.")] = 0.95,
    validation: Annotated[
        Path | None,
        typer.Option(
            help="Other judged queries, used to decide which rankers are tested, and in which order. Without them, "
            "some of the judged queries are set aside for this."
        ),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            help="Each query keeps at least this share of the quality that the order by score gives it, averaged over "
            "its random lists; 0: no floor. For promises 'of deterministic', the default depends on the promised share "
            "and the number of queries."
        ),
    ] = None,
    n_analyses: Annotated[
        int,
        typer.Option(
            "--analyses", help="Number of planned analyses of this data; each gets its part of the allowed error."
        ),
    ] = 1,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Count queries with identical scores and relevance once.")
    ] = False,
    judged_by: Annotated[
        str | None,
        choice(
            "judged_by", "Who judged: {values}. Recorded in the certificate; grades of a model come with a warning."
        ),
    ] = None,
    path: Annotated[
        str, choice("path", "Which series of rankers to test; every series runs from safe to fair: {values}.", TESTING)
    ] = "auto",
    evidence: Annotated[str, choice("evidence", "Statistical test: {values}.", TESTING)] = "betting",
    selection: Annotated[
        str,
        choice("selection", "How several configurations are tested together (multiple testing): {values}.", TESTING),
    ] = "fixed_sequence",
    seed: Annotated[
        int, typer.Option(help="Random seed, used only when rankings are sampled.", rich_help_panel=TESTING)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Find the fairest ranker that keeps a promise, and certify it. Exit code 3 if nothing can be certified.

    isrr calibrate judged.parquet -p 'ndcg@5 >= 95% of deterministic'

    isrr calibrate --run run.txt --qrels qrels.txt -p 'ndcg@5 >= 95% of deterministic'

    isrr calibrate --log served/ --clicks clicks.parquet -p 'clicks@5 >= 95% of deterministic'
    """
    if clicked["clicks"] is not None:
        if judged is not None:
            raise PromiseError(f"{judged}: give judged queries or --clicks, not both")
        if judged_by is not None:
            raise PromiseError("`judged_by=` is for judged queries, and clicks are judged by nobody; omit it")
        calibrate_by_clicks(promise, meaning, clicked, out_file, confidence, n_analyses, as_json)
        return
    if judged is None and judged_run["run"] is None:
        raise PromiseError(
            "no data to calibrate on; expected a table of judged queries, or `run=` and `qrels=`, or `log=` and "
            "`clicks=`"
        )
    from isrr.calibration.calibrate import calibrate as run
    from isrr.calibration.request import Request
    from isrr.data.source import read_any
    from isrr.metrics.ahead import compile_beside
    from isrr.outcome.certificate import ranker_path
    from isrr.risk.evidence import evidence_of
    from isrr.risk.select import selection_of

    promises = [inputs.promised(text, meaning) for text in promise]
    inputs.check_file(out_file, read=(judged, judged_run["run"], judged_run["qrels"], validation))
    ranker_path(out_file)
    tested_by = evidence_of(evidence), selection_of(selection)
    request = Request(  # refuses mistakes before reading
        tuple(promises), confidence, path, *tested_by, seed, n_analyses, floor, distinct, judged_by
    )
    compile_beside()
    queries, named, name = inputs.judged_or_run(judged, judged_run, columns, request.columns)
    count_look = ledger_at(Path(name), out_file)
    unjudged = {} if judged_run["unjudged"] is None else {"unjudged": judged_run["unjudged"]}
    others = None if validation is None else read_any(validation, request.columns, **columns, **unjudged)
    with console.progress("calibrating", "tuning and certifying") as advance:
        outcome = run(
            queries, promises, confidence, validation=others, path=path, evidence=evidence, selection=selection,
            seed=seed, n_analyses=n_analyses, floor=floor, distinct=distinct, judged_by=judged_by,
            count_look=count_look, progress=advance,
            **named, **where,
        )  # fmt: skip
    console.keep_outcome(outcome, out_file, as_json=as_json)


@with_columns("query", "item", "score", "item_group")
@with_worth
def start(
    scored: Scored,
    promise: StartPromise,
    meaning: dict[str, Any],
    columns: dict[str, Any],
    explore: Annotated[
        bool, typer.Option("--explore", help="Explore a little, so that you can later certify from clicks.")
    ] = False,
    out_file: NewRankerFile = Path("ranker.json"),
    as_json: AsJson = False,
) -> None:
    """Start without labels: a ranker that is certain to keep the promised share on every query.

    isrr start scored.parquet -p 'ndcg@5 >= 95% of deterministic' -o ranker.json
    """
    from isrr.calibration.start import start as run
    from isrr.metrics.ahead import compile_beside
    from isrr.outcome.certificate import ranker_path

    asked = inputs.promised(promise, meaning)
    inputs.check_file(out_file, read=(scored,))
    ranker_path(out_file)
    compile_beside()
    console.keep_outcome(run(scored, asked, explore=explore, **columns), out_file, as_json=as_json)


@with_columns("query", "item", "score", "relevance", "item_group")
@with_engine
def rank(
    ranker: RankerFile,
    scored: Scored,
    columns: dict[str, Any],
    where: dict[str, Any],
    out_file: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="File to write the rankings to: .parquet, .csv or .jsonl; on Spark, a new folder."
        ),
    ],
    k: Annotated[int | None, typer.Option(help="Places to fill; by default the k of the promise.", min=1)] = None,
    session: Annotated[
        str | None, typer.Option(help="Session id: the same id gives the same lists. Without one, a fresh draw.")
    ] = None,
    trust_edited: Trust = False,
) -> None:
    """Rank scored queries: one row per place, with the propensity of each placement.

    The output has the columns query_id, rank (from 1), item_id (or item, the position in the query, if there are no
    ids), score, propensity and session. Each run draws new lists unless you pass --session. With an abstention, or a
    certificate that was revoked or has expired, items are ranked by score, with a warning.

    isrr rank ranker.json scored.parquet -o ranked.parquet
    """
    from isrr.engines.rankings import TakeGlance, write_rankings
    from isrr.outcome.status import ranker_in_force

    outcome = inputs.opened(ranker, trust_edited)
    kinds = (".parquet",) if where["engine"] == "spark" else (".parquet", ".csv", ".jsonl")
    inputs.check_file(out_file, *kinds, read=(ranker, scored))
    places = k or outcome.k
    in_force = ranker_in_force(outcome, inputs.status_of(ranker, outcome)[0])
    inputs.warn_of_no_promise(ranker, outcome, in_force, "using")
    with closing(inputs.opened_rows(scored, columns, where)) as rows:
        with console.progress("looking") as advance:
            seen = rows.run(TakeGlance.of(outcome, places), advance)
        inputs.warn_of_drift(outcome, seen.n_outside / max(seen.n_rows, 1))
        with console.progress("ranking", "writing") as advance:
            write_rankings(in_force, rows, out_file, places, session, advance)
    console.say(f"{counted(seen.n_queries, 'query')}, {counted(seen.n_places, 'place')} written to {out_file}")


@with_columns("query", "item", "score", "relevance", "segment", "item_group")
@with_run
@with_engine
def check(
    ranker: RankerFile,
    columns: dict[str, Any],
    where: dict[str, Any],
    judged_run: dict[str, Any],
    judged: Judged = None,
    as_json: AsJson = False,
    trust_edited: Trust = False,
) -> None:
    """Check a promise on new judged queries; also prints utility, disparity and exposure by group.

    Exit code 4 if a promise is broken (its whole interval is on the wrong side), 3 if the file is an abstention, which
    promises nothing; the order by score is measured then.

    isrr check ranker.json new-judged.parquet
    """
    from isrr.calibration.check import check as run

    outcome = inputs.opened(ranker, trust_edited)
    judged_run = inputs.as_calibrated(judged_run, outcome)
    queries, named, name = inputs.judged_or_run(judged, judged_run, columns, outcome.columns)
    with console.progress("checking") as advance:
        found = run(outcome, queries, progress=advance, **named, **where)
    if found.data == outcome.provenance.data:
        console.warn(
            "these are the calibration queries, on which the ranker was chosen; use new ones to check the promise"
        )
    inputs.warn_of_drift(outcome, found.scores_outside)
    inputs.warn_of_single_items(found.single_items, name)
    for warning in found.warnings:
        console.warn(warning)
    inputs.warn_of_no_promise(ranker, outcome, outcome.ranker, "measuring")
    console.show(str(found), asdict(found), as_json=as_json)
    if outcome.abstained:
        raise typer.Exit(console.ABSTAINED)
    if any(kept.verdict == "broken" for kept in found.promises):
        raise typer.Exit(console.BROKEN)


def show(ranker: RankerFile, as_json: AsJson = False, trust_edited: Trust = False) -> None:
    """Show a ranker file in readable form, and whether its certificate is still valid."""
    outcome = inputs.opened(ranker, trust_edited)
    standing, words = inputs.status_of(ranker, outcome)
    if not as_json:
        console.show_outcome(outcome, None if outcome.abstained else words)
        return
    if standing != "valid":
        console.warn(f"{ranker} is {words}")
    console.show_json(json.loads(ranker.read_text(encoding="utf-8")))


@with_columns("query", "item", "score", "relevance", "segment", "item_group")
@with_run
@with_meaning
def plan(
    promise: Promises,
    meaning: dict[str, Any],
    columns: dict[str, Any],
    judged_run: dict[str, Any],
    pilot: Annotated[str | None, typer.Argument(help="A few judged queries; without them, give --utility.")] = None,
    confidence: Annotated[float, typer.Option(help="How sure the certificate must be.")] = 0.95,
    power: Annotated[float, typer.Option(help="Probability that calibration then succeeds.")] = 0.8,
    utility: Annotated[float | None, typer.Option(help="Without a pilot: expected NDCG of the scores.")] = None,
    deviation: Annotated[float, typer.Option(help="Without a pilot: standard deviation of NDCG over queries.")] = 0.28,
    as_json: AsJson = False,
) -> None:
    """Estimate how many judged queries a promise needs, or several together, before paying for labels.

    isrr plan -p 'ndcg@5 >= 0.50' --utility 0.55
    """
    from isrr.calibration.plan import plan as run
    from isrr.data.source import read_any
    from isrr.promises import columns_of

    asked = [inputs.promised(text, meaning) for text in promise]
    queries = None
    if pilot is not None or judged_run["run"] is not None or judged_run["qrels"] is not None:
        source, named, name = inputs.judged_or_run(pilot, judged_run, columns, columns_of(asked))
        queries = read_any(source, columns_of(asked), **named)
    made = run(queries, asked, confidence, power=power, utility=utility, deviation=deviation)
    if queries is not None:
        inputs.warn_of_single_items(float((queries.n_items == 1).mean()), name)
    needs = [
        {"promise": str(need.promise), "segment": need.segment, "queries_needed": need.queries_needed}
        for need in made.needs
    ]
    milestones = [asdict(milestone) for milestone in made.milestones]
    document = {**vars(made), "promises": [*map(str, asked)], "needs": needs, "milestones": milestones}
    console.show(str(made), document, as_json=as_json)
