"""Arguments and options that several commands share, each described once, and the values the shell offers for them."""

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

COLUMNS = {
    "query": "query ids",
    "item": "item ids",
    "score": "scores",
    "relevance": "relevance grades",
    "segment": "the query's segment",
    "item_group": "the item's provider or group",
}
CHOICES = {
    "path": ("auto", "temperature", "front", "thresholds", "paper"),
    "evidence": (
        "bentkus", "betting", "dkwm", "empirical_bernstein", "hb_plus", "hoeffding", "hoeffding_bentkus", "mixture",
        "normal_approximation", "vb", "wsr",
    ),
    "selection": ("fixed_sequence", "holm", "bonferroni", "pointwise", "split"),
    "gain": ("exponential", "linear"),
    "empty_query": ("skip", "zero", "one"),
    "model": ("catboost", "lightgbm", "net", "xgboost"),
    "normalize": ("none", "query"),
    "result": ("tradeoff", "coverage", "decay", "stochastic", "rcscore", "runtime", "all"),
}  # fmt: skip
PROMISES = (
    "ndcg@5 >= 95% of deterministic",
    "ndcg@5 >= 0.70",
    "normalized_disparity@5 <= 50% of deterministic",
    "normalized_disparity@5 <= 0.2",
    "disparity@5 <= 0.2",
    "group_exposure@5 <= 0.2",
)


def offered(values: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Completion of an option from a list of values."""

    def completed(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return completed


def offered_promises(incomplete: str) -> list[str]:
    """Completion of a promise, within quotes only: bash puts in what it is given, and `>` would be a redirection."""
    line = os.environ.get("COMP_WORDS", "'")
    quoted = line.removesuffix(incomplete).endswith(("'", '"'))
    if not quoted and incomplete:
        return []
    return offered(PROMISES)(incomplete) if quoted else [f"'{promise}'" for promise in PROMISES]


def choice(name: str, help_text: str) -> Any:
    """An option whose values are known: its help lists them and the shell completes them."""
    values = CHOICES[name]
    return typer.Option(help=f"{help_text}: {', '.join(values)}.", autocompletion=offered(values))


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
    help_text = f"Column with {COLUMNS[role]}."
    option = typer.Option(help=help_text, metavar="NAME", rich_help_panel="Columns, where they have other names")
    return Annotated[str | None, option]
