"""What an outcome is made of: numbers measured, tests made, configurations tried, and where all of it comes from."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any, ClassVar, get_type_hints

from isrr.counting import counted, in_segment, percent
from isrr.data.unjudged import checked_policy
from isrr.promises import Promise, columns_of
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import FAR

MOSTLY = 0.5
JUDGES = {"people": "people", "model": "a model", "both": "people and a model"}  # who judged, and how it is printed
ENOUGH_LEFT = 0.95  # share of NDCG@k that a ranker keeps, where one can be chosen that does
LEAST_LEFT = 0.9  # share of NDCG@k below which an outcome warns, where nothing is promised about it


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Of the libraries that a certificate depends on."""
    return tuple((name, version(name)) for name in ("isrr", "numpy", "numba"))


_KINDS: dict[str, Callable[[object], bool]] = {
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "collections.abc.Mapping[str, str]": lambda value: (
        isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)
    ),
    "tuple[str, ...]": lambda value: isinstance(value, tuple) and all(map(_KINDS["str"], value)),
    "tuple[float, ...]": lambda value: isinstance(value, tuple) and all(map(_KINDS["float"], value)),
}
_HINTS: dict[type[Any], dict[str, str]] = {}


def _annotations(record: type[Any]) -> dict[str, str]:
    if record not in _HINTS:
        hints = get_type_hints(record).items()
        _HINTS[record] = {name: kind.__name__ if isinstance(kind, type) else str(kind) for name, kind in hints}
    return _HINTS[record]


class Record:
    """What refuses numbers and texts that are not what its annotations say."""

    def __post_init__(self) -> None:
        for name, text in _annotations(type(self)).items():
            value = getattr(self, name)
            if value is None and text.endswith(" | None"):
                continue
            fits = _KINDS.get(text.removesuffix(" | None"))
            if fits is not None and not fits(value):
                raise ValueError(f"{name} must be {text}, got {value!r}")


@dataclass(frozen=True)
class Estimate(Record):
    """A number measured on the calibration queries, with an approximate 95 % interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value!r} lies outside its interval")

    @classmethod
    def around(cls, value: float, error: float) -> "Estimate":
        """The value ± 1.96 standard errors."""
        return cls(float(value), float(value - 1.96 * error), float(value + 1.96 * error))

    @classmethod
    def of_share(cls, value: float, error: float) -> "Estimate":
        """The same of a share, which lies between 0 and 1."""
        around = cls.around(value, error)
        return cls(around.value, max(around.low, 0.0), min(around.high, 1.0))

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"

    @property
    def in_percent(self) -> str:
        """The value and how far its interval reaches."""
        return f"{percent(self.value)} (± {100 * max(self.high - self.value, self.value - self.low):.1f})"


@dataclass(frozen=True)
class Test(Record):
    """One promise, in one segment, as it was tested for the ranker in use.

    Attributes:
        segment: The segment, or None for all queries.
        evidence: Name of the test.
        measured: The promised quantity: the metric's mean, or its share of what it is compared with.
        level: The strongest target that these queries would certify for this ranker; None where not computed.
        risk: Mean loss.
        bound: Upper confidence bound on the risk at the certificate's level; None where only sums were kept.
        pvalue: Smallest level at which the promise would be certified.
    """

    __test__: ClassVar[bool] = False  # not a pytest class

    promise: Promise
    segment: str | None
    n_queries: int
    evidence: str
    measured: float
    level: float | None
    risk: float
    bound: float | None
    pvalue: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_queries < 1 or not 0 <= self.pvalue <= 1:
            raise ValueError(f"a test on {self.n_queries} queries with p = {self.pvalue}")
        if self.level is not None:
            self.promise.at(self.level)

    @property
    def in_words(self) -> str:
        """What was kept, in the reader's units: measured, promised and proven."""
        shown = self.promise.shown(self.measured)
        promised = f"promised {self.promise.limit(self.promise.target)}"
        proven = "" if self.level is None else f", proven {self.promise.limit(self.level)}"
        title = self.promise.measure.title
        about = f"{shown} {title}" if self.promise.of == "deterministic" else f"{title} at {shown}"
        return f"{about}{in_segment(self.segment)} ({promised}{proven})"


