"""The same guarantees on scorers trained as stochastic rankers (appendix C, table 6)."""

from isrr.experiments.coverage import READING, averages, measure, rows

__all__ = ["READING", "averages", "measure", "rows"]
