"""What can be measured of a ranker: metrics as objects.

Nearly everything people ask of a ranking is linear in exposure: every item has a value, every position a weight, and

    metric(query) = Σ over positions j ≤ k of weight(j) · E[value of the item at j]  /  what 1 means for the query

`Metric` is that; `ndcg`, `dcg`, `precision`, `recall`, `value(COLUMN)`, `exposure(GROUP)` and `kept` are instances.
So is `clicks`, whose values are in no table of queries: they are estimated from a log (`isrr.clicks`).
Disparity is the second kind, quadratic in exposure: see `isrr.metrics.disparity`. The third is about the first relevant
item of a list, or the whole list: see `isrr.metrics.first`.

A metric of your own takes a few lines, and works wherever a named one does:

    margin = Metric("margin", value=lambda queries: queries.column("margin"), columns=("value:margin",))
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.errors import PromiseError
from isrr.gains import (
    Discount,
    EmptyQuery,
    Gain,
    described,
    discount,
    ideal_dcg,
    is_relevant,
    item_gains,
    relevant_total,
)
from isrr.metrics.disparity import Disparity
from isrr.metrics.exposed import COLUMNS as EXPOSED
from isrr.metrics.exposed import exposed
from isrr.metrics.first import AveragePrecision, First
from isrr.metrics.measure import Block, Kind, Measurable, Measure, divided, per_query
from isrr.ranker.exposure import Prepared


@dataclass(frozen=True)
class Metric(Measurable):
    """A metric that is linear in exposure.

    Metrics with the same name and settings are equal. A metric can be pickled if its functions can: name them in a
    module, as Python pickles no lambda.

    Attributes:
        name: Its name in promises.
        value: Value of each row's item, in query order, (n_rows,); a function of the queries.
        weights: Weight of the positions 1 … k, (k,); a function of k.
        whole: What 1 means for each query, (n_queries,), and 0 where there is nothing to divide by; a function of
            queries and k. None: the metric is not divided, and a promise about it needs a bound on an item's value.
        columns: Columns it reads beside query, item and score: "relevance", "item_group", "value:NAME".
        kind: "utility" if the order by score is expected to be best, otherwise "share".
        title: Its name in sentences; by default `name`.
        empty_query: How queries count for which `whole` is 0, unless a promise says otherwise.
        merit: What each query's items deserve of the metric, (n_queries,), for promises "of merit"; a function of
            queries and k.
        group: The group of items whose exposure it is; a boost moves it.
        gain: The gain used for the disparity that is reported with it.
        settings: What distinguishes it from metrics of the same name, as text.

    Example:
        >>> margin = Metric("margin", value=lambda queries: queries.column("margin"), columns=("value:margin",))
        >>> margin.at(10)
        Measure('margin@10')
    """

    name: str
    value: Callable[[Queries], FloatArray] = field(compare=False, repr=False)
    weights: Callable[[int], FloatArray] = field(default=discount, compare=False, repr=False)
    whole: Callable[[Queries, int], FloatArray] | None = field(default=None, compare=False, repr=False)
    columns: tuple[str, ...] = ()
    kind: Kind = "utility"
    title: str = ""
    empty_query: EmptyQuery = "skip"
    merit: Callable[[Queries, int], FloatArray] | None = field(default=None, compare=False, repr=False)
    group: str | None = None
    gain: Gain = field(default="exponential", compare=False, repr=False)
    settings: tuple[tuple[str, str], ...] = ()

    rising: ClassVar[bool] = True  # larger is better
    protected: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*(\([^()]*\))?", self.name):
            raise PromiseError(f"expected a metric name such as ndcg or value(margin), got {self.name!r}")

    @property
    def bounded(self) -> bool:
        """Whether it always lies between 0 and 1."""
        return self.whole is not None

    def counts(self, queries: Queries, k: int) -> NDArray[np.bool_]:
        """Return which queries have something to divide by, (n_queries,)."""
        return np.ones(len(queries), bool) if self.whole is None else np.asarray(self.whole(queries, k) > 0)

    def position_weights(self, k: int) -> FloatArray:
        """Return the weights of the positions 1 … k, checked, (k,)."""
        weights = np.asarray(self.weights(k), np.float64)
        if weights.shape != (k,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(
                f"the weights of metric {self.name!r} must be one finite number ≥ 0 for each of the positions 1 … {k}; "
                f"got {weights}"
            )
        return weights

    def summary(self, prepared: Prepared, measure: Measure) -> Callable[[Block], FloatArray]:
        """Return how its values follow: Σ exposure · value, divided by what 1 means."""
        queries, weights = prepared.queries, self.position_weights(measure.k)
        values = self.checked_values(queries)[prepared.rows]
        whole = None if self.whole is None else np.asarray(self.whole(queries, measure.k), np.float64)

        def of(block: Block) -> FloatArray:
            sums = block.weighted_sums(weights, values)
            return sums if whole is None else divided(sums, whole[block.start : block.stop], measure.empty_query)

        return of

    def list_values(self, queries: Queries, lists: NDArray[np.integer[Any]], measure: Measure) -> FloatArray:
        """Return the metric of each list: Σ weight of the position · value of its item, divided by what 1 means.

        Example:
            >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
            >>> metric("ndcg").list_values(queries, np.array([[[0, 1], [1, 2]]]), metric("ndcg").at(2)).round(3)
            array([[0.521, 1.   ]])
        """
        value = np.append(self.checked_values(queries), 0.0)  # the last one for positions without an item
        first = queries.offsets[:-1, None]
        sums = np.zeros(lists.shape[:2])
        for j, weight in enumerate(self.position_weights(measure.k).tolist()):
            sums += weight * value[np.where(lists[:, :, j] < 0, -1, first + lists[:, :, j])]
        if self.whole is None:
            return sums
        whole = np.asarray(self.whole(queries, measure.k), np.float64)
        return divided(sums, whole, measure.empty_query)

    def checked_values(self, queries: Queries) -> FloatArray:
        """Return the value of each row's item, checked, (n_rows,)."""
        values = np.asarray(self.value(queries), np.float64)
        if values.shape != (queries.n_rows,) or not np.isfinite(values).all():
            odd = values[~np.isfinite(values)]
            raise ValueError(
                f"the value of metric {self.name!r} must be one finite number per row, shape ({queries.n_rows},); got "
                f"shape {values.shape}{f' with {odd[0]} in it' if odd.size else ''}"
            )
        return values

    def bounds(self, k: int, bound: tuple[float, float]) -> tuple[float, float]:
        """Return the least and the largest value on a query, where an item's value lies within `bound`."""
        if self.bounded:
            return 0.0, 1.0
        total = float(self.position_weights(k).sum())
        return min(bound[0], 0.0) * total, bound[1] * total

    def check_bound(self, queries: Queries, k: int, bound: tuple[float, float]) -> float:
        """Refuse items whose value lies outside the declared bound; the largest value as a share of the bound."""
        values = self.checked_values(queries)
        low, high = float(values.min()), float(values.max())
        if low < bound[0] or high > bound[1]:
            value, between = low if low < bound[0] else high, f"{bound[0]:g} … " if bound[0] else ""
            raise PromiseError(
                f"an item has {self.name} {value:.6g}, outside the declared bound {between}{bound[1]:g}; expected a "
                "bound that holds for every possible item"
            )
        return high / bound[1]


