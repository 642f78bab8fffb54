"""A summary as one Arrow record batch of one row, and back, bit for bit.

A summary travels as a tree of dicts, lists, text, numbers, None and arrays. Numbers become JSON, which keeps floats and
integers of any size exactly; arrays become bytes beside it. The version of isrr travels along: bits are only promised
to agree between equal versions.
"""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from isrr.data.identifiers import Ids
from isrr.errors import MergeError

Tree = Mapping[str, Any]
SUMMARY_COLUMNS = "summary string, arrays array<binary>"  # the batch's schema, as Spark writes it


def pack(tree: Tree) -> Any:
    """A record batch of one row."""
    import pyarrow as pa

    arrays: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, Ids):
            value = value.array
        if isinstance(value, np.ndarray) and value.dtype == object:
            return {"objects": value.tolist(), "shape": value.shape}
        if isinstance(value, np.ndarray):
            arrays.append(np.ascontiguousarray(value).tobytes())
            return {"array": len(arrays) - 1, "dtype": value.dtype.str, "shape": value.shape}
        if isinstance(value, Mapping):
            return {"fields": {name: plain(part) for name, part in value.items()}}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    text = json.dumps({"version": version("isrr"), "tree": plain(tree)})
    schema = pa.schema([("summary", pa.string()), ("arrays", pa.list_(pa.binary()))])
    return pa.RecordBatch.from_pydict({"summary": [text], "arrays": [arrays]}, schema)


def unpack(text: str, arrays: list[bytes]) -> Tree:
    """The tree of one row."""

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(part) for part in value]
        if not isinstance(value, dict):
            return value
        if "fields" in value:
            return {name: whole(part) for name, part in value["fields"].items()}
        if "objects" in value:
            made = np.empty(value["shape"], object)
            made[...] = np.array(value["objects"], object).reshape(value["shape"])
            return made
        return np.frombuffer(arrays[value["array"]], value["dtype"]).reshape(value["shape"])

    document = json.loads(text)
    if document["version"] != version("isrr"):
        found = f"isrr {document['version']} there, {version('isrr')} here"
        raise MergeError(f"a summary was made by another version: {found}; install one version everywhere")
    tree: Tree = whole(document["tree"])
    return tree
