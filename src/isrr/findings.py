"""What an outcome is made of: numbers measured, tests made, configurations tried, and where all of it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import ClassVar

from isrr.guarantee import Guarantee
from isrr.ranker.gpl import GPLRanker

THE_TESTED = "the calibration queries' scores"  # as the basis of a path


@dataclass(frozen=True)
class Estimate:
    """A number measured on the calibration queries, with an approximate 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float) -> "Estimate":
        """The value ± 1.96 standard errors."""
        return cls(float(value), float(value - 1.96 * error), float(value + 1.96 * error))

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Test:
    """One promise, in one segment, as it was tested for the ranker in use.

    Attributes:
        guarantee: The promise.
        segment: The segment, or None for all queries.
        n_queries: Queries tested on.
        evidence: Name of the test.
        risk: Mean loss.
        bound: Upper confidence bound on the risk at the certificate's level; None where only sums were kept.
        pvalue: Smallest level at which the promise would be certified.
        level: The strongest target that these queries would certify for this ranker; None where not computed.
    """

    __test__: ClassVar[bool] = False  # not a pytest class

    guarantee: Guarantee
    segment: str | None
    n_queries: int
    evidence: str
    risk: float
    bound: float | None
    pvalue: float
    level: float | None


@dataclass(frozen=True)
class Point:
    """One configuration of the path: what it was measured to do."""

    ranker: GPLRanker
    utility: Estimate
    disparity: Estimate
    fairness_gain: Estimate
    certified: bool
    bound: float | None


@dataclass(frozen=True)
class Provenance:
    """Where an outcome comes from, enough to make it again.

    Attributes:
        n_queries: Judged queries that were tested on.
        n_skipped: Judged queries left out for having no relevant item.
        n_set_aside: Judged queries used to fix the path, and not tested on.
        n_single: Judged queries, of all, with a single item, which any order ranks perfectly.
        path, path_basis: Which path was searched and what it was fixed by.
        evidence, selection: What was asked for.
        method, n_draws: How utilities were evaluated.
        seed: Names the noise.
        data: Fingerprint of the judged queries (ids, scores, relevance).
        judgments: Fingerprint of their ids, those of items included, and relevance: the same for other scores.
        hash_key: Key of the canonical order; empty where losses were summed up, in no order.
        made_ids: Whether query ids were made from positions.
        score_quantiles: Raw scores at 0.1, 1, 50, 99 and 99.9 %, over 20,000 queries drawn by key where there are more.
        eligibility_quantiles: The best item's chance of first place in each list under the ranker in use, at the same.
        planned_looks: Over how many looks at the data delta was split.
        look: Which look at these judgments this is, as far as is known.
        spent: Tolerated chance of error of this look and those before it together; None where only their number is
            known, each taken to have been tested as this one was.
        versions: Of what computed it.
    """

    n_queries: int
    n_skipped: int
    n_set_aside: int
    path: str
    path_basis: str
    evidence: str
    selection: str
    method: str
    n_draws: int
    seed: int
    data: str
    hash_key: str
    made_ids: bool
    score_quantiles: tuple[float, ...]
    eligibility_quantiles: tuple[float, ...] = ()
    n_single: int = 0
    planned_looks: int = 1
    look: int = 1
    spent: float | None = None
    judgments: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: {n: version(n) for n in ("isrr", "numpy", "numba")})

    @property
    def share_single(self) -> float:
        """Share of the judged queries that have a single item."""
        return self.n_single / (self.n_queries + self.n_skipped + self.n_set_aside)

    @property
    def path_saw_the_tested(self) -> bool:
        """Whether the path was fixed by the very queries it was tested on, which no confidence allows for."""
        return self.path_basis == THE_TESTED


def mostly_single(share: float) -> str:
    """What to say where most queries have a single item, so that the query column is likely another; else nothing."""
    if share <= 0.5:
        return ""
    return (
        f"{min(share, 0.99):.0%} of the queries have a single item, which any order ranks perfectly: are the columns "
        "of queries and items swapped (`query=`, `item=`)?"
    )
