"""Kernels are kept for later processes, or compiled in each one where they cannot be."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import isrr
from isrr.ranker import simd

SOURCE = Path(isrr.__file__).parent
ONE_LIST = """
from isrr import GPLRanker
print(GPLRanker().rank([0.3, 2.0, 1.1], query_id="q7", session="u42", k=3))
"""
TWIN = """
import platform
platform.machine = lambda: "unheard of"
from isrr.ranker import simd
assert simd.WIDTH == 1
"""
NUMBERS = """
import numpy as np
from isrr import GPLRanker, Queries, evaluate
from isrr.risk import betting

rng = np.random.default_rng(20230)
queries = Queries.from_arrays(
    scores=rng.normal(scale=2, size=36), relevance=np.tile([1, 0, 0, 2], 9), group=[12, 1, 3, 20]
)
numbers = [
    GPLRanker(k=k, temperature=t, floor=0.5).exposure(queries) for k in (3, 5, 8) for t in (0.02, 0.4, 3.0)
]
numbers += [evaluate(queries, [GPLRanker(k=k, floor=0.5)], ["rr"])["rr"].ravel() for k in (3, 8)]
losses = rng.beta(2, 5, (60, 11))
numbers += [betting.upper_bound(losses, 0.1), np.log(betting.pvalue(losses, 0.35))]
print(*np.concatenate(numbers).tolist())
"""


def run(code, **environment):
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_later_process_compiles_nothing(tmp_path):
    code = ONE_LIST + "from isrr.ranker.kernels import rank_one; print(sum(rank_one.stats.cache_misses.values()))"
    counted = [run(code, NUMBA_CACHE_DIR=str(tmp_path)).split()[-1] for _ in range(2)]
    assert counted == ["1", "0"]


def test_a_read_only_installation_without_a_home_compiles_in_every_process_and_says_so():
    """As in a container: nothing can be written beside the package, and there is no home."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCE, Path(folder, "isrr"), ignore=shutil.ignore_patterns("__pycache__"))
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        alone = {"PATH": os.environ["PATH"], "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nowhere"}
        if os.geteuid() == 0:  # who may write everywhere: numba is told to look nowhere
            alone["NUMBA_CACHE_LOCATOR_CLASSES"] = "UserProvidedCacheLocator"
        command = [sys.executable, "-c", ONE_LIST]
        done = subprocess.run(command, capture_output=True, text=True, env=alone, cwd="/")
        for path in Path(folder).rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
    assert done.stdout == "[1 0 2]\n", done.stderr
    assert done.stderr.count("\n") == 1
    assert "set NUMBA_CACHE_DIR to a writable folder" in done.stderr


@pytest.mark.parametrize("way", ["another processor", "NUMBA_DISABLE_JIT"])
def test_the_plain_twin_agrees_to_a_billionth(tmp_path, way):
    interpreted = {"NUMBA_DISABLE_JIT": "1"} if way == "NUMBA_DISABLE_JIT" else {"NUMBA_CACHE_DIR": str(tmp_path)}
    twin = np.array(run(("" if way == "NUMBA_DISABLE_JIT" else TWIN) + NUMBERS, **interpreted).split(), float)
    np.testing.assert_allclose(np.array(run(NUMBERS).split(), float), twin, rtol=1e-9, atol=1e-9)


def test_numba_is_bounded_by_what_the_vector_type_was_tried_on():
    """Raise both together, once tests/ranker/test_simd.py passes and `python -m benchmarks ranking` is as fast."""
    pyproject = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    upper = re.search(r"numba>=[\d.]+,<(\d+)\.(\d+)", pyproject)
    assert tuple(map(int, upper.groups())) == simd.TRIED_NUMBA[1]


def test_numba_s_internals_are_used_in_one_file_alone():
    private = re.compile(r"numba\.core|llvmlite|numba\.extending")
    assert [file.name for file in SOURCE.rglob("*.py") if private.search(file.read_text())] == ["simd.py"]


def test_without_compiling_the_same_ranker_is_certified():
    code = """
import numpy as np
from isrr import Queries, calibrate, GPLRanker
rng = np.random.default_rng(20230)
grades = rng.choice(3, 240)
queries = Queries.from_arrays(scores=grades + rng.normal(size=240), relevance=grades, group=[6] * 40)
print(calibrate(queries, "ndcg@5 >= 80% of deterministic", path=[GPLRanker(), GPLRanker(temperature=0.1)]).ranker)
"""
    assert run(code, NUMBA_DISABLE_JIT="1") == run(code)
