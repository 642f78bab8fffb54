"""What is asked of a calibration, checked once."""

import math
from dataclasses import dataclass, field
from typing import TypedDict

from isrr.data.sample import SAMPLE
from isrr.errors import PromiseError
from isrr.gains import discount, is_length
from isrr.outcome.findings import JUDGES
from isrr.promises import Promise, check_probability, columns_of
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import NAMED, Evidence
from isrr.risk.select import NAMED as SELECTIONS
from isrr.risk.select import Selection

FLOORS = ((1.8, 0.8), (4, 0.7), (7.5, 0.6), (15, 0.5), (25, 0.4), (math.inf, 0.3))  # up to so much slack, this floor
LARGEST_SHARE_OF_PROMISE = 0.85  # the floor is at most this share of the promised one, and does not keep it alone
PATHS = ("auto", "temperature", "front")


class Floor(TypedDict, total=False):
    """The floor of a ranker, as its arguments."""

    floor: float
    floor_weights: tuple[tuple[float, ...], ...]


NO_FLOOR: Floor = {}


@dataclass(frozen=True)
class Request:
    """What is promised, and how it is tested: the arguments of `isrr.calibrate`, under the same names.

    Attributes:
        k: Length of the lists: the most positions that a promise looks at.
        columns: Columns that the promises read, beside query, item and score.
        delta: The tolerated chance of error of one analysis.
    """

    promises: tuple[Promise, ...]
    confidence: float = 0.95
    path: str | tuple[GPLRanker, ...] = "auto"
    evidence: Evidence = NAMED["betting"]
    selection: Selection = SELECTIONS["fixed_sequence"]
    seed: int = 0
    n_analyses: int = 1
    floor: float | None = None
    distinct: bool = False
    judged_by: str | None = None
    sample: int | None = SAMPLE

    k: int = field(init=False)
    columns: tuple[str, ...] = field(init=False)
    delta: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.promises:
            raise PromiseError("no promise; expected at least one")
        gains = {dict(promise.metric.settings).get("gain") for promise in self.promises}
        if len(gains) > 1:
            raise PromiseError("found promises with different gains; expected one gain for all")
        check_probability("confidence", self.confidence)
        if self.judged_by not in (None, *JUDGES):
            *first, last = JUDGES
            raise PromiseError(f"`judged_by=` must be {', '.join(first)} or {last}, got {self.judged_by!r}")
        if not is_length(self.n_analyses):
            raise PromiseError(
                f"n_analyses must be a whole number ≥ 1, got {self.n_analyses}; it is the number of planned analyses"
            )
        vars(self).update(  # the class is frozen
            k=max(promise.k for promise in self.promises),
            columns=columns_of(self.promises),
            delta=(1 - self.confidence) / self.n_analyses,
        )
        if self.sample is not None and not is_length(self.sample):
            raise PromiseError(f"`sample=` must be a whole number ≥ 1, got {self.sample}")
        if isinstance(self.path, str):
            if self.path not in PATHS:
                raise PromiseError(f"unknown path {self.path!r}; expected one of {', '.join(PATHS)}")
            if self.floor is not None and not 0 <= self.floor < 1:
                raise PromiseError(
                    f"floor must lie in [0, 1), got {self.floor}; it is the share that every query keeps"
                )
        elif self.floor is not None:
            raise PromiseError("the rankers of the path have their own floors; omit `floor=`")
        elif not self.path or any(ranker.k != self.k for ranker in self.path):
            raise PromiseError(f"expected rankers with k = {self.k}, as promised")

    def floor_arguments(self, floor: float) -> Floor:
        """Return a floor as arguments of the ranker: for what promises on utility weigh positions by, else for NDCG."""
        if not floor:
            return NO_FLOOR
        promised = [p.metric.position_weights(p.k) for p in self.promises if p.safe_end == "cold"]
        weights = promised or [discount(self.k)]
        return {"floor": floor, "floor_weights": tuple(dict.fromkeys(tuple(w.tolist()) for w in weights))}

    def floor_for(self, n_tested: int) -> float:
        """Return the floor of every configuration but the order by score.

        It is fixed by the promised shares and by how much the tested queries may lose in all: n · (1 − share). A floor
        bounds the paired losses more tightly, which is worth most where that is little; where it is much, a high floor
        costs some of what could be gained. Measured in docs/guarantees.md. More queries never raise it.
        """
        if self.floor is not None:
            return self.floor
        shares = [p.target for p in self.promises if p.can_be_floored and p.target < 1]  # others are to grow
        if not shares or any(promise.safe_end == "hot" for promise in self.promises):
            return 0.0
        slack = round(n_tested * (1 - max(shares)), 9)  # 40 · (1 − 0.95) is 2
        return min(next(floor for most, floor in FLOORS if slack <= most), LARGEST_SHARE_OF_PROMISE * min(shares))
