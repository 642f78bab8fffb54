"""The house keeps its shape: imports look upstream, the surface is sorted, importing is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import isrr

SOURCE = Path(isrr.__file__).parent
LAYERS = [
    "errors", "counting", "files", "compiled", "parallel", "noise", "data", "gains", "scores", "ranker", "metrics",
    "risk", "guarantee", "certificate", "status", "calibration", "monitor", "report", "serve", "experiments", "cli",
]  # fmt: skip
HEAVY = [
    "pandas", "polars", "torch", "lightgbm", "catboost", "xgboost", "starlette", "pyspark", "matplotlib",
    "scipy.stats", "pyarrow", "numba",
]  # fmt: skip


def imports_between_layers():
    for file in SOURCE.rglob("*.py"):
        here = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.startswith("isrr.") and here not in ("__init__", "__main__"):
                    yield here, name.split(".")[1], file.relative_to(SOURCE)


def test_imports_only_reach_upstream():
    for here, there, file in imports_between_layers():
        assert LAYERS.index(there) <= LAYERS.index(here), f"{file}: {here} imports {there}"


def test_imports_are_absolute():
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{file}: a relative import"


def test_public_names_are_sorted_and_resolve():
    assert isrr.__all__ == sorted(isrr.__all__)
    assert set(isrr.__all__) == set(isrr._HOME)
    for name in isrr.__all__:
        assert getattr(isrr, name).__doc__, name


def test_importing_isrr_loads_nothing_heavy():
    probe = f"import isrr, sys; print([m for m in {HEAVY} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "[]"
