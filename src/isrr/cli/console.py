"""What all commands share: progress on a terminal and none in a pipe, panels, JSON for machines."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from isrr.certificate import Abstention, Certificate
from isrr.parallel import Progress as Callback

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Print lines as they are: no markup, and no wrapping that would break a command meant to be copied."""
    out.print(text, markup=False, soft_wrap=True)


@contextmanager
def progress(what: str) -> Iterator[Callback]:
    """A progress bar on a terminal; in a pipe, nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_outcome(outcome: Certificate | Abstention) -> None:
    """Print an outcome as a panel; plain lines in a pipe."""
    title, _, body = str(outcome).partition("\n")
    if out.is_terminal:
        style = "yellow" if outcome.abstained else "green"
        out.print(Panel(body, title=title, border_style=style, expand=False, title_align="left"), markup=False)
    else:
        print(f"{title}\n{body}")


def show_json(value: Any) -> None:
    """Print JSON for machines."""
    json.dump(value, sys.stdout, indent=1)
    sys.stdout.write("\n")
