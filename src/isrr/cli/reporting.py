"""`isrr report`: the page people look at."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.certificate import Abstention, Certificate, load
from isrr.cli.calibration import Group, Item, Query, RankerFile, Relevance, Score, Segment, Trust
from isrr.cli.console import out, progress
from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.files import write_atomically


def report(
    ranker: RankerFile,
    judged: Annotated[
        Path | None, typer.Argument(help="The judged queries it was calibrated on; without them the page stands still.")
    ] = None,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path("report.html"),
    validation: Annotated[
        Path | None, typer.Option(help="Other judged queries, to shape the band that holds for all promises at once.")
    ] = None,
    query: Query = None,
    item: Item = None,
    score: Score = None,
    relevance: Relevance = None,
    segment: Segment = None,
    item_group: Group = None,
    trust_edited: Trust = False,
) -> None:
    """Write one HTML file with the verdict, the trade-off explorer and who gains and loses exposure."""
    from isrr.data.frames import read_queries

    outcome = load(ranker, trust_edited=trust_edited)
    if not out_file.absolute().parent.is_dir():
        raise DataError(f"{out_file}: the folder {out_file.parent} does not exist; make it first")
    names: dict[str, Any] = {
        "query": query, "item": item, "score": score, "relevance": relevance, "segment": segment,
        "item_group": item_group,
    }  # fmt: skip
    queries = None if judged is None else read_queries(judged, **names)
    others = None if validation is None else read_queries(validation, **names)
    write_page(out_file, outcome, queries, others, shlex.join(["isrr", *sys.argv[1:]]))
    out.print(f"written to {out_file}", markup=False)


def write_page(
    file: Path,
    outcome: Certificate | Abstention,
    queries: Queries | None,
    validation: Queries | None,
    command: str,
) -> None:
    """Retrace the calibration where its queries are at hand, and write the page."""
    from isrr.calibration.explorer import explore
    from isrr.calibration.portrait import portray
    from isrr.calibration.retrace import retrace
    from isrr.report.page import page

    explorer = portrait = None
    if queries is not None:
        with progress("measuring the path") as advance:
            found = retrace(outcome, queries, validation, advance)
        explorer, portrait = explore(found), portray(found)
    write_atomically(file, page(outcome, explorer, portrait, command=command).encode())