@dataclass(frozen=True)
class Quality(Record):
    """What becomes of the quality of the lists under a ranker, as measured on at most 20,000 tested queries.

    Attributes:
        measure: What it is measured by: NDCG@k where there are grades, else kept@k, the share of the exposure that
            stays where the order by score puts it.
        before, after: Its mean in the order by score and under the ranker.
        remaining: The second as a share of the first.
        halved: Share of the lists, drawn 32 times per query, worth less than half of the query's order by score.
        changed: Share of these lists whose first k places differ from the order by score.
    """

    measure: str
    before: Estimate
    after: Estimate
    remaining: Estimate
    halved: Estimate
    changed: Estimate

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.halved.value <= 1 and 0 <= self.changed.value <= 1):
            raise ValueError("shares of lists lie between 0 and 1")

    def lines(self, utility_name: str, promised: bool) -> list[str]:
        """What certificates and checks print; numbers that stand there as utility are not repeated."""
        known = self.measure == utility_name or self.measure.startswith("kept")
        numbers = "" if known else f": {self.after.value:.4f}; order by score {self.before.value:.4f}"
        about = "" if promised else "; nothing is promised about it"
        return [
            f"quality      {self.remaining.in_percent} of {self.measure} remains{numbers}{about}",
            f"lists        {self.halved.in_percent} lose more than half of their {self.measure}; "
            f"{self.changed.in_percent} differ from the order by score",
        ]


@dataclass(frozen=True)
class Point(Record):
    """One configuration of the path: what it was measured to do."""

    ranker: GPLRanker
    utility: Estimate
    disparity: Estimate
    fairness_gain: Estimate
    certified: bool
    bound: float | None


