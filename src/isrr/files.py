"""Files are written whole or not at all, whatever happens on the way, and by one process at a time on demand.

JSON is read with a word on what is wrong, or line by line past what was cut off.
"""

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

OLD = 3600.0  # seconds after which an unfinished file belongs to nobody
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what writing runs into, and nothing else


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file beside the target, to be written in the body; renamed over the target once it is on disk.

    A link is followed, and the mode of an old file kept. A device or a pipe cannot be renamed over: it is sent what was
    written. What the system refuses is an `OSError` that names the target; one about another file stays as it is.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            partial = Path(folder) / target.name
            with _naming(path, body_of=partial):
                yield partial
            with _naming(path), target.open("wb") as stream:
                stream.write(partial.read_bytes())
    else:
        yield from _renaming(path, target.resolve())


def _renaming(path: str | os.PathLike[str], target: Path) -> Iterator[Path]:
    partial = target.parent / f".{target.name}.{os.urandom(4).hex()}.tmp"
    _clean_up(target)
    with _naming(path):
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else 0o600))
    try:
        with _naming(path, body_of=partial):
            yield partial
        with _naming(path):
            _sync(partial)
            if mode is not None:
                partial.chmod(mode)
            os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # the file is there; not every file system can sync a folder
        _sync(target.parent)


def _clean_up(target: Path) -> None:
    """Remove unfinished files of this target that a killed process left."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.tmp"):
        with suppress(OSError):  # another process was faster, or it is not ours to remove
            if time.time() - left.stat().st_mtime > OLD:
                left.unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _naming(path: str | os.PathLike[str], body_of: Path | None = None) -> Iterator[None]:
    """Errors name the target; in the body that writes a new file, those about that file, or the lack of room for it."""
    try:
        yield
    except OSError as error:
        if body_of is not None and str(error.filename) != str(body_of) and error.errno not in NO_ROOM:
            raise
        said = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or 0, said, str(path)) from None


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes, all of them or none."""
    with replacing(path) as partial:
        partial.write_bytes(content)


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file for as long as the body runs; others who ask for it wait.

    The lock is a separate file beside it, as one that is renamed over cannot be locked.
    """
    import fcntl  # not everywhere

    target = Path(path).resolve()
    with _naming(path):
        file = os.open(target.parent / f".{target.name}.lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def hold(file: int) -> bool:
    """Lock an open file for as long as it is open; False where another process holds it."""
    import fcntl  # not everywhere

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds; a `ValueError` says in words why it holds nothing, a `FileNotFoundError` stays one."""
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
        where = f"not JSON, or cut off, at line {error.lineno}, column {error.colno}" if text.strip() else "empty"
        raise ValueError(f"it is {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json_lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The objects of a file with one per line; lines that were cut off, nested too deeply or no objects are skipped."""
    found = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
