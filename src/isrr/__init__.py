"""Fairer exposure from any ranking model, with a guarantee on quality.

Names are resolved on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isrr.calibration.calibrate import calibrate
    from isrr.calibration.check import check
    from isrr.calibration.plan import Plan, plan
    from isrr.calibration.start import start
    from isrr.clicks.calibrate import calibrate_clicks
    from isrr.data.frames import read_queries, write_queries
    from isrr.data.queries import Queries
    from isrr.errors import (
        CertificateError,
        DataError,
        EngineError,
        IsrrError,
        MergeError,
        MissingExtraError,
        PromiseError,
    )
    from isrr.metrics.evaluate import Evaluation, evaluate
    from isrr.metrics.metric import Metric, metric
    from isrr.monitor import Monitor
    from isrr.outcome.certificate import Abstention, Certificate, Start, load
    from isrr.promises import Promise
    from isrr.ranker.gpl import GPLRanker
    from isrr.ranker.scale import ScoreMap
    from isrr.reporting.made import report

_HOME = {
    "Abstention": "isrr.outcome.certificate",
    "Certificate": "isrr.outcome.certificate",
    "CertificateError": "isrr.errors",
    "DataError": "isrr.errors",
    "EngineError": "isrr.errors",
    "Evaluation": "isrr.metrics.evaluate",
    "GPLRanker": "isrr.ranker.gpl",
    "PromiseError": "isrr.errors",
    "IsrrError": "isrr.errors",
    "MergeError": "isrr.errors",
    "MissingExtraError": "isrr.errors",
    "Metric": "isrr.metrics.metric",
    "Monitor": "isrr.monitor",
    "Plan": "isrr.calibration.plan",
    "Promise": "isrr.promises",
    "Queries": "isrr.data.queries",
    "ScoreMap": "isrr.ranker.scale",
    "Start": "isrr.outcome.certificate",
    "calibrate": "isrr.calibration.calibrate",
    "calibrate_clicks": "isrr.clicks.calibrate",
    "check": "isrr.calibration.check",
    "evaluate": "isrr.metrics.evaluate",
    "load": "isrr.outcome.certificate",
    "metric": "isrr.metrics.metric",
    "plan": "isrr.calibration.plan",
    "read_queries": "isrr.data.frames",
    "report": "isrr.reporting.made",
    "start": "isrr.calibration.start",
    "write_queries": "isrr.data.frames",
}

__all__ = [
    "Abstention",
    "Certificate",
    "CertificateError",
    "DataError",
    "EngineError",
    "Evaluation",
    "GPLRanker",
    "IsrrError",
    "MergeError",
    "Metric",
    "MissingExtraError",
    "Monitor",
    "Plan",
    "Promise",
    "PromiseError",
    "Queries",
    "ScoreMap",
    "Start",
    "calibrate",
    "calibrate_clicks",
    "check",
    "evaluate",
    "load",
    "metric",
    "plan",
    "read_queries",
    "report",
    "start",
    "write_queries",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("isrr")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'isrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
