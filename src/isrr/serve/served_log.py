"""The served-ranking log: one JSON line a list, on disk before the answer leaves.

Each worker appends to a file of its own, one write a line, so lines of two workers never mix. A worker that is killed
in the middle of a line leaves a tail without an end, for an answer that was never sent; the writer holds a lock on its
file for as long as it lives, and whoever starts next cuts the tails of files that nobody holds.
"""

import errno
import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from isrr.errors import DataError

log = logging.getLogger("isrr.serve")
STEP = 64 << 10  # bytes read at a time, from the end of a file, in search of the end of a line
ATTEMPTS = 3  # names tried for a new file


class ServedLog:
    """Appends lines to files in a folder; a new file is begun when one reaches its size."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._max_bytes = folder, max_bytes
        mend(folder)
        self._file, self._size = self._begin(), 0

    def write(self, line: bytes) -> None:
        """Append one line (its end is added), all of it or nothing; raises OSError where the disk takes no more."""
        data = line + b"\n"
        if self._size and self._size + len(data) > self._max_bytes:
            full, self._file, self._size = self._file, self._begin(), 0
            os.close(full)
        done = os.write(self._file, data)
        if done < len(data):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, "the served-ranking log could not be written whole")
        self._size += done

    def close(self) -> None:
        """Close the file; what was written stays."""
        os.close(self._file)

    def _begin(self) -> int:
        """A new file, held. One that another worker's `mend` looks at just now is given up for another."""
        for _ in range(ATTEMPTS):
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
            path = self._folder / f"served-{stamp}-{os.getpid()}.jsonl"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
            if _hold(file):
                return file
            os.close(file)
            path.unlink()
        raise OSError(errno.ENOLCK, "files of the served-ranking log cannot be locked here", str(path))


def mend(folder: Path) -> int:
    """Cut unfinished last lines off files that no living worker holds; how many were cut.

    A file that cannot be opened or cut is passed over with a line in the log: readers pass over unfinished lines.
    """
    cut = 0
    for path in sorted(folder.glob("served-*.jsonl")):
        try:
            with path.open("r+b") as file:
                cut += _hold(file.fileno()) and _cut(file)
        except OSError as error:
            log.warning("a file of the served-ranking log is left as it is", extra={"error": str(error)})
    return cut


def _cut(file: BinaryIO) -> bool:
    """Cut what follows the last end of a line; whether there was anything."""
    size = end = file.seek(0, os.SEEK_END)
    whole = 0
    while end and not whole:
        start = max(end - STEP, 0)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        whole, end = start + found + 1 if found >= 0 else 0, start
    if whole < size:
        file.truncate(whole)
    return whole < size


def _hold(file: int) -> bool:
    """Lock a file for as long as it is open; False where another process holds it."""
    import fcntl  # not everywhere; reading a log does not need it

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def log_files(source: Path) -> list[Path]:
    """The files of a log: a folder's, by time, or the one file that is named."""
    files = sorted(source.glob("served-*.jsonl")) if source.is_dir() else [source]
    if not files or not all(file.is_file() for file in files):
        raise DataError(f"{source}: there is no served-ranking log here; `isrr serve --log FOLDER` writes one")
    return files


def read_served(source: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The lines of a log, a folder or a file (JSONL, or Parquet made by `write_parquet`), oldest file first.

    An unfinished last line belongs to an answer that was never sent, and is passed over.
    """
    for file in log_files(Path(source)):
        if file.suffix == ".parquet":
            import pyarrow.parquet

            for batch in pyarrow.parquet.ParquetFile(file).iter_batches():
                yield from batch.to_pylist()
            continue
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise DataError(f"{file}:{number}: not a line of a served-ranking log: {error}") from None


def write_parquet(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Keep a log as one Parquet file, a row a list; how many lists. Ids become text."""
    import pyarrow

    from isrr.data.files import write_table

    rows = []
    for line in read_served(source):
        lists = {name: [str(item) for item in line[name]] for name in ("items", "top", "deterministic")}
        session = None if line["session"] is None else str(line["session"])
        rows.append({**line, **lists, "query_id": str(line["query_id"]), "session": session})
    write_table(pyarrow.Table.from_pylist(rows), Path(target), "parquet")
    return len(rows)
