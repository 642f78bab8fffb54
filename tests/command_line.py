"""The command line in tests: in this process where that shows the same, otherwise in a process of its own."""

import contextlib
import subprocess
import sys

from typer.testing import CliRunner

ISRR = [sys.executable, "-m", "isrr"]
NO_PLACE = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []\n"  # for kernels on disk


def isrr(*arguments, cwd=None):
    """Run a command in this process, with the results that `subprocess.run` would have."""
    from isrr.cli.main import app

    command = [str(argument) for argument in arguments]
    with contextlib.chdir(cwd or "."):
        result = CliRunner().invoke(app, command, catch_exceptions=False)
    return subprocess.CompletedProcess(["isrr", *command], result.exit_code, result.stdout, result.stderr)


def run(*arguments, timeout=300, **options):
    """Run Python with these arguments, such as `"-m", "isrr", "show", file`, and an empty standard input."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, **options)


def start(*arguments):
    """Start Python with these arguments, in a session of its own."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
