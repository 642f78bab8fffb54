"""Arguments and options that several commands share, each described once."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.cli.choices import LOSSES, PROMISES, choice, offered, offered_promises

COLUMNS = {  # what a column holds, and the names under which it is found by itself
    "query": ("query ids", ("query_id", "qid", "query")),
    "item": ("item ids", ("item_id", "doc_id", "docid", "item")),
    "score": ("scores", ("score",)),
    "relevance": ("relevance grades", ("relevance", "label", "grade")),
    "segment": ("the query's segment", ("segment",)),
    "item_group": ("the item's provider or group", ("group", "provider", "item_group")),
}
ENGINE = {  # where the work is done
    "engine": (str, "local", "local, spark or dask; results are bit-for-bit identical."),
    "master": (str | None, None, "Spark master, e.g. spark://host:7077, yarn or local[4]."),
    "trust_layout": (bool, False, "Assume that all rows of a query are adjacent in one file, and stream them."),
    "partitions": (int | None, None, "On Spark: number of partitions when rows must be regrouped."),
}
GROUPS = "Groups of items"
TESTING, MEANING = "How it is tested", "What the promise means"  # panels of the help
Judged = Annotated[
    str | None,
    typer.Argument(
        help="Judged queries, one row per item: query, item, score, relevance. Parquet (also a pattern such as "
        "'judged/*.parquet'), CSV, JSONL or Arrow. Omit it with --run and --qrels, or with --clicks.",
        show_default=False,
    ),
]
RankerFile = Annotated[Path, typer.Argument(help="Ranker file, from `isrr calibrate` or `isrr start`.")]
Promise = Annotated[
    str,
    typer.Option(
        "--promise",
        "-p",
        help=f"The promise, e.g. {PROMISES[0]!r}, {PROMISES[1]!r} or {PROMISES[2]!r}.",
        autocompletion=offered_promises,
    ),
]
Promises = Annotated[
    list[str],
    typer.Option(
        "--promise",
        "-p",
        help=f"The promise; 'deterministic' is the order by score. Examples: {'; '.join(PROMISES)}. Repeat the option "
        "for several that must all hold.",
        autocompletion=offered_promises,
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        help="Training loss; by default the first of its kind. "
        + "; ".join(f"{kind}: {', '.join(losses)}" for kind, losses in LOSSES.items()),
        autocompletion=offered(tuple(loss for losses in LOSSES.values() for loss in losses)),
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="For tables: a column of lists (by default `features`), or columns of numbers. Repeat it, or use a "
        "pattern "
        "such as 'f*'."
    ),
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="For LETOR text whose first feature has index 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trust = Annotated[bool, typer.Option("--trust-edited", help="Accept a ranker file that was edited by hand.")]
Sizes = Annotated[
    Path | None,
    typer.Option("--group", help="For LETOR text without qid: file with the size of each query, one per line."),
]


GAIN = "How much a grade is worth: {values}. equal: every item is worth the same, whatever its grade."


def with_meaning(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what a promise means; it takes them together, as the dict `meaning`."""
    options = {
        "per_segment": (
            Annotated[
                bool,
                typer.Option("--per-segment", help="The promise must hold in every segment.", rich_help_panel=MEANING),
            ],
            False,
        ),
        "bound": (
            Annotated[
                float | None,
                typer.Option(
                    help="Largest possible value: of one item for dcg and value promises, of one query for "
                    "disparity promises.",
                    rich_help_panel=MEANING,
                ),
            ],
            None,
        ),
        "gain": (Annotated[str, choice("gain", GAIN, MEANING)], "exponential"),
        "discount": (Annotated[str, choice("discount", "How much a place is worth: {values}.", MEANING)], "log2"),
        "empty_query": (
            Annotated[
                str | None, choice("empty_query", "How queries without a relevant item count: {values}.", MEANING)
            ],
            None,
        ),
    }
    return _together("meaning", options)(command)


