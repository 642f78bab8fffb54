"""What a shell sees: completion, `isrr doctor`, options that keep their promises."""

import ast
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

import isrr
from command_line import NO_PLACE
from isrr.cli import console, kernels
from isrr.cli.main import app
from isrr.cli.options import CHOICES, COLUMNS, PROMISES
from isrr.errors import install_command
from isrr.metrics import ahead
from isrr.promises import Promise

SOURCE = Path(isrr.__file__).parent


def completed(line):
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    shell = {"_ISRR_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "from isrr.cli.main import main; import sys; sys.argv = ['isrr']; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **shell}, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("isrr cal", ["calibrate"]),
        ("isrr calibrate --rel", ["--relevance"]),
        ("isrr calibrate j.parquet --evidence hoeff", ["hoeffding_bentkus"]),
        ("isrr calibrate j.parquet -p 'ndcg", [promise for promise in PROMISES if promise.startswith("ndcg")]),
        ("isrr calibrate j.parquet -p ", [f"'{promise}'" for promise in PROMISES]),
        ("isrr calibrate j.parquet -p ndcg", [""]),
    ],
)
def test_bash_is_offered_commands_options_and_values(line, offered):
    assert completed(line) == offered


def test_what_is_offered_is_what_the_library_knows():
    from isrr.calibration.request import PATHS
    from isrr.clicks.impressions import Unit
    from isrr.data.columns import USUAL_NAMES
    from isrr.data.identifiers import MissingGroup
    from isrr.data.ordering import Ties
    from isrr.data.pair_files import Format
    from isrr.data.unjudged import Unjudged
    from isrr.gains import DISCOUNTS, EMPTY_VALUES, GAINS
    from isrr.outcome.findings import JUDGES
    from isrr.risk.evidence import NAMED as EVIDENCE
    from isrr.risk.select import NAMED as SELECTIONS

    known = {"path": PATHS, "evidence": tuple(EVIDENCE), "selection": tuple(SELECTIONS), "gain": tuple(GAINS)}
    known |= {"discount": tuple(DISCOUNTS), "empty_query": tuple(EMPTY_VALUES)}
    known |= {"unjudged": get_args(Unjudged), "ties": get_args(Ties), "format": get_args(Format)}
    known |= {"unit": get_args(Unit), "missing_group": get_args(MissingGroup)}
    known |= {"judged_by": tuple(JUDGES)}
    assert CHOICES == known
    assert {role: names for role, (_, names) in COLUMNS.items()} == {role: USUAL_NAMES[role] for role in COLUMNS}
    for promise in PROMISES:
        Promise.parse(promise)


def test_every_promise_that_start_suggests_is_one_that_it_can_keep():
    shown = " ".join(re.sub("[│╭╰─╮╯]", " ", CliRunner().invoke(app, ["start", "--help"]).stdout).split())
    suggested = [promise for promise in PROMISES if promise in shown]
    assert len(suggested) >= 3
    offered = [line.strip("'") for line in completed("isrr start s.parquet -p ")]
    for promise in [*suggested, *offered]:
        assert Promise.parse(promise).can_be_floored, promise


