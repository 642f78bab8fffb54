"""The report: one HTML file that needs nothing but a browser.

Sentences and tables of facts are written here, escaped; numbers for the charts travel as JSON that cannot close its
own script element, and reach the page as text nodes only. Nothing is computed in the page: what is drawn was handed
over.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from isrr.counting import counted, in_segment, percent
from isrr.data.columns import Columns
from isrr.data.queries import Queries
from isrr.data.tables import as_queries
from isrr.errors import DataError
from isrr.files import write_atomically
from isrr.outcome.certificate import Abstention, Certificate, Start
from isrr.outcome.findings import Estimate, Quality
from isrr.parallel import Progress
from isrr.promises import Promise
from isrr.reporting import words
from isrr.reporting.levels import Explorer, explore
from isrr.reporting.portrait import Portrait, portray, retrace, seen

LONGEST_NAME = 160  # characters of an id or a group that are carried
SCRIPTS = ("vendor/d3.min.js", "vendor/plot.min.js", "charts.js", "explorer.js", "page.js")


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
    outcome: Certificate | Abstention | Start,
    queries: Any = None,
    *,
    columns: Columns | None = None,
    command: str = "isrr.report(…)",
    fallen: str = "",
    reference: str | Queries | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return one HTML page: the promise, who gains exposure, what other promises cost.

    Args:
        outcome: What calibration or `start` returned.
        queries: The judged queries it was given, as `calibrate` takes them; without them the page stands still. For a
            start, scored queries.
        columns: The names of columns that are not called as usual, for queries still to be read; see `isrr.Columns`.
        command: What made the page, for its last section.
        fallen: What became of the certificate, where it was revoked or has expired.
        reference: What promises "of production" are compared with, as for `calibrate`.
        progress: Called with (done, in all).
    """
    if isinstance(outcome, Start):
        if queries is None:
            raise DataError("a ranker made by `isrr start` is shown on scored queries; expected `queries`")
        return Report(start_page(outcome, replace(as_queries(queries, columns), relevance=None), command))
    explorer = portrait = None
    if queries is not None:
        tested = retrace(outcome, queries, columns, reference)
        explorer, portrait = explore(outcome, tested, progress), portray(outcome, tested)
    return Report(page(outcome, explorer, portrait, command=command, fallen=fallen))


def page(
    outcome: Certificate | Abstention,
    explorer: Explorer | None = None,
    portrait: Portrait | None = None,
    *,
    command: str = "isrr.report(…)",
    fallen: str = "",
) -> str:
    """Return the whole page as text; without an explorer the trade-off stands still."""
    warned = [*([f"This certificate is {fallen}."] if fallen else []), *words.sentences(outcome.warnings)]
    certified = "No longer valid" if fallen else "Certified, with a warning" if warned else "Certified"
    return _filled(
        "page.html",
        {
            "title": f"isrr: {'abstention' if outcome.abstained else 'certificate'} {outcome.id}",
            "kind": "abstention" if outcome.abstained else "warned" if warned else "certificate",
            "badge": "Abstained" if outcome.abstained else certified,
            "first": words.verdict(outcome),
            "second": words.cost_and_gain(outcome, portrait),
            "which": words.which_is_which(outcome),
            "about": words.about(outcome),
            "disparity": words.disparity(outcome),
            "floor": words.floor(outcome),
            "spread": "" if portrait is None else words.spread(outcome, portrait),
            "sample": "" if portrait is None else words.sample(outcome, portrait.sample),
            "inversion": "" if portrait is None else words.inversion(portrait.sample),
            "wrong": words.level(1 - outcome.confidence),
            "selected": words.SELECTED.get(outcome.provenance.selection, ""),
            "decides": words.how_the_risk_decides(outcome),
        },
        {
            "tiles": _tiles(_figures(outcome)),
            "warnings": _list(warned, "help"),
            "help": _list(words.what_helps(outcome), "help") if isinstance(outcome, Abstention) else "",
            "levels": "" if explorer is None else _levels(outcome, explorer),
            "assumptions": _list(words.sentences(outcome.assumptions)),
            "breaks": _list(words.BREAKS),
            "facts": _facts(words.facts(outcome, command)),
        },
        _data(outcome, explorer, portrait),
        SCRIPTS,
    )


def start_page(outcome: Start, queries: Any, command: str) -> str:
    """Return the page of a ranker that keeps its promise by construction: who is seen, before and after."""
    promise = outcome.promises[0]
    share = words.level(promise.target)
    tiles = [
        ("Promise", str(promise)),
        ("Exposure that moves", percent(outcome.moved)),
        ("Items with a chance to be shown", f"{percent(outcome.shown_before)} → {percent(outcome.shown)}"),
        ("Lists that change", words.interval(outcome.quality.changed)),
        *_quality(outcome.quality),
    ]
    data = {"k": outcome.k, "promised_groups": {}, **asdict(seen(queries, outcome.ranker))}
    return _filled(
        "start.html",
        {
            "title": f"isrr: start {outcome.id}",
            "first": f"Every query keeps at least {share} of the {promise.measure.title} it has in the order by score, "
            "on average over its lists.",
            "second": "This holds by construction: no label was needed, and nothing is assumed.",
        },
        {
            "tiles": _tiles(tiles),
            "warnings": _list(words.sentences(outcome.warnings), "help"),
            "facts": _facts(words.facts(outcome, command)),
        },
        _shortened(data),
        SCRIPTS[:3],
    )


