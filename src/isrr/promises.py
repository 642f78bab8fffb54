"""A promise about what a ranker shows, and the losses it is tested by.

    ndcg@5 >= 0.70                              an absolute promise
    ndcg@5 >= 95% of deterministic              a paired one: E U ≥ 0.95 · E U_det, on the same queries
    ndcg@5 >= 80% of deterministic in 90% of lists
                                                about single lists: nine in ten keep four fifths
    exposure(new)@10 >= 20%                     the items of group "new" get a fifth of the exposure; needs no labels
    normalized_disparity@5 <= 0.2               disparity as a share of the largest possible

With v the metric of a ranker on a query, r what it is compared with (the order by score, or merit), and v and r between
low and high, every promise says E D ≤ 0 for

    D = ± (v − share · r − level)      + where it promises at most, − where it promises at least

and is tested by the affine loss X = (D − min D) / (max D − min D) ≤ 1 at alpha = −min D / (max D − min D): the promise
holds exactly when the mean of X over new queries is at most alpha. That is all `isrr.risk` needs to know.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.counting import percent
from isrr.data.queries import FloatArray, Queries
from isrr.errors import PromiseError
from isrr.gains import DISCOUNTS, GAINS, Discount, EmptyQuery, Gain, empty_value, is_length, named
from isrr.metrics.evaluate import evaluate
from isrr.metrics.lists import GoodLists
from isrr.metrics.measure import Measurable, Measure
from isrr.metrics.metric import NAMES, Metric, UnknownMetric, meant
from isrr.metrics.metric import metric as named_metric
from isrr.ranker.gpl import GPLRanker

OF_LISTS = "ndcg@5 >= 80% of deterministic in 90% of lists"
EXAMPLES = {
    "ndcg": "ndcg@5 >= 95% of deterministic",
    "dcg": "dcg@5 >= 90% of deterministic with bound 15",
    "precision": "precision@10 >= 0.6",
    "recall": "recall@20 >= 98% of deterministic",
    "rr": "rr@10 >= 95% of deterministic",
    "hit": "hit(rel=2)@5 >= 0.6",
    "ap": "ap@10 >= 90% of deterministic",
    "kept": "kept@5 >= 0.8",
    "clicks": "clicks@5 >= 95% of deterministic",
    "value(COLUMN)": "value(margin)@10 >= 97% of deterministic with bound 40",
    "exposure(GROUP)": "exposure(new)@10 >= 20%",
    "normalized_disparity": "normalized_disparity@5 <= 50% of deterministic",
    "disparity": "disparity@5 <= 0.2 with bound 10",
    "group_disparity": "group_disparity@5 <= 0.2",
}
Level = float | FloatArray  # one, or one a configuration
MOST_POSITIONS = 10_000  # of a promise; memory and time grow with them, and no list is read that far
INEXACTNESS = 1e-6  # what the exact evaluation may be off by is taken from alpha
Reference = Literal["deterministic", "merit", "production"]
Per = Literal["segment"]
REFERENCES = {"deterministic": "the order by score", "merit": "merit", "production": "production"}

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PROMISE = re.compile(
    rf"""\s*(?P<metric>[A-Za-z_]\w*\s*(?:\([^()]*\))?)\s*@\s*(?P<k>[\w.]+)\s*(?P<relation>>=|<=|≥|≤)\s*
        (?P<number>{_NUMBER})\s*(?P<percent>%)?\s*(?:of\s+(?P<of>[a-z]+))?
        (?:\s+with\s+bound\s+(?P<bound>{_NUMBER}))?
        (?:\s+in\s+(?P<in_lists>{_NUMBER})\s*(?P<percent_of_lists>%)?\s*of\s+lists)?\s*(?P<per>(?<=\s)per\s+segment)?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_SEVERAL = re.compile(r"@.*@|[;&]|,(?!\d)|\band\b", re.IGNORECASE | re.DOTALL)


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability strictly between 0 and 1, or below a half, and guess what was meant."""
    if not 0 < value < 1:
        meant = value / 100 if value >= 50 else 1 - value / 100
        slip = f"; did you mean {meant:g}?" if 1 < value < 100 else ""
        raise PromiseError(f"{name} must lie in (0, 1), got {value:g}{slip}")
    if value < 0.5:
        slip = f"; did you mean {1 - value:g}?" if value <= 0.2 else ""
        raise PromiseError(f"{name} {value:g} is below 0.5{slip}")


@dataclass(frozen=True, init=False, repr=False)
class Promise:
    """A promise about a metric: at least or at most so much, or so much of another.

    Attributes:
        metric: What it is about: a metric or its name.
        k: How many positions it looks at.
        at_least, at_most: The target, one of the two: a value of the metric, or a share where it is relative.
        of: What the target is a share of: None (a plain value), "deterministic" (the metric of the order by score on
            the same queries), "production" (that of another ranking of them), or "merit" (what the group's items earn
            by their gain).
        bound: For metrics without natural bounds: the largest value an item can have (`dcg`,
            `value(COLUMN)`), or a query (`disparity`); a pair where values may be negative.
        per: None, or "segment": the promise holds in every segment, each tested on its own queries.
        empty_query: How queries without a relevant item count: "skip", "zero" or "one"; by default the metric's
            policy.
        target: The level promised: a value, or a share.
        measure: What is measured.
        lists: Which lists are good, where it is about a share of lists; that share is then what is measured, and what
            `at_least` is about.
        in_lists: The share of lists that is promised to be good; None where it is about a mean.
        base_measure: What is measured of each list where it is about a share of lists, otherwise on average.
        compared_with: What that is compared with, as `of`.
        in_percent: Whether targets are written in percent.
        columns: Columns it reads beside query, item and score.
        group: The group of items whose exposure it is about.
        range: Between which values the metric lies on every query.
        target_range: Between which values targets lie; a share of exposure may be promised to grow, so it is searched
            up to twice the target.
        safe_end: Which rankers are expected to keep it best: those nearest to the order by score ("cold"), or those
            furthest from it ("hot"). None where that cannot be told in advance, as for shares of exposure.
        protects_relevance: Whether it sets a lower limit on relevance: by grades, by clicks, or by what stays in its
            position.
        can_be_floored: Whether a floor on every query says something about it: at least a share of the order by score.
        alpha: The risk to certify: the promise holds exactly when the mean loss is at most this.

    Example:
        >>> Promise("ndcg", 5, at_least=0.95, of="deterministic")
        Promise('ndcg@5 >= 95% of deterministic')
        >>> Promise("ndcg", 5, at_least=0.8, of="deterministic", in_lists=0.9)
        Promise('ndcg@5 >= 80% of deterministic in 90% of lists')
    """

    metric: Measurable
    k: int
    at_least: float | None
    at_most: float | None
    of: Reference | None
    bound: tuple[float, float] | None
    per: Per | None
    empty_query: EmptyQuery

    target: float = field(init=False, compare=False)
    measure: Measure = field(init=False, compare=False)
    lists: GoodLists | None = field(init=False, compare=False)
    in_lists: float | None = field(init=False, compare=False)
    base_measure: Measure = field(init=False, compare=False)
    compared_with: Reference | None = field(init=False, compare=False)
    in_percent: bool = field(init=False, compare=False)
    columns: tuple[str, ...] = field(init=False, compare=False)
    group: str | None = field(init=False, compare=False)
    range: tuple[float, float] = field(init=False, compare=False)
    target_range: tuple[float, float] = field(init=False, compare=False)
    safe_end: Literal["cold", "hot"] | None = field(init=False, compare=False)
    protects_relevance: bool = field(init=False, compare=False)
    can_be_floored: bool = field(init=False, compare=False)
    alpha: float = field(init=False, compare=False)

    def __init__(
        self,
        metric: str | Measurable,
        k: int,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        of: Reference | None = None,
        in_lists: float | None = None,
        bound: float | tuple[float, float] | None = None,
        per: Per | None = None,
        empty_query: EmptyQuery | None = None,
    ) -> None:
        about = named_metric(metric) if isinstance(metric, str) else metric
        if in_lists is not None:
            about = _good_lists(about, k, at_least, of, bound, in_lists)
            at_least, of = in_lists, None
        ends = (0.0, float(bound)) if isinstance(bound, int | float) else bound
        policy = about.empty_query if empty_query is None else empty_query
        vars(self).update(  # the class is frozen
            metric=about, k=k, at_least=at_least, at_most=at_most, of=of, bound=ends, per=per, empty_query=policy
        )
        _check(self)
        self._derive()
        _check_target(self)

    def _derive(self) -> None:
        """Set what follows from the settings."""
        about, of, target = self.metric, self.of, self.at_most if self.at_least is None else self.at_least
        assert target is not None
        lists = about if isinstance(about, GoodLists) else None
        base = lists.metric if lists else about
        rising = about.kind == "utility" and self.at_least is not None
        falling = about.kind == "fairness" and not getattr(about, "between_groups", False)
        low, high = about.bounds(self.k, self.bound or (0.0, 1.0))
        floors = about.protected and low >= 0 and about.name != "clicks"
        columns = [*about.columns]
        columns += ["relevance"] if of == "merit" else []
        columns += ["segment"] if self.per else []
        vars(self).update(
            target=target,
            measure=Measure(about, self.k, self.empty_query),
            lists=lists,
            in_lists=target if lists else None,
            base_measure=Measure(base, self.k, self.empty_query),
            compared_with=lists.of if lists else of,
            in_percent=of is not None or about.in_percent,
            columns=tuple(dict.fromkeys(columns)),
            group=about.group,
            range=(low, high),
            target_range=(low, high) if of is None else (0.0, 1.0 if target < 1 else 2 * target),
            safe_end="cold" if rising else "hot" if falling else None,
            protects_relevance=rising and ("relevance" in about.columns or base.name in ("clicks", "kept")),
            can_be_floored=floors and of == "deterministic" and self.at_most is None,
        )
        vars(self).update(alpha=self.loss().alpha)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        metrics: Iterable[Measurable] = (),
        bound: float | tuple[float, float] | None = None,
        per: Per | None = None,
        gain: Gain = "exponential",
        discount: Discount = "log2",
        empty_query: EmptyQuery | None = None,
    ) -> "Promise":
        """Read a promise from text.

        Args:
            text: The promise.
            metrics: Metrics of your own that it may name.
            bound: Largest value of an item (or a query, for disparity); used where the metric needs one.
            per: "segment" for a promise that holds in every segment.
            gain: Gain of a grade, in metrics that use grades.
            discount: Weight of a position.
            empty_query: How queries without a relevant item count; by default as the metric says.

        Example:
            >>> Promise.parse("exposure(new)@10 >= 20%")
            Promise('exposure(new)@10 >= 20%')
        """
        parts = _PROMISE.fullmatch(text)
        if not parts:
            raise PromiseError(_unread(text))
        name, k = re.sub(r"\s+\(", "(", parts["metric"]), parts["k"]
        if not k.isdecimal():
            raise PromiseError(f"{text!r}: expected a whole number of positions after @, got {k!r}")
        own = {known.name: known for known in metrics}
        named(gain, GAINS, "gain")
        named(discount, DISCOUNTS, "discount")
        try:
            about = own.get(name) or named_metric(name, gain=gain, discount=discount)
        except UnknownMetric:
            guess = meant(name, (*NAMES, *own)) or f"; {_examples()}"
            raise PromiseError(f"{name!r} cannot be promised{guess}") from None
        if parts["of"] and parts["of"].lower() not in REFERENCES:
            names = " or ".join(f"'of {name}'" for name in REFERENCES)
            raise PromiseError(f"{text!r}: expected {names}, got 'of {parts['of']}'")
        target, at_least = float(parts["number"]), parts["relation"] in (">=", "≥")
        if about.rising != at_least and about.kind != "share":
            turned = text.replace(parts["relation"], "<=" if at_least else ">=")
            raise PromiseError(f"{text!r} is always true of a bad ranker too; did you mean {turned!r}?")
        if parts["of"] and not parts["percent"]:
            share = text.replace(parts["number"], f"{100 * target:g}%", 1) if target <= 1 else f"{parts['number']}%"
            raise PromiseError(f"{text!r}: a share is written with a percent sign; did you mean {share!r}?")
        if parts["percent"] and not parts["of"] and about.kind != "share":
            share = f"{name}@{k} {parts['relation']} {parts['number']}% of deterministic"
            raise PromiseError(f"{text!r}: percent of what? Write {share!r}, or {target / 100:g} for a value")
        if parts["percent"]:
            target /= 100
        in_lists = None if parts["in_lists"] is None else float(parts["in_lists"]) / 100
        if in_lists is not None and not parts["percent_of_lists"]:
            raise PromiseError(f"{text!r}: a share of lists has a percent sign; expected, say, 'in 90% of lists'")
        if parts["bound"] or in_lists is not None:
            bound = float(parts["bound"]) if parts["bound"] else None
        of: Any = parts["of"].lower() if parts["of"] else None
        return cls(
            about,
            int(k),
            at_least=target if at_least else None,
            at_most=None if at_least else target,
            of=of,
            in_lists=in_lists,
            bound=None if about.bounded else bound,
            per="segment" if parts["per"] else per,
            empty_query=empty_query,
        )

    def __str__(self) -> str:
        about = self.lists or self
        relative = about.of is not None or about.metric.in_percent
        target = f"{100 * about.target:.10g}%" if relative else f"{about.target:.10g}"
        parts = [f"{self.base_measure} {'>=' if self.at_least is not None else '<='} {target}"]
        parts += [f"of {about.of}"] if about.of else []
        parts += [f"with bound {self.bound[1]:g}"] if self.bound else []
        parts += [f"in {100 * self.target:.10g}% of lists"] if self.lists else []
        return " ".join([*parts, *(["per segment"] if self.per else [])])

    def __repr__(self) -> str:
        return f"Promise({str(self)!r})"

    def at(self, target: float) -> "Promise":
        """Return the same promise at another level."""
        return replace(self, at_least=None if self.at_least is None else target,
                       at_most=None if self.at_most is None else target)  # fmt: skip

    def loss(self, floor: Level = 0.0, target: Level | None = None) -> "Loss":
        """Return the loss that tests it, at its own target or at another.

        Where every query keeps a floor, losses are stretched around alpha and stay at most 1: with v ≥ floor · r the
        paired difference share · r − v is at most share − floor times the largest value; without a floor it could be
        share times that.

        Args:
            floor: The share of what it is compared with that every query keeps, one or one per configuration.
            target: Another level than the promised one, one or one per configuration.
        """
        target, (low, high) = self.target if target is None else target, self.range
        share, level = (0.0, target) if self.of is None else (target, 0.0)
        width = (1.0 + share) * (high - low)
        sign, least = 1.0, low - share * high - level  # of D
        if self.at_least is not None:
            sign, least = -1.0, share * low + level - high
        helps = np.logical_and(np.less(0, floor), np.less(floor, target))
        stretch = np.where(helps, target / np.where(helps, np.subtract(target, floor) + INEXACTNESS, 1.0), 1.0)
        alpha = -least / width
        return Loss(
            self,
            stretch * sign / width,
            stretch * -sign * share / width,
            stretch * (-sign * level - least) / width + (1.0 - stretch) * alpha,
            alpha,
            alpha - INEXACTNESS * stretch,
            (0.05 if self.of in ("deterministic", "production") else 0.25) * stretch,
            stretch,
        )

    def floored(self, ranker: GPLRanker) -> bool:
        """Return whether a ranker's floor holds for what is promised."""
        if not self.can_be_floored or ranker.floor == 0.0:
            return False
        return ranker.protects(self.metric.position_weights(self.k))

    def kept_by_definition(self, ranker: GPLRanker) -> bool:
        """Return whether a ranker keeps it whatever the queries, so that nothing is left to test."""
        if self.lists is not None:
            return self.lists.of == "deterministic" and ranker.is_deterministic
        if self.of != "deterministic" or self.range[0] < 0:
            return False
        if self.floored(ranker) and ranker.floor >= self.target:
            return True
        return ranker.is_deterministic and (self.target <= 1 if self.at_least is not None else self.target >= 1)

    def reference(self, queries: Queries, deterministic: FloatArray) -> FloatArray:
        """Return what the metric, or that of each list, is compared with on each query, (n_queries,)."""
        if self.compared_with == "production":
            order, measure = [GPLRanker.deterministic(self.k)], self.base_measure
            return evaluate(queries.need_production(), order, [measure])[measure][:, 0]
        if self.of != "merit":
            return deterministic
        assert self.metric.merit is not None
        merit = self.metric.merit(queries, self.k)
        return np.where(np.isnan(deterministic), np.nan, merit)

    def segments(self, queries: Queries) -> dict[str | None, NDArray[np.bool_]]:
        """Return which queries each segment it is tested in holds; None stands for all of them."""
        if self.per is None:
            return {None: np.ones(len(queries), bool)}
        names = queries.need_segments().astype(str)
        return {str(name): names == name for name in np.unique(names)}

    def kept(self, value: float, reference: float) -> float:
        """Return the promised quantity from means: the metric itself, or its share of what it is compared with."""
        return value if self.of is None else value / reference if reference > 0 else np.nan

    def shown(self, target: float) -> str:
        """Return a level in the promise's own units.

        Example:
            >>> Promise.parse("ndcg@5 >= 95% of deterministic").shown(0.961), Promise.parse("ndcg@5 >= 0.5").shown(0.61)
            ('96.1 % of deterministic', '0.6100')
        """
        of = " of lists" if self.lists else f" of {self.of}" if self.of else ""
        return f"{100 * target:.1f} %{of}" if self.in_percent else f"{target:.4f}"

    def reached(self, level: float) -> str:
        """Return a level that is reached, as a clause.

        Example:
            >>> Promise.parse("ndcg@5 >= 95% of deterministic").reached(0.961)
            'ndcg@5 reaches 96.1 % of deterministic'
            >>> Promise.parse("ndcg@5 >= 80% of deterministic in 90% of lists").reached(0.909)
            '90.9 % of the lists keep 80 % of what the order by score gives (NDCG@5)'
        """
        if self.lists is not None:
            return f"{percent(level)} of the lists {self.lists.in_words(self.k)}"
        return f"{self.measure} {'reaches' if self.at_least is not None else 'comes down to'} {self.shown(level)}"

    def limit(self, level: float) -> str:
        """Return a level as the side on which it bounds, without what it is compared with.

        Example:
            >>> Promise.parse("ndcg@5 >= 95% of deterministic").limit(0.953)
            '≥ 95.3 %'
        """
        return f"{'≥' if self.at_least is not None else '≤'} {self.shown(level).split(' of ')[0]}"

    def kept_so_far(self, kept: float) -> str:
        """Return a level that is measured beside the one that is promised, for a watch that goes on.

        Example:
            >>> Promise.parse("ndcg@5 >= 95% of deterministic").kept_so_far(0.951)
            '95.1 % of deterministic, promised ≥ 95.0 %'
        """
        short = "" if np.isnan(kept) else self.shortfall(kept)
        so_far = "nothing" if np.isnan(kept) else self.shown(kept)
        return f"{so_far}, promised {self.limit(self.target)}{short and f'; {short}'}"

    def shortfall(self, share: float) -> str:
        """Return how many lists fall short, and of what, where such a share of them is good; else nothing.

        Example:
            >>> Promise.parse("ndcg@5 >= 80% of deterministic in 90% of lists").shortfall(0.909)
            '9.1 % of the lists fall short of 80 % of what the order by score gives (NDCG@5)'
        """
        if self.lists is None:
            return ""
        return f"{percent(1 - share)} of the lists fall short of {self.lists.level_in_words(self.k)}"

    @property
    def in_words(self) -> str:
        """The promise as a clause.

        Example:
            >>> Promise.parse("ndcg@5 >= 95% of deterministic").in_words
            'mean NDCG@5 is at least 95 % of what the order by score reaches'
        """
        bound = f"{100 * self.target:.6g} %" if self.in_percent else f"{self.target:.10g}"
        if self.of == "deterministic":
            bound += f" of what {'the order by score reaches' if self.metric.rising else 'it is in the order by score'}"
        elif self.of == "production":
            bound += f" of what {'production reaches' if self.metric.rising else 'it is in production'}"
        elif self.of == "merit":
            bound += " of what its items earn"
        where = " in every segment" if self.per else ""
        if self.lists is not None:
            return f"at least {bound} of the lists {self.lists.in_words(self.k)}{where}"
        return f"mean {self.measure.title} is at {'least' if self.at_least is not None else 'most'} {bound}{where}"

    @property
    def risk_in_words(self) -> str:
        """What the tested risk is, and up to where the promise holds.

        Example:
            >>> Promise.parse("ndcg@5 >= 95% of deterministic").risk_in_words
            'risk = 0.5128 · mean of (1 − NDCG@5 + 0.95 · deterministic NDCG@5); the promise holds if risk ≤ 0.5128'
        """
        loss, title = self.loss(), self.measure.title
        scale = float(np.abs(loss.a))
        a, b, c = (float(part) / scale for part in (loss.a, loss.b, loss.c))

        def times(factor: float) -> str:
            return "" if f"{factor:.4g}" == "1" else f"{factor:.4g} · "

        def term(factor: float, what: str) -> str:
            return f" {'−' if factor < 0 else '+'} {times(abs(factor))}{what}" if factor else ""

        inside = f"{f'{c:.4g}' if c else ''}{term(a, title)}{term(b, f'{self.of} {title}')}".removeprefix(" + ")
        return f"risk = {times(scale)}mean of ({inside}); the promise holds if risk ≤ {self.alpha:.4g}"

    def document(self) -> dict[str, Any]:
        """Return what is written to a file."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        bound = None if self.bound is None else list(self.bound)
        metric = self.base_measure.metric
        single = {}
        if self.lists is not None:
            single = {"at_least": self.lists.target, "of": self.lists.of, "in_lists": self.in_lists}
        return {**plain, "metric": metric.name, "settings": dict(metric.settings), "bound": bound, **single}

    @classmethod
    def read(cls, document: Mapping[str, Any], metrics: Iterable[Measurable] = ()) -> "Promise":
        """Return a promise from what was written; to be measured, metrics of the caller's own must be given."""
        rest = dict(document)
        name, settings = rest.pop("metric"), rest.pop("settings")
        own = {known.name: known for known in metrics}
        try:
            about = own.get(name) or named_metric(name, **settings)
        except (PromiseError, ValueError):
            missing = partial(_refuse_unavailable, name)
            about = Metric(name, missing, whole=None if rest["bound"] else missing)
        return cls(about, **{**rest, "bound": None if rest["bound"] is None else tuple(rest["bound"])})