def options(command, path=()):
    """Every command, by path, with its options."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from options(inner, (*path, name))
    else:
        yield path, {option for parameter in command.params for option in parameter.opts}


def test_an_argument_named_in_a_message_is_an_option_of_some_command():
    known = {option for _, own in options(get_command(app)) for option in own}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            raised = [node.exc] if isinstance(node, ast.Raise) and node.exc else []
            for text in (leaf.value for top in raised for leaf in ast.walk(top) if isinstance(leaf, ast.Constant)):
                for name in re.findall(r"`(\w+)=", text if isinstance(text, str) else ""):
                    assert f"--{name.replace('_', '-')}" in known, f"{file.name}: `{name}=`"
                assert not re.search(r"(?<![`\w])[a-z_]+=[ ,;)]", str(text)), f"{file.name}: {text}"
    assert {f"--{role.replace('_', '-')}" for role in COLUMNS} <= known


@pytest.mark.parametrize(
    "asked",
    [[command, *data] for command, data in (("calibrate", ["j.csv"]), ("plan", ["j.csv"]), ("plan", []), ("demo", []))],
    ids=" ".join,
)
@pytest.mark.parametrize("promise", ["ndcg@5 >= 0.7", "disparity@5 <= 0.2", "group_disparity@5 <= 0.2"])
def test_an_option_named_in_a_refusal_is_one_of_the_command_that_refuses(asked, promise, tmp_path, monkeypatch):
    """Of a table with neither scores nor groups."""
    monkeypatch.chdir(tmp_path)
    Path("j.csv").write_text("query_id,relevance\n1,0\n1,1\n2,0\n2,1\n")
    done = CliRunner().invoke(app, [*asked, "-p", promise, *(["-o", "j.csv"] if asked == ["demo"] else [])])
    assert done.exit_code == 2, done.output
    named = set(re.findall(r"--[a-z-]+", done.stderr))
    assert named <= dict(options(get_command(app)))[(asked[0],)], done.stderr


def test_every_command_explains_every_option():
    for path, own in options(get_command(app)):
        shown = CliRunner().invoke(app, [*path, "--help"], terminal_width=200).output
        assert all(option in shown for option in own), path


def test_exit_codes_are_those_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "index.md").read_text()
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert told == {0, 1, console.UNUSABLE, console.ABSTAINED, console.BROKEN, console.INTERRUPTED}


def test_the_doctor_names_what_is_there_and_how_to_get_the_rest():
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert found["core"].keys() >= {"numba", "numpy", "pyarrow", "scipy", "typer"}
    assert None not in found["core"].values()
    assert {"demo", "report", "serve", "paper"} <= found["extras"].keys()
    said = CliRunner().invoke(app, ["doctor"]).stdout
    for extra, packages in found["extras"].items():
        assert (install_command(extra) in said) == (None in packages.values())


def test_where_nothing_can_be_cached_kernels_are_compiled_all_the_same():
    code = NO_PLACE + "import sys; sys.argv = ['isrr', 'doctor']; from isrr.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "set NUMBA_CACHE_DIR" in done.stdout, done.stderr


def test_kernels_that_cannot_be_kept_are_not_compiled_beforehand(monkeypatch):
    monkeypatch.setattr("isrr.cli.doctor._kernel_cache", lambda: None)
    done = CliRunner().invoke(app, ["doctor", "--compile"])
    assert done.exit_code == 2
    assert "compiled kernels cannot be kept: set NUMBA_CACHE_DIR" in done.stderr


def test_all_that_is_compiled_beforehand_runs(monkeypatch):
    """In this process, where an error is seen as it is."""
    seen = []
    monkeypatch.setattr(kernels, "_run", lambda code: exec(kernels.SETTING + code, {}))
    monkeypatch.setattr(kernels, "available_cores", lambda: 1)
    kernels.compile_all(lambda *done: seen.append(done))
    assert seen[-1] == (len(kernels.OTHERS),) * 2


def test_a_process_that_cannot_compile_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(kernels, "FIRST", "raise OSError('no space left')")
    done = CliRunner().invoke(app, ["doctor", "--compile"])
    assert done.exit_code == 2
    assert done.stderr == "isrr: the kernels could not be compiled: OSError: no space left\n"


def test_showing_help_loads_nothing_heavy():
    probe = "from isrr.cli.main import app; import sys; print([m for m in ('numpy', 'numba') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_bar_that_is_full_makes_room_for_what_goes_on(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(console, "err", terminal)
    for done, last in ((1, "calibrating"), (2, "certifying")):
        with console.progress("calibrating", "certifying") as advance:
            advance(done, 2)
        assert re.findall("calibrating|certifying", terminal.file.getvalue())[-1] == last


def test_the_time_left_is_told_anew_in_every_pass(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(console, "err", terminal)
    with console.progress("calibrating", "certifying") as advance:
        for done in (1, 2, 1):
            advance(done, 2)
    assert re.findall(r"1/2.*?(\d:\d\d:\d\d|-:--:--)", terminal.file.getvalue())[-1] == "-:--:--"


@pytest.mark.parametrize("watching", [True, False])
def test_a_person_who_is_watching_is_told_once_that_kernels_are_compiled(monkeypatch, capsys, watching):
    monkeypatch.setattr(ahead, "kernels_are_compiled", lambda: False)
    monkeypatch.setattr(ahead, "interactive", lambda: watching)
    monkeypatch.setattr(ahead, "CODE", "")
    monkeypatch.setattr(ahead, "_told", [])
    queries = isrr.Queries.from_arrays(scores=[1.0, 0.0], relevance=[1, 0], group=[2])
    for _ in range(2):
        isrr.evaluate(queries, [isrr.GPLRanker()])
    with pytest.raises(isrr.DataError):
        isrr.calibrate(Path("none.parquet"), "ndcg@5 >= 0.5")
    assert capsys.readouterr().err == (f"{ahead.NOTICE}\n" if watching else "")


def test_kernels_are_compiled_beside_a_first_command_once(monkeypatch):
    monkeypatch.setattr(ahead, "kernels_are_compiled", lambda: False)
    monkeypatch.setattr(ahead, "CODE", "pass")
    assert ahead.compile_beside()
    assert ahead.compile_beside()
    assert len(ahead._beside) == 1
    meanwhile = []
    ahead.await_kernels(lambda: meanwhile.append("compiled"))
    assert not ahead._beside
    ahead.await_kernels(lambda: meanwhile.append("compiled again"))
    assert meanwhile == ["compiled"]
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    assert ahead.compile_beside()
    assert not ahead._beside


def test_the_help_loads_nothing_that_computes_or_asks_the_installation():
    code = "import sys; sys.argv = ['isrr', '--help']; from isrr.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "isrr.cli.main" in loaded
    assert not {"numpy", "numba", "pyarrow", "pydantic", "importlib.metadata", "statistics", "secrets"} & {*loaded}


def test_a_command_ends_without_a_search_for_garbage():
    code = "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count() > 10_000))\n"
    code += "sys.argv = ['isrr', '--version']; from isrr.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
