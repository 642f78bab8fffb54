"""Stochastic ranking at inference time, with guarantees.

Names are resolved on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isrr.data.queries import Queries
    from isrr.errors import (
        CertificateError,
        DataError,
        GuaranteeError,
        IsrrError,
        MergeError,
        MissingExtraError,
    )

_HOME = {
    "CertificateError": "isrr.errors",
    "DataError": "isrr.errors",
    "GuaranteeError": "isrr.errors",
    "IsrrError": "isrr.errors",
    "MergeError": "isrr.errors",
    "MissingExtraError": "isrr.errors",
    "Queries": "isrr.data.queries",
}

__all__ = [
    "CertificateError",
    "DataError",
    "GuaranteeError",
    "IsrrError",
    "MergeError",
    "MissingExtraError",
    "Queries",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version("isrr")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'isrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
