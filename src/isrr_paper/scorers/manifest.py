"""How a trained scorer lies on disk: a native model file, and a JSON manifest that says what it is.

The model file is named after its contents and written first; the manifest points at it and is renamed into place last.
So a folder holds the old scorer or the new one, never half of each. Nothing is pickled, nothing unpickled.
"""

import json
import os
import platform
from collections.abc import Callable, Iterable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isrr.files import read_json, write_atomically
from isrr_paper.paper_errors import ScorerError

NAME = "manifest.json"
FORMAT = 1


# What a manifest says, and as what.
FIELDS: dict[str, Any] = {
    "kind": str,
    "parameters": dict,  # arguments the scorer was made with; they make it again
    "n_features": int,
    "seed": int,
    "normalize": str,
    "validation_ndcg": (int, float),
    "model": str,  # name of the model file, beside the manifest
    "sha256": str,  # digest of that file
    "history": dict,  # what happened in training: checkpoints, rounds, an interruption
    "versions": dict,  # of Python, isrr and the training library
    "learnt_from": str,  # sample of the queries it has learnt from, see `isrr_paper.scorers.learnt`
    "feature_names": list,  # in the order it was trained on; empty where they had none
    "format": int,  # version of this layout
}


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


def write_manifest(folder: Path, packages: Iterable[str], **facts: Any) -> None:
    """Put the manifest in place, then remove model files that it no longer names."""
    versions = {"python": platform.python_version()} | {name: version(name) for name in ("isrr", *packages)}
    facts |= {"versions": versions, "format": FORMAT}
    text = json.dumps({name: facts[name] for name in FIELDS}, indent=2)
    write_atomically(folder / NAME, f"{text}\n".encode())
    files_in_use = {facts["model"], *(point["file"] for point in facts["history"].get("checkpoints", []))}
    for pattern in ("model-*", "epoch-*"):
        for file in folder.glob(pattern):
            if file.name not in files_in_use:
                file.unlink()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder; it and its model file are checked."""
    file = folder / NAME
    try:
        manifest: dict[str, Any] = read_json(file)
    except FileNotFoundError:
        raise ScorerError(f"{folder}: no trained scorer found; expected a file {NAME}") from None
    except ValueError as error:
        raise ScorerError(f"{file}: damaged: {error}") from None
    has = manifest.get("format") if isinstance(manifest, dict) else None
    if has != FORMAT:
        raise ScorerError(f"{file}: format is {has!r}; this version of isrr reads format {FORMAT}")
    manifest = {"learnt_from": "", "feature_names": []} | manifest
    if wrong := sorted(set(manifest) ^ set(FIELDS)):
        raise ScorerError(f"{file}: damaged, fields missing or unknown: {', '.join(wrong)}")
    for name, kind in FIELDS.items():
        if not isinstance(manifest[name], kind):
            raise ScorerError(f"{file}: damaged, {name} is {manifest[name]!r}")
    model = folder / manifest["model"]
    if model.name != manifest["model"]:
        raise ScorerError(f"{file}: damaged, model is {manifest['model']!r}; expected a file in the same folder")
    try:
        digest = sha256(model.read_bytes()).hexdigest()
    except OSError:
        raise ScorerError(f"{model}: missing; expected the model that the manifest names") from None
    if digest != manifest["sha256"]:
        raise ScorerError(f"{model}: damaged, it does not match the manifest")
    return manifest
