"""TREC text is read as an obvious reader would, whatever is in it."""

import numpy as np
import pyarrow as pa
import pytest

import run_fuzz
from isrr.data.trec import trec_table
from isrr.errors import DataError


def parsed(text, what, name="text"):
    table = trec_table(pa.py_buffer(text), what, name)
    return table.read(table.columns, table.columns[:2])


@pytest.mark.parametrize("what", ["run", "qrels"])
def test_fuzzed_lines_are_read_or_refused_by_line(what):
    outcomes = [run_fuzz.check(text, what) for text in run_fuzz.texts(what, 8_000, seed=20230)]
    assert 0.2 < np.mean(outcomes) < 0.9


def test_scores_are_read_to_the_last_bit():
    rng = np.random.default_rng(20230)
    floats = np.concatenate([rng.normal(size=2000), 10.0 ** rng.uniform(-40, 40, 2000), rng.integers(0, 10**15, 2000)])
    for write in (repr, "{:.17g}".format, "{:.6f}".format, "{:.25e}".format):
        words = [write(float(value)) for value in floats]
        text = "".join(f"q Q0 d{row} 1 {word} t\n" for row, word in enumerate(words)).encode()
        values = parsed(text, "run")["score"]
        assert values.to_pylist() == [float(word) for word in words]


def test_a_byte_order_mark_is_no_part_of_the_first_query():
    assert parsed(b"\xef\xbb\xbfq 0 a 1\nq 0 b 2\n", "qrels")["query"].to_pylist() == ["q", "q"]


@pytest.mark.parametrize(
    ("text", "what", "said"),
    [
        (b"q Q0 a 1 2.5", "run", "f:1: 5 fields; expected `query Q0 item rank score tag`"),
        (b"q 0 a 1\n", "run", r"f:1: 4 fields \(this looks like qrels\)"),
        (b"q Q0 a 1 2.5 t\n", "qrels", r"f:1: 6 fields \(this looks like a run\)"),
        (b"q Q0 a 1 2.5 t\n\nq Q0 b 2 high t\n", "run", "f:3: the score is 'high'; expected a number"),
        (b"q 0 a nan\n", "qrels", "f:1: the grade is 'nan'"),
        (b"q 0 \xff 1\n", "qrels", "f:1: the id b'q' or b'.xff' is not UTF-8"),
        (b" \n\n", "qrels", "f: no rows"),
    ],
)
def test_a_bad_line_is_named(text, what, said):
    with pytest.raises(DataError, match=said):
        parsed(text, what, "f")
