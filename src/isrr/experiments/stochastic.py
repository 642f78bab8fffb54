"""The same guarantees on scorers trained as stochastic rankers (appendix C, table 6)."""

from isrr.experiments.coverage import READING, READING_AVERAGES, averages, measure, rows

__all__ = ["READING", "READING_AVERAGES", "averages", "measure", "rows"]
