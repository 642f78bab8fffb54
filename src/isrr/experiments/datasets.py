"""Data sets of the experiments: benchmarks' folders, and files of judged queries that have scores already."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from isrr.data.catalog import CATALOG, JESTER, located
from isrr.errors import DataError


@dataclass(frozen=True)
class DataSet:
    """A data set on disk: a benchmark's folder, or a file of judged queries that have scores already."""

    name: str
    path: Path

    @property
    def scored(self) -> bool:
        """Whether the queries bring their scores."""
        return self.path.is_file()

    @cached_property
    def content(self) -> str:
        """32 hex digits that name what its files hold, whatever they are called."""
        files = [self.path] if self.scored else [file for part in located(self.name, self.path) for file in part]
        of_files = [_digest(file) for file in files]
        return hashlib.sha256(b"".join(of_files)).hexdigest()[:32]


def _digest(file: Path) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def data_sets(paths: Sequence[str]) -> list[DataSet]:
    """Data sets from what a user names: folders called as in the catalog, NAME=FOLDER, a folder of folders, files."""
    found: list[DataSet] = []
    for text in paths:
        name, equals, rest = text.partition("=")
        path = Path(rest if equals else text)
        name = name if equals else path.resolve().name.lower()
        if path.is_file():
            found.append(DataSet(name.removesuffix(path.suffix), path))
        elif name in (*CATALOG, JESTER):
            found.append(DataSet(name, path))
        elif path.is_dir():
            inside = [DataSet(entry.name.lower(), entry) for entry in sorted(path.iterdir()) if entry.is_dir()]
            inside = [data_set for data_set in inside if data_set.name in (*CATALOG, JESTER)]
            if not inside:
                raise DataError(f"{path}: no known data set found; give its name: mq2007={path}")
            found += inside
        else:
            raise DataError(f"{path}: does not exist")
    return found
