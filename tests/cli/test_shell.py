"""What a shell sees: completion, `isrr doctor`, progress bars, and how little is loaded."""

import io
import json
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from command_line import NO_PLACE, isrr, run
from isrr.cli import console, kernels
from isrr.cli.options import PROMISES
from isrr.errors import install_command
from isrr.promises import Promise


def completed(line):
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    shell = {"_ISRR_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "from isrr.cli.main import main; import sys; sys.argv = ['isrr']; main()"
    return run("-c", code, env={**os.environ, **shell}).stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("isrr cal", ["calibrate"]),
        ("isrr clicks r", ["rollout"]),
        ("isrr calibrate --rel", ["--relevance"]),
        ("isrr calibrate j.parquet --evidence hoeff", ["hoeffding_bentkus"]),
        ("isrr calibrate j.parquet -p 'ndcg", [promise for promise in PROMISES if promise.startswith("ndcg")]),
        ("isrr calibrate j.parquet -p ", [f"'{promise}'" for promise in PROMISES]),
        ("isrr calibrate j.parquet -p ndcg", [""]),
    ],
)
def test_bash_is_offered_commands_options_and_values(line, offered):
    assert completed(line) == offered


def test_every_promise_that_start_suggests_is_one_that_it_can_keep():
    text = " ".join(re.sub("[│╭╰─╮╯]", " ", isrr("start", "--help").stdout).split())
    suggested = [promise for promise in PROMISES if promise in text]
    assert len(suggested) >= 3
    for promise in [*suggested, *(line.strip("'") for line in completed("isrr start s.parquet -p "))]:
        assert Promise.parse(promise).can_be_floored, promise


def test_exit_codes_are_those_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "index.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert codes == {0, 1, console.UNUSABLE, console.ABSTAINED, console.BROKEN, console.INTERRUPTED}


def test_the_doctor_names_what_is_there_and_how_to_get_the_rest():
    facts = json.loads(isrr("doctor", "--json").stdout)
    assert facts["core"].keys() >= {"numba", "numpy", "pyarrow", "scipy", "typer"}
    assert None not in facts["core"].values()
    assert {"demo", "report", "serve", "paper"} <= facts["extras"].keys()
    text = isrr("doctor").stdout
    for extra, packages in facts["extras"].items():
        assert (install_command(extra) in text) == (None in packages.values())


def test_kernels_that_cannot_be_kept_are_compiled_in_every_process_but_not_beforehand():
    code = NO_PLACE + "import sys; sys.argv = ['isrr', 'doctor', *sys.argv[1:]]; from isrr.cli.main import main; main()"
    assert "set NUMBA_CACHE_DIR" in run("-c", code).stdout
    done = run("-c", code, "--compile")
    assert done.returncode == 2
    assert "compiled kernels cannot be kept: set NUMBA_CACHE_DIR" in done.stderr


def test_all_kernels_can_be_compiled_beforehand():
    kernels.compile_all()


def test_a_full_bar_gives_way_to_what_follows_and_a_new_pass_starts_anew(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(console, "err", terminal)
    for done, last in ((1, "calibrating"), (2, "certifying"), (1, "calibrating")):
        with console.progress("calibrating", "certifying") as advance:
            advance(done, 2)
        assert re.findall("calibrating|certifying", terminal.file.getvalue())[-1] == last
    with console.progress("calibrating") as advance:
        for done in (3, 4, 1):
            advance(done, 5)
    assert re.findall(r"\d:\d\d:\d\d|-:--:--", terminal.file.getvalue())[-1] == "-:--:--"


@pytest.mark.parametrize(
    ("verb", "heavy"), [([], {"pydantic", "importlib.metadata", "statistics"}), (["calibrate"], set())]
)
def test_showing_help_loads_nothing_that_computes(verb, heavy):
    code = f"import sys; sys.argv = {['isrr', *verb, '--help']}; from isrr.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: print(*sys.modules)"
    loaded = run("-c", code).stdout.splitlines()[-1].split()
    assert "isrr.cli.main" in loaded
    assert not {"numpy", "numba", "pyarrow", "scipy", *heavy} & {*loaded}