def _relevant(rel: int, queries: Queries) -> FloatArray:
    return is_relevant(queries.need_relevance(), rel).astype(np.float64)


def _any_relevant(rel: int, queries: Queries, k: int) -> FloatArray:
    return np.minimum(relevant_total(queries, rel), 1.0)


def _all_relevant(rel: int, queries: Queries, k: int) -> FloatArray:
    return relevant_total(queries, rel).astype(np.float64)


def _ideal(gain: Gain, kind: Discount, queries: Queries, k: int) -> FloatArray:
    return ideal_dcg(queries, k=k, gain=gain, discount_kind=kind)


def _equal_parts(k: int) -> FloatArray:
    return np.full(k, 1.0 / k)


def _in_group(group: str, queries: Queries) -> FloatArray:
    return queries.coded_groups.rows_of(group).astype(np.float64)


def _shown(queries: Queries, k: int, weights: FloatArray) -> FloatArray:
    """Return the weight of all positions that a query fills, (n_queries,)."""
    return np.concatenate(([0.0], np.cumsum(weights)))[np.minimum(queries.n_items, k)]


def _merit(group: str, gain: Gain, queries: Queries, k: int) -> FloatArray:
    gains = item_gains(queries, gain)
    total = per_query(gains, queries)
    ours = per_query(gains * _in_group(group, queries), queries)
    return np.divide(ours, total, out=np.zeros_like(total), where=total > 0)


