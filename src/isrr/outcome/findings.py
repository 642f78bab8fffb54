"""The parts of an outcome: measurements, tests, configurations, and where all of it comes from."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta, Struct, field

from isrr.counting import percent
from isrr.promises import Promise, columns_of
from isrr.ranker.gpl import GPLRanker

if TYPE_CHECKING:
    PromiseRead = Promise
else:
    PromiseRead = Any  # read by `load` before msgspec converts the rest: a promise may hold functions

Count = Annotated[int, Meta(ge=0)]
Five = Annotated[tuple[float, ...], Meta(min_length=5, max_length=5)]
JUDGES = {"people": "people", "model": "a model", "both": "people and a model"}  # as they are printed
ENOUGH_LEFT = 0.95  # share of NDCG@k that a ranker keeps, where one can be chosen that does
LEAST_LEFT = 0.9  # share of NDCG@k below which an outcome warns, where nothing is promised about it


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of the libraries that a certificate depends on."""
    return tuple((name, version(name)) for name in ("isrr", "numpy", "numba"))


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of an outcome; types are checked when it is loaded."""


class Estimate(Record, frozen=True):
    """A number measured on the calibration queries, with an approximate 95 % interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value!r} lies outside its interval")

    @classmethod
    def around(cls, value: float, error: float, low: float = -math.inf, high: float = math.inf) -> "Estimate":
        """Return the value ± 1.96 standard errors, between the least and the largest value there can be."""
        return cls(float(value), max(float(value - 1.96 * error), low), min(float(value + 1.96 * error), high))

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"

    @property
    def in_percent(self) -> str:
        """The value and half the width of its interval, in percent."""
        return f"{percent(self.value)} (± {100 * max(self.high - self.value, self.value - self.low):.1f})"


class Test(Record, frozen=True):
    """One promise, in one segment, as it was tested for the ranker in use.

    Attributes:
        segment: The segment, or None for all queries.
        evidence: Name of the test.
        measured: The promised quantity: the metric's mean, or its share of what it is compared with.
        level: The strongest target that these queries would certify for this ranker; None where not computed.
        risk: Mean loss.
        bound: Upper confidence bound on the risk at the certificate's level; None where it was not computed.
        pvalue: Smallest level at which the promise would be certified.
    """

    __test__: ClassVar[bool] = False  # not a pytest class

    promise: PromiseRead
    segment: str | None
    n_queries: Annotated[int, Meta(ge=1)]
    evidence: str
    measured: float
    level: float | None
    risk: float
    bound: float | None
    pvalue: Annotated[float, Meta(ge=0, le=1)]


class Quality(Record, frozen=True):
    """The quality of the lists before and under a ranker, measured on at most 20,000 tested queries.

    Attributes:
        measure: What it is measured by: NDCG@k where there are grades, else kept@k, the share of the exposure that
            stays where the order by score puts it.
        before, after: Its mean in the order by score and under the ranker.
        remaining: The second as a share of the first.
        halved: Share of the lists, drawn 32 times per query, worth less than half of the query's order by score.
        changed: Share of these lists whose first k positions differ from the order by score.
    """

    measure: str
    before: Estimate
    after: Estimate
    remaining: Estimate
    halved: Estimate
    changed: Estimate


class Point(Record, frozen=True):
    """One configuration of the path and what it was measured to do."""

    ranker: GPLRanker
    utility: Estimate
    disparity: Estimate
    fairness_gain: Estimate
    certified: bool
    bound: float | None


class ClickLog(Record, frozen=True):
    """Where clicks come from.

    Attributes:
        unit: What is independent of one another: "impression", "session" or "user".
        n_impressions, n_clicks: How many count.
        anchor: Least chance with which a list was the order by score.
        block: Units whose losses were averaged before they were tested.
        left_out: How many lists and clicks were left out, by reason.
        assumption: What was assumed of users, beyond independent units and later ones like these: "" for a rollout.
        shown_by_score: Share of the lists that showed the order by score, and `expected_by_score` the share that their
            loggers show; None for a rollout.
    """

    unit: str
    n_impressions: int
    n_clicks: int
    anchor: float
    block: int
    left_out: Mapping[str, int]
    assumption: str
    shown_by_score: float | None = None
    expected_by_score: float | None = None


