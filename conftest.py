"""Modules that need a library that is not installed hold no doctests to run."""

from importlib.util import find_spec

_NEED_TORCH = ("losses/*.py", "batches.py", "replay.py", "training.py")
collect_ignore_glob = [] if find_spec("torch") else [f"src/isrr/scores/{name}" for name in _NEED_TORCH]
