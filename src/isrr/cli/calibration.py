"""`isrr calibrate`, `rank`, `evaluate`, `show` and `plan`: the main job, from judged table to served ranking."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.certificate import Abstention, Certificate, load
from isrr.cli.console import err, progress, say, show_json, show_outcome
from isrr.cli.ledger import note_look
from isrr.errors import CertificateError, DataError
from isrr.guarantee import Guarantee

ABSTAINED = 3

Judged = Annotated[
    str,
    typer.Argument(
        help="Judged queries: Parquet (also a glob of files), CSV, JSONL or Arrow; query, item, score, relevance."
    ),
]
RankerFile = Annotated[Path, typer.Argument(help="A file written by `isrr calibrate`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Trust = Annotated[bool, typer.Option("--trust-edited", help="Accept a ranker file that was edited by hand.")]
Query = Annotated[str | None, typer.Option("--query", help="Column with query ids, where it has another name.")]
Item = Annotated[str | None, typer.Option("--item", help="Column with item ids.")]
Score = Annotated[str | None, typer.Option("--score", help="Column with scores.")]
Relevance = Annotated[str | None, typer.Option("--relevance", help="Column with relevance grades.")]
Segment = Annotated[str | None, typer.Option("--segment", help="Column with the query's segment.")]
Engine = Annotated[str, typer.Option(help="local, or spark: work where the table is; the same bits.")]
Master = Annotated[str | None, typer.Option(help="Spark's master, e.g. spark://host:7077, yarn or local[4].")]
Layout = Annotated[
    bool, typer.Option("--trust-layout", help="The rows of a query stand together in one file: stream them.")
]
Partitions = Annotated[int | None, typer.Option(help="On Spark: partitions to bring scattered rows into.")]
Group = Annotated[str | None, typer.Option("--item-group", help="Column with the item's provider or group.")]


def calibrate(
    judged: Judged,
    guarantee: Annotated[
        list[str],
        typer.Option("--guarantee", "-g", help="A promise, e.g. 'ndcg@5 >= 95% of deterministic'; repeat for several."),
    ],
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the ranker.")] = Path("ranker.json"),
    confidence: Annotated[float, typer.Option(help="Probability with which the promise holds.")] = 0.95,
    validation: Annotated[Path | None, typer.Option(help="Other judged queries, to fix the path.")] = None,
    path: Annotated[str, typer.Option(help="auto, temperature, front, thresholds or paper.")] = "auto",
    evidence: Annotated[str, typer.Option(help="betting, hoeffding_bentkus, dkwm, …")] = "betting",
    selection: Annotated[
        str, typer.Option(help="fixed_sequence, holm, bonferroni, split or pointwise.")
    ] = "fixed_sequence",
    per_segment: Annotated[bool, typer.Option("--per-segment", help="The promise must hold in every segment.")] = False,
    bound: Annotated[float | None, typer.Option(help="Largest disparity a query can have, for disparity@k.")] = None,
    gain: Annotated[str, typer.Option(help="exponential or linear.")] = "exponential",
    empty_query: Annotated[str, typer.Option(help="Queries with no relevant item: skip, zero or one.")] = "skip",
    attempts: Annotated[int, typer.Option(help="Looks at these data that are planned; splits δ over them.")] = 1,
    seed: Annotated[int, typer.Option(help="Names the noise, where rankings are drawn.")] = 0,
    query: Query = None,
    item: Item = None,
    score: Score = None,
    relevance: Relevance = None,
    segment: Segment = None,
    item_group: Group = None,
    engine: Engine = "local",
    master: Master = None,
    trust_layout: Layout = False,
    partitions: Partitions = None,
    as_json: AsJson = False,
) -> None:
    """Certify the fairest ranker that keeps a promise; exit code 3 when none can be certified."""
    from isrr.calibration.calibrate import calibrate as run
    from isrr.data.frames import read_queries

    names: dict[str, Any] = {
        "query": query, "item": item, "score": score, "relevance": relevance, "segment": segment,
        "item_group": item_group,
    }  # fmt: skip
    promises = [
        Guarantee.parse(
            text,
            bound=bound if text.strip().lower().startswith("disparity") else None,
            per="segment" if per_segment else None,
            gain_kind=gain,  # type: ignore[arg-type]
            empty_query=empty_query,  # type: ignore[arg-type]
        )
        for text in guarantee
    ]
    _check_folder(out_file)
    others = None if validation is None else read_queries(validation, **names)
    with progress("calibrating") as advance:
        outcome = run(
            judged, promises, confidence, validation=others, path=path, evidence=evidence, selection=selection,
            seed=seed, attempts=attempts, progress=advance, engine=engine, columns=names, master=master,
            trust_layout=trust_layout, partitions=partitions,
        )  # fmt: skip
    look = note_look(out_file, outcome)
    outcome = replace(outcome, provenance=replace(outcome.provenance, look=look))
    outcome.save(out_file)
    if as_json:
        show_json(json.loads(out_file.read_text()))
    else:
        show_outcome(outcome)
        say(f"written to {out_file}")
    if outcome.abstained:
        raise typer.Exit(ABSTAINED)


def rank(
    ranker: RankerFile,
    scored: Annotated[str, typer.Argument(help="Scored queries: Parquet, CSV, JSONL or Arrow; query, item, score.")],
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the ranking: Parquet.")],
    k: Annotated[int | None, typer.Option(help="Places to fill; the promise's own k unless given.")] = None,
    session: Annotated[str | None, typer.Option(help="Name of the session; a fresh draw without one.")] = None,
    query: Query = None,
    item: Item = None,
    score: Score = None,
    engine: Engine = "local",
    master: Master = None,
    trust_layout: Layout = False,
    partitions: Partitions = None,
    trust_edited: Trust = False,
) -> None:
    """Rank scored queries: one row a place, with the propensity of each placement."""
    from isrr.calibration.local import InMemory
    from isrr.calibration.source import open_source
    from isrr.calibration.spark import SparkRows
    from isrr.cli.ranking import Look, write_rankings, write_rankings_on_spark

    outcome = _opened(ranker, trust_edited)
    _check_folder(out_file)
    if out_file.suffix != ".parquet":
        raise DataError(f"{out_file}: rankings are written as Parquet; the name must end in .parquet")
    columns = {"query": query, "item": item, "score": score}
    on_spark = engine != "local"
    rows = open_source(
        scored, engine, columns=columns, master=master, trust_layout=trust_layout and on_spark, partitions=partitions
    )
    low, _, _, _, high = outcome.provenance.score_quantiles
    places = k or outcome.k
    with progress("looking") as advance:
        seen = rows.run(Look(low, high, places), advance)
    _warn_of_drift(outcome, seen.n_outside / max(seen.n_rows, 1))
    with progress("ranking") as advance:
        if isinstance(rows, InMemory):
            write_rankings(outcome.ranker, rows.queries, out_file, places, session, advance)
        elif isinstance(rows, SparkRows):
            write_rankings_on_spark(outcome.ranker, rows, str(out_file), places, session, advance)
    say(f"{seen.n_queries:,} queries, {seen.n_places:,} places written to {out_file}")


def evaluate(
    ranker: RankerFile,
    judged: Judged,
    query: Query = None,
    item: Item = None,
    score: Score = None,
    relevance: Relevance = None,
    segment: Segment = None,
    item_group: Group = None,
    engine: Engine = "local",
    master: Master = None,
    trust_layout: Layout = False,
    partitions: Partitions = None,
    as_json: AsJson = False,
    trust_edited: Trust = False,
) -> None:
    """Does the promise hold on new judged queries? With utility, disparity, and exposure by group where given."""
    from isrr.calibration.check import check

    outcome = _opened(ranker, trust_edited)
    columns = {
        "query": query, "item": item, "score": score, "relevance": relevance, "segment": segment,
        "item_group": item_group,
    }  # fmt: skip
    with progress("evaluating") as advance:
        found = check(
            outcome, judged, engine, advance, columns=columns, master=master, trust_layout=trust_layout,
            partitions=partitions,
        )  # fmt: skip
    _warn_of_drift(outcome, found.scores_outside)
    if as_json:
        show_json(asdict(found))
    else:
        say(str(found))


def show(ranker: RankerFile, as_json: AsJson = False, trust_edited: Trust = False) -> None:
    """Print a ranker file as people read it."""
    outcome = _opened(ranker, trust_edited)
    if as_json:
        show_json(json.loads(ranker.read_text()))
    else:
        show_outcome(outcome)


def plan(
    guarantee: Annotated[str, typer.Option("--guarantee", "-g", help="A promise, e.g. 'ndcg@5 >= 0.70'.")],
    pilot: Annotated[Path | None, typer.Argument(help="Some judged queries; without them, give --utility.")] = None,
    confidence: Annotated[float, typer.Option(help="Probability with which the promise is to hold.")] = 0.95,
    power: Annotated[float, typer.Option(help="Probability with which it is to be certified.")] = 0.8,
    utility: Annotated[float | None, typer.Option(help="Expected NDCG of the scores, where there is no pilot.")] = None,
    deviation: Annotated[float, typer.Option(help="Its deviation over queries.")] = 0.28,
    query: Query = None,
    score: Score = None,
    relevance: Relevance = None,
    as_json: AsJson = False,
) -> None:
    """How many judged queries a promise needs, before paying for labels."""
    from isrr.calibration.plan import plan as run
    from isrr.data.frames import read_queries

    queries = None if pilot is None else read_queries(pilot, query=query, score=score, relevance=relevance)
    made = run(guarantee, queries, confidence=confidence, power=power, utility=utility, deviation=deviation)
    if as_json:
        show_json(asdict(made))
    else:
        say(str(made))


def _opened(ranker: Path, trust_edited: bool) -> Certificate | Abstention:
    """A ranker file; one that was edited by hand is read only on demand, and never without saying so."""
    try:
        return load(ranker)
    except CertificateError:
        if not trust_edited:
            raise
    outcome = load(ranker, trust_edited=True)
    err.print(f"isrr: warning: {ranker} was edited by hand; its promise does not cover what it says now", markup=False)
    return outcome


def _check_folder(file: Path) -> None:
    if file.is_dir():
        raise DataError(f"{file}: this is a folder; name a file")
    if not file.absolute().parent.is_dir():
        raise DataError(f"{file}: the folder {file.parent} does not exist; make it first")


def _warn_of_drift(outcome: Certificate | Abstention, outside: float) -> None:
    if outside > 0.02:
        low, _, _, _, high = outcome.provenance.score_quantiles
        err.print(
            f"isrr: warning: {outside:.0%} of the scores lie outside [{low:.4g}, {high:.4g}], where calibration saw "
            "99.8 % of them; a promise covers scores on its own scale only",
            markup=False,
        )
