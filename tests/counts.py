"""How many errors a count of false certificates or alarms tolerates, and how surely it notices a level of 3δ."""

import os
from typing import NamedTuple

from scipy.stats import binom


class Count(NamedTuple):
    """Repetitions of a procedure that may err with probability delta.

    Attributes:
        repeats: How often it is repeated.
        delta: How often it may err.
        false_alarms: Probability with which a procedure that errs exactly so often exceeds the limit.
    """

    repeats: int
    delta: float
    false_alarms: float = 1e-3

    @property
    def most(self) -> int:
        """The largest number of errors that is tolerated."""
        return int(binom.ppf(1 - self.false_alarms, self.repeats, self.delta))

    def tolerates(self, errors: int) -> bool:
        """Whether so many errors are tolerated; prints both numbers."""
        print(f"{errors} of {self.repeats:,} at delta = {self.delta:g}, at most {self.most}")
        return errors <= self.most

    @property
    def power(self) -> float:
        """Probability with which a procedure that errs three times as often as it may exceeds the limit.

        Example:
            >>> round(Count(200, 0.05).power, 3)
            0.959
        """
        return float(binom.sf(self.most, self.repeats, 3 * self.delta))

    def __str__(self) -> str:
        return f"{self.most} of {self.repeats:,} at delta = {self.delta:g}: power {self.power:.4f}"


FEWER = int(os.environ.get("REPETITIONS", 400))  # of what takes long; `python -m benchmarks.boundaries` takes 2,000
COUNTS = {
    "any of eight levels": Count(400, 0.05),
    "certificates, any kind of promise": Count(2_000, 0.1),
    "independent configurations": Count(500, 0.1),
    "certificates about lists": Count(FEWER, 0.05),
    "click certificates": Count(2_000, 0.05),
    "rollouts": Count(400, 0.05),
    "misleading data": Count(250, 0.1),
    "alarms of the monitor": Count(500, 0.05),
    "every kind of evidence": Count(500, 0.05),
    "survivors of a selection": Count(1_000, 0.05),
    "survivors of betting": Count(500, 0.05),
    "samples of a table": Count(FEWER, 0.05),
    "comparisons at the boundary": Count(FEWER, 0.05),
    "calibration by default": Count(120, 0.1),
    "calibration by default, other promises": Count(90, 0.1),
}
