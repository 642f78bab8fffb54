"""Served-ranking logs with damaged lines: what a power cut, a full disk, an editor or a hostile visitor leaves."""

import json

import numpy as np

DEEP = '{"a":' * 10_000 + "1" + "}" * 10_000
WRONG = (  # in place of a value, as JSON
    "null", "true", "7", "-1", "0", "1.5", "1e400", "-1e300", "NaN", "9" * 5_000, str(2**63), str(2**63 - 1), '""',
    '"a\\u0000"', '"\\u0000a"', '"\\ud800"', '"treatment x"', '"treatment 99999999999999999999"', '"é"',
    "[]", "[null]", "[[]]", "[0, 0]", "[-1]", "[1e300]", '["a", "a"]', '["a\\u0000"]', '[["a\\u0000"]]', "{}",
    '"AAAAAAAA8D8="',
    '{"a": 1}', DEEP, "[" * 200_000,
)  # fmt: skip
WHOLE = (  # in place of a line
    b"", b" ", b"\r", b"\0" * 4_096, b"\xff\xfe{}", b"{}", b"[]", b"null", b" null", b"\xef\xbb\xbfnull", b"NaN", b"7",
    b'"', b"{", b"}" * 500, b'{"top":1}', b'{"list_id": "' + b"a" * 100_000, b"\x1f\x8b\x08\x00", DEEP.encode(),
    b"[" * 1_000_000,
)  # fmt: skip
PIECES = (b'"', b"\\", b"\0", b"{", b"}", b"[", b"]", b",", b":", b"\xff", b"\n", b"\\u0000", b"1e999", b"null", b"-")


def damaged(line: bytes, rng: np.random.Generator) -> bytes:
    """A line with some damage: another value, a field gone or twice, bytes changed, cut or added, or nothing left."""
    how = int(rng.integers(6))
    if how == 0:
        return WHOLE[rng.integers(len(WHOLE))]
    if how <= 3:
        fields = {name: json.dumps(value) for name, value in json.loads(line).items()}
        name = list(fields)[rng.integers(len(fields))]
        if how == 1:
            del fields[name]
        else:
            fields[name] = WRONG[rng.integers(len(WRONG))]
        pairs = [f'"{name}": {value}' for name, value in fields.items()]
        pairs += [pairs[rng.integers(len(pairs))]] * int(rng.integers(4) == 0)
        return f"{{{', '.join(pairs)}}}".encode()
    text = bytearray(line)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(text) + 1))
        if how == 4:
            text[at : at + int(rng.integers(2))] = PIECES[rng.integers(len(PIECES))]
        else:
            del text[at : at + int(rng.integers(1, 40))]
    return bytes(text)
