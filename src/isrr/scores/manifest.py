"""How a trained scorer lies on disk: a native model file, and a JSON manifest that says what it is.

The model file is named after its contents and written first; the manifest points at it and is renamed into place last.
So a folder holds the old scorer or the new one, never half of each. Nothing is pickled, nothing unpickled.
"""

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isrr.errors import ScorerError
from isrr.files import read_json, write_atomically

NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """What a scorer is, and where its model lies.

    Attributes:
        kind: "lightgbm", "catboost", "xgboost" or "net".
        parameters: Arguments the scorer was made with; they make it again.
        n_features: Features it was trained on.
        seed: Seed of the training.
        normalize: How features are normalised, "none" or "query".
        validation_ndcg: Mean NDCG@5 over the validation queries.
        model: Name of the model file, beside the manifest.
        sha256: Digest of that file.
        history: What happened in training; checkpoints, rounds, an interruption.
        versions: Versions of Python, isrr and the training library.
        learnt_from: Sample of the queries it has learnt from, see `isrr.scores.learnt`.
        feature_names: Names of the features, in the order it was trained on; empty where they had none.
        format: Version of this layout.
    """

    kind: str
    parameters: dict[str, Any]
    n_features: int
    seed: int
    normalize: str
    validation_ndcg: float
    model: str
    sha256: str
    history: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    learnt_from: str = ""
    feature_names: list[str] = field(default_factory=list)
    format: int = FORMAT


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, isrr and the named packages."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("isrr", *packages)}


def keep_model(folder: Path, stem: str, suffix: str, write: Callable[[Path], None]) -> tuple[str, str]:
    """Write a model file whole or not at all, named after its contents; its name and digest."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{stem}.{os.getpid()}{suffix}"
    try:
        write(unfinished)
        digest = sha256(unfinished.read_bytes()).hexdigest()
        name = f"{stem}-{digest[:8]}{suffix}"
        unfinished.replace(folder / name)
    finally:
        unfinished.unlink(missing_ok=True)
    return name, digest


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Put the manifest in place, then remove model files that it no longer names."""
    write_atomically(folder / NAME, (json.dumps(asdict(manifest), indent=2) + "\n").encode())
    held = {manifest.model, *(point["file"] for point in manifest.history.get("checkpoints", []))}
    for pattern in ("model-*", "epoch-*"):
        for file in folder.glob(pattern):
            if file.name not in held:
                file.unlink()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, checked, its model file too."""
    file = folder / NAME
    try:
        found = read_json(file)
    except FileNotFoundError:
        raise ScorerError(f"{folder}: no trained scorer found; expected a file {NAME}") from None
    except ValueError as error:
        raise ScorerError(f"{file}: damaged: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        has = found.get("format") if isinstance(found, dict) else None
        raise ScorerError(f"{file}: format is {has!r}; this version of isrr reads format {FORMAT}")
    known = {f.name: f.type for f in fields(Manifest)}
    found.setdefault("learnt_from", "")
    found.setdefault("feature_names", [])
    if set(found) != set(known):
        wrong = sorted(set(found) ^ set(known))
        raise ScorerError(f"{file}: damaged, fields missing or unknown: {', '.join(wrong)}")
    for name, kind in known.items():
        expected = (int, float) if kind is float else getattr(kind, "__origin__", kind)
        if not isinstance(found[name], expected):  # type: ignore[arg-type]
            raise ScorerError(f"{file}: damaged, {name} is {found[name]!r}")
    manifest = Manifest(**found)
    _check_model(manifest, folder)
    return manifest


def _check_model(manifest: Manifest, folder: Path) -> None:
    file = folder / manifest.model
    if Path(manifest.model).name != manifest.model:
        raise ScorerError(f"{folder / NAME}: damaged, model is {manifest.model!r}; expected a file in the same folder")
    try:
        digest = sha256(file.read_bytes()).hexdigest()
    except OSError:
        raise ScorerError(f"{file}: missing; expected the model that the manifest names") from None
    if digest != manifest.sha256:
        raise ScorerError(f"{file}: damaged, it does not match the manifest")
