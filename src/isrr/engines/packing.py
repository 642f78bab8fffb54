"""A value as one Arrow record batch of one row, and back, bit for bit.

Values are dataclasses of isrr, tuples, lists, sets, dicts (their keys may be any of these), arrays, text, numbers and
None, nested in any way. Each travels as JSON that says what it is, arrays as bytes beside it. Nothing in a message is
executed: the only classes it can name are dataclasses of isrr. The version of isrr travels along: results agree bit for
bit only between equal versions.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from isrr.data.identifiers import Ids
from isrr.errors import MergeError

SUMMARY_COLUMNS = "summary string, arrays array<binary>"  # the batch's schema, as Spark writes it
_SEQUENCES: dict[str, type[Any]] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}


def pack(value: Any) -> Any:
    """A record batch of one row."""
    arrays: list[bytes] = []
    text = json.dumps({"version": version("isrr"), "value": _plain(value, arrays)})
    schema = pa.schema([("summary", pa.string()), ("arrays", pa.list_(pa.binary()))])
    return pa.RecordBatch.from_pydict({"summary": [text], "arrays": [arrays]}, schema)


def unpack(row: Mapping[str, Any]) -> Any:
    """The value of one row, given by column."""
    document = json.loads(row["summary"])
    if document["version"] != version("isrr"):
        found = f"isrr {document['version']} on the worker, {version('isrr')} here"
        raise MergeError(f"workers run another version of isrr ({found}); expected the same version everywhere")
    return _whole(document["value"], row["arrays"])


def _plain(value: Any, arrays: list[bytes]) -> Any:
    """The value as JSON; the bytes of its arrays are added to `arrays`."""

    def each(parts: Any) -> list[Any]:
        return [_plain(part, arrays) for part in parts]

    match value:
        case np.generic():
            return value.item()
        case None | bool() | str() | int() | float():
            return value
        case Ids():
            return _plain(value.array, arrays)
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
            held = {field.name: _plain(getattr(value, field.name), arrays) for field in fields(value) if field.init}
            return {"class": [type(value).__module__, type(value).__name__], "fields": held}
    raise TypeError(f"a {type(value).__name__} cannot be sent: {value!r}")


def _whole(tree: Any, arrays: list[bytes]) -> Any:
    """The value that `_plain` turned into this tree."""
    if not isinstance(tree, dict):
        return tree
    (tag, held), *_ = tree.items()

    def each(parts: Any) -> Iterator[Any]:
        return (_whole(part, arrays) for part in parts)

    match tag:
        case "objects":
            made = np.empty(len(held), object)
            made[:] = list(each(held))
            return made.reshape(tree["shape"])
        case "array":
            return np.frombuffer(arrays[held], tree["dtype"]).reshape(tree["shape"])
        case "dict":
            return {key: part for key, part in map(each, held)}
        case "class":
            return _dataclass(*held)(**{name: _whole(part, arrays) for name, part in tree["fields"].items()})
    return _SEQUENCES[tag](each(held))


def _dataclass(module: str, name: str) -> Any:
    """A dataclass of isrr by its name."""
    found = getattr(sys.modules.get(module), name, None) if module.startswith("isrr.") else None
    if not isinstance(found, type) or not is_dataclass(found):
        raise TypeError(f"unexpected {module}.{name} in a summary; expected a dataclass of isrr")
    return found