def _filled(
    template: str, filled: dict[str, str], blocks: dict[str, str], data: dict[str, Any], scripts: Sequence[str]
) -> str:
    """Return a template with its names replaced: text escaped, blocks as they are; neither is searched again."""
    blocks |= {
        "css": _asset("page.css"),
        "data": _script_safe(data),
        "scripts": "\n".join(f"<script>{_asset(name)}</script>" for name in scripts),
    }
    parts = (_asset("head.html") + _asset(template)).split("@@")
    for i in range(1, len(parts), 2):  # every second part is a name
        name = parts[i]
        parts[i] = _text(filled[name]) if name in filled else blocks[name]
    return "".join(parts)


def _data(outcome: Certificate | Abstention, explorer: Explorer | None, portrait: Portrait | None) -> dict[str, Any]:
    first, *others = outcome.promises
    two = len(others) == 1 and not any(promise.per for promise in outcome.promises)
    return {
        "abstained": outcome.abstained,
        "k": outcome.k,
        "promise": _promise(first),
        "utility_name": outcome.utility_name,
        "spreads": any(promise.safe_end == "cold" for promise in outcome.promises),
        "others": [str(promise) for promise in others],
        "second": _promise(others[0]) if two else None,
        "promised_groups": {p.group: p.target for p in outcome.promises if p.of is None and p.group and not p.lists},
        "chosen": outcome.tradeoff.used,
        "is_curve": outcome.tradeoff.is_curve,
        "configurations": [
            {
                "name": point.ranker.in_words,
                "utility": _triple(point.utility),
                "gain": _triple(point.fairness_gain),
                "certified": point.certified,
                "bound": None if first.per else point.bound,
            }
            for point in outcome.curve
        ],
        "ask": words.asking(outcome),
        "explorer": None if explorer is None else asdict(explorer),
        "portrait": None if portrait is None else _shortened(asdict(portrait)),
    }


def _promise(promise: Promise) -> dict[str, Any]:
    return {
        "title": promise.measure.title,
        "at_least": promise.at_least is not None,
        "of": promise.of,
        "percent": promise.in_percent,
        "target": promise.target,
        "per_segment": promise.per is not None,
    }


def _triple(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def _figures(outcome: Certificate | Abstention) -> list[tuple[str, str]]:
    """Return the tiles of the page, as names and values."""
    tiles = [("Promise", outcome.promise_text), ("Confidence", words.level(outcome.confidence))]
    if isinstance(outcome, Certificate):
        before, after = outcome.deterministic_utility.value, outcome.utility.value
        return [
            *tiles,
            (outcome.utility_name, f"{before:.4f} → {after:.4f}"),
            *_quality(outcome.quality),
            *(
                (f"Lists that fall short of {lists.level_in_words(test.promise.k)}", percent(1 - test.measured))
                for test in outcome.tests
                if (lists := test.promise.lists) is not None
            ),
            *(
                (
                    f"Proven {test.promise.measure.title}{in_segment(test.segment)} "
                    f"(promised {test.promise.limit(test.promise.target)})",
                    test.promise.limit(test.level),
                )
                for test in outcome.tests
                if test.level is not None
            ),
            ("Disparity removed", words.interval(outcome.fairness_gain)),
        ]
    needed = "no number is enough" if outcome.queries_needed is None else f"about {outcome.queries_needed:,}"
    return [*tiles, ("Tested on", counted(outcome.provenance.n_queries, "query")), ("Queries needed", needed)]


def _quality(quality: Quality) -> list[tuple[str, str]]:
    """Return what becomes of the lists, on average and one by one."""
    return [
        (f"{quality.measure} that remains", words.interval(quality.remaining)),
        (f"Lists that lose more than half of their {quality.measure}", words.interval(quality.halved)),
    ]


def _tiles(tiles: Iterable[tuple[str, str]]) -> str:
    """Return names and values, intervals unbroken."""
    escaped = [(escape(name), re.sub(r"\[[^]]*\]", r"<span>\g<0></span>", _text(value))) for name, value in tiles]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in escaped)


def _levels(outcome: Certificate | Abstention, explorer: Explorer) -> str:
    """Return the levels fixed beforehand as a table, and what may be done with them."""
    rows = []
    for level in explorer.levels:
        cells = ["", "", "not certified"]
        if level.configuration is not None:
            point = outcome.curve[level.configuration]
            cells = [f"{point.utility.value:.4f}", percent(point.fairness_gain.value), point.ranker.in_words]
        utility, gain, ranker = map(_text, cells)
        heading = f'<th scope="row">{escape(level.promise)}</th>'
        rows.append(f'<tr>{heading}<td>{utility}</td><td>{gain}</td><td class="words">{ranker}</td></tr>')
    names = ("promise", outcome.utility_name, "disparity removed")
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return (
        f'<div id="levels"><h3>Eight levels fixed beforehand</h3><p>{_text(words.levels(outcome))}</p>'
        f'<div class="scroll"><table><thead><tr>{heads}<th scope="col" class="words">ranker</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _text(text: str) -> str:
    """Return text escaped, with percent signs kept beside their numbers."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    named = [(f"{name[:1].upper()}{name[1:]}", value) for name, value in facts]
    return "".join(f"<dt>{escape(name)}</dt><dd><bdi>{escape(value)}</bdi></dd>" for name, value in named)


def _list(lines: Sequence[str], kind: str = "") -> str:
    if not lines:
        return ""
    return f'<ul class="{kind}">' + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"


def _shortened(value: Any) -> Any:
    """Return the same with long text cut: a name of 10,000 characters tells no more than its beginning."""
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        return value[:LONGEST_NAME] + "…"
    return value


def _script_safe(data: dict[str, Any]) -> str:
    """Return JSON without a character that could end a script element or be read as markup."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _asset(name: str) -> str:
    return files("isrr.reporting").joinpath("assets", name).read_text("utf-8")