class Provenance(Record, frozen=True, kw_only=True):
    """Where an outcome comes from, enough to compute it again.

    Attributes:
        n_queries: Judged queries that were tested on.
        n_skipped: Judged queries left out because they have nothing to measure, such as a relevant item.
        n_set_aside: Judged queries used to fix the path, and not tested on.
        n_table: Queries of the table that they were drawn from; 0 where it is not known.
        sample: How many were to be drawn, where the table has more; None where all were used.
        table: Names the query ids of the table, see `isrr.data.sample`; empty where ids were made from positions.
        n_single: Judged queries, of all, with a single item, which any order ranks perfectly.
        n_repeated: Judged queries with the scores and the relevance of another.
        distinct: Whether these were left out.
        requested_path: The path that was asked for.
        path, path_basis: Which path was searched and what it was fixed by.
        evidence, selection: What was asked for.
        caveats: Why these give no guarantee, if so.
        method, n_draws: How values were computed.
        seed: Random seed of the draws.
        data: Fingerprint of the judged queries (ids, scores, relevance).
        judgments: Fingerprint of their ids, those of items included, and relevance: the same for other scores.
        hash_key: Key of the canonical order.
        made_ids: Whether query ids were numbered by position.
        score_quantiles: Raw scores at 0.1, 1, 50, 99 and 99.9 %, over 20,000 queries drawn by key where there are more.
        eligibility_quantiles: The best item's chance to be first in each list under the ranker in use, at the same.
        tied_share: Share of the first k positions in the order by score that hold an item with a tied score.
        unjudged: How items without a grade count, see `isrr.data.unjudged`.
        unjudged_share: Share of the first k positions in the order by score that hold an item without a grade.
        dropped: Rows of the table that were left out because that was asked for, by the option's name.
        n_lacking: Judged queries that production lacks, which count 0 there.
        near_bound: How near values come to a declared bound, as a share.
        doubtful_grades: A warning where the relevance is probably the scores, against them, or clicks; else empty.
        far_above, far_below: Scores that lie more than 100 spreads away from their query's median, among those queries
            that the quantiles are taken from and those set aside.
        n_analyses: Planned analyses of the data, over which delta was split.
        analysis: Which analysis of these judgments this is, as far as is known.
        spent: Tolerated chance of error of this analysis and those before it together; None where only their number is
            known, each taken to have been tested as this one was.
        versions: Of what computed it.
        clicks: The click log, where clicks were counted in place of judgments; queries are then its units.
        judged_by: Who judged; None where it was not said.
        groups: The groups of items that calibration saw, where a promise is about groups; empty where there are more
            than 1,000.
    """

    n_queries: Annotated[int, Meta(ge=1)]
    n_skipped: Count = 0
    n_set_aside: Count = 0
    n_table: Count = 0
    sample: Count | None = None
    table: str = ""
    requested_path: str
    path: str
    path_basis: str
    evidence: str
    selection: str
    caveats: tuple[str, ...] = ()
    method: str
    n_draws: int = 0
    seed: int = 0
    data: str
    hash_key: str
    made_ids: bool = False
    score_quantiles: Five
    eligibility_quantiles: Five
    n_single: Count = 0
    n_repeated: Count = 0
    distinct: bool = False
    tied_share: float = 0.0
    unjudged: Annotated[str, Meta(pattern="^(refuse|zero|drop|worst)$")] = "refuse"
    unjudged_share: float = 0.0
    dropped: Mapping[str, Count] = field(default_factory=dict)
    n_lacking: Count = 0
    near_bound: float = 0.0
    doubtful_grades: str = ""
    far_above: int = 0
    far_below: int = 0
    n_analyses: Annotated[int, Meta(ge=1)] = 1
    analysis: Annotated[int, Meta(ge=1)] = 1
    spent: float | None = None
    judgments: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: dict(_versions()))
    clicks: ClickLog | None = None
    judged_by: Annotated[str, Meta(pattern="^(people|model|both)$")] | None = None
    groups: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """What was tested on, one of them."""
        return "judged query" if self.clicks is None else self.clicks.unit

    @property
    def n_judged(self) -> int:
        """Judged queries in all."""
        return self.n_queries + self.n_skipped + self.n_set_aside


def unit_needed(promises: Sequence[Promise]) -> str:
    """Return what promises need more of, one of them: labels only where a promise reads them."""
    return "judged query" if "relevance" in columns_of(promises) else "query"
