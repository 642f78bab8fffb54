"""`isrr calibrate`, `rank`, `evaluate`, `show` and `plan`: the main job, from judged table to served ranking."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from isrr.certificate import Abstention, Certificate, load
from isrr.cli.console import err, progress, say, show_json, show_outcome
from isrr.cli.ledger import note_look
from isrr.errors import CertificateError, DataError
from isrr.guarantee import Guarantee

ABSTAINED = 3

Judged = Annotated[
    Path, typer.Argument(help="Judged queries: Parquet, CSV, JSONL or Arrow; query, item, score, relevance.")
]
RankerFile = Annotated[Path, typer.Argument(help="A file written by `isrr calibrate`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Trust = Annotated[bool, typer.Option("--trust-edited", help="Accept a ranker file that was edited by hand.")]
Query = Annotated[str | None, typer.Option("--query", help="Column with query ids, where it has another name.")]
Item = Annotated[str | None, typer.Option("--item", help="Column with item ids.")]
Score = Annotated[str | None, typer.Option("--score", help="Column with scores.")]
Relevance = Annotated[str | None, typer.Option("--relevance", help="Column with relevance grades.")]
Segment = Annotated[str | None, typer.Option("--segment", help="Column with the query's segment.")]
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
    queries = read_queries(judged, **names)
    others = None if validation is None else read_queries(validation, **names)
    with progress("calibrating") as advance:
        outcome = run(
            queries, promises, confidence, validation=others, path=path, evidence=evidence, selection=selection,
            seed=seed, attempts=attempts, progress=advance,
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
    scored: Annotated[Path, typer.Argument(help="Scored queries: Parquet, CSV, JSONL or Arrow; query, item, score.")],
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the ranking: Parquet.")],
    k: Annotated[int | None, typer.Option(help="Places to fill; the promise's own k unless given.")] = None,
    session: Annotated[str | None, typer.Option(help="Name of the session; a fresh draw without one.")] = None,
    query: Query = None,
    item: Item = None,
    score: Score = None,
    trust_edited: Trust = False,
) -> None:
    """Rank scored queries: one row a place, with the propensity of each placement."""
    from isrr.cli.ranking import write_rankings
    from isrr.data.frames import read_queries

    outcome = _opened(ranker, trust_edited)
    _check_folder(out_file)
    if out_file.suffix != ".parquet":
        raise DataError(f"{out_file}: rankings are written as Parquet; the name must end in .parquet")
    queries = read_queries(scored, query=query, item=item, score=score)
    _warn_of_drift(outcome, queries.need_scores())
    with progress("ranking") as advance:
        n_rows = write_rankings(outcome.ranker, queries, out_file, k or outcome.k, session, advance)
    say(f"{len(queries):,} queries, {n_rows:,} places written to {out_file}")


def evaluate(
    ranker: RankerFile,
    judged: Judged,
    query: Query = None,
    item: Item = None,
    score: Score = None,
    relevance: Relevance = None,
    segment: Segment = None,
    item_group: Group = None,
    as_json: AsJson = False,
    trust_edited: Trust = False,
) -> None:
    """Does the promise hold on new judged queries? With utility, disparity, and exposure by group where given."""
    from isrr.calibration.check import check
    from isrr.data.frames import read_queries

    outcome = _opened(ranker, trust_edited)
    queries = read_queries(
        judged, query=query, item=item, score=score, relevance=relevance, segment=segment, item_group=item_group
    )
    _warn_of_drift(outcome, queries.need_scores())
    found = check(outcome, queries)
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


def _warn_of_drift(outcome: Certificate | Abstention, scores: Any) -> None:
    low, _, _, _, high = outcome.provenance.score_quantiles
    outside = float(np.mean((scores < low) | (scores > high)))
    if outside > 0.02:
        err.print(
            f"isrr: warning: {outside:.0%} of the scores lie outside [{low:.4g}, {high:.4g}], where calibration saw "
            "99.8 % of them; a promise covers scores on its own scale only",
            markup=False,
        )
