"""Arguments and options that several commands share, each described once."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.cli.choices import LOSSES, PROMISES, offered, offered_promises

COLUMNS = {  # what a column holds, and the names under which it is found by itself
    "query": ("query ids", ("query_id", "qid", "query")),
    "item": ("item ids", ("item_id", "doc_id", "docid", "item")),
    "score": ("scores", ("score",)),
    "relevance": ("relevance grades", ("relevance", "label", "grade")),
    "segment": ("the query's segment", ("segment",)),
    "item_group": ("the item's provider or group", ("group", "provider", "item_group")),
}
Judged = Annotated[
    Path,
    typer.Argument(
        help="Judged queries, one row an item: query, item, score, relevance. Parquet, CSV, JSONL or Arrow."
    ),
]
RankerFile = Annotated[Path, typer.Argument(help="A ranker file, written by `isrr calibrate`.")]
Promise = Annotated[
    str,
    typer.Option(
        "--guarantee",
        "-g",
        help=f"The promise, e.g. {PROMISES[0]!r}, {PROMISES[1]!r} or {PROMISES[3]!r}.",
        autocompletion=offered_promises,
    ),
]
Promises = Annotated[
    list[str],
    typer.Option(
        "--guarantee",
        "-g",
        help=f"A promise: {'; '.join(PROMISES)}. Repeat for several that must hold together.",
        autocompletion=offered_promises,
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        help="What to train for; the first unless named. "
        + "; ".join(f"{kind}: {', '.join(losses)}" for kind, losses in LOSSES.items()),
        autocompletion=offered(tuple(loss for losses in LOSSES.values() for loss in losses)),
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="For tables: a column of lists (`features` unless named), or columns of numbers; repeat it, or name "
        "several by a pattern such as 'f*'."
    ),
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="For LETOR text whose first feature has index 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Trust = Annotated[bool, typer.Option("--trust-edited", help="Accept a ranker file that was edited by hand.")]
Sizes = Annotated[
    Path | None,
    typer.Option("--group", help="For LETOR text without qid: file with the sizes of consecutive queries, one a line."),
]


def with_columns(*roles: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for each role a column can play; it takes them together, as the dict `columns`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [parameter for parameter in signature(command).parameters.values() if parameter.name != "columns"]
        added = [Parameter(role, Parameter.KEYWORD_ONLY, default=None, annotation=_column(role)) for role in roles]

        @wraps(command)
        def run(**arguments: Any) -> None:
            columns = {role: arguments.pop(role) for role in roles}
            command(columns=columns, **arguments)

        parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in [*own, *added]]
        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
        return run

    return decorate


def _column(role: str) -> Any:
    meaning, names = COLUMNS[role]
    help_text = f"Column with {meaning}; without it, {', '.join(names)}."
    option = typer.Option(help=help_text, metavar="NAME", rich_help_panel="Columns, where they have other names")
    return Annotated[str | None, option]
