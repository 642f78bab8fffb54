"""MkDocs hook: `{{ names }}` stands for a table of the public names, each with the first line of its docstring."""

import inspect
import re
from pathlib import Path
from typing import Any

import isrr

PAGES = Path(__file__).parent


def pages_of_names() -> dict[str, str]:
    """Return the page that documents each name, such as `certify.md` for `isrr.calibrate`."""
    listed = {}
    for page in sorted(PAGES.glob("*.md")):
        listed |= dict.fromkeys(re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE), page.name)
    return listed


def summary(name: str) -> str:
    """Return the first line of a public name's docstring."""
    return (inspect.getdoc(getattr(isrr, name)) or "").partition("\n")[0]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the table in place; MkDocs calls this with each page."""
    pages = pages_of_names()
    rows = (f"| [`{name}`]({pages[f'isrr.{name}']}#isrr.{name}) | {summary(name)} |" for name in isrr.__all__)
    return markdown.replace("{{ names }}", "\n".join(["| name | |", "|---|---|", *rows]))
