"""What all commands share when they speak: progress on a terminal and none in a pipe, panels, JSON, one line a refusal.

The library names its arguments as Python does, `confidence=`, in backquotes; a reader of the command line is told the
option of the same name, --confidence.
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
from typer.core import TyperGroup

from isrr.cli.interrupts import stop_if_interrupted
from isrr.errors import IsrrError

if TYPE_CHECKING:
    from isrr.outcome.certificate import Outcome
    from isrr.parallel import Progress as Callback

# Exit codes, one meaning each in all commands; docs/index.md lists them. 0 is done, 1 a service that could not start.
UNUSABLE, ABSTAINED, BROKEN, INTERRUPTED = 2, 3, 4, 130
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_ARGUMENT = re.compile(r"`(\w+)=(\w*)`")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    r"""Text whose control characters a terminal would obey, spelled out: names in data come from anywhere.

    Example:
        >>> printable("\x1b[2J gone?")
        '\\x1b[2J gone?'
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def say(text: str) -> None:
    """Print lines as they are: no markup, and no wrapping that would break a command meant to be copied."""
    out.print(printable(text), markup=False, soft_wrap=True)


def say_aside(text: str) -> None:
    """Print one line to stderr, so that what is piped on stays clean."""
    err.print(f"isrr: {printable(text)}", markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print one line of warning to stderr."""
    say_aside(f"warning: {text}")


def as_options(text: str) -> str:
    """A message with its Python arguments spelled as options.

    Example:
        >>> as_options("give `item_group=`, or `trust_edited=True`")
        'give --item-group, or --trust-edited'
    """

    def option(found: re.Match[str]) -> str:
        name, value = found[1].removeprefix("n_").replace("_", "-"), found[2]
        return f"--{name}" if value in ("", "True") else f"--{name} {value}"

    return _ARGUMENT.sub(option, text)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What a user can put right is one line and exit code 2; after Ctrl-C it is 130, and files are as they were."""
    try:
        yield
        sys.stdout.flush()
        stop_if_interrupted("interrupted, but it was done already")
    except KeyboardInterrupt as stop:
        _refuse(str(stop) or "interrupted; files are as they were", INTERRUPTED)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _refuse(_system_words(error), UNUSABLE)
    except (IsrrError, ValueError) as error:
        _refuse(as_options(str(error)), UNUSABLE)
    except MemoryError as error:
        _refuse(f"there is not enough memory: {error}", UNUSABLE)


class Commands(TyperGroup):
    """A group of commands; what one of them refuses is one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with one_line_errors():
            return super().invoke(ctx)


def _refuse(reason: str, code: int) -> None:
    say_aside(" ".join(reason.split()))
    raise typer.Exit(code) from None


def _system_words(error: OSError) -> str:
    """What the system said, with the file first; the standard output has no name, and is given up when it is full."""
    said = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fspath(error.filename)}: {said}"
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return f"the output cannot be written: {said}"
    return said


@contextmanager
def progress(what: str, then: str = "finishing") -> Iterator["Callback"]:
    """A progress bar on a terminal; in a pipe, nothing.

    A complete pass over the queries is followed by work that cannot be counted: a bar without an end, named after it,
    then stands in for the full one, and tells how long it has been at it instead of how long it will be.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    class Clock(TimeRemainingColumn):
        def render(self, task: Any) -> Any:
            return super().render(task) if task.total else TimeElapsedColumn.render(self, task)  # type: ignore[arg-type]

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), Clock())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        counted = bar.add_task(what, total=None, count="")
        uncounted = bar.add_task(then, total=None, visible=False, count="")

        def advance(done: int, total: int) -> None:
            if done < bar.tasks[counted].completed:  # a new pass, with its own pace
                bar.reset(counted)
            bar.update(counted, completed=done, total=total, visible=done < total, count=f"{done:,}/{total:,}")
            if done < total:
                bar.update(uncounted, visible=False)
            else:
                bar.reset(uncounted, total=None, visible=True)

        yield advance
    stop_if_interrupted()


def show_outcome(outcome: "Outcome", status: str | None = None) -> None:
    """Print an outcome as a panel, long lines wrapped behind their names; plain lines in a pipe."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    title, *lines = printable(as_options(str(outcome))).splitlines()
    if status is not None:
        lines.insert(0, f"status       {printable(status)}")
    if not out.is_terminal:
        say("\n".join([title, *lines]))
        return
    named = Table.grid(padding=(0, 1))
    for line in lines:
        named.add_row(Text(line[:12], no_wrap=True), Text(line[13:]))
    style = "yellow" if outcome.abstained else "green"
    out.print(Panel(named, title=Text(title), border_style=style, expand=False, title_align="left"))


def keep_outcome(outcome: "Outcome", out_file: Path, *, as_json: bool) -> None:
    """Write an outcome to its file and print it; exit code 3 for an abstention."""
    outcome.save(out_file)
    if as_json:
        show_json(outcome.document())
    else:
        show_outcome(outcome)
        say(f"written to {out_file}")
    if outcome.abstained:
        raise typer.Exit(ABSTAINED)


def show(text: str, document: Any, *, as_json: bool) -> None:
    """Print what was found: as text for people, or as JSON for machines."""
    if as_json:
        show_json(document)
    else:
        say(text)


def show_json(value: Any) -> None:
    """Print JSON for machines."""
    json.dump(value, sys.stdout, indent=1)
    sys.stdout.write("\n")
