"""Files: written whole or not at all, whatever happens on the way; JSON read with a word on what it lacks."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file beside the target, to be written in the body; renamed over the target once it is on disk.

    A link is followed. A device or a pipe cannot be renamed over: it is sent what was written. What the system
    refuses is an `OSError` that names the target.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with tempfile.TemporaryDirectory() as folder:
                partial = Path(folder) / target.name
                yield partial
                with target.open("wb") as stream:
                    stream.write(partial.read_bytes())
        else:
            yield from _renaming(target.resolve())
    except OSError as error:
        said = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or 0, said, str(path)) from None


def _renaming(target: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o666 & ~umask)
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes, all of them or none."""
    with replacing(path) as partial:
        partial.write_bytes(content)


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
        where = f"no JSON, or cut off, at line {error.lineno}, column {error.colno}" if text.strip() else "empty"
        raise ValueError(f"it is {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json_lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The objects of a file with one a line; a line that was cut off, or is no object, is passed over."""
    found = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
