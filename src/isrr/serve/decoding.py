"""Request bodies into structs; what does not fit is refused with a word on what would."""

import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
from msgspec.inspect import AnyType, Field, ListType, StructType, type_info

from isrr.serve.ranking import Refusal

T = TypeVar("T")
_NO_JSON = re.compile(rb":\s*-?(NaN|Infinity)\b")
_UNKNOWN = re.compile(r"unknown field `(?P<field>.*?)`(?: - at `\$(?P<path>.*)`)?$")


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """A body as the struct that an endpoint takes."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(422, f"{error}{_known_fields(str(error), decoder.type)}") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValueError as error:  # malformed JSON, or text that is not UTF-8
        if not body.strip():
            needed = " and ".join(field.name for field in _fields(decoder.type, "") if field.required)
            raise Refusal(400, f"the body is empty; expected a JSON object with {needed}; see /openapi.json") from None
        hint = "; JSON has no NaN or Infinity, though Python writes them" if _NO_JSON.search(body) else ""
        raise Refusal(400, f"the body cannot be read as JSON: {error}{hint}") from None


def _known_fields(message: str, kind: Any) -> str:
    """For a message about an unknown field, the end of it: the fields there are, and the one that was likely meant."""
    unknown = _UNKNOWN.search(message)
    if unknown is None:
        return ""
    names = [field.name for field in _fields(kind, unknown["path"] or "")]
    close = get_close_matches(unknown["field"], names, 1)
    slip = f"; did you mean {close[0]}?" if close else ""
    return f"; the fields are {', '.join(names)}{slip}" if names else ""


def _fields(kind: Any, path: str) -> tuple[Field, ...]:
    """The fields of the struct at a path of msgspec's, such as `.queries[0].items[0]`, within a body of some kind."""
    here = type_info(kind)
    for name in re.findall(r"\.(\w+)", path):
        there = [field.type for field in getattr(here, "fields", ()) if field.encode_name == name]
        here = there[0].item_type if there and isinstance(there[0], ListType) else AnyType()
    return here.fields if isinstance(here, StructType) else ()
