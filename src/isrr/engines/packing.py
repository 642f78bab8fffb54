"""A value as one Arrow record batch of one row, and back, bit for bit.

Values are dataclasses, tuples, lists, sets, dicts (their keys may be any of these), arrays, text, numbers and None,
nested in any way. Each travels as JSON that says what it is, arrays as bytes beside it. Nothing in a message is
executed: it may only name dataclasses that the expected kind mentions, which is the return annotation of a task's
`summary`. The version of isrr travels along: results agree bit for bit only between equal versions.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa

from isrr.data.identifiers import Ids
from isrr.errors import MergeError

SUMMARY_COLUMNS = "summary string, arrays array<binary>"  # the batch's schema, as Spark writes it
LARGEST_IN_JSON = 1 << 1024  # Python reads longer decimal integers only if told to
_SEQUENCES: dict[str, type[Any]] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}


def pack(value: Any) -> Any:
    """A record batch of one row."""
    arrays: list[bytes] = []
    text = json.dumps({"version": version("isrr"), "value": _plain(value, arrays)})
    schema = pa.schema([("summary", pa.string()), ("arrays", pa.list_(pa.binary()))])
    return pa.RecordBatch.from_pydict({"summary": [text], "arrays": [arrays]}, schema)


def unpack(kind: Any, row: Mapping[str, Any]) -> Any:
    """The value of one row.

    Args:
        kind: What it is, as an annotation: a class, `tuple[…]`, `… | None`.
        row: The row, by column.
    """
    document = json.loads(row["summary"])
    if document["version"] != version("isrr"):
        found = f"isrr {document['version']} on the worker, {version('isrr')} here"
        raise MergeError(f"workers run another version of isrr ({found}); expected the same version everywhere")
    return _whole(document["value"], row["arrays"], _classes(kind))


def _plain(value: Any, arrays: list[bytes]) -> Any:
    """The value as JSON; the bytes of its arrays are added to `arrays`."""

    def each(parts: Any) -> list[Any]:
        return [_plain(part, arrays) for part in parts]

    match value:
        case None | bool() | str():
            return value
        case Ids():
            return _plain(value.array, arrays)
        case np.generic():
            return _plain(value.item(), arrays)
        case int():
            return value if abs(value) < LARGEST_IN_JSON else {"int": hex(value)}
        case float():
            return {"nan": struct.pack(">d", value).hex()} if math.isnan(value) else value
        case np.ndarray() if value.dtype == object:
            return {"objects": each(value.ravel()), "shape": value.shape}
        case np.ndarray() if value.dtype.kind in "biufcmMSU":
            arrays.append(value.tobytes())
            return {"array": len(arrays) - 1, "dtype": value.dtype.str, "shape": value.shape}
        case Mapping():
            return {"dict": [each(pair) for pair in value.items()]}
        case tuple() | list() | set() | frozenset() if type(value).__name__ in _SEQUENCES:
            return {type(value).__name__: each(value)}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {"class": _name(type(value)), "fields": each(getattr(value, name) for name in _fields(type(value)))}
    raise TypeError(f"a {type(value).__name__} cannot be sent: {value!r}")


def _whole(tree: Any, arrays: list[bytes], classes: Mapping[str, type[Any]]) -> Any:
    """The value that `_plain` turned into this tree."""
    if not isinstance(tree, dict):
        return tree
    (tag, held), *_ = tree.items()

    def each(parts: Any) -> Iterator[Any]:
        return (_whole(part, arrays, classes) for part in parts)

    match tag:
        case "int":
            return int(held, 16)
        case "nan":
            return struct.unpack(">d", bytes.fromhex(held))[0]
        case "objects":
            made = np.empty(len(held), object)
            made[:] = list(each(held))
            return made.reshape(tree["shape"])
        case "array":
            return np.frombuffer(arrays[held], tree["dtype"]).reshape(tree["shape"])
        case "dict":
            return {key: part for key, part in map(each, held)}
        case "class" if held in classes:
            return classes[held](**dict(zip(_fields(classes[held]), each(tree["fields"]), strict=True)))
        case _ if tag in _SEQUENCES:
            return _SEQUENCES[tag](each(held))
    raise TypeError(f"unexpected {held!r} in a summary; expected one of {', '.join(classes) or 'no class'}")


@cache
def _classes(kind: Any) -> dict[str, type[Any]]:
    """All dataclasses that an annotation mentions, and the annotations of their fields in turn, by name."""
    found: dict[str, type[Any]] = {}
    waiting = [kind]
    while waiting:
        each = waiting.pop()
        waiting += each if isinstance(each, list | tuple) else get_args(each)
        if isinstance(each, type) and is_dataclass(each) and _name(each) not in found:
            found[_name(each)] = each
            waiting += get_type_hints(each).values()
    return found


def _fields(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind) if field.init]


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
