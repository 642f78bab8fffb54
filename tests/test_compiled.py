"""Kernels come from the cache of an earlier process, without numba's compiler."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import isrr
from command_line import NO_PLACE
from isrr.compiled import KernelCache

SOURCE = Path(isrr.__file__).parent
FIRST_RESULT = """
from isrr import GPLRanker, Queries, evaluate
evaluate(Queries.from_arrays(scores=[2.0, 1.0, 0.0], relevance=[0, 2, 1], group=[3]), [GPLRanker()])
"""
CALIBRATION = """
import numpy as np
from isrr import Queries, calibrate

rng = np.random.default_rng(20230)
grades = rng.choice(3, 2_400)
queries = Queries.from_arrays(scores=grades + rng.normal(size=2_400), relevance=grades, group=[24] * 100)
calibrate(queries, "ndcg@5 >= 80% of deterministic")
"""
ONE_LIST = """
from isrr import GPLRanker
print(GPLRanker().rank([0.3, 2.0, 1.1], query_id="q7", session="u42", k=3))
"""
OWN_KERNEL = """
import numba, numpy as np

@numba.njit
def solved(matrix, right):
    return np.linalg.solve(matrix, right).sum()

print(solved(2.0 * np.eye(2), np.ones(2)))
"""
LOADED = "import sys; print(*sys.modules)"
COMPILER = ["numba.np.linalg", "numba.np.arraymath", "numba.np.npyimpl", "scipy.linalg", "scipy.special"]


def later_process(code):
    """What a process prints after another one has run the same code, and left its kernels compiled."""
    run(code)
    return run(code)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_later_process_gets_its_first_result_without_a_compiler():
    loaded = later_process(FIRST_RESULT + LOADED).split()
    assert not {*COMPILER, "pyarrow", "urllib.request", "difflib"} & {*loaded}


def test_a_later_process_calibrates_without_a_compiler():
    loaded = later_process(CALIBRATION + LOADED).split()
    assert not {*COMPILER, "scipy.optimize"} & {*loaded}


def test_a_kernel_that_makes_arrays_is_loaded_without_a_compiler_too():
    ranking, loaded = later_process(ONE_LIST + LOADED).splitlines()
    assert ranking == "[1 0 2]"
    assert not {*COMPILER} & {*loaded.split()}


def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same():
    code = "from isrr.noise import mix; import numpy; print(mix(numpy.uint64(7)))\n"
    assert run(NO_PLACE + code + "print(mix.stats.cache_path)") == run(code) + "None\n"


def test_kernels_of_others_are_compiled_as_usual_afterwards():
    assert later_process(FIRST_RESULT + OWN_KERNEL) == "1.0\n"


def test_kernels_said_to_make_no_arrays_call_nothing_of_the_runtime_that_counts_references():
    run(FIRST_RESULT + ONE_LIST)  # in one process: a later one could not even load such a kernel
    seen = 0
    for file in SOURCE.rglob("_*kernels.py"):
        module = import_module(".".join(["isrr", *file.relative_to(SOURCE).with_suffix("").parts]))
        for value in vars(module).values():
            kept = getattr(value, "_cache", None)
            if isinstance(kept, KernelCache) and not kept.counts_references:
                for name in kept.files._cache_file._load_index().values():
                    machine_code = kept.files._cache_file._load_data(name)[0][2][0]
                    assert b"NRT_" not in machine_code, value
                    seen += 1
    assert seen >= 3


def test_without_numbas_compiler_allowed_kernels_are_compiled_all_the_same(tmp_path):
    numbers = CALIBRATION + "print(len(queries), isrr.evaluate(queries, [isrr.GPLRanker()])['ndcg'].mean())"
    numbers = f"import isrr\n{numbers}"
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", numbers], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(numbers)
    assert (
        done.stderr == "isrr:0: RuntimeWarning: NUMBA_DISABLE_JIT is ignored: the kernels of isrr only run compiled\n"
    )
    fresh = {**env, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ONE_LIST], capture_output=True, text=True, env=fresh)
    assert (done.returncode, done.stdout) == (0, run(ONE_LIST)), done.stderr
