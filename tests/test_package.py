"""The package as it is shipped: built from its own source archive, alone with what it says it needs."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EVALUATED = """
import hashlib, numpy as np, isrr

rng = np.random.default_rng(1)
queries = isrr.Queries.from_arrays(scores=rng.normal(size=900), relevance=rng.integers(0, 4, 900), group=[30] * 30)
grid = [isrr.GPLRanker(temperature=t, threshold=c) for t in (0.1, 1.0) for c in (0.0, 0.02)]
found = isrr.evaluate(queries, grid)
print(hashlib.sha256(found["ndcg"].tobytes() + found["disparity"].tobytes()).hexdigest())
"""


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def requirements(package, seen):
    """The packages that one needs without its extras, and all that those need."""
    for requirement in importlib.metadata.requires(package) or []:
        name, _, condition = requirement.partition(";")
        name = re.match(r"[\w.-]+", name)[0]
        present = "extra" not in condition and "platform_system" not in condition and "python_version" not in condition
        if present and name not in seen:
            seen.add(name)
            requirements(name, seen)
    return seen


def lend(package, folder):
    """Put an installed package into another environment, by links."""
    distribution = importlib.metadata.distribution(package)
    for top in {file.parts[0] for file in distribution.files if file.parts[0] not in ("..", "__pycache__")}:
        if not (folder / top).exists():
            (folder / top).symlink_to(distribution.locate_file(top).resolve())


def test_the_wheel_from_the_source_archive_passes_the_demo_with_its_requirements_alone(tmp_path):
    backend = (sys.executable, "-m", "hatchling", "build", "-d", tmp_path)
    run(*backend, "-t", "sdist", cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    run(*backend, "-t", "wheel", cwd=tmp_path / archive.name.removesuffix(".tar.gz"))
    (wheel,) = tmp_path.glob("*.whl")

    empty = tmp_path / "empty"
    venv.create(empty)
    (packages,) = (empty / "lib").glob("python*/site-packages")
    for name in requirements("isrr", set()):
        lend(name, packages)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = empty / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, env=alone)

    isrr = empty / "bin" / "isrr"
    assert run(isrr, "--version", env=alone).startswith("isrr 0.")
    assert "pip install 'isrr[serve]'" in run(isrr, "doctor", env=alone)
    train = [empty / "bin" / "isrr-paper", "train", "a.csv", "-o", "model"]
    for command, extra in (([isrr, "demo"], "demo"), (train, "paper")):
        done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True)
        assert done.stderr == f"isrr: lightgbm is not installed: pip install 'isrr[{extra}]'\n"
    rows = "".join(f"{row // 5},{row * 37 % 11},{row % 3}\n" for row in range(500))
    (tmp_path / "judged.csv").write_text("query_id,score,relevance\n" + rows)
    promise = "ndcg@5 >= 10% of deterministic"
    assert "Certificate " in run(isrr, "calibrate", "judged.csv", "-p", promise, cwd=tmp_path, env=alone)
    probe = "import isrr, pathlib; print(pathlib.Path(isrr.__file__).is_relative_to(__import__('sys').prefix))"
    assert run(python, "-c", probe, cwd=tmp_path, env=alone) == "True\n"
    assert run(python, "-c", EVALUATED, cwd=tmp_path, env=alone) == run(sys.executable, "-c", EVALUATED)
