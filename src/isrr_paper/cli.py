"""`isrr-paper`: from judged queries to a scorer and scores, and the paper's tables and figures."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli.console import Commands, progress, say, warn
from isrr.cli.inputs import check_file, check_folder
from isrr.cli.options import offered
from isrr.counting import counted
from isrr_paper.reproduce import reproduce
from isrr_paper.scorers import LOSSES

if TYPE_CHECKING:
    from isrr_paper.features import Featured

app = typer.Typer(
    name="isrr-paper",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train and score with the paper's scorers, and reproduce its tables and figures.",
)
KINDS = tuple(LOSSES)
QueryColumn = Annotated[str | None, typer.Option("--query", help="For tables: column with query ids.")]
ItemColumn = Annotated[str | None, typer.Option("--item", help="For tables: column with item ids.")]
RelevanceColumn = Annotated[str | None, typer.Option("--relevance", help="For tables: column with relevance grades.")]
FeatureColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        help="For tables: a column of lists (by default `features`), or columns of numbers. Repeat it, or use a "
        "pattern such as 'f*'.",
    ),
]
GroupSizes = Annotated[
    Path | None,
    typer.Option("--group", help="For LETOR text without qid: file with the size of each query, one per line."),
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="For LETOR text whose first feature has index 0.")]


@app.command()
def train(
    data: Annotated[
        list[Path], typer.Argument(help="Judged queries with features, one or more files: LETOR text or tables.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the scorer.")],
    model: Annotated[
        str, typer.Option(help=f"Kind of scorer: {', '.join(KINDS)}.", autocompletion=offered(KINDS))
    ] = "lightgbm",
    loss: Annotated[
        str,
        typer.Option(
            help="Training loss; by default the first of its kind. "
            + "; ".join(f"{kind}: {', '.join(losses)}" for kind, losses in LOSSES.items()),
            autocompletion=offered(tuple(loss for losses in LOSSES.values() for loss in losses)),
        ),
    ] = "",
    validation: Annotated[
        list[Path] | None, typer.Option(help="Queries for early stopping; by default a fifth of the data.")
    ] = None,
    test: Annotated[list[Path] | None, typer.Option(help="Queries on which to print NDCG@5 at the end.")] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="Search the paper's grid of parameters, except those given by --set; resumable."),
    ] = False,
    normalize: Annotated[
        str, typer.Option(help="Scaling of features: none, or query, to [0, 1] within each query.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads for boosted trees; 0 means all cores.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A parameter as NAME=VALUE, e.g. rounds=200, epochs=50, hidden=[64,64]. Repeat for several."
        ),
    ] = None,
    features: FeatureColumns = None,
    query: QueryColumn = None,
    relevance: RelevanceColumn = None,
) -> None:
    """Train a scorer and save it.

    isrr-paper train train.txt --model lightgbm --out model/
    """
    from isrr_paper.features import Featured, read_featured
    from isrr_paper.scorers.learnt import sample_of, share_in
    from isrr_paper.scorers.scorer import load_scorer, mean_ndcg, scorer_class
    from isrr_paper.split import split

    kind = scorer_class(model)
    settings = {"loss": loss, "seed": seed} | _parsed(kind, set_ or [])
    settings |= {"normalize": normalize} if normalize else {}
    settings |= {} if model == "net" else {"threads": threads}
    kind(**settings)
    check_folder(out)

    def read(files: list[Path]) -> Featured:
        parts = [read_featured(file, features=features, query=query, relevance=relevance) for file in files]
        return parts[0] if len(parts) == 1 else Featured.concatenate(parts)

    if validation:
        learnt, held_out = read(data), read(validation)
        if (share := share_in(sample_of([learnt]), held_out)) > 0:
            warn(
                f"about {share:.0%} of the validation queries are also training queries; training will stop too "
                "late, and the NDCG@5 it prints is too high"
            )
    else:
        learnt, held_out = split(read(data), (0.8, 0.2))
    tested = read(test) if test else None
    if grid:
        _search(kind, settings, learnt, held_out, out)
    else:
        with progress("epochs" if model == "net" else "rounds") as advance:
            kind(**settings).fit(learnt, held_out, folder=out, progress=lambda done, total, _: advance(done, total))
    scorer = load_scorer(out)
    figures = f"NDCG@5 {scorer.validation_ndcg:.4f} on the validation queries"
    if tested is not None:
        figures += f", {mean_ndcg(tested, scorer.score(tested)):.4f} on the test queries"
    say(f"{out}: {scorer.kind}, {figures}")


@app.command()
def score(
    model: Annotated[Path, typer.Argument(help="Folder of a trained scorer.")],
    data: Annotated[Path, typer.Argument(help="Queries with features: LETOR text or a table.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the scored queries, .parquet or .arrow.")],
    features: FeatureColumns = None,
    query: QueryColumn = None,
    item: ItemColumn = None,
    relevance: RelevanceColumn = None,
) -> None:
    """Score queries with a trained scorer; the output has no features.

    isrr-paper score model/ judged.txt --out judged.parquet

    From a table, the columns used in training are read by name, in any order.
    """
    from isrr.data.copies import write_queries
    from isrr.data.formats import File, kind_of
    from isrr_paper.features import read_featured
    from isrr_paper.scorers.scorer import load_scorer, mean_ndcg

    check_file(out, ".parquet", ".arrow", read=(data,))
    scorer = load_scorer(model)
    letor = kind_of(File.of(data)) == "letor"
    named = None if letor else features or _trained_columns(scorer.feature_names, data)
    queries = read_featured(data, features=named, comment_ids=True, query=query, item=item, relevance=relevance)
    raw_scores = scorer.score(queries)
    if (share := scorer.share_learnt_from(queries)) > 0:
        warn(
            f"about {share:.0%} of these queries were used to train the scorer or to stop its training; its scores "
            "for them are too good, and a promise calibrated on them does not hold for new queries"
        )
    write_queries(queries.without_features.with_scores(raw_scores), out)
    judged = "" if queries.relevance is None else f"; NDCG@5 {mean_ndcg(queries, raw_scores):.4f}"
    say(f"{out}: {counted(len(queries), 'query')}, {counted(queries.n_rows, 'item')} scored{judged}")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Queries with features: LETOR or SVMLight text (also .gz).")],
    target: Annotated[Path, typer.Argument(help="File to write, .parquet or .arrow.")],
    group: GroupSizes = None,
    zero_based: ZeroBased = False,
) -> None:
    """Convert LETOR text to a table with a column of features.

    isrr-paper convert train.txt train.parquet
    """
    from isrr_paper.features import read_featured, write_featured

    check_file(target, ".arrow", ".parquet", read=(source,))
    queries = read_featured(source, group=group, zero_based=zero_based, comment_ids=True)
    write_featured(queries, target)
    width = 0 if queries.features is None else queries.features.shape[1]
    say(f"{target}: {counted(len(queries), 'query')}, {counted(queries.n_rows, 'item')}, {counted(width, 'feature')}")


@app.command()
def benchmarks() -> None:
    """List the benchmarks that `reproduce` knows, and where to get them."""
    from isrr_paper.catalog import CATALOG

    for name, published in CATALOG.items():
        say(f"{name:12} {published.source}")


app.command()(reproduce)


def main() -> None:
    """Run the command line."""
    app()


def _trained_columns(names: tuple[str, ...], data: Path) -> list[str] | None:
    """Return the feature columns a scorer was trained on; None for text, or if they had no names."""
    from isrr.data.formats import File, kind_of, open_table
    from isrr_paper.paper_errors import ScorerError

    if not names or (kind := kind_of(File.of(data))) == "letor":
        return None
    have = open_table(File.of(data), kind).columns
    missing = ", ".join(repr(name) for name in names if name not in have)
    if missing:
        raise ScorerError(
            f"{data}: no column {missing}, which the scorer was trained on; the columns are {', '.join(have)}"
        )
    return list(names)


def _search(kind: Any, settings: dict[str, Any], learnt: "Featured", held_out: "Featured", out: Path) -> None:
    from isrr_paper.scorers.search import PAPER_GRID, search

    if kind.kind == "net":
        raise ValueError("--grid works with boosted trees only, not with a net")
    grid = {name: values for name, values in PAPER_GRID.items() if name not in settings}
    with progress("points") as advance:
        finished = search(
            kind, learnt, held_out, out, grid=grid, settings=settings, progress=lambda n, total, _: advance(n, total)
        )
    best = max(finished, key=lambda entry: entry.validation_ndcg)
    chosen = ", ".join(f"{name} {value}" for name, value in best.point.items())
    say(f"best of {counted(len(finished), 'point')}: {chosen}")


def _parsed(kind: Any, settings: list[str]) -> dict[str, Any]:
    known = [field.name for field in fields(kind) if field.init]
    parsed = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set: expected NAME=VALUE, got {setting!r}")
        if name not in known:
            raise ValueError(f"{kind.kind} has no parameter {name!r}; expected one of {', '.join(known)}")
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed
