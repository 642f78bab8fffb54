"""The arguments and options that commands share, each described once.

Values that an option takes are written out here so that neither help nor completion loads the library; the tests
compare them with it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

PROMISES = (
    "ndcg@5 >= 95% of deterministic",
    "ndcg@5 >= 0.70",
    "exposure(new)@10 >= 20%",
    "precision@10 >= 0.6",
    "recall@20 >= 98% of deterministic",
    "rr@10 >= 95% of deterministic",
    "hit(rel=2)@5 >= 0.6",
    "value(margin)@10 >= 97% of deterministic with bound 40",
    "ndcg@5 >= 80% of deterministic in 90% of lists",
    "normalized_disparity@5 <= 0.2",
    "disparity@5 <= 0.2 with bound 10",
    "group_disparity@5 <= 0.2",
)
COMPARED = ("ndcg@10 >= 100% of production", "ndcg@10 >= 98% of production", "rr@10 >= 102% of production")
STARTING = tuple(p for p in PROMISES if ">=" in p and "of deterministic" in p and "lists" not in p)
CLICKED = ("clicks@5 >= 95% of deterministic", "value(margin)@5 >= 95% of deterministic with bound 40")
COLUMNS = {  # what a column holds, and its usual names
    "query": ("query ids", ("query_id", "qid", "query")),
    "item": ("item ids", ("item_id", "doc_id", "docid", "item", "docno")),
    "score": ("scores", ("score",)),
    "relevance": ("relevance grades", ("relevance", "label", "grade", "rel")),
    "segment": ("the query's segment", ("segment",)),
    "item_group": ("the item's provider or group", ("item_group", "group", "provider")),
}
# Panels of the help.
TESTING, MEANING = "How it is tested", "What the promise means"
RUN, CLICKS = "A run with its judgments, instead of a table", "Clicks"
NAMES, WHERE = "Columns, if they have other names", "Where it runs"
TABLE = "Parquet (also a pattern such as 'judged/*.parquet'), CSV, JSONL or Arrow"


def offered(values: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return the completion of an option that takes one of these values."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def offered_promises(values: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return the completion of a promise, in quotes: `>` would redirect the output of the shell."""

    def complete(incomplete: str) -> list[str]:
        line = os.environ.get("COMP_WORDS", "'")
        if line.removesuffix(incomplete).endswith(("'", '"')):
            return offered(values)(incomplete)
        return [] if incomplete else [f"'{value}'" for value in values]

    return complete


def option(text: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option with this help."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def expert(text: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option that only `--help-all` lists."""
    return option(text, *names, panel=panel, hidden=True, **more)


def column(role: str) -> Any:
    """Return the option that names the column of a role."""
    content, names = COLUMNS[role]
    return option(f"Column with {content}; by default {' or '.join(names)}.", panel=NAMES, metavar="NAME")


def show_all_options(context: typer.Context, wanted: bool) -> None:
    """Print the help of a command with the options that `--help` leaves out."""
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, option("Show this message with all options.", "--help-all", callback=show_all_options, is_eager=True)
]
AsJson = Annotated[bool, option("Print JSON.", "--json")]
Verbose = Annotated[bool, option("Also print how it was tested, and other measures.", "--verbose")]
Trust = Annotated[bool, option("Accept a ranker file that was edited by hand.", "--trust-edited")]
RankerFile = Annotated[Path, typer.Argument(help="Ranker file, from `isrr calibrate` or `isrr start`.")]
NewRankerFile = Annotated[Path, option("Ranker file to write (.json).", "--out", "-o")]

JUDGED = f"Judged queries, one row per item: query, item, score, relevance. {TABLE}. Omit it with --run and --qrels."
Judged = Annotated[str | None, typer.Argument(help=JUDGED, show_default=False)]
Scored = Annotated[str, typer.Argument(help=f"Scored queries, one row per item: query, item, score. {TABLE}.")]


def _promise(text: str, examples: tuple[str, ...]) -> Any:
    text = f"The promise{text}. Examples: {'; '.join(examples)}."
    return option(text, "--promise", "-p", autocompletion=offered_promises(examples))


Promises = Annotated[
    list[str],
    _promise("; 'deterministic' is the order by score. Repeat the option for several that must all hold", PROMISES),
]
StartPromise = Annotated[str, _promise(", a share of what the order by score gives", STARTING)]
ClickPromises = Annotated[list[str], _promise(", a share of the clicks that the order by score gets", CLICKED)]
ComparePromises = Annotated[
    list[str],
    _promise(", a share of what production gives. Repeat the option for several that must all hold", COMPARED),
]
DemoPromise = Annotated[str, _promise(", about relevance", PROMISES[:2])]
Confidence = Annotated[
    float, option("How sure the certificate must be. 0.95: at most 5 % of calibrations certify something false.")
]
PerSegment = Annotated[bool, option("The promise must hold in every segment.", "--per-segment", panel=MEANING)]
BOUND = "Largest possible value: of one item for dcg and value promises, of one query for disparity promises."
Bound = Annotated[float | None, expert(BOUND, panel=MEANING)]
Gain = Annotated[
    Literal["exponential", "linear", "equal"],
    expert(
        "What a grade is worth. exponential: 2^grade − 1; linear: the grade; equal: every item is worth the same.",
        panel=MEANING,
    ),
]
Discount = Annotated[
    Literal["log2", "reciprocal", "uniform", "trec"], expert("What each position is worth.", panel=MEANING)
]
EmptyQuery = Annotated[
    Literal["skip", "zero", "one"] | None, expert("How queries without a relevant item count.", panel=MEANING)
]
FLOOR = (
    "Share of its quality in the order by score that every query keeps, averaged over its random lists; 0: none. For "
    "promises 'of deterministic', the default depends on the promised share and the number of queries."
)
Floor = Annotated[float | None, expert(FLOOR, panel=MEANING)]

