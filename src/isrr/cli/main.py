"""The command line: one verb per job.

Exit codes: 0 done (a certificate), 2 input that cannot be used, 3 an abstention, 4 an alarm.
"""

import sys

import typer

from isrr.cli.calibration import calibrate, evaluate, plan, rank, show
from isrr.cli.data import app as data
from isrr.cli.demo import demo
from isrr.cli.reporting import report
from isrr.cli.reproduce import reproduce
from isrr.cli.scoring import score, train
from isrr.cli.serving import monitor, serve
from isrr.errors import IsrrError

app = typer.Typer(
    name="isrr",
    help="Stochastic ranking at inference time, with guarantees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (calibrate, demo, evaluate, monitor, plan, rank, report, reproduce, score, serve, show, train):
    app.command()(command)
app.add_typer(data, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        import isrr

        typer.echo(f"isrr {isrr.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Stochastic ranking at inference time, with guarantees."""


def main() -> None:
    """Run the command line; what isrr refuses becomes one line and exit code 2."""
    try:
        app()
    except (IsrrError, ValueError, OSError) as error:
        typer.echo(f"isrr: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("isrr: interrupted; files are as they were", err=True)
        sys.exit(130)
