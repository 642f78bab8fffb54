"""A line of JSON that fits no table, in words: which one it is, what was found there, what is needed."""

import json
from collections.abc import Iterable
from typing import Any

_KINDS = {str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


def bad_json(lines: Iterable[bytes]) -> str | None:
    """What is wrong with the first line at fault; None where none is.

    Example:
        >>> bad_json([b'{"query": 7}', b'{"query": "a"}'])
        "line 2: 'query' is text, and a number in line 1; a column holds values of one kind (ids may all be text)"
    """
    seen: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_each_once)
        except json.JSONDecodeError as error:
            return f"line {number:,}, character {error.pos + 1}: {error.msg}"
        except UnicodeDecodeError:
            return f"line {number:,}: not UTF-8 text"
        except ValueError as error:
            return f"line {number:,}: {error}"
        if not isinstance(row, dict):
            return (
                f"line {number:,}: {_KINDS.get(type(row), 'null')}, where an object is needed, such as {{'query': 7}}"
            )
        for name, value in row.items():
            if value is None:
                continue
            kind = _KINDS[type(value)]
            before, first = seen.setdefault(name, (kind, number))
            if kind != before:
                return (
                    f"line {number:,}: {name!r} is {kind}, and {before} in line {first:,}; a column holds values of "
                    "one kind (ids may all be text)"
                )
    return None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return row