@dataclass(frozen=True)
class Loss:
    """The loss that tests a promise, X = a · value + b · reference + c ≤ 1; numbers are one or one per configuration.

    Attributes:
        promise: The promise.
        a, b, c: The factors.
        alpha: The promise holds exactly when the mean of X is at most this.
        level: What is tested: alpha less what values may be off by.
        prior: A guess of the deviation of X that knows nothing of the data; paired losses vary less.
        stretch: How far losses are stretched around alpha.
    """

    promise: Promise
    a: Level
    b: Level
    c: Level
    alpha: Level
    level: Level
    prior: Level
    stretch: Level

    def of(self, values: FloatArray, reference: FloatArray) -> FloatArray:
        """Return losses of at most 1, (n_queries, n_grid).

        Args:
            values: The metric of each configuration on each query, (n_queries, n_grid).
            reference: What it is compared with on each query, (n_queries,); unused by absolute promises.
        """
        compared = 0.0 if self.promise.of is None else self.b * reference[:, None]
        losses: FloatArray = self.a * values + compared + self.c
        largest = losses.max(axis=0, initial=-np.inf)
        if np.any(largest > 1.0 + INEXACTNESS * self.stretch):
            name = self.promise.metric.name
            raise PromiseError(
                f"'{self.promise}': a query has a loss of {largest.max():.9g}; {name} lies outside its bounds"
            )
        return np.minimum(losses, 1.0, out=losses)  # exposures are exact to some 1e-7


