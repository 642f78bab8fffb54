"""`isrr report`: the page people look at."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from isrr.cli import inputs
from isrr.cli import options as o
from isrr.cli.console import progress, say
from isrr.errors import CertificateError


def report(
    context: typer.Context,
    ranker: o.RankerFile,
    judged: Annotated[
        str | None,
        typer.Argument(
            help="The judged queries it was calibrated on (or a pattern for several Parquet files). Without them, the "
            "page is not interactive."
        ),
    ] = None,
    out_file: Annotated[Path, o.option("Where to write the page.", "--out", "-o")] = Path("report.html"),
    run: o.Run = None, qrels: o.Qrels = None, unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    missing_score: o.MissingScore = None, duplicates: o.Duplicates = None,
    reference: o.Reference = None, reference_run: o.ReferenceRun = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    trust_edited: o.Trust = False,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Write an HTML report: the promise, the trade-off, and who gains and loses exposure.

    isrr report ranker.json judged.parquet -o report.html
    """
    from isrr.outcome.certificate import Start
    from isrr.reporting.page import report as make_page

    outcome = inputs.load_ranker(ranker, trust_edited)
    inputs.check_file(out_file, read=(ranker, judged, run, qrels))
    command = shlex.join(["isrr", *sys.argv[1:]])
    columns, reading = inputs.reading_options(context)
    if isinstance(outcome, Start):
        if judged is None:
            raise CertificateError(f"{ranker}: made by isrr start; give the scored queries too, to show who is seen")
        make_page(outcome, judged, columns=columns, command=command).save(out_file)
        say(f"written to {out_file}")
        return
    if outcome.provenance.clicks is not None:
        raise CertificateError(
            f"{ranker}: about clicks, and the page is about judged queries; see it by: isrr show {ranker}"
        )
    queries = named = production = None
    if judged is not None or run is not None:
        reading = inputs.as_calibrated(reading, outcome)
        production = inputs.read_reference(reference, reference_run, reading)
        queries, named, _ = inputs.read_judged(judged, reading, columns, outcome.columns)
    status, words = inputs.status_of(ranker, outcome)
    fallen = "" if status == "valid" else words
    with progress("measuring the path") as advance:
        page = make_page(
            outcome,  # type: ignore[arg-type]
            queries, columns=named, command=command, fallen=fallen, reference=production, progress=advance,
        )  # fmt: skip
    page.save(out_file)
    say(f"written to {out_file}")
