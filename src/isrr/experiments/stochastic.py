"""The same guarantees on scorers trained as stochastic rankers (appendix C, table 6)."""

from isrr.experiments.coverage import READING, measure, rows
from isrr.experiments.pools import STOCHASTIC_SCORERS

__all__ = ["READING", "SCORERS", "measure", "rows"]

SCORERS = STOCHASTIC_SCORERS