def _refuse_unavailable(name: str, *_: object) -> FloatArray:
    raise PromiseError(f"{name!r} is a custom metric; pass it as load(…, metrics=[…]) to measure it")


def promises(
    given: "str | Promise | Sequence[str | Promise]", gain: Gain | None = None, discount: Discount | None = None
) -> tuple[Promise, ...]:
    """Return one promise or several, as text or read already; `gain` and `discount` are for those given as text."""
    several = [given] if isinstance(given, str | Promise) else list(given)
    worth: dict[str, Any] = {n: v for n, v in (("gain", gain), ("discount", discount)) if v is not None}
    if worth and not all(isinstance(promise, str) for promise in several):
        name = next(iter(worth))
        raise PromiseError(f"`{name}=` is for promises given as text; expected Promise.parse('…', {name}=…)")
    return tuple(Promise.parse(p, **worth) if isinstance(p, str) else p for p in several)


def columns_of(several: Iterable[Promise]) -> tuple[str, ...]:
    """Columns that promises read, beside query, item and score."""
    return tuple(dict.fromkeys(column for promise in several for column in promise.columns))


def objectives(several: Sequence[Promise], *, judged: bool = True) -> tuple[Measure, Measure]:
    """Return the utility and the disparity that are reported, and weighed against each other, beside some promises.

    Utility is what the first promise on utility is about, otherwise `relevance_measure`. Without judgments, disparity
    takes all items as equally worthy.
    """
    relevance = relevance_measure(several, judged=judged)
    promised = next((p.base_measure for p in several if p.safe_end == "cold"), None)
    disparity = named_metric("disparity", gain=relevance.metric.gain)
    return promised or relevance, disparity.at(relevance.k, relevance.empty_query)


