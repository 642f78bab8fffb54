"""Arguments and options that several commands share, each described once, and the values that options can be set to.

Those values are written out here so that neither help nor completion waits for the library; the tests hold them to it.
"""

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

CHOICES = {
    "path": ("auto", "temperature", "front"),
    "evidence": ("betting", "hoeffding_bentkus"),
    "selection": ("fixed_sequence", "holm"),
    "gain": ("exponential", "linear", "equal"),
    "discount": ("log2", "reciprocal", "uniform", "trec"),
    "empty_query": ("skip", "zero", "one"),
    "judged_by": ("people", "model", "both"),
    "unjudged": ("refuse", "zero", "drop", "worst"),
    "ties": ("trec",),
    "missing_group": ("refuse", "none"),
    "unit": ("impression", "session", "user"),
    "format": ("trec", "table", "json"),
}  # fmt: skip
PROMISES = (
    "ndcg@5 >= 95% of deterministic",
    "ndcg@5 >= 0.70",
    "exposure(new)@10 >= 20%",
    "precision@10 >= 0.6",
    "recall@20 >= 98% of deterministic",
    "clicks@5 >= 95% of deterministic",
    "value(margin)@10 >= 97% of deterministic with bound 40",
    "normalized_disparity@5 <= 50% of deterministic",
    "normalized_disparity@5 <= 0.2",
    "disparity@5 <= 0.2 with bound 10",
    "group_disparity@5 <= 0.2",
)
STARTING = tuple(p for p in PROMISES if ">=" in p and "of deterministic" in p and not p.startswith("clicks"))
COLUMNS = {  # what a column holds, and the names under which it is found by itself
    "query": ("query ids", ("query_id", "qid", "query")),
    "item": ("item ids", ("item_id", "doc_id", "docid", "item")),
    "score": ("scores", ("score",)),
    "relevance": ("relevance grades", ("relevance", "label", "grade")),
    "segment": ("the query's segment", ("segment",)),
    "item_group": ("the item's provider or group", ("group", "provider", "item_group")),
}
# Panels of the help.
TESTING, MEANING = "How it is tested", "What the promise means"
RUN, CLICKS = "A run with its judgments, instead of a table", "Clicks, instead of judged queries"
NAMES, GROUPS, WHERE = "Columns, if they have other names", "Groups of items", "Where it runs"

Command = Callable[..., None]


def offered_any(incomplete: str) -> list[str]:
    """Completion of a promise."""
    return offered_promises(incomplete, PROMISES)