def _position_weight(weights: Callable[[int], FloatArray], queries: Queries) -> FloatArray:
    """Return the weight of each item's own position in the order by score; the whole list counts."""
    by_position = weights(int(queries.n_items.max()))
    starts = np.repeat(queries.offsets[:-1], queries.n_items)
    out = np.empty(queries.n_rows)
    out[starts + queries.by_score] = by_position[np.arange(queries.n_rows) - starts]
    return out


def _unmoved(weights: Callable[[int], FloatArray], queries: Queries, k: int) -> FloatArray:
    return _shown(queries, k, weights(k) ** 2)


def _shown_beside_group(group: str, kind: Discount, queries: Queries, k: int) -> FloatArray:
    return _shown(queries, k, discount(k, kind)) * (per_query(_in_group(group, queries), queries) > 0)


def _from_a_log(*_: object) -> FloatArray:
    raise PromiseError(
        "clicks are counted in a log of served lists, not in a table of queries: isrr clicks calibrate --log … "
        "--clicks …, or isrr.calibrate_clicks"
    )


NAMES = (
    "ndcg", "dcg", "precision", "recall", "rr", "hit", "ap", "kept", "clicks", "normalized_disparity", "disparity",
    "group_disparity", "value(COLUMN)", "exposure(GROUP)",
)  # fmt: skip
GRADED = ("precision", "recall", "rr", "hit", "ap")  # metrics that ask which grades are relevant: rr(rel=2)


class UnknownMetric(PromiseError):
    """No metric has this name."""


def _plain(name: str, gain: Gain, kind: Discount, rel: int = 1) -> Metric | Disparity | First | AveragePrecision | None:
    """Return a metric by its name; `rel` is the least grade of a relevant item."""
    gains, weights, judged = partial(item_gains, gain=gain), partial(discount, kind=kind), ("relevance",)
    full_name = name if rel == 1 else f"{name}(rel={rel})"
    match name:
        case "ndcg":
            return Metric(name, gains, weights, partial(_ideal, gain, kind), judged, title="NDCG")
        case "dcg":
            return Metric(name, gains, weights, None, judged, title="DCG")
        case "precision":
            return Metric(full_name, partial(_relevant, rel), _equal_parts, partial(_any_relevant, rel), judged)
        case "recall":
            return Metric(full_name, partial(_relevant, rel), np.ones, partial(_all_relevant, rel), judged)
        case "rr":
            reciprocal = partial(discount, kind="reciprocal")
            return First(full_name, rel, full_name.replace("rr", "RR"), weights=reciprocal)
        case "hit":
            return First(full_name, rel)
        case "ap":
            return AveragePrecision(full_name, rel, full_name.replace("ap", "AP"))
        case "kept":
            return Metric(
                name,
                partial(_position_weight, weights),
                weights,
                partial(_unmoved, weights),
                title="exposure kept in place",
            )
        case "clicks":
            return Metric(name, _from_a_log, np.ones, _from_a_log)
        case "disparity" | "normalized_disparity" | "group_disparity":
            return Disparity(name, gain, kind, name != "disparity", name == "group_disparity")
    return None


def _least_grade(name: str, argument: str) -> int:
    """Return N of rel=N."""
    rel = re.fullmatch(r"rel\s*=\s*([1-9]\d*)", argument, re.IGNORECASE)
    if rel is None:
        raise PromiseError(
            f"{name}({argument}): expected {name}(rel=N) with the lowest relevant grade N, a whole number ≥ 1"
        )
    return int(rel[1])