Query = Annotated[str | None, column("query")]
Item = Annotated[str | None, column("item")]
Score = Annotated[str | None, column("score")]
Relevance = Annotated[str | None, column("relevance")]
Segment = Annotated[str | None, column("segment")]
ItemGroup = Annotated[str | None, column("item_group")]
GroupSeparator = Annotated[
    str | None, expert("Separates the groups of an item that has several, e.g. '|'.", panel=NAMES)
]
MISSING = "Items without a group: refuse (the default) rejects the data, none accepts them as items without a group."
MissingGroup = Annotated[Literal["refuse", "none"] | None, expert(MISSING, panel=NAMES)]

FORMATS = "TREC text (also .gz), BEIR's TSV, a table, or JSON {query: {item: number}}"
Run = Annotated[Path | None, option(f"Items retrieved for each query, with scores: {FORMATS}.", "--run", panel=RUN)]
QRELS = "The judgments of the run, in the same formats."
Qrels = Annotated[Path | None, option(QRELS, panel=RUN)]
RunsQrels = Annotated[Path | None, option(f"The judgments of the runs: {FORMATS}.", "--qrels", panel=RUN)]
UNJUDGED = (
    "Items without a grade: refuse the data, count them as irrelevant (zero), drop them, or assume the worst for the "
    "ranker (irrelevant where shown, highest grade in the ideal order). Default: zero with --qrels, otherwise refuse."
)
Unjudged = Annotated[Literal["refuse", "zero", "drop", "worst"] | None, option(UNJUDGED, panel=RUN)]
Ties = Annotated[
    Literal["trec"] | None,
    expert("How equal scores are ordered. Default: by a hash. trec: as trec_eval does.", panel=RUN),
]
ROWS = "Rows that cannot be used"
MissingScore = Annotated[
    Literal["refuse", "drop"] | None,
    expert("Rows without a score. Default: refuse. drop: leave them out; the certificate says how many.", panel=ROWS),
]
Duplicates = Annotated[
    Literal["refuse", "first"] | None,
    expert("Rows that repeat an item of their query. Default: refuse. first: use the first of them.", panel=ROWS),
]
REFERENCE = "Column with the scores of production, for promises 'of production'."
Reference = Annotated[str | None, expert(REFERENCE, panel=NAMES, metavar="NAME")]
REFERENCE_RUN = "The run of production, judged by the same --qrels, for promises 'of production'."
ReferenceRun = Annotated[Path | None, expert(REFERENCE_RUN, panel=RUN)]
Format = Literal["trec", "table", "json"]
RunFormat = Annotated[Format | None, expert("Format of the run; by default inferred from the content.", panel=RUN)]
QrelsFormat = Annotated[Format | None, expert("Format of the judgments; by default inferred likewise.", panel=RUN)]

Engine = Annotated[Literal["local", "spark"], option("Where to run; the results are the same.", panel=WHERE)]
Master = Annotated[str | None, expert("Spark master: spark://host:7077, yarn or local[4].", panel=WHERE)]
SAMPLE = "Largest number of queries to use; of a larger table, always the same random sample. all: use every query."
Sample = Annotated[str, option(SAMPLE, metavar="N")]

VALIDATION = (
    "Other judged queries, used to decide which rankers are tested, and in which order. Without them, some of the "
    "judged queries are set aside for this."
)
Validation = Annotated[Path | None, option(VALIDATION)]
ANALYSES = "Number of planned analyses of this data; 1 − confidence is divided among them."
Analyses = Annotated[int, expert(ANALYSES, "--analyses", panel=TESTING)]
Distinct = Annotated[
    bool, expert("Count queries with identical scores and relevance once.", "--distinct", panel=TESTING)
]
JudgedBy = Annotated[
    Literal["people", "model", "both"] | None,
    expert("Who judged; recorded in the certificate. Grades of a model come with a warning.", panel=TESTING),
]
SearchPath = Annotated[
    Literal["auto", "temperature", "front"],
    expert(
        "Which rankers to test, from safe to fair: chosen on the queries set aside (front) or by temperature alone.",
        panel=TESTING,
    ),
]
Evidence = Annotated[Literal["betting", "hoeffding_bentkus"], expert("Statistical test.", panel=TESTING)]
Selection = Annotated[
    Literal["fixed_sequence", "holm"],
    expert("Procedure for testing several rankers together (multiple testing).", panel=TESTING),
]
Seed = Annotated[int, expert("Random seed, used only when rankings are sampled.", panel=TESTING)]
Within = Annotated[str | None, option("How long after its list a click counts, e.g. 30m, 1h or 2d.", panel=CLICKS)]
