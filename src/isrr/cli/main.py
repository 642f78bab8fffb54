"""The command line: one verb per job."""

import typer

from isrr.cli.calibration import calibrate, plan, start
from isrr.cli.clicks import app as clicks
from isrr.cli.comparison import compare
from isrr.cli.console import Commands
from isrr.cli.data import app as data
from isrr.cli.demo import demo
from isrr.cli.doctor import doctor
from isrr.cli.monitoring import monitor
from isrr.cli.ranker_files import check, rank, show
from isrr.cli.reporting import report
from isrr.cli.service import serve

CERTIFY, PRODUCTION = "Certify and rank", "In production"
COMMANDS = {
    "First steps": (demo, doctor),
    CERTIFY: (start, calibrate, rank, show, check, plan, compare),
    PRODUCTION: (serve, monitor, report),
}

app = typer.Typer(
    name="isrr", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(clicks, name="clicks", rich_help_panel=PRODUCTION)
app.add_typer(data, name="data", rich_help_panel=CERTIFY)


def _version(wanted: bool) -> None:
    if wanted:
        import isrr

        typer.echo(f"isrr {isrr.__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    max_unpacked_gigabytes: float | None = typer.Option(
        None, help="Largest size that a gzipped input file may unpack to. By default 4."
    ),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Fairer exposure from any ranking model, with a guarantee on quality.

    Try `isrr demo`. With your own scores, but no labels:

    isrr start scored.parquet -p 'ndcg@5 >= 95% of deterministic'

    With judged queries:

    isrr calibrate judged.parquet -p 'ndcg@5 >= 95% of deterministic'

    Exit codes: 0 success, 1 the service could not start, 2 unusable input, 3 nothing certified, 4 a promise is broken
    or an alarm was raised, 130 Ctrl-C.
    """
    if max_unpacked_gigabytes is not None:
        from isrr.data.formats import allow_unpacked

        context.with_resource(allow_unpacked(max_unpacked_gigabytes))


def main() -> None:
    """Run the command line."""
    app()
