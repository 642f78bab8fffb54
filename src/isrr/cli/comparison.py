"""`isrr compare`: is a new ranking at least as good as production?"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from xml.etree import ElementTree

import typer
from msgspec import to_builtins

from isrr.cli import console, inputs
from isrr.cli import options as o
from isrr.errors import DataError

if TYPE_CHECKING:
    from isrr.calibration.compare import Comparison

Shape = Literal["text", "json", "junit", "github", "markdown"]
SHAPES: dict[str, Callable[["Comparison", dict[str, bool]], str]] = {}


def compare(
    context: typer.Context,
    new: Annotated[
        list[Path], typer.Argument(help="New rankings: runs with --qrels, or tables of judged queries.")
    ],
    production: Annotated[Path, o.option("What is served today: a run, or a table of judged queries.", "--with")],
    promise: o.ComparePromises,
    qrels: o.RunsQrels = None,
    confidence: Annotated[float, o.option("Confidence of each answer, for all new rankings together.")] = 0.95,
    accept: Annotated[
        Literal["proven", "approximate"],
        o.option("Which answer decides the exit code; approximate is the paired randomisation test."),
    ] = "proven",
    shape: Annotated[Shape, o.option("How to print the answer.", "--format")] = "text",
    per_segment: o.PerSegment = False, bound: o.Bound = None, gain: o.Gain = "exponential",
    discount: o.Discount = "log2", empty_query: o.EmptyQuery = None,
    unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Is a new ranking at least as good as production? Two answers: proven, and approximate.

    Exit code 0 if every new ranking keeps all promises, 4 if one is proven to break a promise, otherwise 3.

    isrr compare new.txt --with production.txt --qrels qrels.txt -p 'ndcg@10 >= 100% of production'
    """
    from isrr.calibration.compare import compare as held_against
    from isrr.promises import columns_of

    meaning = {"bound": bound, "gain": gain, "discount": discount, "empty_query": empty_query}
    promises = inputs.parse_promises(promise, per_segment, meaning)
    names = [str(file) for file in new]
    if len(set(names)) < len(names):
        raise DataError("the same ranking was given twice; expected each once")
    columns, reading = inputs.reading_options(context)

    def read(file: Path) -> Any:
        if qrels is not None:
            return inputs.read_table(None, {**reading, "run": file}, columns)
        queries = inputs.read_table(str(file), reading, columns.with_roles(columns_of(promises)))
        if "relevance" in columns_of(promises):
            queries.need_relevance()
        return queries

    result = held_against({name: read(Path(name)) for name in names}, read(production), promises, confidence)
    passed = {
        name: result.verdicts[name] == "proven" if accept == "proven" else result.approximate[name] for name in names
    }
    if result.n_lacking and shape != "text":
        console.warn(result.lacking)
    console.say(SHAPES[shape](result, passed) if shape != "text" else str(result))
    if not all(passed.values()):
        worse = "proven worse" in result.verdicts.values()
        raise typer.Exit(console.BROKEN if worse else console.ABSTAINED)


def _json(result: "Comparison", passed: dict[str, bool]) -> str:
    rows = [
        {**vars(row), "promise": str(row.promise), "difference": to_builtins(row.difference)} for row in result.rows
    ]
    candidates = {
        name: {"verdict": verdict, "approximate": result.approximate[name], "passed": passed[name]}
        for name, verdict in result.verdicts.items()
    }
    return json.dumps({"confidence": result.confidence, "candidates": candidates, "rows": rows}, indent=1)


def _markdown(result: "Comparison", passed: dict[str, bool]) -> str:
    head = "| ranking | promise | mean | production | difference | better / alike / worse | proven | approximate |"
    lines = [head, "|---|---|---:|---:|---:|---:|---|---|"]
    for row in result.rows:
        difference = f"{row.difference.value:+.4f} [{row.difference.low:+.4f}, {row.difference.high:+.4f}]"
        cells = [
            row.candidate, str(row.promise), f"{row.mean:.4f}", f"{row.production:.4f}", difference,
            f"{row.wins} / {row.ties} / {row.losses}", f"{result.verdicts[row.candidate]} (p = {row.pvalue:.3g})",
            f"{'yes' if result.approximate[row.candidate] else 'no'} (p = {row.approximate:.3g})",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _github(result: "Comparison", passed: dict[str, bool]) -> str:
    lines = []
    for row in result.rows:
        kind = "notice" if passed[row.candidate] else "error"
        said = f"{row.promise}: {result.verdicts[row.candidate]}, difference {row.difference.value:+.4f}"
        text = f"{said} on {row.n_queries} queries (p = {row.pvalue:.3g}, approximate p = {row.approximate:.3g})"
        escaped = text.replace("%", "%25").replace("\n", "%0A")
        title = row.candidate.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
        lines.append(f"::{kind} title={title}::{escaped}")
    return "\n".join(lines)


def _junit(result: "Comparison", passed: dict[str, bool]) -> str:
    failures = sum(not passed[row.candidate] for row in result.rows)
    suite = ElementTree.Element("testsuite", name="isrr compare", tests=str(len(result.rows)), failures=str(failures))
    for row in result.rows:
        case = ElementTree.SubElement(suite, "testcase", classname=row.candidate, name=str(row.promise))
        if not passed[row.candidate]:
            message = f"{result.verdicts[row.candidate]}, difference {row.difference.value:+.4f}"
            ElementTree.SubElement(case, "failure", message=message).text = str(result)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


SHAPES |= {"json": _json, "markdown": _markdown, "github": _github, "junit": _junit}
