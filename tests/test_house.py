"""The house keeps its shape: imports look upstream, the surface is sorted, importing is cheap."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import isrr

ROOT = Path(__file__).parents[1]
SOURCE = Path(isrr.__file__).parent
PAPER = SOURCE.with_name("isrr_paper")
LAYERS = [
    "errors", "counting", "files", "compiled", "parallel", "noise",
    "data", "gains", "ranker", "metrics", "risk", "promises", "outcome", "rank_table", "spark",
    "calibration", "clicks", "monitor", "reporting", "serve", "adapters", "cli",
]  # fmt: skip
HEAVY = [
    "pandas", "polars", "torch", "lightgbm", "catboost", "xgboost", "starlette", "pyspark", "matplotlib",
    "scipy.stats", "pyarrow", "numba",
]  # fmt: skip


def imported_names(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imports_between_layers():
    for file in SOURCE.rglob("*.py"):
        here = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for name in imported_names(file):
            if name.startswith("isrr.") and here not in ("__init__", "__main__"):
                yield here, name.split(".")[1], file.relative_to(SOURCE)


def test_imports_only_reach_upstream():
    for here, there, file in imports_between_layers():
        assert LAYERS.index(there) <= LAYERS.index(here), f"{file}: {here} imports {there}"


def test_the_product_does_not_import_what_only_the_paper_needs():
    for file in SOURCE.rglob("*.py"):
        assert not [name for name in imported_names(file) if name.split(".")[0] == "isrr_paper"], file


def test_imports_are_absolute():
    for file in (*SOURCE.rglob("*.py"), *PAPER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{file}: a relative import"


def test_a_file_name_names_one_file():
    names = Counter(file.name for source in (SOURCE, PAPER) for file in source.rglob("*.py"))
    assert {name for name, n in names.items() if n > 1} == {"__init__.py", "__main__.py", "kernels.py"}


def test_public_names_are_sorted_and_resolve():
    assert isrr.__all__ == sorted(isrr.__all__)
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {alias.name: node.module for node in block.body for alias in node.names} == isrr._MODULES
    for name in isrr.__all__:
        assert getattr(isrr, name).__doc__, name


def bases_of(node):
    return [getattr(getattr(base, "value", base), "id", "") for base in node.bases]


def public_names(body, where, members, inherited=frozenset()):
    """Functions, classes and methods that others may use.

    The members of a protocol are described by its class, and overrides by what they override.
    """
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if node.name not in inherited:
                yield f"{where}: {node.name}", ast.get_docstring(node)
            if isinstance(node, ast.ClassDef) and "Protocol" not in bases_of(node):
                known = frozenset().union(*(members.get(base, ()) for base in bases_of(node)))
                yield from public_names(node.body, f"{where}: {node.name}", members, known)


def test_every_module_and_public_name_is_described():
    trees = {file: ast.parse(file.read_text()) for file in (*SOURCE.rglob("*.py"), *PAPER.rglob("*.py"))}
    members = {}  # of each class, or of all that share its name
    for node in (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        members.setdefault(node.name, set()).update(getattr(member, "name", "") for member in node.body)
    for file, tree in trees.items():
        where = file.relative_to(SOURCE.parent)
        assert ast.get_docstring(tree) or not tree.body, where
        if not file.name.endswith(
            ("kernels.py", "exact.py", "simd.py")
        ):  # there, comments give the shape of each argument
            for name, described in public_names(tree.body, where, members):
                assert described, name


def test_importing_isrr_loads_nothing_heavy():
    probe = f"import isrr, sys; print([m for m in {HEAVY} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_benchmark_finds_what_it_measures():
    names = [f"benchmarks.{file.stem}" for file in (ROOT / "benchmarks").glob("*.py") if file.stem != "__main__"]
    probe = f"from importlib import import_module; [import_module(name) for name in {names}]"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
