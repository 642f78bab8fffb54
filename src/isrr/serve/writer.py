"""Writing the served-ranking log: one JSON line per list, in its file before the answer leaves.

Each worker appends to a file of its own, a request's lines in one write. Before each write it looks whether the file
still has its name: a file or a folder that was moved or removed takes no lines. A write that fails is taken back. A
worker that is killed leaves at most an unfinished last line, of an answer that was never sent; readers skip it.
`isrr.data.log` reads the log.
"""

import errno
import gzip
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from isrr.files import replacing

log = logging.getLogger("isrr.serve")
LEVEL = 1  # of compression: a worker serves and compresses in the same process


class LogWriter:
    """Appends lines to files in a folder, which must exist; begins a new file when one reaches its size."""

    def __init__(self, folder: Path, max_bytes: int, compress: bool = False) -> None:
        self._folder, self._max_bytes, self._compress = folder, max_bytes, compress
        self._path: Path | None = None
        self._open: tuple[int, os.stat_result] | None = None  # descriptor of the file, and which one it is
        self._failed = 0  # bytes that could not be written at the last attempt

    def write(self, *lines: bytes) -> None:
        """Append lines (newlines are added), all of them or none; raises OSError where that cannot be done."""
        data = b"\n".join((*lines, b""))
        self._failed = len(data)
        size = self._append(data)
        self._failed = 0
        if size > self._max_bytes:
            self.close()

    def problem(self) -> str | None:
        """Return why lines cannot be written now, or None; after a failure, by writing as much once more."""
        try:
            self._append(b"\n" * self._failed, keep=False)
        except OSError as error:
            return str(error)
        self._failed = 0
        return None

    def close(self) -> None:
        """End the file, and compress it on the side."""
        path, self._path = self._path, None
        self._let_go()
        if path is not None and self._compress:
            Thread(target=compress, args=(path,), name="compress-log").start()

    def _append(self, data: bytes, keep: bool = True) -> int:
        """Write at the end of the file and return its size; what is not written whole, or not to be kept, is cut off.

        A file that cannot be cut is left as it is: another line would be joined to the unfinished one.
        """
        file, size = self._file()
        written = os.write(file, data)
        if written < len(data) or not keep:
            path, self._path = self._path, None
            os.ftruncate(file, max(os.fstat(file).st_size - written, 0))
            self._path = path
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        return size + written

    def _file(self) -> tuple[int, int]:
        """Return descriptor and size of the file that has the name now; it is begun where there is none."""
        if self._path is None:
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
            self._path = self._folder / f"served-{stamp}-{os.getpid()}.jsonl"
        if self._open is not None:
            with suppress(FileNotFoundError):
                if os.path.samestat(now := os.stat(self._path), self._open[1]):
                    return self._open[0], now.st_size
            self._let_go()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._open = file, os.fstat(file)
        return file, self._open[1].st_size

    def _let_go(self) -> None:
        last, self._open = self._open, None
        if last is not None:
            os.close(last[0])


def compress(path: Path) -> None:
    """Replace a log file by `….jsonl.gz`; one that cannot be compressed stays as it is."""
    try:
        with replacing(f"{path}.gz") as partial, path.open("rb") as whole, gzip.open(partial, "wb", LEVEL) as file:
            shutil.copyfileobj(whole, file, 1 << 20)
        path.unlink()
    except OSError as error:
        log.warning("a file of the served-ranking log cannot be compressed", extra={"error": str(error)})


def prepare(folder: Path) -> None:
    """Make the folder of a log, and see that files can be written to it; raises OSError where they cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