def offered(values: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Completion of an option from a list of values."""

    def completed(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return completed


def offered_promises(incomplete: str, known: tuple[str, ...]) -> list[str]:
    """Completion of a promise, within quotes only: bash puts in what it is given, and `>` would be a redirection."""
    line = os.environ.get("COMP_WORDS", "'")
    quoted = line.removesuffix(incomplete).endswith(("'", '"'))
    if not quoted and incomplete:
        return []
    return offered(known)(incomplete) if quoted else [f"'{promise}'" for promise in known]


def offered_starting(incomplete: str) -> list[str]:
    """Completion of a promise that `isrr start` can keep."""
    return offered_promises(incomplete, STARTING)


def choice(name: str, help_text: str, panel: str | None = None) -> Any:
    """An option whose values are known: `{values}` in its help lists them, and the shell completes them."""
    text = help_text.replace("{values}", ", ".join(CHOICES[name]))
    return typer.Option(help=text, autocompletion=offered(CHOICES[name]), rich_help_panel=panel)


Judged = Annotated[
    str | None,
    typer.Argument(
        help="Judged queries, one row per item: query, item, score, relevance (not needed for promises such as "
        "'exposure(new)@10 >= 20%'). Parquet (also a pattern such as 'judged/*.parquet'), CSV, JSONL or Arrow. Omit it "
        "with --run and --qrels, or with --clicks.",
        show_default=False,
    ),
]
Scored = Annotated[str, typer.Argument(help="Scored queries: query, item, score. Parquet, CSV, JSONL or Arrow.")]
RankerFile = Annotated[Path, typer.Argument(help="Ranker file, from `isrr calibrate` or `isrr start`.")]
NewRankerFile = Annotated[Path, typer.Option("--out", "-o", help="Ranker file to write (.json).")]
Promise = Annotated[
    str,
    typer.Option(
        "--promise",
        "-p",
        help=f"The promise, e.g. {PROMISES[0]!r}, {PROMISES[1]!r} or {PROMISES[2]!r}.",
        autocompletion=offered_any,
    ),
]
StartPromise = Annotated[
    str,
    typer.Option(
        "--promise",
        "-p",
        help=f"The promise, a share of what the order by score gives: {'; '.join(STARTING)}.",
        autocompletion=offered_starting,
    ),
]
Promises = Annotated[
    list[str],
    typer.Option(
        "--promise",
        "-p",
        help=f"The promise; 'deterministic' is the order by score. Examples: {'; '.join(PROMISES)}. Repeat the option "
        "for several that must all hold.",
        autocompletion=offered_any,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trust = Annotated[bool, typer.Option("--trust-edited", help="Accept a ranker file that was edited by hand.")]


def _together(taken_as: str, options: dict[str, tuple[Any, Any]]) -> Callable[[Command], Command]:
    """Give a command options, each an annotation and a default, that it takes together, in one dict."""

    def decorate(command: Command) -> Command:
        own = [parameter for parameter in signature(command).parameters.values() if parameter.name != taken_as]
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]

        @wraps(command)
        def run(**arguments: Any) -> None:
            gathered = {name: arguments.pop(name) for name in options}
            command(**{taken_as: gathered}, **arguments)

        parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in [*own, *added]]
        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
        return run

    return decorate


def _option(panel: str, kind: Any, text: str, default: Any = None, *names: str, **more: Any) -> tuple[Any, Any]:
    return Annotated[kind, typer.Option(*names, help=text, rich_help_panel=panel, **more)], default


def _choice(panel: str, name: str, text: str, default: str | None = None) -> tuple[Any, Any]:
    return Annotated[str if default else str | None, choice(name, text, panel)], default


# The options that say what a promise means, named as the arguments of `Promise.parse`.
_WORTH = {
    "gain": _choice(
        MEANING,
        "gain",
        "How much a grade is worth: {values}. equal: every item is worth the same, whatever its grade.",
        "exponential",
    ),
    "discount": _choice(MEANING, "discount", "How much a place is worth: {values}.", "log2"),
}
with_worth = _together("meaning", _WORTH)
with_meaning = _together(
    "meaning",
    {
        "per_segment": _option(MEANING, bool, "The promise must hold in every segment.", False, "--per-segment"),
        "bound": _option(
            MEANING,
            float | None,
            "Largest possible value: of one item for dcg and value promises, of one query for disparity promises.",
        ),
        **_WORTH,
        "empty_query": _choice(MEANING, "empty_query", "How queries without a relevant item count: {values}."),
    },
)

# The options for a run and its judgments, named as the arguments of `read_queries`; None where they were not given.
_FORMATS = "TREC text (also .gz), BEIR's TSV, a table, or JSON {query: {item: number}}"
_OTHERS = "Quepid's CSV, OpenSearch's judgments, an Elasticsearch _rank_eval request"
with_run = _together(
    "judged_run",
    {
        "run": _option(RUN, Path | None, f"Items retrieved for each query, with their scores: {_FORMATS}."),
        "qrels": _option(RUN, Path | None, f"The judgments of the run: the same formats, {_OTHERS}."),
        "ties": _choice(
            RUN,
            "ties",
            "How equal scores are ordered. Default: by a hash. trec: as trec_eval does, so that figures match.",
        ),
        "unjudged": _choice(
            RUN,
            "unjudged",
            "How items without a grade count: {values}. Default: zero with --qrels, otherwise refuse. worst: the worst "
            "case for the ranker; the item gains nothing where it is shown, but has the largest grade in the ideal "
            "order. It is refused for promises of disparity, or 'of' something.",
        ),
        "run_format": _choice(RUN, "format", "Format of the run, if it is not inferred from the content: {values}."),
        "qrels_format": _choice(
            RUN, "format", "Format of the judgments, if it is not inferred from the content: {values}."
        ),
    },
)

# The options for clicks in place of judgments.
with_clicks = _together(
    "clicked",
    {
        "log": _option(CLICKS, Path | None, "The served-ranking log that `isrr serve --log` wrote."),
        "clicks": _option(
            CLICKS,
            Path | None,
            "Clicks on those lists: list_id, item_id, time. Without --log, one row per impression and candidate: "
            "impression_id, query_id, item_id, score, position, click.",
        ),
        "logger": _option(
            CLICKS, list[Path] | None, "Ranker file (or several) that served the lists; by default those in the log."
        ),
        "unit": _choice(
            CLICKS,
            "unit",
            "Which units are independent: {values}; the first list of each counts. Default: session, if logged.",
        ),
        "within": _option(CLICKS, str | None, "How long after its list a click counts, e.g. 30m, 1h or 2d."),
        "most_clicks": _option(CLICKS, int, "If more items of a list were clicked, no click on it counts (a bot).", 30),
        "kind": _option(CLICKS, str | None, "Count only clicks of this kind, such as purchase."),
        "anchor": _option(CLICKS, float, "Share of lists that the new ranker keeps in the order by score.", 0.0),
    },
)

# The options that say where the work is done.
with_engine = _together(
    "where",
    {
        "engine": _option(WHERE, str, "local, spark or dask; results are bit-for-bit identical.", "local"),
        "master": _option(WHERE, str | None, "Spark master, e.g. spark://host:7077, yarn or local[4]."),
        "trust_layout": _option(
            WHERE,
            bool,
            "Assume that all rows of a query are adjacent in one file, and stream them.",
            False,
            "--trust-layout",
        ),
        "partitions": _option(WHERE, int | None, "On Spark: number of partitions when rows must be regrouped."),
    },
)


def with_columns(*roles: str) -> Callable[[Command], Command]:
    """Give a command one option for each role a column can play; it takes them together, as the dict `columns`."""
    options = {}
    for role in roles:
        meaning, names = COLUMNS[role]
        text = f"Column with {meaning}; by default {' or '.join(names)}."
        options[role] = _option(NAMES, str | None, text, metavar="NAME")
    if "item_group" in roles:
        between = "What stands between the groups of an item that has several, e.g. '|'."
        options["group_separator"] = _option(GROUPS, str | None, between)
        missing = (
            "What to do with items without a group. refuse (the default): reject the data. none: accept them, as items "
            "that belong to no group."
        )
        options["missing_group"] = _choice(GROUPS, "missing_group", missing)
    return _together("columns", options)
