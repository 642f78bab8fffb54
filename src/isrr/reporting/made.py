"""`isrr.report(outcome, queries)`: the page, made from what is at hand."""

from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from isrr.data.source import Where, counting_alike, read_any
from isrr.files import write_atomically
from isrr.outcome.certificate import Abstention, Certificate, Start
from isrr.parallel import Progress
from isrr.reporting.explorer import explore
from isrr.reporting.page import page, start_page
from isrr.reporting.portrait import portray, shown_by
from isrr.reporting.retrace import retrace


@dataclass(frozen=True, repr=False)
class Report:
    """A page that needs nothing but a browser; a notebook shows it in a frame."""

    html: str

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file."""
        write_atomically(Path(path), self.html.encode())

    def __repr__(self) -> str:
        return f"<Report of {len(self.html):,} characters; keep it with .save('report.html')>"

    def _repr_html_(self) -> str:
        return f"<iframe srcdoc='{escape(self.html)}' style='width:100%;height:80vh;border:0'></iframe>"


def report(
    outcome: Certificate | Abstention,
    queries: Any = None,
    *,
    command: str = "isrr.report(…)",
    fallen: str = "",
    progress: Progress | None = None,
    **where: Unpack[Where],
) -> Report:
    """The verdict, the trade-off explorer and who gains and loses exposure, as one HTML page.

    Args:
        outcome: What calibration said.
        queries: The judged queries it was given, as `calibrate` takes them; without them the page stands still.
        command: What made the page, for its last section.
        fallen: What became of the certificate, where it was revoked or has expired.
        progress: Called with (done, in all).
        where: See `isrr.data.source.Where`.
    """
    explorer = portrait = None
    if queries is not None or where.get("run") is not None:
        then = outcome.provenance.unjudged
        found = retrace(outcome, queries, **counting_alike(where, queries, then))
        explorer, portrait = explore(found, progress), portray(found)
    return Report(page(outcome, explorer, portrait, command=command, fallen=fallen))


def report_start(outcome: Start, queries: Any, *, command: str = "isrr.report(…)", **where: Unpack[Where]) -> Report:
    """The page of a ranker made by `isrr start`: who is seen, before and after, among scored queries."""
    scored = replace(read_any(queries, **where), relevance=None)
    return Report(start_page(outcome, *shown_by(scored, outcome.ranker), command))
