"""The same guarantees on scorers trained as stochastic rankers (appendix C, table 6)."""

from isrr_paper.experiments.coverage import READING, READING_AVERAGES, averages, measure, rows

__all__ = ["READING", "READING_AVERAGES", "averages", "measure", "rows"]