def relevance_measure(several: Sequence[Promise], *, judged: bool) -> Measure:
    """NDCG of the lists that some promises are about; without judgments, the exposure that stays in its place."""
    k, gain = max(promise.k for promise in several), several[0].metric.gain if judged else "equal"
    policies: list[EmptyQuery] = [p.empty_query for p in several if "relevance" in p.metric.columns]
    return named_metric("ndcg" if judged else "kept", gain=gain).at(k, policies[0] if policies else "skip")


def values_alone(several: Sequence[Promise]) -> bool:
    """Return whether some promise protects a value, such as a margin, and none protects relevance."""
    return any(p.safe_end == "cold" for p in several) and not any(p.protects_relevance for p in several)


def refuse_worst(several: Iterable[Promise], policy: str) -> None:
    """Refuse promises that hold for items without a grade counted as `worst`, and may be broken for the true grades."""
    for promise in several:
        fairness = promise.metric.kind == "fairness"
        compared = promise.compared_with
        if policy == "worst" and "relevance" in promise.columns and (fairness or compared is not None):
            why = (
                "other grades may give more disparity"
                if fairness
                else f"other grades may raise what it is compared with ({REFERENCES[compared or 'merit']})"
            )
            raise PromiseError(
                f"'{promise}' cannot be tested with `unjudged=worst`, which is a bound for values such as "
                f"'ndcg@5 >= 0.7' only: {why}; expected `unjudged=zero` or `unjudged=drop`"
            )


