"""Tables from rows: Markdown, CSV and LaTeX. They format what is handed to them and compute nothing.

A row maps column names to text or numbers; the columns are those of the first row.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isrr.files import write_atomically

Row = Mapping[str, Any]
_LATEX = str.maketrans({
    "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "α": r"$\alpha$", "δ": r"$\delta$", "ζ": r"$\zeta$",
    "−": "$-$", "–": "--", "≥": r"$\ge$", "≤": r"$\le$", "±": r"$\pm$", "×": r"$\times$",
})  # fmt: skip


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table.

    Example:
        >>> print(markdown([{"scorer": "NN", "NDCG@5": 0.6731}]), end="")
        | scorer | NDCG@5 |
        |---|---|
        | NN | 0.673 |
    """
    header, *body = _texts(rows)
    lines = [_line(header), "|" + "---|" * len(header), *map(_line, body)]
    return "\n".join(lines) + "\n"


def csv_text(rows: Sequence[Row]) -> str:
    """Comma-separated values, numbers to their last digit."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def latex(rows: Sequence[Row]) -> str:
    """A LaTeX tabular, special characters escaped."""
    header, *body = [" & ".join(cell.translate(_LATEX) for cell in cells) + r" \\" for cells in _texts(rows)]
    inside = "\n".join([r"\hline", header, r"\hline", *body, r"\hline"])
    return f"\\begin{{tabular}}{{{'l' * len(rows[0])}}}\n{inside}\n\\end{{tabular}}\n"


def write_tables(rows: Sequence[Row], stem: Path, note: str = "") -> list[Path]:
    """Write all three beside each other, the note under the Markdown one; the files written."""
    texts = {".md": markdown(rows) + (f"\n{note}\n" if note else ""), ".csv": csv_text(rows), ".tex": latex(rows)}
    for suffix, text in texts.items():
        write_atomically(stem.with_suffix(suffix), text.encode())
    return [stem.with_suffix(suffix) for suffix in texts]


def _texts(rows: Sequence[Row]) -> list[list[str]]:
    return [list(rows[0]), *([_text(row.get(name, "")) for name in rows[0]] for row in rows)]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}"
    return str(value)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
