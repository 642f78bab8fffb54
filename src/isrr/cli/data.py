"""`isrr data`: look at a file of queries, convert it, name the benchmarks."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from isrr.cli.console import say
from isrr.errors import DataError

app = typer.Typer(no_args_is_help=True, help="Look at files of queries and convert them.")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Queries: LETOR or SVMLight text (also .gz), Parquet, CSV, JSONL.")],
    target: Annotated[Path, typer.Argument(help="Where to write them: .arrow (fastest to load) or .parquet.")],
    group: Annotated[Path | None, typer.Option(help="Sizes of consecutive queries, for text without qid.")] = None,
) -> None:
    """Write a copy that loads many times faster than text."""
    from isrr.data.frames import read_queries, write_queries

    if target.suffix not in (".arrow", ".parquet"):
        raise DataError(f"{target}: the name must end in .arrow or .parquet")
    queries = read_queries(source, group=group)
    write_queries(queries, target)
    say(f"{target}: {queries!r}")


@app.command()
def show(source: Annotated[Path, typer.Argument(help="A file of queries.")]) -> None:
    """What a file holds: queries, items, grades, list lengths, scores."""
    from isrr.data.frames import read_queries

    queries = read_queries(source)
    lengths = queries.n_items
    say(f"{source}: {queries!r}")
    say(f"items a query   {lengths.mean():.1f} on average, {lengths.min()} to {lengths.max()}")
    if queries.relevance is not None:
        grades, counts = np.unique(queries.relevance, return_counts=True)
        shares = ", ".join(f"{g:g}: {c / counts.sum():.1%}" for g, c in zip(grades[:10], counts[:10], strict=True))
        relevant = np.maximum.reduceat(queries.relevance, queries.offsets[:-1]) > 0
        say(f"relevance       {shares}")
        say(f"no relevant     {(~relevant).sum():,} queries")
    if queries.scores is not None:
        low, middle, high = np.quantile(queries.scores, [0, 0.5, 1])
        say(f"scores          {low:.4g} to {high:.4g}, median {middle:.4g}")
    if queries.features is not None:
        say(f"features        {queries.features.shape[1]}")


@app.command()
def benchmarks() -> None:
    """The benchmarks isrr knows, with their published sizes and where to get them."""
    from isrr.data.catalog import CATALOG

    for name, published in CATALOG.items():
        say(f"{name:12} {published.source}")
