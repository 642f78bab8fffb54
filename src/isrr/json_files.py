"""JSON as it is found on disk: read with a word on what is wrong, or line by line past what was cut off."""

import json
import os
from pathlib import Path
from typing import Any


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
    """The objects of a file with one per line; lines that were cut off, or are not objects, are skipped."""
    found = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
