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
    from isrr.metrics.evaluate import Evaluation, evaluate, expected_disparity, expected_ndcg
    from isrr.monitor import Monitor
    from isrr.ranker.gpl import GPLRanker
    from isrr.scores.standardize import ScoreMap

_HOME = {
    "CertificateError": "isrr.errors",
    "DataError": "isrr.errors",
    "Evaluation": "isrr.metrics.evaluate",
    "GPLRanker": "isrr.ranker.gpl",
    "GuaranteeError": "isrr.errors",
    "IsrrError": "isrr.errors",
    "MergeError": "isrr.errors",
    "MissingExtraError": "isrr.errors",
    "Monitor": "isrr.monitor",
    "Queries": "isrr.data.queries",
    "ScoreMap": "isrr.scores.standardize",
    "evaluate": "isrr.metrics.evaluate",
    "expected_disparity": "isrr.metrics.evaluate",
    "expected_ndcg": "isrr.metrics.evaluate",
}

__all__ = [
    "CertificateError",
    "DataError",
    "Evaluation",
    "GPLRanker",
    "GuaranteeError",
    "IsrrError",
    "MergeError",
    "MissingExtraError",
    "Monitor",
    "Queries",
    "ScoreMap",
    "evaluate",
    "expected_disparity",
    "expected_ndcg",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version("isrr")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'isrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
