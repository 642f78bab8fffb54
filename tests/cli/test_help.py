"""Help, docs and messages agree: verbs, options and their values."""

import ast
import re
from inspect import unwrap
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from typer.main import get_command

import isrr as package
from command_line import isrr
from isrr.cli import options
from isrr.cli.main import app

SOURCE = Path(package.__file__).parent
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_SHOWN, MOST_VERBS = 20, 14
LIBRARY_ONLY = {"--sample"}


def commands(command, path=()):
    """Every command, by path."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))
    else:
        yield path, command


FUNCTIONS = [unwrap(command.callback) for _, command in commands(get_command(app))]
COMMANDS = {
    path: [parameter for parameter in command.params if parameter.opts[0].startswith("-")]
    for path, command in commands(get_command(app))
}
OPTIONS = {path: {"--help", *(name for p in parameters for name in p.opts)} for path, parameters in COMMANDS.items()}
EVERY_OPTION = set().union(*OPTIONS.values()) | {"--version", "--max-unpacked-gigabytes"}


def test_there_are_few_verbs_and_calibrate_shows_few_options():
    assert len({path[0] for path in COMMANDS}) <= MOST_VERBS
    shown = set(re.findall(r"--[a-z-]+", isrr("calibrate", "--help").stdout))
    assert {"--promise", "--confidence", "--sample", "--engine"} & shown
    assert len(shown) <= MOST_SHOWN


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_explains_every_option_and_shows_an_example(path):
    hidden = {name for parameter in COMMANDS[path] if parameter.hidden for name in parameter.opts}
    text = isrr(*path, "--help").stdout
    assert f"isrr {' '.join(path)} " in text.split("Arguments")[0].split("Options")[0].partition("Usage")[2]
    assert re.search(rf"^ isrr {' '.join(path)}\b", text, re.MULTILINE)
    assert all(name in text for name in OPTIONS[path] - hidden)
    assert not any(re.search(rf"{name} ", text) for name in hidden)
    everything = isrr(*path, "--help-all").stdout if hidden else text
    assert all(name in everything for name in OPTIONS[path])


def test_values_of_options_are_those_of_the_library():
    from isrr.calibration.request import PATHS
    from isrr.cli.comparison import Shape
    from isrr.clicks.impressions import Unit
    from isrr.data.columns import ROLES
    from isrr.data.formats import Format
    from isrr.data.groups import MissingGroup
    from isrr.data.ordering import Ties
    from isrr.data.tables import Duplicates, MissingScore
    from isrr.data.unjudged import Unjudged
    from isrr.gains import DISCOUNTS, EMPTY_VALUES, GAINS
    from isrr.outcome.findings import JUDGES
    from isrr.promises import Promise
    from isrr.risk.evidence import NAMED as EVIDENCE
    from isrr.risk.select import NAMED as SELECTIONS

    known = {"path": PATHS, "evidence": EVIDENCE, "selection": SELECTIONS, "gain": GAINS, "discount": DISCOUNTS}
    known |= {"empty_query": EMPTY_VALUES, "unjudged": get_args(Unjudged), "ties": get_args(Ties), "judged_by": JUDGES}
    known |= {"run_format": get_args(Format), "qrels_format": get_args(Format), "unit": get_args(Unit)}
    known |= {"missing_score": get_args(MissingScore), "duplicates": get_args(Duplicates)}
    known |= {"missing_group": get_args(MissingGroup), "engine": ("local", "spark")}
    known |= {"accept": ("proven", "approximate"), "shape": get_args(Shape)}
    choices = {}
    for command in FUNCTIONS:
        for name, kind in get_type_hints(command).items():
            for part in (kind, *get_args(kind)):
                if get_origin(part) is Literal:
                    choices[name] = get_args(part)
    assert choices == {name: tuple(values) for name, values in known.items()}
    for role, (_, names) in options.COLUMNS.items():
        assert ROLES[role]["usual"][: len(names)] == names
    for promise in (*options.PROMISES, *options.CLICKED):
        Promise.parse(promise)


def mentioned(text):
    """Commands in a text, as words: after a prompt, in code spans, in messages."""
    for command in re.findall(r"(?<![\w./-])isrr ((?:[a-z]+|--?[a-z]|\\\n)[^`\n#;|]*)", text):
        yield command.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_docs_name_commands_and_options_that_exist(page):
    text = page.read_text()
    code = re.findall(r"^\$ .*(?:\\\n.*)*", text, re.MULTILINE) + re.findall(r"`([^`\n]+)`", text)
    for words in (words for piece in code for words in mentioned(piece.replace("\\\n", " "))):
        refuse_unknown(words, page.name)
    paper = "paper" in page.parts or "isrr-paper" in text
    for option in re.findall(r"`(--[a-z-]+)", text):
        assert paper or option in EVERY_OPTION | {"--extra-index-url", "--no-deps"}, f"{page.name}: {option}"


def refuse_unknown(words, where):
    if words[0].startswith("-"):
        path, known = (), EVERY_OPTION
    else:
        path = next((path for path in COMMANDS if tuple(words[: len(path)]) == path), None)
        groups = {path[0] for path in COMMANDS if len(path) > 1}
        assert path or words[0] in groups, f"{where}: isrr {' '.join(words)}"
        known = OPTIONS[path] if path else EVERY_OPTION
    for word in words:
        if re.match(r"--?[a-z]", word):
            name = re.match(r"--?[a-z-]+", word)[0]
            assert name in known, f"{where}: isrr {' '.join(words)}: {name}"


def test_messages_name_commands_and_arguments_that_exist():
    verbs, known = {path[0] for path in COMMANDS}, EVERY_OPTION | LIBRARY_ONLY
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for words in mentioned(node.value):
                    if words[0].rstrip(",.:)'") in verbs:
                        refuse_unknown([word.rstrip(",.:)'\"") for word in words], file.name)
            raised = [node.exc] if isinstance(node, ast.Raise) and node.exc else []
            for text in (leaf.value for top in raised for leaf in ast.walk(top) if isinstance(leaf, ast.Constant)):
                for name in re.findall(r"`(\w+)=", text if isinstance(text, str) else ""):
                    assert f"--{name.removeprefix('n_').replace('_', '-')}" in known, f"{file.name}: `{name}=`"
                assert not re.search(r"(?<![`\w])[a-z_]+=[ ,;)]", str(text)), f"{file.name}: {text}"


@pytest.mark.parametrize(
    "command", [("calibrate", "j.csv"), ("plan", "j.csv"), ("plan",), ("demo", "-o", "j.csv")], ids=" ".join
)
@pytest.mark.parametrize("promise", ["ndcg@5 >= 0.7", "disparity@5 <= 0.2", "group_disparity@5 <= 0.2"])
def test_an_option_named_in_a_refusal_is_one_of_the_command_that_refuses(command, promise, tmp_path):
    """Of a table with neither scores nor groups."""
    (tmp_path / "j.csv").write_text("query_id,relevance\n1,0\n1,1\n2,0\n2,1\n")
    done = isrr(*command, "-p", promise, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert set(re.findall(r"--[a-z-]+", done.stderr)) <= OPTIONS[command[:1]], done.stderr
