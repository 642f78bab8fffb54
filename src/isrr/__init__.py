"""Fairer exposure from any ranking model, with a guarantee on quality.

Names are resolved on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; the table below is for Python
    from isrr.calibration.calibrate import calibrate as calibrate
    from isrr.calibration.check import check as check
    from isrr.calibration.compare import Comparison as Comparison
    from isrr.calibration.compare import compare as compare
    from isrr.calibration.knob import certify as certify
    from isrr.calibration.plan import Plan as Plan
    from isrr.calibration.plan import plan as plan
    from isrr.calibration.start import start as start
    from isrr.clicks.click_certificate import calibrate_clicks as calibrate_clicks
    from isrr.data.columns import Columns as Columns
    from isrr.data.copies import write_queries as write_queries
    from isrr.data.queries import Queries as Queries
    from isrr.data.tables import read_queries as read_queries
    from isrr.errors import CertificateError as CertificateError
    from isrr.errors import DataError as DataError
    from isrr.errors import EngineError as EngineError
    from isrr.errors import IsrrError as IsrrError
    from isrr.errors import MissingExtraError as MissingExtraError
    from isrr.errors import PromiseError as PromiseError
    from isrr.metrics.evaluate import Evaluation as Evaluation
    from isrr.metrics.evaluate import evaluate as evaluate
    from isrr.metrics.metric import Metric as Metric
    from isrr.metrics.metric import metric as metric
    from isrr.monitor import Monitor as Monitor
    from isrr.outcome.certificate import Abstention as Abstention
    from isrr.outcome.certificate import Certificate as Certificate
    from isrr.outcome.certificate import Start as Start
    from isrr.outcome.certificate import load as load
    from isrr.promises import Promise as Promise
    from isrr.ranker.gpl import GPLRanker as GPLRanker
    from isrr.ranker.scale import ScoreMap as ScoreMap
    from isrr.reporting.page import report as report

_NAMES = {
    "isrr.calibration.calibrate": ["calibrate"],
    "isrr.calibration.check": ["check"],
    "isrr.calibration.compare": ["Comparison", "compare"],
    "isrr.calibration.knob": ["certify"],
    "isrr.calibration.plan": ["Plan", "plan"],
    "isrr.calibration.start": ["start"],
    "isrr.clicks.click_certificate": ["calibrate_clicks"],
    "isrr.data.columns": ["Columns"],
    "isrr.data.copies": ["write_queries"],
    "isrr.data.queries": ["Queries"],
    "isrr.data.tables": ["read_queries"],
    "isrr.errors": [
        "CertificateError", "DataError", "EngineError", "IsrrError", "MissingExtraError", "PromiseError",
    ],
    "isrr.metrics.evaluate": ["Evaluation", "evaluate"],
    "isrr.metrics.metric": ["Metric", "metric"],
    "isrr.monitor": ["Monitor"],
    "isrr.outcome.certificate": ["Abstention", "Certificate", "Start", "load"],
    "isrr.promises": ["Promise"],
    "isrr.ranker.gpl": ["GPLRanker"],
    "isrr.ranker.scale": ["ScoreMap"],
    "isrr.reporting.page": ["report"],
}  # fmt: skip
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("isrr")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'isrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
