"""`isrr data`: look at a file of queries, or at a run with its judgments, and convert it."""

from pathlib import Path
from typing import Annotated

import typer

from isrr.cli import options as o
from isrr.cli.console import say
from isrr.cli.inputs import check_file, read_table, reading_options
from isrr.counting import counted
from isrr.errors import DataError

app = typer.Typer(no_args_is_help=True, help="Inspect and convert files of queries.")

Source = Annotated[
    Path | None,
    typer.Argument(help="Queries: Parquet, CSV, JSONL or Arrow. Omit it with --run.", show_default=False),
]


@app.command()
def convert(
    context: typer.Context,
    source: Source = None,
    target: Annotated[
        Path | None,
        typer.Argument(
            help="Where to write them: .arrow (fastest to load) or .parquet; or use -o.", show_default=False
        ),
    ] = None,
    output: Annotated[Path | None, o.option("Same as TARGET.", "--output", "-o")] = None,
    run: o.Run = None, qrels: o.Qrels = None, unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    missing_score: o.MissingScore = None, duplicates: o.Duplicates = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Convert queries to a file that loads many times faster than text, with the usual column names.

    isrr data convert judged.csv judged.arrow

    isrr data convert --run run.txt --qrels qrels.txt -o judged.parquet
    """
    from isrr.data.copies import write_queries

    if run is not None and target is None:
        source, target = None, source
    if output is not None and target is not None:
        raise DataError(f"found two output files, {target} and {output}; expected one")
    file = output or target
    if file is None:
        raise DataError("no output file; expected an .arrow or .parquet file as `output=`")
    check_file(file, ".arrow", ".parquet", read=(source, run, qrels))
    columns, reading = reading_options(context)
    queries = read_table(source, reading, columns)
    write_queries(queries, file)
    say(f"{file}: {queries!r}")


@app.command()
def show(
    context: typer.Context,
    source: Source = None,
    run: o.Run = None, qrels: o.Qrels = None, unjudged: o.Unjudged = None, ties: o.Ties = None,
    run_format: o.RunFormat = None, qrels_format: o.QrelsFormat = None,
    missing_score: o.MissingScore = None, duplicates: o.Duplicates = None,
    query: o.Query = None, item: o.Item = None, score: o.Score = None, relevance: o.Relevance = None,
    segment: o.Segment = None, item_group: o.ItemGroup = None, group_separator: o.GroupSeparator = None,
    missing_group: o.MissingGroup = None,
    help_all: o.HelpAll = False,
) -> None:  # fmt: skip
    """Show what a file contains: queries, items, grades, list lengths, scores.

    isrr data show judged.parquet
    """
    import numpy as np

    from isrr.gains import relevant_total

    columns, reading = reading_options(context)
    queries = read_table(source, reading, columns)
    lengths = queries.n_items
    say(f"{source or run}: {queries!r}")
    say(f"items per query {lengths.mean():.1f} on average, {lengths.min()} to {lengths.max()}")
    if queries.relevance is not None:
        grades, counts = np.unique(queries.relevance, return_counts=True)
        shares = ", ".join(f"{g:g}: {c / counts.sum():.1%}" for g, c in zip(grades[:10], counts[:10], strict=True))
        say(f"relevance       {shares}{f' and {grades.size - 10:,} more values' if grades.size > 10 else ''}")
        say(f"no relevant     {counted(int((relevant_total(queries) == 0).sum()), 'query')}")
        if queries.unretrieved is not None:
            say(f"not retrieved   {counted(len(queries.unretrieved[1]), 'relevant item')}, counted in the ideal")
    if queries.scores is not None:
        low, middle, high = np.quantile(queries.scores, [0, 0.5, 1])
        say(f"scores          {low:.4g} to {high:.4g}, median {middle:.4g}")
