"""Modules that need a library that is not installed hold no doctests to run."""

from importlib.util import find_spec

_NEEDED = {
    "torch": ("losses/*.py", "batches.py", "net.py", "replay.py", "training.py"),
    "lightgbm": ("lightgbm.py",),
    "catboost": ("catboost.py",),
    "xgboost": ("xgboost.py",),
}
collect_ignore_glob = [
    f"src/isrr_paper/scorers/{name}" for library, names in _NEEDED.items() if not find_spec(library) for name in names
]
if not find_spec("langchain_core"):
    collect_ignore_glob.append("src/isrr/adapters/langchain.py")
