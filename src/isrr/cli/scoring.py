"""`isrr train` and `isrr score`: from judged queries to a scorer, from a scorer to scores."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.errors import IsrrError
from isrr.scores.interrupt import TrainingInterruptedError
from isrr.scores.scorer import KINDS

if TYPE_CHECKING:
    from isrr.data.queries import Queries

app = typer.Typer(no_args_is_help=True, help="Train scorers and score queries.")


@app.command()
def train(
    data: Annotated[list[Path], typer.Argument(help="Judged queries with features, one or more files.")],
    out: Annotated[Path, typer.Option(help="Folder for the scorer.")],
    model: Annotated[str, typer.Option(help=f"Kind of scorer: {', '.join(KINDS)}.")] = "lightgbm",
    loss: Annotated[str, typer.Option(help="What to train for; each kind has its own, and a default.")] = "",
    validation: Annotated[
        list[Path] | None,
        typer.Option(help="Queries to stop and choose by; without them a fifth of the data is set aside."),
    ] = None,
    test: Annotated[list[Path] | None, typer.Option(help="Queries to print NDCG@5 for at the end.")] = None,
    grid: Annotated[bool, typer.Option(help="Search the paper's grid, less what --set fixes; resumable.")] = False,
    normalize: Annotated[str, typer.Option(help="Features: none, or query (to [0, 1] in each query).")] = "",
    seed: Annotated[int, typer.Option(help="Seed of all chance in training.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads for boosted trees; 0 takes all cores.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter, NAME=VALUE: rounds=200, epochs=50, hidden=[64,64]."),
    ] = None,
) -> None:
    """Train a scorer and save it."""
    with _one_line_errors():
        from isrr.scores.scorer import scorer_class

        kind = scorer_class(model)
        settings = {"loss": loss, "seed": seed} | _parsed(kind, set_ or [])
        settings |= {"normalize": normalize} if normalize else {}
        settings |= {} if model == "net" else {"threads": threads}
        learnt, held_out = _training_queries(data, validation or [])
        if grid:
            _search(kind, settings, learnt, held_out, out)
        else:
            scorer = kind(**settings)
            with _bar("epochs" if model == "net" else "rounds") as progress:
                scorer.fit(learnt, held_out, folder=out, progress=progress)
        _summarise(out, test or [])


@app.command()
def score(
    model: Annotated[Path, typer.Argument(help="Folder of a trained scorer.")],
    data: Annotated[Path, typer.Argument(help="Queries with features.")],
    out: Annotated[Path, typer.Option(help="File for the scored queries, .parquet or .arrow.")],
) -> None:
    """Score queries with a trained scorer; features are left out of the result."""
    with _one_line_errors():
        from isrr.data.frames import read_queries, write_queries
        from isrr.scores.base import mean_ndcg
        from isrr.scores.scorer import load_scorer

        scorer, queries = load_scorer(model), read_queries(data)
        raw_scores = scorer.score(queries)
        write_queries(replace(queries.with_scores(raw_scores), features=None), out)
        judged = "" if queries.relevance is None else f"; NDCG@5 {mean_ndcg(queries, raw_scores):.4f}"
        typer.echo(f"{out}: {len(queries):,} queries, {queries.n_rows:,} items scored{judged}")


def _training_queries(data: list[Path], validation: list[Path]) -> tuple["Queries", "Queries"]:
    if validation:
        return _read(data), _read(validation)
    from isrr.data.split import split

    learnt, held_out = split(_read(data), (0.8, 0.2))
    return learnt, held_out


def _read(files: list[Path]) -> "Queries":
    from isrr.data.frames import read_queries
    from isrr.data.queries import Queries

    parts = [read_queries(file) for file in files]
    return parts[0] if len(parts) == 1 else Queries.concatenate(parts)


def _search(kind: Any, settings: dict[str, Any], learnt: "Queries", held_out: "Queries", out: Path) -> None:
    from isrr.scores.search import PAPER_GRID, search

    if kind.kind == "net":
        raise ValueError("--grid searches boosted trees; a net has no such grid")
    grid = {name: values for name, values in PAPER_GRID.items() if name not in settings}
    with _bar("points") as progress:
        finished = search(kind, learnt, held_out, out, grid=grid, settings=settings, progress=progress)
    best = max(finished, key=lambda entry: entry.validation_ndcg)
    chosen = ", ".join(f"{name} {value}" for name, value in best.point.items())
    typer.echo(f"best of {len(finished)} points: {chosen}")


def _summarise(folder: Path, test: list[Path]) -> None:
    from isrr.scores.base import mean_ndcg
    from isrr.scores.scorer import load_scorer

    scorer = load_scorer(folder)
    figures = f"NDCG@5 {scorer.validation_ndcg:.4f} on the validation queries"
    if test:
        queries = _read(test)
        figures += f", {mean_ndcg(queries, scorer.score(queries)):.4f} on the test queries"
    typer.echo(f"{folder}: {scorer.kind}, {figures}")


def _parsed(kind: Any, settings: list[str]) -> dict[str, Any]:
    known = [field.name for field in fields(kind) if field.init]
    parsed = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, got {setting!r}")
        if name not in known:
            raise ValueError(f"{kind.kind} has no parameter {name!r}; it has {', '.join(known)}")
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed


@contextmanager
def _bar(unit: str) -> Iterator[Callable[[int, int, float], None]]:
    from isrr.cli.console import progress

    with progress(unit) as advance:
        yield lambda done, total, _ndcg: advance(done, total)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What a user can put right is one line and exit code 2; Ctrl-C says what was kept, exit code 130."""
    try:
        yield
    except TrainingInterruptedError as stop:
        typer.echo(str(stop), err=True)
        raise typer.Exit(130) from None
    except (IsrrError, ValueError, OSError) as error:
        typer.echo(f"isrr: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from None
