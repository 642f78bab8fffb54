"""What was found, drawn and put in words; nothing is computed here.

The package is the function too: `isrr.report(outcome, queries)` is `isrr.report.made.report`.
"""

import sys
from types import ModuleType
from typing import Any


class _Report(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from isrr.report.made import report

        return report(*arguments, **named)


sys.modules[__name__].__class__ = _Report
