"""The examples of a Markdown page, and running them in order: Python in one namespace, commands as a reader types them.

A block that cannot run says why, in a comment right above its fence:

    <!-- not run: needs MSLR-WEB30K -->

In ```console blocks each line that begins with `$` is a command; the lines below it, if any, are what it prints, `…`
standing for anything. A ```text block right below a ```python block is what that block prints.
"""

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from unittest.mock import patch

from isrr.cli.main import main
from isrr_paper.cli import main as paper
from serving import Server

ROOT = Path(__file__).parents[1]
LANGUAGES = {"console", "json", "python", "text"}
OURS = {"isrr": main, "isrr-paper": paper}
NOT_OURS = {"cd", "git", "kill", "make", "pip", "podman", "pre-commit", "python", "python3", "source"}
REFUSED, ABSTAINED, ALARM = 2, 3, 4
_FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>.+?) -->\n+)?^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, why it is not run, and what is expected on standard output."""

    language: str
    body: str
    reason: str | None
    printed: str | None
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    found = list(_FENCE.finditer(text))
    listed = []
    for here, after in zip_longest(found, found[1:]):
        follows = after is not None and not text[here.end() : after.start()].strip() and after["language"] == "text"
        printed = after["body"] if here["language"] == "python" and follows else None
        line = text[: here.start("body")].count("\n")
        listed.append(Block(here["language"], here["body"], here["reason"], printed, line))
    return listed


def run(page: Path) -> None:
    """Run a page's examples in the current folder; an assertion names the line that failed."""
    with contextlib.ExitStack() as stack:
        session = _Session(stack)
        for block in blocks(page):
            if block.reason is None and block.language in ("python", "console"):
                where = f"{page.name}:{block.line}"
                (session.python if block.language == "python" else session.console)(block, where)


class _Session:
    """What lasts from one block of a page to the next: names, and a service."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.stack = stack
        self.names = {"__name__": "__main__"}
        self.server = None

    def python(self, block: Block, where: str) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(self._reachable(block.body), where, "exec"), self.names)
        if block.printed is not None:
            assert matches(block.printed, out.getvalue()), f"{where} prints\n{out.getvalue()}"

    def console(self, block: Block, where: str) -> None:
        for command, printed in commands(block.body):
            words = shlex.split(command, comments=True)
            if words[0] == "python" and words[1].startswith("examples/"):
                runpy.run_path(str(ROOT / words[1]), run_name="__main__")
                continue
            if words[0] in NOT_OURS:
                continue
            assert words[0] in (*OURS, "curl"), f"{where}: {words[0]} is no command of ours"
            if words[:2] == ["isrr", "serve"]:
                self._serve(words[2:])
                continue
            words = [self._reachable(word) for word in words]
            code, out = in_process(words) if words[0] in OURS else _other(words)
            good = (0, REFUSED, ABSTAINED, ALARM) if printed else (0,)  # what is refused is shown to be
            assert code in good, f"{where}: {command}\n{out}"
            assert matches(printed, out), f"{where}: {command} prints\n{out}"

    def _serve(self, arguments: list[str]) -> None:
        """The service with the options that are shown, on a port that is free."""
        if self.server is not None:
            self.server.stop()
        if "--port" in arguments:
            position = arguments.index("--port")
            arguments = arguments[:position] + arguments[position + 2 :]
        self.server = Server(*arguments)
        self.stack.callback(self.server.stop)

    def _reachable(self, text: str) -> str:
        return text if self.server is None else text.replace("localhost:8080", f"127.0.0.1:{self.server.port}")


def in_process(words: list[str]) -> tuple[int, str]:
    """The command line in this process: exit code, and what is printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), patch.object(sys, "argv", words):
        try:
            OURS[words[0]]()
        except SystemExit as end:
            return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def _other(words: list[str]) -> tuple[int, str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def commands(body: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the lines printed below it; a trailing backslash goes on."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output before the first command: {parts[0]}"
    listed = []
    for part in parts[1:]:
        joined = part.replace("\\\n", " ")
        command, _, printed = joined.partition("\n")
        while _open(command) and printed:
            more, _, printed = printed.partition("\n")
            command += "\n" + more
        listed.append((command, printed.strip()))
    return listed


def _open(command: str) -> bool:
    """Whether a quoted argument goes on in the next line."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def matches(expected: str, found: str) -> bool:
    """Whether each expected line is printed, in order; `…` stands for anything."""
    lines = iter(found.splitlines())
    patterns = [".*".join(map(re.escape, re.split(r"\s*…\s*", line.strip()))) for line in expected.splitlines()]
    return all(any(re.fullmatch(pattern, line.strip()) for line in lines) for pattern in patterns if pattern)
