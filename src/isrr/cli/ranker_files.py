"""`isrr rank`, `show` and `check`: use a ranker file, read it, test its promise on new queries."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from isrr.cli import console, inputs
from isrr.cli import options as o
from isrr.counting import counted
from isrr.errors import PromiseError


def rank(
    context: typer.Context,
    ranker: o.RankerFile,
    scored: o.Scored,
    out_file: Annotated[
        Path, o.option("File to write: .parquet, .csv or .jsonl; on Spark, a new folder.", "--out", "-o")
    ],
    k: Annotated[int | None, o.option("Positions to fill; by default the k of the promise.", min=1)] = None,
    session: Annotated[
        str | None, o.option("Session id: the same id gives the same lists. Without one, a fresh draw.")
    ] = None,
    query: o.Query = None,
    item: o.Item = None,
    score: o.Score = None,
    engine: o.Engine = "local", master: o.Master = None,
    trust_edited: o.Trust = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Rank scored queries: one row per position, with the chance of its item given those above.

    The columns are query_id, rank (from 1), item_id (or item, the row within the query, if there are no ids), score,
    propensity (that chance) and session. Each run draws new lists unless you pass --session. After an abstention, or
    if the certificate was revoked or has expired, items are ranked by score, with a warning.

    isrr rank ranker.json scored.parquet -o ranked.parquet
    """
    from isrr.outcome.status import ranker_in_force

    outcome = inputs.load_ranker(ranker, trust_edited)
    suffixes = (".parquet",) if engine == "spark" else (".parquet", ".csv", ".jsonl")
    inputs.check_file(out_file, *suffixes, read=(ranker, scored))
    if engine == "local" and master is not None:
        raise PromiseError("`master=` is for `engine=spark`; the engine is local")
    in_force = ranker_in_force(outcome, inputs.status_of(ranker, outcome)[0])
    inputs.warn_of_no_promise(ranker, outcome, in_force, "using")
    low, _, _, _, high = outcome.provenance.score_quantiles
    columns, _ = inputs.reading_options(context)
    arguments = in_force.of_length(k or outcome.k), scored, out_file, session, (low, high)
    if engine == "spark":
        from isrr.spark import rank_on_spark

        counts = rank_on_spark(*arguments, columns, master)
    else:
        from isrr.rank_table import rank_table

        with console.progress("ranking", "writing") as advance:
            counts = rank_table(*arguments, advance, columns)
    inputs.warn_of_drift(outcome, counts.n_outside / max(counts.n_rows, 1))
    console.say(
        f"{counted(counts.n_queries, 'query')}, {counted(counts.n_positions, 'position')} written to {out_file}"
    )


def show(
    ranker: o.RankerFile,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    trust_edited: o.Trust = False,
) -> None:
    """Show a ranker file in readable form, and whether its certificate is still valid.

    isrr show ranker.json
    """
    outcome = inputs.load_ranker(ranker, trust_edited)
    standing, words = inputs.status_of(ranker, outcome)
    if not as_json:
        console.show_outcome(outcome, None if outcome.abstained else words, verbose=verbose)
        return
    if standing != "valid":
        console.warn(f"{ranker} is {words}")
    console.show_json(json.loads(ranker.read_text(encoding="utf-8")))


def check(
    context: typer.Context,
    ranker: o.RankerFile,
    judged: o.Judged = None,
    sample: o.Sample = "200000",
    run: o.Run = None, qrels: o.Qrels = None, unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    missing_score: o.MissingScore = None, duplicates: o.Duplicates = None,
    reference: o.Reference = None, reference_run: o.ReferenceRun = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    engine: o.Engine = "local", master: o.Master = None,
    verbose: o.Verbose = False,
    as_json: o.AsJson = False,
    trust_edited: o.Trust = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Check a promise on new judged queries; also measure quality, disparity and the exposure of groups.

    Exit code 4 if a promise is broken: its whole 95 % interval lies on the wrong side. Exit code 3 if the file is an
    abstention; the order by score is measured then.

    isrr check ranker.json new-judged.parquet
    """
    from isrr.calibration.check import check as measure

    outcome = inputs.load_ranker(ranker, trust_edited)
    columns, reading = inputs.reading_options(context)
    reading = inputs.as_calibrated(reading, outcome)
    queries, named, name = inputs.read_judged(judged, reading, columns, outcome.columns)
    production = inputs.read_reference(reference, reference_run, reading)
    with console.progress("checking") as advance:
        result = measure(
            outcome, queries, engine, advance, sample=inputs.parse_size(sample), reference=production, master=master,
            columns=named,
        )  # fmt: skip
    if result.data == outcome.provenance.data:
        console.warn(
            "these are the calibration queries, on which the ranker was chosen; use new ones to check the promise"
        )
    inputs.warn_of_drift(outcome, result.scores_outside)
    inputs.warn_of_single_items(result.single_items, name)
    for warning in result.warnings:
        console.warn(warning)
    inputs.warn_of_no_promise(ranker, outcome, outcome.ranker, "measuring")
    console.show(result.text(verbose), msgspec.to_builtins(result), as_json=as_json)
    if outcome.abstained:
        raise typer.Exit(console.ABSTAINED)
    if any(promise.verdict == "broken" for promise in result.promises):
        raise typer.Exit(console.BROKEN)
