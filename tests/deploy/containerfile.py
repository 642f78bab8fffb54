"""The steps of the Containerfile, run in a fresh folder in place of `/`: what an image would hold starts and serves.

It takes minutes, as it installs isrr and compiles the kernels, so the test suite leaves it out. Not tried: pulling the
base image (this machine's Python takes its place), making the user, and the port mapping.

python tests/deploy/containerfile.py FOLDER RANKER
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORT = 18_080


def steps():
    """Name and rest of each instruction."""
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    return [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]


def inside(text, root):
    """A command with its absolute folders below `root`."""
    return re.sub(r"(?<![\w/.])/(opt|rankers|served|build)", rf"{root}/\1", text)


def copy(sources, target, folder):
    for source in sources:
        where = folder / target / Path(source).name if len(sources) > 1 else folder / target
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, where)


def build(root):
    """Run the steps; `CMD` with what `ENTRYPOINT` puts before it."""
    folder, entry = root, []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name, rest in steps():
        print(name, rest, flush=True)
        if name == "WORKDIR":
            folder = Path(inside(rest, root))
            folder.mkdir()
        elif name == "COPY" and not rest.startswith("--from"):  # both stages are this folder
            *sources, target = rest.split()
            copy(sources, target, folder)
        elif name == "RUN" and not rest.startswith("useradd"):
            subprocess.run(inside(rest, root), shell=True, check=True, cwd=folder, env=environment)
        elif name == "ENTRYPOINT":
            entry = json.loads(inside(rest, root))
        elif name == "CMD":
            return [*entry, *json.loads(inside(rest, root))], environment
    raise AssertionError("there is no CMD")


def main(folder, ranker):
    root = Path(folder).resolve()
    root.mkdir()
    command, environment = build(root)
    (root / "rankers").mkdir()
    shutil.copy(ranker, root / "rankers" / "ranker.json")
    replaced = {"0.0.0.0": "127.0.0.1", "8080": str(PORT)}
    service = subprocess.Popen([replaced.get(each, each) for each in command], env=environment)
    try:
        started, body = time.monotonic(), b'{"query_id": "q", "items": [{"id": "a", "score": 1.0}]}'
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/rank", body) as answer:
                    print(f"served after {time.monotonic() - started:.1f} s: {answer.read().decode()}")
                    break
            except OSError:
                assert time.monotonic() < started + 60
                time.sleep(0.2)
    finally:
        service.terminate()
        assert service.wait(60) == 0
    assert [*(root / "served").glob("*.jsonl")]


if __name__ == "__main__":
    main(*sys.argv[1:])
