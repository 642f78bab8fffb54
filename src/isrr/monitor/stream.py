"""One stream of losses per promise and segment: its evidence, since when it seems broken, and what is kept on disk.

Losses lie in [0, 1], and the promise holds exactly when their expectation is at most alpha. While every expected loss,
given the past, is, an alarm is raised with probability at most δ, however long the monitor runs
(`isrr.risk.eprocess`). Nothing here knows where losses come from.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from isrr.counting import counted, in_segment
from isrr.errors import DataError
from isrr.files import write_atomically
from isrr.risk.eprocess import N_BETS, EProcess, bets

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Source = Literal["judgments", "log", "anchor", "control"]
STATE_NAMES: dict[Source, str] = {  # what the file with the state is called, beside the ranker file
    "judgments": "monitor", "log": "shares", "anchor": "monitor", "control": "rollout.monitor",
}  # fmt: skip


class Alarm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broken promise.

    Attributes:
        promise: Which.
        segment: In which segment, or None for all queries.
        n: Losses counted when the alarm was raised.
        unit: What each of them is of.
        evidence: E at the alarm.
        since: When the promise most likely broke, ISO 8601: when the first list after it was served.
        since_loss: The same as a count of losses.
        shortfall: By how much, in units of the metric, since then.
    """

    promise: str
    segment: str | None
    n: int
    unit: str
    evidence: float
    since: str
    since_loss: int
    shortfall: float

    def __str__(self) -> str:
        return (
            f"'{self.promise}' is broken{in_segment(self.segment)}: evidence {self.evidence:.3g} after "
            f"{counted(self.n, self.unit)}; since about {self.since} ({self.unit} {self.since_loss + 1:,}), "
            f"by about {self.shortfall:.3f} (estimates)"
        )


class Stream(msgspec.Struct, forbid_unknown_fields=True):
    """The losses of one promise in one segment, in the order in which they were counted.

    Bet j would have won most had it begun at loss `start[j]`, where its running product was lowest; the bet that would
    have won most tells since when the promise is likely broken.

    Attributes:
        promise, segment: What is monitored.
        alpha: The risk promised.
        slope: How much a loss grows when the metric falls by 1.
        n: Losses counted.
        wealth: Of each bet, for the evidence, (12,).
        won: Logarithm of what each bet would have won since its `start`, which was at `time`, over losses that `sum` to
            so much, (12,) each.
        total: Sum of the losses.
        value, reference: Sums of the promised metric and of what it is compared with.
        value_weight, reference_weight: Over how many losses, by weight: by control, each session is in one of the sums.
    """

    promise: str
    segment: str | None
    alpha: float
    slope: float
    n: int = 0
    wealth: FloatArray = msgspec.field(default_factory=lambda: np.zeros(N_BETS))
    won: FloatArray = msgspec.field(default_factory=lambda: np.full(N_BETS, -1.0))
    start: FloatArray = msgspec.field(default_factory=lambda: np.zeros(N_BETS))
    time: FloatArray = msgspec.field(default_factory=lambda: np.zeros(N_BETS))
    sum: FloatArray = msgspec.field(default_factory=lambda: np.zeros(N_BETS))
    total: float = 0.0
    value: float = 0.0
    reference: float = 0.0
    value_weight: float = 0.0
    reference_weight: float = 0.0

    def __post_init__(self) -> None:
        if min(self.n, *self.wealth) < 0 or not 0 <= self.total <= self.n:
            raise ValueError(f"'{self.promise}': counts, wealth or losses that cannot be")

    @property
    def evidence(self) -> float:
        """Evidence that the promise is broken; alarm where it reaches 1 / δ."""
        return float(EProcess(self.alpha, self.wealth, self.n).evidence)

    def add(
        self,
        loss: float,
        time: float,
        value: float,
        reference: float,
        value_weight: float = 1.0,
        reference_weight: float = 1.0,
    ) -> None:
        """Count one loss, of lists served at a time."""
        process = EProcess(self.alpha, self.wealth, self.n).after(loss)
        lowest = self.won < 0  # each bet would have done better to begin now
        self.won, self.sum = np.where(lowest, 0.0, self.won), np.where(lowest, 0.0, self.sum) + loss
        self.start, self.time = np.where(lowest, self.n, self.start), np.where(lowest, time, self.time)
        self.won += np.log1p(bets(self.alpha) * (loss - self.alpha))
        self.wealth, self.n, self.total = process.wealth, process.n, self.total + loss
        self.value, self.reference = self.value + value, self.reference + reference
        self.value_weight += value_weight
        self.reference_weight += reference_weight

    def alarm(self, unit: str) -> Alarm:
        """Return what to say once the evidence is strong enough."""
        best = int(np.argmax(self.won))
        start = int(self.start[best])
        excess = float(self.sum[best]) / (self.n - start) - self.alpha
        since = datetime.fromtimestamp(float(self.time[best]), UTC).isoformat(timespec="seconds")
        return Alarm(self.promise, self.segment, self.n, unit, self.evidence, since, start, float(excess / self.slope))


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What a monitor remembers.

    Attributes:
        certificate, delta, source, within: What makes it this monitor, with the promises of its streams.
        streams: One per promise and segment.
        since: Only lists served from then on count, in seconds since 1970; what was counted before starts over.
        seen: Keys of the queries counted, where each counts once.
        n_empty: Those of them that have nothing to measure.
        until: Up to when served lists were counted, in seconds since 1970, where they count in order of time.
        alarm: The alarm, once raised; it stays.
    """

    certificate: str
    delta: float
    source: Source
    within: float | None
    streams: list[Stream]
    since: float = 0.0
    seen: set[int] = msgspec.field(default_factory=set)
    n_empty: int = 0
    until: float = -1.0
    alarm: Alarm | None = None
    schema: Literal[2] = 2

    def __post_init__(self) -> None:
        if not 0 <= self.n_empty <= len(self.seen):
            raise ValueError(f"{self.n_empty} of {len(self.seen)} queries are empty")

    def save(self, file: Path) -> None:
        """Write the state, all of it or nothing."""
        write_atomically(file, msgspec.json.encode(self, enc_hook=lambda array: array.tolist()))

    def load(self, file: Path) -> "State":
        """Return what a file remembers of this monitor; refuse what is damaged, or of another one."""
        try:
            known = msgspec.json.decode(file.read_bytes(), type=State, dec_hook=_array)
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise DataError(
                f"{file}: not the state of a monitor: {error}; to start over, remove the file or use another (`state=`)"
            ) from None
        for name in ("certificate", "delta", "source", "within"):
            if getattr(known, name) != getattr(self, name):
                raise DataError(
                    f"{file}: the state of another monitor ({name} {getattr(known, name)}; this one has "
                    f"{getattr(self, name)}); expected the same every time, or a separate file (`state=`)"
                )
        here, there = ([(s.promise, s.segment, s.alpha, s.slope) for s in x.streams] for x in (self, known))
        if here != there:
            raise DataError(f"{file}: not the state of a monitor: its promises are not those of the certificate")
        return self if known.since < self.since else known


def _array(kind: type, numbers: Any) -> FloatArray:
    """Return the numbers of each bet, for `msgspec.json.decode`."""
    array = np.array(numbers, np.float64)
    if array.shape != (N_BETS,) or not np.isfinite(array).all():
        raise ValueError(f"expected {N_BETS} numbers")
    return array
