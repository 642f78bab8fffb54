"""MkDocs hook: in the reference, `::: isrr.risk.*` stands for every public module of that package, sorted."""

import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"


def expanded(markdown: str) -> str:
    """The page with one line for each module."""

    def each(found: re.Match[str]) -> str:
        folder = SOURCE / found[1].replace(".", "/")
        files = sorted(folder.rglob("*.py"))
        names = [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]
        return "\n\n".join(f"::: {name}" for name in names if "._" not in name)

    return re.sub(r"^::: ([\w.]+)\.\*$", each, markdown, flags=re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What MkDocs calls with each page."""
    return expanded(markdown)
