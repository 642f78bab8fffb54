"""`isrr data`: look at a file of queries, or at a run with its judgments, and convert it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isrr.cli.console import say
from isrr.cli.inputs import check_file, warn_of_notes
from isrr.cli.options import COLUMNS, with_columns, with_run
from isrr.counting import counted
from isrr.errors import DataError

if TYPE_CHECKING:
    from isrr.data.queries import Queries

app = typer.Typer(no_args_is_help=True, help="Look at files of queries and convert them.")

Source = Annotated[
    Path | None,
    typer.Argument(
        help="Queries: Parquet, CSV, JSONL or Arrow. Omit it with --run.",
        show_default=False,
    ),
]


@app.command()
@with_columns(*COLUMNS)
@with_run
def convert(
    columns: dict[str, Any],
    judged_run: dict[str, Any],
    source: Source = None,
    target: Annotated[
        Path | None,
        typer.Argument(
            help="Where to write them: .arrow (fastest to load) or .parquet; or use -o.", show_default=False
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Same as TARGET.")] = None,
) -> None:
    """Convert queries to a file that loads many times faster than text, with the usual column names.

    isrr data convert judged.csv judged.arrow

    isrr data convert --run run.txt --qrels qrels.txt -o judged.parquet
    """
    from isrr.data.frames import write_queries

    if judged_run["run"] is not None and target is None:
        source, target = None, source
    if output is not None and target is not None:
        raise DataError(f"found two output files, {target} and {output}; expected one")
    written = output or target
    if written is None:
        raise DataError("no output file; expected an .arrow or .parquet file as `output=`")
    check_file(written, ".arrow", ".parquet", read=(source, judged_run["run"], judged_run["qrels"]))
    queries = _read(source, judged_run, columns)
    write_queries(queries, written)
    say(f"{written}: {queries!r}")


@app.command()
@with_columns(*COLUMNS)
@with_run
def show(
    columns: dict[str, Any],
    judged_run: dict[str, Any],
    source: Source = None,
) -> None:
    """Show what a file contains: queries, items, grades, list lengths, scores."""
    import numpy as np

    from isrr.gains import relevant_total

    queries = _read(source, judged_run, columns)
    lengths = queries.n_items
    say(f"{source or judged_run['run']}: {queries!r}")
    say(f"items per query {lengths.mean():.1f} on average, {lengths.min()} to {lengths.max()}")
    if queries.relevance is not None:
        grades, counts = np.unique(queries.relevance, return_counts=True)
        shares = ", ".join(f"{g:g}: {c / counts.sum():.1%}" for g, c in zip(grades[:10], counts[:10], strict=True))
        say(f"relevance       {shares}")
        empty = relevant_total(queries) == 0
        say(f"no relevant     {counted(int(empty.sum()), 'query')}")
        if queries.unretrieved is not None:
            say(f"not retrieved   {counted(len(queries.unretrieved[1]), 'relevant item')}, counted in the ideal")
    if queries.scores is not None:
        low, middle, high = np.quantile(queries.scores, [0, 0.5, 1])
        say(f"scores          {low:.4g} to {high:.4g}, median {middle:.4g}")


def _read(source: Path | None, judged_run: dict[str, Any], columns: dict[str, Any]) -> "Queries":
    """The queries of a file, or of a run with its judgments; what their reader notes is said."""
    from isrr.data.frames import read_queries

    if source is None and judged_run["run"] is None and judged_run["qrels"] is None:
        raise DataError("no input; expected a file of queries, or `run=` and `qrels=`")
    queries = read_queries(source, **judged_run, **columns)
    warn_of_notes(queries)
    return queries