@dataclass(frozen=True)
class ClickLog(Record):
    """Where clicks come from.

    Attributes:
        unit: What is independent of one another: "impression", "session" or "user".
        n_impressions, n_clicks: How many count.
        anchor: Least chance with which a list was the order by score.
        block: Units whose losses were averaged before they were tested.
        shown_by_score: Share of the lists that showed the order by score, and `expected_by_score` the share that their
            loggers show; None for a rollout.
        left_out: How many lists and clicks were left out, by reason.
        assumption: What was assumed of users, beyond independent units and later ones like these: "" for a rollout.
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


@dataclass(frozen=True, kw_only=True)
class Provenance(Record):
    """Where an outcome comes from, enough to make it again.

    Attributes:
        n_queries: Judged queries that were tested on.
        n_skipped: Judged queries left out because they have nothing to measure, such as a relevant item.
        n_set_aside: Judged queries used to fix the path, and not tested on.
        n_single: Judged queries, of all, with a single item, which any order ranks perfectly.
        n_repeated: Judged queries with the scores and the relevance of another; an estimate above 100,000 queries.
        distinct: Whether these were left out.
        requested_path: The path that was asked for.
        path, path_basis: Which path was searched and what it was fixed by.
        evidence, selection: What was asked for.
        caveats: Why these give no guarantee, if so.
        method, n_draws: How values were found.
        seed: Random seed of the draws.
        data: Fingerprint of the judged queries (ids, scores, relevance).
        judgments: Fingerprint of their ids, those of items included, and relevance: the same for other scores.
        hash_key: Key of the canonical order; empty where values were summed up, in no order.
        made_ids: Whether query ids were made from positions.
        score_quantiles: Raw scores at 0.1, 1, 50, 99 and 99.9 %, over 20,000 queries drawn by key where there are more.
        eligibility_quantiles: The best item's chance of first place in each list under the ranker in use, at the same.
        tied_share: Share of the first k places in the order by score that hold an item whose score another item shares.
        unjudged: How items without a grade count, see `isrr.data.unjudged`.
        unjudged_share: Share of the first k places in the order by score that hold an item without a grade.
        near_bound: How near values come to a declared bound, as a share.
        looks_clicked: A warning where the relevance is probably clicks; else empty.
        far_above, far_below: Scores that lie more than 100 spreads away from their query's median, among those queries
            that the quantiles are taken from and those set aside.
        n_analyses: Planned analyses of the data, over which delta was split.
        analysis: Which analysis of these judgments this is, as far as is known.
        spent: Tolerated chance of error of this analysis and those before it together; None where only their number is
            known, each taken to have been tested as this one was.
        versions: Of what computed it.
        clicks: The click log, where clicks were counted in place of judgments; queries are then its units.
        judged_by: Who judged, one of `JUDGES`; None where it was not said.
        groups: The groups of items that calibration saw, where a promise is about groups; empty where there are more
            than 1,000.
    """

    n_queries: int
    n_skipped: int = 0
    n_set_aside: int = 0
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
    score_quantiles: tuple[float, ...]
    eligibility_quantiles: tuple[float, ...]
    n_single: int = 0
    n_repeated: int = 0
    distinct: bool = False
    tied_share: float = 0.0
    unjudged: str = "refuse"
    unjudged_share: float = 0.0
    near_bound: float = 0.0
    looks_clicked: str = ""
    far_above: int = 0
    far_below: int = 0
    n_analyses: int = 1
    analysis: int = 1
    spent: float | None = None
    judgments: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: dict(_versions()))
    clicks: ClickLog | None = None
    judged_by: str | None = None
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_policy(self.unjudged)
        if self.judged_by not in (None, *JUDGES):
            raise ValueError(f"judged_by must be one of {', '.join(JUDGES)}; got {self.judged_by!r}")
        for name in ("score_quantiles", "eligibility_quantiles"):
            found = getattr(self, name)
            if len(found) != 5 or list(found) != sorted(found):
                raise ValueError(f"{name} must be five rising numbers, got {found}")
        counts = (self.n_queries - 1, self.n_skipped, self.n_set_aside, self.n_single, self.n_repeated)
        if min(counts) < 0:
            raise ValueError("counts of queries must not be negative, and some must have been tested on")
        if min(self.analysis, self.n_analyses) < 1:
            raise ValueError(f"analyses are counted from 1, got {self.analysis} of {self.n_analyses} planned")

    @property
    def judge(self) -> str:
        """Who judged, as it is printed; empty where it was not said."""
        return JUDGES.get(self.judged_by or "", "")

    @property
    def unit(self) -> str:
        """What was tested on, one of them."""
        return "judged query" if self.clicks is None else self.clicks.unit

    @property
    def n_judged(self) -> int:
        """Judged queries in all."""
        return self.n_queries + self.n_skipped + self.n_set_aside

    @property
    def share_single(self) -> float:
        """Share of the judged queries that have a single item."""
        return self.n_single / self.n_judged


def unit_needed(promises: Sequence[Promise]) -> str:
    """What promises need more of, one of them: labels only where a promise reads them."""
    return "judged query" if "relevance" in columns_of(promises) else "query"


def needed_in_words(n_queries: int | None, promises: Sequence[Promise], unit: str = "query") -> str:
    """How many queries promises need, and whether these need labels.

    Example:
        >>> needed_in_words(7_012, [Promise.parse("exposure(new)@10 >= 20%")])
        'about 7,012 queries, no labels needed'
    """
    if n_queries is None:
        return "more than any number"
    if unit == "query":
        unit = unit_needed(promises)
    return f"about {counted(n_queries, unit)}{', no labels needed' if unit == 'query' else ''}"


def far_off(above: int, below: int) -> str:
    """What to say where scores lie far from those of their query; else nothing.

    Example:
        >>> far_off(4, 0)
        "4 scores lie more than 100 spreads above their query's median: promoted items?"
    """
    if not above + below:
        return ""
    where = "above" if below == 0 else "below" if above == 0 else "above or below"
    lie, why = ("lies", "its query's median: a") if above + below == 1 else ("lie", "their query's median:")
    what = "missing score filled in" if above == 0 else "promoted item"
    what = what if above + below == 1 else what.replace("score", "scores").replace("item", "items")
    return f"{counted(above + below, 'score')} {lie} more than {FAR} spreads {where} {why} {what}?"


def mostly_single(share: float) -> str:
    """What to say where most queries have a single item, so that the query column is likely another; else nothing."""
    if share <= MOSTLY:
        return ""
    return (
        f"{min(share, 0.99):.0%} of the queries have a single item, which any order ranks perfectly: are the columns "
        "of queries and items swapped (`query=`, `item=`)?"
    )
