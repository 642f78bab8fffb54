"""Random and mutated TREC text: the reader answers as an obvious one does, or refuses with the file and the line.

python tests/run_fuzz.py 200000 [seed]    runs that many lines through the in-memory entrance
"""

import re
import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from isrr.data.trec import FIELDS, trec_table
from isrr.errors import DataError

SEEDS = {
    "run": [b"q1 Q0 doc7 1 12.5 bm25", b"q1\tQ0\tdoc8\t2\t1.2345678901234567\tt", b"7 Q0 GX-1 3 -3e-5 t\r", b""],
    "qrels": [b"q1 0 doc7 2", b"q1\t0\tdoc8\t-1", b"7 Q0 \xc3\xa9 0.5", b"  7 0 d 1  "],
}
PIECES = [
    b" ", b"\t", b"\r", b"+", b"-", b".", b"e", b"E+5", b"e-400", b"nan", b"inf", b"0x1", b"1_0", b"\x00", b"\xff",
    b"\xc3", b"9" * 25, b"0" * 30, b"#", b'"', b",", b"1e400", b"\x0b", b"\x85", b"\xe2\x80\xa8",
]  # fmt: skip
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def texts(what: str, n_lines: int, seed: int) -> Iterator[bytes]:
    """Texts of up to four lines, most of them changed in a few places."""
    rng, made = np.random.default_rng(seed), 0
    while made < n_lines:
        lines = []
        for _ in range(rng.integers(1, 5)):
            line = bytearray(SEEDS[what][rng.integers(len(SEEDS[what]))])
            for _ in range(max(0, rng.integers(-2, 3))):
                at, how = int(rng.integers(len(line) + 1)), rng.integers(4)
                if how == 0:
                    line[at : at + 1] = rng.bytes(1)
                elif how == 1:
                    del line[at : at + int(rng.integers(1, 6))]
                elif how == 2:
                    line[at:at] = line[at : at + int(rng.integers(1, 6))]
                else:
                    line[at:at] = PIECES[rng.integers(len(PIECES))]
            lines.append(bytes(line))
        made += len(lines)
        yield b"\n".join(lines) + (b"\n" if rng.random() < 0.5 else b"")


def obvious(text: bytes, what: str) -> list[tuple[str, str, float]] | int:
    """The pairs of a text, or the first line that is at fault."""
    n_fields, found, unreadable = len(FIELDS[what]), [], 0
    for number, line in enumerate(text.split(b"\n"), 1):
        fields = re.split(rb"[ \t\r]+", line.strip(b" \t\r"))
        if fields == [b""]:
            continue
        if len(fields) != n_fields or not NUMBER.fullmatch(fields[3 if what == "qrels" else 4]):
            return number
        try:
            query, item = fields[0].decode(), fields[2].decode()
        except UnicodeDecodeError:
            query = item = "\0"
        unreadable = unreadable or (number if "\0" in query + item else 0)
        found.append((query, item, float(fields[3 if what == "qrels" else 4])))
    return unreadable or found


def check(text: bytes, what: str) -> bool:
    """Hold the reader against the obvious one; whether the text was read."""
    expected, pairs, refusal = obvious(text, what), None, ""
    try:
        table = trec_table(pa.py_buffer(text), what, "f.txt")
        pairs = table.read(table.columns, [])
    except DataError as error:
        refusal = str(error)
    if pairs is None:
        line = "" if expected == [] else f":{expected}"
        told = refusal.startswith(f"f.txt{line}: ")
        assert told or (isinstance(expected, int) and "not UTF-8" in refusal), (text, refusal)
        return False
    read = list(zip(*(column.to_pylist() for column in pairs.columns), strict=True))
    assert read == expected, (text, read, expected)
    return True


if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    started = time.perf_counter()
    outcomes = [check(text, what) for what in SEEDS for text in texts(what, count // 2, seed)]
    took = time.perf_counter() - started
    print(f"{count:,} lines in {len(outcomes):,} texts, {sum(outcomes):,} read, the rest refused; {took:.0f} s")
