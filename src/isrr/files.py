"""Atomic writes, file locks, and JSON that may be damaged."""

import errno
import glob
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ABANDONED = 3600.0  # seconds after which a temporary file belongs to no running process
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new file beside the target, and rename it over the target when it is complete and on disk.

    Links are followed, and the mode of an old file is kept. A device or a pipe is sent what was written. An `OSError`
    about the new file names the target.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            partial = Path(folder) / target.name
            with _errors_name(path, partial):
                yield partial
            with _errors_name(path), target.open("wb") as stream:
                stream.write(partial.read_bytes())
        return
    target = target.resolve()
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.tmp"):  # by a killed process
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()
    partial = target.parent / f".{target.name}.{os.urandom(4).hex()}.tmp"
    with _errors_name(path):
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else 0o600))
    try:
        with _errors_name(path, partial):
            yield partial
        with _errors_name(path):
            _sync(partial)
            if mode is not None:
                partial.chmod(mode)
            os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every file system can sync a folder
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors_name(path: str | os.PathLike[str], only: Path | None = None) -> Iterator[None]:
    """Name a path in errors of the body; with `only`, in those about that file or a full disk."""
    try:
        yield
    except OSError as error:
        if only is not None and str(error.filename) != str(only) and error.errno not in NO_SPACE:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or 0, reason, str(path)) from None


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write all bytes or none."""
    with replacing(path) as partial:
        partial.write_bytes(content)


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file while the body runs; other processes wait.

    The lock is a file of its own beside it, because the file itself may be replaced.
    """
    import fcntl  # not on Windows

    target = Path(path).resolve()
    with _errors_name(path):
        descriptor = os.open(target.parent / f".{target.name}.lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file; a `ValueError` says why it has none, `FileNotFoundError` is passed on."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    except json.JSONDecodeError as error:
        reason = f"not JSON, or cut off, at line {error.lineno}, column {error.colno}" if text.strip() else "empty"
        raise ValueError(f"it is {reason}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json_lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the objects of a file with one per line; other lines, such as one that was cut off, are skipped."""
    objects = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                objects.append(value)
    return objects