def move_together(several: Sequence[Promise]) -> bool:
    """Return whether all promises get safer, or all get less safe, from the coldest ranker to the hottest."""
    ends = {promise.safe_end for promise in several}
    return len(ends) == 1 and None not in ends


def _unread(text: str) -> str:
    if _SEVERAL.search(text):
        how = "a list of texts in Python, -p repeated on the command line"
        return f"{text!r} contains several promises; expected one at a time: {how}"
    if re.match(r"\s*[a-z]\w*\s*(\([^()]*\))?\s*[<>≤≥]", text, re.IGNORECASE):
        return f"{text!r} says nothing of how many positions count; expected @ and a number, as in {EXAMPLES['ndcg']!r}"
    if re.search(r"[<>](?!=)", text):
        return f"{text!r}: expected >= or <=, as in {EXAMPLES['ndcg']!r}"
    return f"cannot read the promise {text!r}; {_examples()}"


def _examples() -> str:
    return "promises look like this: " + "; ".join([*EXAMPLES.values(), OF_LISTS])


def _good_lists(
    metric: Measurable, k: int, at_least: float | None, of: Reference | None, bound: Any, share: float
) -> GoodLists:
    """Return which lists are good; refuse what cannot be said of a single list."""
    name = metric.name
    if metric.kind == "fairness" or name == "clicks":
        raise PromiseError(
            f"{name} is measured over many lists, and a single list has none; expected a metric such as ndcg, or a "
            "promise without 'in … of lists'"
        )
    if at_least is None:
        raise PromiseError(f"a promise about lists says what they reach: expected at least so much {name}, not at most")
    if of == "merit":
        raise PromiseError("single lists are compared with the order by score or production, not with merit")
    if bound is not None:
        raise PromiseError(f"a promise about lists needs no bound; expected {name} without one")
    if not 0 < share < 1:
        slip = f"; did you mean {share / 100:g}?" if 2 <= share < 100 else ""
        raise PromiseError(f"the share of lists must lie in (0, 1), got {share:g}{slip}")
    most = 1.0 if of == "deterministic" or (of is None and metric.bounded) else np.inf
    if not 0 < at_least <= most or at_least == np.inf:
        raise PromiseError(f"what a list of {name}@{k} reaches must lie in (0, {most:g}], got {at_least:g}")
    return GoodLists(metric, float(at_least), of)


