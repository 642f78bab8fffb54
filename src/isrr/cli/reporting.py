"""`isrr report`: the page people look at."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from isrr.cli.console import progress, say
from isrr.cli.inputs import as_calibrated, check_file, judged_or_run, opened, status_of
from isrr.cli.options import RankerFile, Trust, with_columns, with_run

if TYPE_CHECKING:
    from isrr.data.queries import Queries
    from isrr.data.source import Where
    from isrr.outcome.certificate import Abstention, Certificate


@with_columns("query", "item", "score", "relevance", "segment", "item_group")
@with_run
def report(
    ranker: RankerFile,
    columns: dict[str, Any],
    judged_run: dict[str, Any],
    judged: Annotated[
        str | None,
        typer.Argument(
            help="The judged queries it was calibrated on (a pattern for several Parquet files). Without them the page "
            "is not interactive."
        ),
    ] = None,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path("report.html"),
    trust_edited: Trust = False,
) -> None:
    """Write an HTML report: the promise, the trade-off, and who gains and loses exposure.

    isrr report ranker.json judged.parquet -o report.html
    """
    from isrr.errors import CertificateError
    from isrr.outcome.certificate import Abstention, Certificate, Start
    from isrr.reporting.made import report_start

    outcome = opened(ranker, trust_edited)
    command = shlex.join(["isrr", *sys.argv[1:]])
    if isinstance(outcome, Start):
        if judged is None:
            raise CertificateError(f"{ranker}: made by isrr start; give the scored queries too, to show who is seen")
        check_file(out_file, read=(ranker, judged))
        report_start(outcome, judged, command=command, **columns).save(out_file)
        say(f"written to {out_file}")
        return
    assert isinstance(outcome, Certificate | Abstention)
    if outcome.provenance.clicks is not None:
        raise CertificateError(
            f"{ranker}: about clicks, and the page is about judged queries; see it by: isrr show {ranker}"
        )
    check_file(out_file, read=(ranker, judged, judged_run["run"], judged_run["qrels"]))
    queries = None
    if judged is not None or judged_run["run"] is not None:
        queries = _read(outcome, judged, judged_run, columns)
    standing, said = status_of(ranker, outcome)
    fallen = "" if standing == "valid" else said
    write_page(out_file, outcome, queries, command, fallen)
    say(f"written to {out_file}")


def _read(
    outcome: "Certificate | Abstention",
    judged: str | None,
    judged_run: dict[str, Any],
    columns: dict[str, Any],
) -> "Queries":
    """The queries of a calibration."""
    from isrr.data.source import counting_alike, read_any

    then, read = outcome.provenance.unjudged, outcome.columns
    source, named, _ = judged_or_run(judged, as_calibrated(judged_run, outcome), columns, read)
    return read_any(source, read, **counting_alike(cast("Where", named), source, then))


def write_page(
    file: Path,
    outcome: "Certificate | Abstention",
    queries: "Queries | None",
    command: str,
    fallen: str = "",
) -> None:
    """Find the tested queries where the judged ones are at hand, and write the page."""
    from isrr.reporting.made import report as made

    with progress("measuring the path") as advance:
        page = made(outcome, queries, command=command, fallen=fallen, progress=advance)
    page.save(file)
