"""Output of the commands: text, JSON, progress bars, and one line per error.

The library names its arguments in backquotes, `confidence=`; the command line prints the option instead, --confidence.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from isrr.cli.interrupts import stop_if_interrupted
from isrr.errors import IsrrError

if TYPE_CHECKING:
    from isrr.outcome.certificate import Outcome
    from isrr.parallel import Progress as Callback

# Exit codes, the same in all commands; docs/index.md lists them. 0 is success, 1 a service that could not start.
UNUSABLE, ABSTAINED, BROKEN, INTERRUPTED = 2, 3, 4, 130
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_ARGUMENT = re.compile(r"`(\w+)=(\w*)`")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    r"""Return text with its control characters spelled out: names in data come from anywhere.

    Example:
        >>> printable("\x1b[2J gone?")
        '\\x1b[2J gone?'
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def say(text: str) -> None:
    """Print lines as they are: no markup, and no wrapping that would break a command meant to be copied."""
    out.print(printable(text), markup=False, soft_wrap=True)


def say_aside(text: str) -> None:
    """Print one line to stderr, so that stdout can be piped."""
    err.print(f"isrr: {printable(text)}", markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print one line of warning to stderr, with Python's arguments spelled as options."""
    say_aside(f"warning: {as_options(text)}")


def as_options(text: str) -> str:
    """Return a message with its Python arguments spelled as options.

    Example:
        >>> as_options("give `item_group=`, or `trust_edited=True`")
        'give --item-group, or --trust-edited'
    """

    def option(match: re.Match[str]) -> str:
        name = "--" + match[1].removeprefix("n_").replace("_", "-")
        return name if match[2] in ("", "True") else f"{name} {match[2]}"

    return _ARGUMENT.sub(option, text)


class Commands(TyperGroup):
    """A group of commands whose errors are one line; exit code 2 for what a user can fix, 130 after Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            stop_if_interrupted("interrupted after the work was done")
            return result
        except KeyboardInterrupt as stop:
            _refuse(str(stop) or "interrupted; files are as they were", INTERRUPTED)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            _refuse(_system_error(error))
        except (IsrrError, ValueError) as error:
            _refuse(as_options(str(error)))
        except MemoryError as error:
            _refuse(f"there is not enough memory: {error}")


def _refuse(reason: str, code: int = UNUSABLE) -> None:
    say_aside(" ".join(reason.split()))
    raise typer.Exit(code) from None


def _system_error(error: OSError) -> str:
    """Return the system's message after the name of the file; give up a standard output that is full."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fspath(error.filename)}: {reason}"
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return f"the output cannot be written: {reason}"
    return reason


@contextmanager
def progress(what: str, then: str = "finishing") -> Iterator["Callback"]:
    """Show a progress bar on a terminal, and nothing in a pipe; `then` names the work after a complete pass."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def advance(done: int, total: int) -> None:
            if done >= total:
                bar.reset(task, description=then, total=None)
                return
            if done < bar.tasks[task].completed:  # a new pass, with its own pace
                bar.reset(task)
            bar.update(task, description=what, completed=done, total=total)

        yield advance
    stop_if_interrupted()


def show_outcome(outcome: "Outcome", status: str | None = None, *, verbose: bool = False) -> None:
    """Print an outcome as a panel, long lines wrapped behind their names; plain lines in a pipe."""
    from rich.panel import Panel
    from rich.table import Table

    from isrr.outcome.text import written

    rows = [] if status is None else [("status", status)]
    rows += [(label, as_options(text)) for label, text in outcome.rows(verbose)]
    if not out.is_terminal:
        say("\n".join([outcome.title, *written(rows)]))
        return
    table = Table.grid(padding=(0, 1))
    for label, text in rows:
        table.add_row(label, Text(printable(text)))
    style = "yellow" if outcome.abstained else "green"
    out.print(Panel(table, title=Text(outcome.title), border_style=style, expand=False, title_align="left"))


def save_outcome(outcome: "Outcome", out_file: Path, *, as_json: bool, verbose: bool) -> None:
    """Write an outcome to its file and print it; exit code 3 for an abstention."""
    outcome.save(out_file)
    if as_json:
        show_json(outcome.document())
    else:
        show_outcome(outcome, verbose=verbose)
        say(f"written to {out_file}")
    if outcome.abstained:
        raise typer.Exit(ABSTAINED)


def show(text: str, document: Any, *, as_json: bool) -> None:
    """Print a result as text for people, or as JSON for machines."""
    if as_json:
        show_json(document)
    else:
        say(text)


def show_json(value: Any) -> None:
    """Print JSON."""
    json.dump(value, sys.stdout, indent=1)
    sys.stdout.write("\n")