def _check(promise: Promise) -> None:
    """Refuse what cannot be tested, and say what would."""
    name = promise.metric.name
    if not is_length(promise.k) or promise.k > MOST_POSITIONS:
        raise PromiseError(f"{name}@{promise.k}: expected a whole number of positions k from 1 to {MOST_POSITIONS:,}")
    object.__setattr__(promise, "k", int(promise.k))
    if (promise.at_least is None) == (promise.at_most is None):
        raise PromiseError(f"a promise about {name} is either at_least or at_most a target; expected one of them")
    if promise.metric.kind != "share" and promise.metric.rising != (promise.at_least is not None):
        way = "at_least" if promise.metric.rising else "at_most"
        raise PromiseError(
            f"{name} is promised with {way}, as larger is {'better' if promise.metric.rising else 'worse'}"
        )
    if promise.of not in (None, *REFERENCES):
        raise PromiseError(f"a target is a share of {' or '.join(REFERENCES)}, got {promise.of!r}")
    if promise.of == "merit" and promise.metric.merit is None:
        raise PromiseError(f"{name} cannot be compared with merit; only exposure(GROUP) can")
    if promise.per not in (None, "segment"):
        raise PromiseError(f"per must be 'segment' or left out, got {promise.per!r}")
    empty_value(promise.empty_query)
    _check_bound(promise)


