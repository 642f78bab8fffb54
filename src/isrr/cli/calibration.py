"""`isrr start`, `calibrate` and `plan`: from queries and a promise to a ranker file."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from isrr.cli import console, inputs
from isrr.cli import options as o
from isrr.cli.ledger import ledger_at, noted


def start(
    context: typer.Context,
    scored: o.Scored,
    promise: o.StartPromise,
    explore: Annotated[
        bool, o.option("Also try lower items a little, so that you can later certify from clicks.", "--explore")
    ] = False,
    out_file: o.NewRankerFile = Path("ranker.json"),
    query: o.Query = None, item: o.Item = None, score: o.Score = None, item_group: o.ItemGroup = None,
    group_separator: o.GroupSeparator = None, missing_group: o.MissingGroup = None,
    gain: o.Gain = "exponential",
    discount: o.Discount = "log2",
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Start without labels: every query is certain to keep the promised share, averaged over its random lists.

    isrr start scored.parquet -p 'ndcg@5 >= 95% of deterministic' -o ranker.json
    """
    from isrr.calibration.start import start as run
    from isrr.outcome.certificate import ranker_path

    (promised,) = inputs.parse_promises([promise], False, {"gain": gain, "discount": discount})
    inputs.check_file(out_file, read=(scored,))
    ranker_path(out_file)
    columns, _ = inputs.reading_options(context)
    outcome = run(scored, promised, explore=explore, columns=columns)
    console.save_outcome(outcome, out_file, as_json=as_json, verbose=verbose)


def calibrate(
    context: typer.Context,
    promise: o.Promises,
    judged: o.Judged = None,
    out_file: o.NewRankerFile = Path("ranker.json"),
    confidence: o.Confidence = 0.95,
    validation: o.Validation = None,
    per_segment: o.PerSegment = False, bound: o.Bound = None, gain: o.Gain = "exponential",
    discount: o.Discount = "log2", empty_query: o.EmptyQuery = None,
    floor: o.Floor = None,
    n_analyses: o.Analyses = 1,
    sample: o.Sample = "200000",
    distinct: o.Distinct = False,
    judged_by: o.JudgedBy = None,
    path: o.SearchPath = "auto",
    evidence: o.Evidence = "betting",
    selection: o.Selection = "fixed_sequence",
    seed: o.Seed = 0,
    run: o.Run = None, qrels: o.Qrels = None, unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    missing_score: o.MissingScore = None, duplicates: o.Duplicates = None,
    reference: o.Reference = None, reference_run: o.ReferenceRun = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    engine: o.Engine = "local", master: o.Master = None,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Find the fairest ranker that keeps a promise, and certify it. Exit code 3 if nothing can be certified.

    isrr calibrate judged.parquet -p 'ndcg@5 >= 95% of deterministic' -o ranker.json

    isrr calibrate --run run.txt --qrels qrels.txt -p 'ndcg@5 >= 95% of deterministic'
    """
    from isrr.calibration.calibrate import calibrate as certify
    from isrr.cli.kernels import say_if_compiling
    from isrr.data.tables import as_queries
    from isrr.outcome.certificate import ranker_path
    from isrr.promises import columns_of

    meaning = {"bound": bound, "gain": gain, "discount": discount, "empty_query": empty_query}
    promises, sample_size = inputs.parse_promises(promise, per_segment, meaning), inputs.parse_size(sample)
    inputs.check_file(out_file, read=(judged, run, qrels, validation))
    ranker_path(out_file)
    columns, reading = inputs.reading_options(context)
    roles = columns_of(promises)
    queries, named, name = inputs.read_judged(judged, reading, columns, roles)
    others = None if validation is None else as_queries(validation, columns, unjudged or "refuse", roles)
    production = inputs.read_reference(reference, reference_run, reading)
    ledger = ledger_at(Path(name), out_file)
    say_if_compiling()
    with console.progress("calibrating", "tuning and certifying") as advance:
        outcome = certify(
            queries, promises, confidence, validation=others, path=path, evidence=evidence, selection=selection,
            seed=seed, n_analyses=n_analyses, floor=floor, distinct=distinct, judged_by=judged_by, sample=sample_size,
            reference=production, progress=advance, engine=engine, master=master, columns=named,
        )  # fmt: skip
    console.save_outcome(noted(outcome, ledger), out_file, as_json=as_json, verbose=verbose)


def plan(
    context: typer.Context,
    promise: o.Promises,
    pilot: Annotated[
        str | None, typer.Argument(help=f"A few judged queries; without them, give --utility. {o.TABLE}.")
    ] = None,
    confidence: o.Confidence = 0.95,
    power: Annotated[float, o.option("Probability that so many queries are enough.")] = 0.8,
    utility: Annotated[float | None, o.option("Without a pilot: expected NDCG of the order by score.")] = None,
    deviation: Annotated[float, o.option("Without a pilot: standard deviation of NDCG over queries.")] = 0.28,
    per_segment: o.PerSegment = False, bound: o.Bound = None, gain: o.Gain = "exponential",
    discount: o.Discount = "log2", empty_query: o.EmptyQuery = None,
    run: o.Run = None, qrels: o.Qrels = None, unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    missing_score: o.MissingScore = None, duplicates: o.Duplicates = None,
    reference: o.Reference = None, reference_run: o.ReferenceRun = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    as_json: o.AsJson = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Estimate how many judged queries one or several promises need, before paying for labels.

    isrr plan pilot.parquet -p 'ndcg@5 >= 95% of deterministic'

    isrr plan -p 'ndcg@5 >= 0.50' --utility 0.55
    """
    from isrr.calibration.plan import plan as estimate
    from isrr.data.tables import as_queries
    from isrr.promises import columns_of

    meaning = {"bound": bound, "gain": gain, "discount": discount, "empty_query": empty_query}
    promises = inputs.parse_promises(promise, per_segment, meaning)
    queries = production = None
    if pilot is not None or run is not None or qrels is not None:
        columns, reading = inputs.reading_options(context)
        table, named, name = inputs.read_judged(pilot, reading, columns, columns_of(promises))
        production = inputs.read_reference(reference, reference_run, reading)
        values = (f"value:{production}",) if isinstance(production, str) else ()
        queries = as_queries(table, named, roles=(*columns_of(promises), *values))
        inputs.warn_of_single_items(float((queries.n_items == 1).mean()), name)
    result = estimate(
        queries, promises, confidence, power=power, utility=utility, deviation=deviation, reference=production
    )
    needs = [
        {"promise": str(need.promise), "segment": need.segment, "queries_needed": need.queries_needed}
        for need in result.needs
    ]
    milestones = [asdict(milestone) for milestone in result.milestones]
    document = {**vars(result), "promises": [*map(str, promises)], "needs": needs, "milestones": milestones}
    console.show(str(result), document, as_json=as_json)
