"""Serving one query: what can be ranked, which draw a session names, and what an audit of the list needs."""

import reprlib
import secrets
from collections.abc import Sequence
from hashlib import blake2b
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.identifiers import Ids, identifier_key, identifier_text
from isrr.data.queries import FloatArray
from isrr.errors import DataError
from isrr.noise import SERVING

NO_NAMES = np.empty(0, np.uint64)


class ServedList(NamedTuple):
    """One order of one query, with what an audit of it needs.

    Attributes:
        ranking: Positions within the scores, (positions,).
        propensity: Chance of each placed item at its position given those above it, (positions,).
        deterministic: The first positions of the order by score, (positions,).
        eligibility: The best item's chance of first position in a draw.
        order_share: Chance that this query is served its order by score in place of a draw.
        tied: Whether two scores are equal.
    """

    ranking: NDArray[np.int64]
    propensity: FloatArray
    deterministic: NDArray[np.int64]
    eligibility: float
    order_share: float
    tied: bool


def servable(scores: ArrayLike) -> FloatArray:
    """Return the raw scores of one query, (n_items,)."""
    try:
        raw = np.ascontiguousarray(scores, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"scores are {reprlib.repr(scores)}; expected a non-empty list of numbers") from None
    if raw.ndim != 1 or raw.size == 0:
        raise DataError(f"scores have shape {raw.shape}; expected a non-empty list of numbers")
    return raw if raw.flags.writeable else raw.copy()  # kernels would be compiled anew for what pandas hands out


def refuse_infinite(raw: FloatArray) -> None:
    """Raise an error that says which score cannot be ranked."""
    bad = np.flatnonzero(~np.isfinite(raw))
    if bad.size:
        raise DataError(f"score {int(bad[0])} is {raw[bad[0]]}; expected a finite number")
    raise DataError(f"scores up to {np.abs(raw).max():.3g} are too large for the score map")


def hashed_names(query_id: object, item_ids: Sequence[Any] | NDArray[Any] | None, n_items: int) -> NDArray[np.uint64]:
    """Return 64 bits for the query and, if they have ids, for each of its items."""
    query = np.array([0 if query_id is None else identifier_key(query_id)], np.uint64)
    return query if item_ids is None else np.concatenate((query, Ids.of(item_ids, "item_ids", n_items).hashes()))


def session_key(identity: str) -> bytes:
    """Return what keeps the draws of one ranker apart from those of another, and from calibration's."""
    return blake2b(identity.encode(), digest_size=32, key=SERVING.to_bytes(8, "little")).digest()


def session_noise(key: bytes, query_id: object, session: object) -> int:
    """Return the noise stream that a session names for a query; a fresh one without a session, or with an empty one.

    64 bits as a signed number: Python hands it to a kernel as it is, where making a `np.uint64` takes longer.
    """
    if session is None or (isinstance(session, str) and not session):
        return secrets.randbits(64) - (1 << 63)
    if query_id is None:
        raise DataError(
            f"session {session!r} without a query id; expected both, because with a session alone every query would "
            "get the same draw"
        )
    as_it_is = type(session) in (str, int) or not isinstance(session, Number)  # the first is quick, and usual
    name = (str(session) if as_it_is else identifier_text(session)).encode()
    query = identifier_text(query_id).encode()
    digest = blake2b(len(query).to_bytes(8, "little") + query + name, digest_size=8, key=key)
    return int.from_bytes(digest.digest(), "little", signed=True)
