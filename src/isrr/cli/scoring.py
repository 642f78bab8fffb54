"""`isrr train` and `isrr score`: from judged queries to a scorer, from a scorer to scores."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli.console import progress, say, warn
from isrr.cli.inputs import check_file, check_folder
from isrr.cli.options import Features, Loss, choice, with_columns
from isrr.counting import counted

if TYPE_CHECKING:
    from isrr.data.queries import Queries


@with_columns("query", "relevance")
def train(
    data: Annotated[
        list[Path], typer.Argument(help="Judged queries with features, one or more files: LETOR text or tables.")
    ],
    columns: dict[str, Any],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the scorer.")],
    model: Annotated[str, choice("model", "Kind of scorer: {values}.")] = "lightgbm",
    loss: Loss = "",
    validation: Annotated[
        list[Path] | None, typer.Option(help="Queries for early stopping; by default a fifth of the data.")
    ] = None,
    test: Annotated[list[Path] | None, typer.Option(help="Queries on which to print NDCG@5 at the end.")] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="Search the paper's grid of parameters, except those given by --set; resumable."),
    ] = False,
    normalize: Annotated[
        str, choice("normalize", "Scaling of features: none, or query, to [0, 1] within each query.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads for boosted trees; 0 means all cores.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A parameter as NAME=VALUE, e.g. rounds=200, epochs=50, hidden=[64,64]. Repeat for several."
        ),
    ] = None,
    features: Features = None,
) -> None:
    """Train a scorer and save it.

    isrr train train.txt --model lightgbm --out model/
    """
    from isrr.data.frames import read_queries
    from isrr.data.queries import Queries
    from isrr.data.split import split
    from isrr.scores.learnt import sample_of, share_in
    from isrr.scores.scorer import load_scorer, mean_ndcg, scorer_class

    kind = scorer_class(model)
    settings = {"loss": loss, "seed": seed} | _parsed(kind, set_ or [])
    settings |= {"normalize": normalize} if normalize else {}
    settings |= {} if model == "net" else {"threads": threads}
    kind(**settings)
    check_folder(out)

    def read(files: list[Path]) -> Queries:
        parts = [read_queries(file, **columns, features=features) for file in files]
        return parts[0] if len(parts) == 1 else Queries.concatenate(parts)

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


@with_columns("query", "item", "relevance", "segment", "item_group")
def score(
    model: Annotated[Path, typer.Argument(help="Folder of a trained scorer.")],
    data: Annotated[Path, typer.Argument(help="Queries with features: LETOR text or a table.")],
    columns: dict[str, Any],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the scored queries, .parquet or .arrow.")],
    features: Features = None,
) -> None:
    """Score queries with a trained scorer; the output has no features.

    isrr score model/ judged.txt --out judged.parquet

    From a table, the columns used in training are read by name, in any order.
    """
    from isrr.data.frames import read_queries, write_queries
    from isrr.scores.scorer import load_scorer, mean_ndcg

    check_file(out, ".parquet", ".arrow", read=(data,))
    scorer = load_scorer(model)
    named = features or _trained_columns(scorer.feature_names, data)
    queries = read_queries(data, **columns, features=named, comment_ids=True)
    raw_scores = scorer.score(queries)
    if (share := scorer.share_learnt_from(queries)) > 0:
        warn(
            f"about {share:.0%} of these queries were used to train the scorer or to stop its training; its scores "
            "for them are too good, and a promise calibrated on them does not hold for new queries"
        )
    write_queries(replace(queries.with_scores(raw_scores), features=None), out)
    judged = "" if queries.relevance is None else f"; NDCG@5 {mean_ndcg(queries, raw_scores):.4f}"
    say(f"{out}: {counted(len(queries), 'query')}, {counted(queries.n_rows, 'item')} scored{judged}")


def _trained_columns(names: tuple[str, ...], data: Path) -> list[str] | None:
    """The columns of a table that a scorer was trained on; None for text, and where its features had no names."""
    from isrr.data.files import kind_of, open_table
    from isrr.errors import ScorerError

    if not names or (kind := kind_of(data)) == "letor":
        return None
    have = open_table(data, kind).columns
    missing = ", ".join(repr(name) for name in names if name not in have)
    if missing:
        raise ScorerError(
            f"{data}: no column {missing}, which the scorer was trained on; the columns are {', '.join(have)}"
        )
    return list(names)


def _search(kind: Any, settings: dict[str, Any], learnt: "Queries", held_out: "Queries", out: Path) -> None:
    from isrr.scores.search import PAPER_GRID, search

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
