"""Bring the tables of docs/reproduction.md up to date with what `isrr reproduce` wrote.

    python -m benchmarks.reproduction_tables [out/reproduction]

A table stands in the docs between two comments, the first of which names its file, and a word whose rows stay out:

    <!-- table coverage.md without temperature -->
    <!-- end of table -->
"""

import re
import sys
from pathlib import Path

from isrr.files import write_atomically

DOCS = Path(__file__).parents[1] / "docs" / "reproduction.md"
TABLE = re.compile(
    r"(?P<begin><!-- table (?P<file>[\w.-]+)(?: without (?P<word>\w+))? -->\n).*?(?P<end><!-- end of table -->)", re.S
)


def filled(text: str, folder: Path) -> str:
    """The text with every table taken from its file in the folder; a table without a file stays as it is."""

    def table(found: re.Match[str]) -> str:
        file, word = folder / found["file"], found["word"]
        if not file.exists():
            print(f"{file}: is not there; its table stays as it is", file=sys.stderr)
            return found[0]
        lines = [line for line in file.read_text().splitlines() if line.startswith("|")]
        kept = [line for line in lines if word is None or word not in line]
        return "\n".join([found["begin"], *kept, "", found["end"]])

    return TABLE.sub(table, text)


if __name__ == "__main__":
    results = Path(sys.argv[1] if len(sys.argv) > 1 else "out/reproduction")
    write_atomically(DOCS, filled(DOCS.read_text(), results).encode())
