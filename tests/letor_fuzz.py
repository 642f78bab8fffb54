"""Random and mutated LETOR text: the reader answers as the oracle does and refuses what it refuses.

python tests/letor_fuzz.py 1000000 [seed]    runs that many inputs through the in-memory entrance
"""

import sys
import time
from collections.abc import Iterator

import numpy as np

import letor_oracle
from isrr.data.letor import read_letor
from isrr.errors import DataError

SEEDS = [
    b"2 qid:10 1:0.031310 2:0.666667 46:0.076923 #docid = GX029-35-5894638 inc = 0.02\n",
    b"0 qid:a\t3:-1e-3 7:+.5\r\n1 qid:b 1:5. 2:12345678901234567890\n",
    b"4 qid:1 1:3 2:3.000 5:0\n0 qid:2 1:1\n1 qid:1 1:2",
    b"# a comment\n\n1 qid:x-9 9:1E5 10:0.1\n0 qid:x-9\n",
]
PIECES = [
    b" ", b"\n", b"\r\n", b"\t", b"#", b":", b"qid:", b"qid:7", b"0", b"-", b"+", b".", b"e", b"E-4", b"nan",
    b"inf", b"1:", b"2:3", b"100001:1", b"99999999999999999999:1", b"1e400", b"1e-400", b"\x00", b"\xff",
    b"9" * 25, b"0" * 15,
]  # fmt: skip


def inputs(count: int, seed: int) -> Iterator[bytes]:
    """A tenth random bytes; the rest real lines with bytes replaced, cut out, doubled, or pieces put in."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        if rng.random() < 0.1:
            yield rng.bytes(int(rng.integers(60)))
            continue
        text = bytearray(SEEDS[rng.integers(len(SEEDS))])
        for _ in range(rng.integers(4)):
            at, how = int(rng.integers(len(text) + 1)), rng.integers(4)
            if how == 0:
                text[at : at + 1] = rng.bytes(1)
            elif how == 1:
                del text[at : at + int(rng.integers(1, 20))]
            elif how == 2:
                text[at:at] = text[at : at + int(rng.integers(1, 20))]
            else:
                text[at:at] = PIECES[rng.integers(len(PIECES))]
        yield bytes(text)


def check(text: bytes) -> bool:
    """Hold the reader against the oracle; whether the text was parsed."""
    expected = letor_oracle.parse(text)
    queries = refusal = None
    try:
        queries = read_letor(text)
    except DataError as error:
        refusal = error
    assert (queries is None) == (expected is None), f"{text!r}: {refusal or 'parsed'}"
    if queries is None or expected is None:
        return False
    matrix = expected.matrix()
    if queries.features is None:
        assert matrix.shape[1] == 0, text
    else:
        np.testing.assert_array_equal(queries.in_caller_order(queries.features), matrix, err_msg=repr(text))
    assert queries.in_caller_order(queries.relevance).tolist() == expected.relevance, text
    ids = queries.in_caller_order(np.repeat(queries.query_ids, queries.n_items))
    assert [str(value) for value in ids] == expected.ids, text
    return True


if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    started, parsed, slowest = time.perf_counter(), 0, 0.0
    for text in inputs(count, seed):
        begun = time.perf_counter()
        parsed += check(text)
        slowest = max(slowest, time.perf_counter() - begun)
    took = time.perf_counter() - started
    print(f"{count:,} inputs, {parsed:,} parsed, the rest refused; {took:.0f} s, slowest {slowest:.3f} s")
