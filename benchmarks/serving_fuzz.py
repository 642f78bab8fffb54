"""Ten thousand generated requests: documented codes only, never a 500, no worker dies.

Cases come from the OpenAPI document (schemathesis) and from mutations of good requests (below): wrong types, numbers at
the end of the range, duplicate ids, nesting, broken UTF-8, truncation, bytes flipped.

python -m benchmarks.serving_fuzz [CASES]
"""

import json
import random
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from benchmarks.serving import made_ranker, running, worker_ids

ITEMS = [{"id": f"i{n}", "score": 1.0 - n / 9} for n in range(6)]
GOOD = {
    "/rank": {"query_id": "q", "session": "s", "k": 3, "items": ITEMS, "page": 1, "page_size": 2, "seed": 7},
    "/rank/batch": {"queries": [{"query_id": "q", "items": ITEMS}] * 3},
    "/v2/rerank": {"model": "m", "query": "q", "top_n": 2, "documents": ITEMS, "session": "s"},
    "/rerank": {"query": "q", "texts": ["a", "b"], "scores": [1.0, 2.0], "return_text": True},
}
ODD = [
    None, True, -1, 0, 1.5, 10**30, -(10**400), 1e308, -1e308, 5e-324, "", "a" * 5_000, "\x00", "😀", [], {}, [[]],
    "NaN", "Infinity", {"id": 1}, [None] * 50, 2**63, -(2**63),
]  # fmt: skip
RAW = [b"NaN", b"Infinity", b"1e999", b"[" * 5_000, b'"\xff"', b'"\\ud800"', b"1" * 5_000, b"-", b"tru", b"\x00"]
DOCUMENTED = {200, 400, 401, 408, 413, 422, 502, 503, 504}


def mutated(body: object, rng: random.Random) -> bytes:
    """A good body with one thing wrong, or several."""
    tree = json.loads(json.dumps(body))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        parent, key, node = None, None, tree
        while isinstance(node, dict | list) and node and rng.random() < 0.8:
            parent, key = node, rng.choice([*node]) if isinstance(node, dict) else rng.randrange(len(node))
            node = parent[key]
        if parent is None:
            continue
        match rng.randrange(4):
            case 0:
                parent[key] = rng.choice(ODD)
            case 1:
                del parent[key]
            case 2 if isinstance(parent, list):
                parent.append(parent[key])
            case _:
                parent[key] = "@raw@"
    text = json.dumps(tree).encode().replace(b'"@raw@"', rng.choice(RAW))
    match rng.randrange(6):
        case 0:
            return text[: rng.randrange(len(text))]
        case 1:
            at = rng.randrange(len(text))
            return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
    return text


def code(url: str, body: bytes) -> int:
    """What a request is answered with."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        text = error.read()
        assert b"Traceback" not in text, text
        return error.code


def main(cases: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running(made_ranker(Path(folder))) as url:
        workers = worker_ids(url)
        rng, codes = random.Random(20230), Counter()
        for _ in range(cases // 2):
            path = rng.choice([*GOOD])
            body = mutated(GOOD[path], rng)
            codes[code(url + path, body)] += 1
            assert codes.keys() <= DOCUMENTED, (codes, path, body)
        for body in (
            b" " * (17 << 20),
            json.dumps({"query_id": 1, "items": [{"id": n, "score": n} for n in range(100_000)]}),
        ):
            codes[code(f"{url}/rank", body if isinstance(body, bytes) else body.encode())] += 1
        print(f"mutations: {dict(sorted(codes.items()))}", flush=True)
        checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/openapi.json", "--seed", "20230"]
        each = str(max(cases // 2 // len(GOOD), 1))
        ran = subprocess.run([*command, "-c", checks, "-n", each, "--phases", "examples,coverage,fuzzing"])
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            counted = [line for line in answer.read().decode().splitlines() if line.startswith("isrr_requests_total")]
        print("\n".join(counted))
        assert worker_ids(url) == workers, "a worker died"
        assert ran.returncode == 0, "schemathesis found something"
        assert not any('code="500"' in line for line in counted)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