def with_run(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for a run and its judgments; it takes them together, as the dict `judged_run`.

    They are named as the arguments of `read_queries`, and are None where they were not given.
    """
    panel = "A run with its judgments, instead of a table"
    formats = "TREC text (also .gz), BEIR's TSV, a table, or JSON {query: {item: number}}"
    others = "Quepid's CSV, OpenSearch's judgments, an Elasticsearch _rank_eval request"

    def source(text: str) -> Any:
        return Annotated[Path | None, typer.Option(help=text, rich_help_panel=panel)]

    def one_of(name: str, text: str) -> Any:
        return Annotated[str | None, choice(name, text, panel)]

    options = {
        "run": (source(f"Items retrieved for each query, with their scores: {formats}."), None),
        "qrels": (source(f"The judgments of the run: the same formats, {others}."), None),
        "ties": (
            one_of(
                "ties",
                "How equal scores are ordered. Default: by a hash. trec: as trec_eval does, so that figures match.",
            ),
            None,
        ),
        "unjudged": (
            one_of(
                "unjudged",
                "How items without a grade count: {values}. Default: zero with --qrels, otherwise refuse. worst: the "
                "worst case for the ranker; the item gains nothing where it is shown, but has the largest grade in the "
                "ideal order.",
            ),
            None,
        ),
        "run_format": (one_of("format", "Format of the run, if it is not inferred from the content: {values}."), None),
        "qrels_format": (
            one_of("format", "Format of the judgments, if it is not inferred from the content: {values}."),
            None,
        ),
    }
    return _together("judged_run", options)(command)


def with_clicks(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for clicks in place of judgments; it takes them together, as the dict `clicked`."""
    panel = "Clicks, instead of judged queries"

    def option(kind: Any, text: str) -> Any:
        return Annotated[kind, typer.Option(help=text, rich_help_panel=panel)]

    options = {
        "log": (option(Path | None, "The served-ranking log that `isrr serve --log` wrote."), None),
        "clicks": (
            option(
                Path | None,
                "Clicks on those lists: list_id, item_id, time. Without --log, one row per impression and candidate: "
                "impression_id, query_id, item_id, score, position, click.",
            ),
            None,
        ),
        "logger": (
            option(list[Path] | None, "Ranker file (or several) that served the lists; by default those in the log."),
            None,
        ),
        "unit": (
            Annotated[
                str | None, choice("unit", "Which units are independent: {values}. Default: session, if logged.", panel)
            ],
            None,
        ),
        "first": (option(int, "Use only this many lists of each unit, the earliest ones."), 1),
        "within": (option(str | None, "How long after its list a click counts, e.g. 30m, 1h or 2d."), None),
        "most_clicks": (option(int, "If a list has more clicks than this, none of them count (a bot)."), 30),
        "kind": (option(str | None, "Count only clicks of this kind, such as purchase."), None),
        "anchor": (option(float, "Share of lists that the new ranker keeps in the order by score."), 0.0),
    }
    return _together("clicked", options)(command)


def with_columns(*roles: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each role a column can play; it takes them together, as the dict `columns`."""
    options = {role: (_column(role), None) for role in roles}
    if "item_group" in roles:
        between = "What stands between the groups of an item that has several, e.g. '|'."
        options["group_separator"] = (Annotated[str | None, typer.Option(help=between, rich_help_panel=GROUPS)], None)
        missing = choice(
            "missing_group",
            "What to do with items without a group. refuse (the default): reject the data. none: accept them, as items "
            "that belong to no group.",
            GROUPS,
        )
        options["missing_group"] = (Annotated[str | None, missing], None)
    return _together("columns", options)


def with_engine(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the work is done; it takes them together, as the dict `where`."""
    panel = "Where it runs"
    options = {
        name: (Annotated[kind, typer.Option(f"--{name.replace('_', '-')}", help=text, rich_help_panel=panel)], default)
        for name, (kind, default, text) in ENGINE.items()
    }
    return _together("where", options)(command)


def _together(
    taken_as: str, options: dict[str, tuple[Any, Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options, each with its annotation and default, that the command takes together in one dict."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
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


def _column(role: str) -> Any:
    meaning, names = COLUMNS[role]
    help_text = f"Column with {meaning}; by default {' or '.join(names)}."
    option = typer.Option(help=help_text, metavar="NAME", rich_help_panel="Columns, if they have other names")
    return Annotated[str | None, option]