def _check_bound(promise: Promise) -> None:
    if promise.metric.bounded:
        if promise.bound is not None:
            raise PromiseError(f"{promise.metric.name} always lies between 0 and 1; omit the bound")
        return
    if promise.bound is None:
        fairness = promise.metric.kind == "fairness"
        whose = "a query" if fairness else "an item"
        other = ", or promise normalized_disparity" if fairness else ""
        raise PromiseError(
            f"{promise.metric.name} has no natural bound; expected 'with bound B', where B is the largest value "
            f"{whose} can have{other}"
        )
    if len(promise.bound) != 2 or not np.isfinite(promise.bound).all() or promise.bound[0] > 0 or promise.bound[1] <= 0:
        raise PromiseError(f"bound must be a positive number, or a pair (low ≤ 0, high > 0); got {promise.bound}")


def _check_target(promise: Promise) -> None:
    target, of, is_share = promise.target, promise.of, promise.metric.kind == "share"
    grows = of is not None and (
        is_share or of in ("merit", "production")
    )  # a boost may give a group more than it is compared with
    low, high = promise.range if of is None else (0.0, np.inf if grows else 1.0)
    if not low < target < high:
        if target == high or (of is not None and target > high):
            why = "it always holds" if promise.at_most is not None else "no random ranker can keep it"
            why = "lower it" if is_share and promise.at_least is not None else why
        elif 1 < target <= 100 and is_share:
            why = f"did you mean {target:g}%, or {100 * target:g}% of deterministic?"
        elif 1 < target <= 100 and of is None and promise.metric.bounded:
            why = f"write {target / 100:g}, or {target:g}% of deterministic"
        else:
            why = "lower it" if target > low else "raise it"
        raise PromiseError(f"'{promise}' cannot be tested: the target must lie in ({low:g}, {high:g}); {why}")
    if promise.loss().level <= 0:
        end, way = (f"{high:g}", "lower it") if promise.at_least is not None else (f"{low:g}", "raise it")
        raise PromiseError(
            f"'{promise}' cannot be tested: values are known to {INEXACTNESS:g}, and the target is no further from "
            f"{end}; {way}"
        )
