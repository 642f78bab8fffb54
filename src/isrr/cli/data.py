"""`isrr data`: look at a file of queries, convert it, name the benchmarks."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isrr.cli.console import say
from isrr.cli.inputs import check_file
from isrr.cli.options import COLUMNS, Features, Sizes, ZeroBased, with_columns
from isrr.counting import counted

app = typer.Typer(no_args_is_help=True, help="Look at files of queries and convert them.")

Source = Annotated[
    Path, typer.Argument(help="Queries: LETOR or SVMLight text (also .gz), Parquet, CSV, JSONL or Arrow.")
]


@app.command()
@with_columns(*COLUMNS)
def convert(
    source: Source,
    target: Annotated[Path, typer.Argument(help="Where to write them: .arrow (fastest to load) or .parquet.")],
    columns: dict[str, Any],
    features: Features = None,
    group: Sizes = None,
    zero_based: ZeroBased = False,
) -> None:
    """Write a copy that loads many times faster than text, its columns under their usual names.

    isrr data convert train.txt train.arrow
    """
    from isrr.data.frames import read_queries, write_queries

    check_file(target, ".arrow", ".parquet", read=(source,))
    queries = read_queries(source, **columns, features=features, group=group, zero_based=zero_based, comment_ids=True)
    write_queries(queries, target)
    say(f"{target}: {queries!r}")


@app.command()
@with_columns(*COLUMNS)
def show(
    source: Source,
    columns: dict[str, Any],
    features: Features = None,
    group: Sizes = None,
    zero_based: ZeroBased = False,
) -> None:
    """What a file holds: queries, items, grades, list lengths, scores."""
    import numpy as np

    from isrr.data.frames import read_queries

    queries = read_queries(source, **columns, features=features, group=group, zero_based=zero_based, comment_ids=True)
    lengths = queries.n_items
    say(f"{source}: {queries!r}")
    say(f"items a query   {lengths.mean():.1f} on average, {lengths.min()} to {lengths.max()}")
    if queries.relevance is not None:
        grades, counts = np.unique(queries.relevance, return_counts=True)
        shares = ", ".join(f"{g:g}: {c / counts.sum():.1%}" for g, c in zip(grades[:10], counts[:10], strict=True))
        relevant = np.maximum.reduceat(queries.relevance, queries.offsets[:-1]) > 0
        say(f"relevance       {shares}")
        say(f"no relevant     {counted(int((~relevant).sum()), 'query')}")
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
