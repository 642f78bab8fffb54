"""The path of one command stays short: from a table to the file of its certificate."""

import inspect
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import isrr
from golden_certificates import demo
from isrr.cli.main import app

SOURCE = str(Path(isrr.__file__).parent)
MOST_FUNCTIONS, DEEPEST = 300, 20  # the aim is 260


def calls_of(run):
    """The distinct functions of isrr that a call runs, by file and name, and how deep they call one another."""
    seen, deepest = set(), 0

    def count(frame, event, _):
        nonlocal deepest
        code = frame.f_code
        named = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")  # no class, no lambda
        if event == "call" and named and code.co_filename.startswith(SOURCE):
            seen.add((frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_qualname))
            depth, caller = 0, frame
            while caller is not None:
                depth += caller.f_code.co_filename.startswith(SOURCE)
                caller = caller.f_back
            deepest = max(deepest, depth)

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen, deepest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with judged queries, in which commands are run."""
    queries = demo()[0]
    isrr.write_queries(queries, tmp_path / "judged.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_certificate_takes_few_functions_and_a_shallow_stack(folder):
    arguments = ["calibrate", "judged.parquet", "-p", "ndcg@5 >= 90% of deterministic"]
    CliRunner().invoke(app, arguments)  # kernels are compiled, if they are not yet
    seen, deepest = calls_of(lambda: CliRunner().invoke(app, arguments, catch_exceptions=False))
    assert (folder / "ranker.json").exists()
    assert len(seen) <= MOST_FUNCTIONS, sorted(seen)
    assert deepest <= DEEPEST
