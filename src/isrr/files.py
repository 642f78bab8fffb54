"""Files are written whole or not at all, whatever happens on the way."""

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
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