def _value(column: str, kind: Discount) -> Metric:
    return Metric(
        f"value({column})",
        methodcaller("column", column),
        partial(discount, kind=kind),
        columns=(f"value:{column}",),
        title=column if kind == "uniform" else f"position-weighted {column}",
    )


def _exposure(group: str, gain: Gain, kind: Discount) -> Metric:
    return Metric(
        f"exposure({group})",
        partial(_in_group, group),
        partial(discount, kind=kind),
        partial(_shown_beside_group, group, kind),
        ("item_group",),
        kind="share",
        title=f"share of exposure of {group!r}",
        empty_query="zero",
        merit=partial(_merit, group, gain),
        group=group,
    )


def meant(name: str, known: Iterable[str]) -> str:
    """Return the metric that was probably meant, as the end of a message; nothing where none is close."""
    from difflib import get_close_matches

    by_stem = {metric.split("(")[0]: metric for metric in known}
    close = get_close_matches(name.split("(")[0].lower(), by_stem, 1, 0.5)
    return f"; did you mean {by_stem[close[0]]}?" if close else ""


def metric(name: str, *, gain: Gain = "exponential", discount: Discount = "log2") -> Measurable:
    """Return the metric with this name, one that can be promised.

    Args:
        name: "ndcg", "dcg", "precision", "recall", "rr", "hit", "ap", "kept", "clicks", "value(COLUMN)",
            "exposure(GROUP)", "disparity", "normalized_disparity" or "group_disparity". With "rr(rel=2)", and likewise
            for precision, recall, hit and ap, items of grade 2 and above are relevant; otherwise those above 0.
        gain: How much a grade is worth: "exponential", "linear", "equal" or a function.
        discount: How much a position is worth: "log2", "reciprocal", "uniform" or a function (not for precision,
            recall, rr, hit and ap).

    Example:
        >>> metric("exposure(new)").title
        "share of exposure of 'new'"
    """
    parsed = re.fullmatch(r"\s*(\w+)\s*\(\s*([^()]*?)\s*\)\s*", name)
    stem, argument = (parsed[1].lower(), parsed[2]) if parsed else (name.strip().lower(), None)
    named: Metric | Disparity | First | AveragePrecision | None
    if stem == "value" and argument:
        named = _value(argument, discount)
    elif stem == "exposure" and argument:
        named = _exposure(argument, gain, discount)
    elif stem in GRADED and argument is not None:
        named = _plain(stem, gain, discount, _least_grade(stem, argument))
    elif stem in NAMES and argument is not None:
        raise PromiseError(f"{stem} takes no argument, got ({argument}); (rel=N) is for {', '.join(GRADED)}")
    else:
        named = _plain(stem, gain, discount)
    if named is None:
        raise UnknownMetric(f"unknown metric {name!r}; expected one of {', '.join(NAMES)}{meant(name, NAMES)}")
    chosen = (("gain", gain, "exponential"), ("discount", discount, "log2"))
    settings = tuple((setting, described(given)) for setting, given, usual in chosen if given != usual)
    return replace(named, gain=gain, settings=settings)


def measures(
    metrics: Iterable[str | Measurable | Measure],
    k: int,
    *,
    gain: Gain = "exponential",
    discount: Discount = "log2",
    empty_query: EmptyQuery | None = None,
) -> tuple[Measure, ...]:
    """Metrics as people name them ("ndcg", "precision@10"), over the first k positions where they name no other k.

    Example:
        >>> measures(["ndcg", "precision@10"], k=5)
        (Measure('ndcg@5'), Measure('precision@10'))
    """

    chosen = []
    for about in [metrics] if isinstance(metrics, str) else metrics:
        if isinstance(about, str):
            name, _, cut = about.rpartition("@") if "@" in about else (about, "", str(k))
            if not cut.strip().isdecimal() or int(cut) < 1:
                raise PromiseError(f"{about!r}: expected a whole number of positions after @, got {cut!r}")
            plain = name.strip().lower()
            named = exposed(plain, gain, discount) if plain in EXPOSED else metric(name, gain=gain, discount=discount)
            chosen.append(named.at(int(cut), empty_query))
        else:
            chosen.append(about if isinstance(about, Measure) else about.at(k, empty_query))
    return tuple(dict.fromkeys(chosen))
