"""Any metrics of a whole grid of rankers on queries, in one pass.

Linear metrics are expected over draws, disparity is that of expected exposure: computed without drawing for decay 1,
from Rao–Blackwellised draws below 1, or from plain rankings, with the bias of their disparity removed or, as in the
paper, kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data.dataframes import frame_of
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.gains import Discount, EmptyQuery, Gain, discount, empty_value
from isrr.lanes import WIDTH
from isrr.metrics import _kernels
from isrr.metrics.ahead import await_kernels, compile_beside
from isrr.metrics.disparity import Disparity, Pools, share_of_bound
from isrr.metrics.exposed import Exposed
from isrr.metrics.measure import Measure
from isrr.metrics.metric import Metric, measures, need_columns
from isrr.noise import CALIBRATION, stream_seed
from isrr.parallel import MANY_ROWS, Progress, over_queries
from isrr.ranker._exact_kernels import UNROLLED, exposure_of_block
from isrr.ranker._kernels import count_eligible, weigh
from isrr.ranker._mixture_kernels import find_leading
from isrr.ranker.given import joined_weights, laguerre_rules, room
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker
from isrr.ranker.thresholds import expand

Method = Literal["exact", "draws", "plugin"]
LEAST_BLOCKS = 8  # queries are cut into at least so many blocks, so that all cores have work, …
ENOUGH = 1 << 18  # … unless a block would have fewer rows times configurations than this
SHOWN = 20  # rankers, at most, whose means are printed
USUAL = ("ndcg", "disparity", "normalized_disparity")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The metrics of each ranker of a grid on each query.

    Attributes:
        measures: What was measured.
        values: Each measure's values, (n_queries, n_grid); NaN rows are queries left out.
    """

    measures: tuple[Measure, ...]
    values: tuple[FloatArray, ...]

    def __getitem__(self, name: str | Measure) -> FloatArray:
        """The values of one measure, by its name (`"ndcg"`, `"ndcg@5"`), (n_queries, n_grid)."""
        for measure, values in zip(self.measures, self.values, strict=True):
            if name in (measure, str(measure), measure.metric.name):
                return values
        raise KeyError(f"{name} was not measured; expected one of {', '.join(map(str, self.measures))}")

    def __str__(self) -> str:
        """Show the means as a table, one row per ranker; the first and the last ten where there are many."""
        n_queries, n_grid = self.values[0].shape
        rows = [["ranker", *map(str, self.measures)]]
        means = [self.mean(measure) for measure in self.measures]
        rows += [[str(ranker), *(_in_short(mean[ranker]) for mean in means)] for ranker in range(n_grid)]
        if n_grid > SHOWN:
            rows[1 + SHOWN // 2 : -SHOWN // 2] = [["…"] * len(rows[0])]
        n_left_out = [int(np.isnan(values[:, 0]).sum()) for values in self.values]
        rows += [["left out", *(f"{n:,}" for n in n_left_out)]] if any(n_left_out) else []
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([f"Means over {counted(n_queries, 'query')}, one row per ranker", *lines])

    def to_frame(self) -> Any:
        """One row per query and ranker, one column per measure, as a frame of pandas, or polars without it."""
        n_queries, n_grid = self.values[0].shape
        query, ranker = np.divmod(np.arange(n_queries * n_grid), n_grid)
        measured = {str(measure): values.ravel() for measure, values in zip(self.measures, self.values, strict=True)}
        return frame_of({"query": query, "ranker": ranker} | measured)

    def mean(self, name: str | Measure) -> FloatArray:
        """The mean over the queries that count, (n_grid,); NaN if none does."""
        values = self[name]
        counted = ~np.isnan(values)
        n, mean = counted.sum(axis=0), np.full(values.shape[1:], np.nan)
        np.divide(np.where(counted, values, 0.0).sum(axis=0), n, out=mean, where=n > 0)
        return mean


def _in_short(mean: float) -> str:
    return f"{mean:.4f}" if mean == 0.0 or not abs(mean) < 0.01 else f"{mean:.3g}"


def evaluate(
    queries: Queries,
    grid: Sequence[GPLRanker],
    metrics: Iterable[str | Metric | Disparity | Exposed | Measure] = USUAL,
    *,
    method: Method = "exact",
    n_draws: int = SMOOTHING_DRAWS,
    seed: int = 0,
    gain: Gain = "exponential",
    discount: Discount = "log2",
    empty_query: EmptyQuery | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """The metrics of every ranker on every query.

    Args:
        queries: Queries, with the columns that the metrics read.
        grid: Rankers with the same k; they may differ in everything else.
        metrics: Names ("ndcg", "precision@3", "exposure(new)", "awrf") or objects; by default over the rankers' k.
        method: "exact": no sampling for decay 1, Rao–Blackwellised draws below 1. "draws": plain rankings drawn,
            disparity debiased. "plugin": the same, disparity of the averaged exposures, biased upward, as in the paper.
        n_draws: Rankings drawn per query, if any are drawn.
        seed: Random seed, used only when rankings are sampled.
        gain: Gain of a grade, for metrics given by name.
        discount: Weight of a place, for metrics given by name.
        empty_query: For metrics given by name, how queries without a relevant item count: "skip" (NaN),
            "zero" or "one"; by default each metric's policy.
        progress: Called with (queries done, queries in total).

    Example:
        >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> evaluate(queries, [GPLRanker(), GPLRanker.deterministic()])["ndcg"].round(3)
        array([[0.727, 0.659]])
    """
    _check_kinds(queries, grid)
    _check(grid, method, n_draws)
    chosen = measures(metrics, grid[0].k, gain=gain, discount=discount, empty_query=empty_query)
    _check_cuts(chosen, grid[0].k)
    need_columns(queries, chosen)
    if method == "exact" and grid[0].k <= UNROLLED:  # for longer lists or draws, other kernels are compiled
        compile_beside()
    exposed = _exposed(queries, grid, chosen, n_draws, seed)
    if len(exposed) == len(chosen):
        return Evaluation(chosen, tuple(exposed.values()))
    work = _Work.of(queries, [m for m in chosen if m not in exposed], grid[0].k)
    linear = np.empty((len(queries), len(grid), work.n_linear))
    quadratic = np.empty((len(queries), len(grid), work.n_quadratic))
    families = [_family(ranker, method) for ranker in grid]
    for family in dict.fromkeys(families):
        members = {c: ranker for c, ranker in enumerate(grid) if families[c] == family}
        _evaluate_family(queries, members, work, method, n_draws, seed, progress, linear, quadratic)
    return Evaluation(
        chosen,
        tuple(exposed[m] if m in exposed else work.finished(queries, m, linear, quadratic) for m in chosen),
    )


def _exposed(
    queries: Queries, grid: Sequence[GPLRanker], chosen: Sequence[Measure], n_draws: int, seed: int
) -> dict[Measure, FloatArray]:
    """The measures of expected exposure among those chosen, (n_queries, n_grid) each; exposure is computed once."""
    metrics = {measure: measure.metric for measure in chosen if isinstance(measure.metric, Exposed)}
    found = {measure: np.empty((len(queries), len(grid))) for measure in metrics}
    for column, ranker in enumerate(grid):
        shown: dict[bytes, FloatArray] = {}
        for measure, metric in metrics.items():
            weights = np.pad(metric.weights(measure.k), (0, ranker.k - measure.k))
            if (way := weights.tobytes()) not in shown:
                exposure = ranker.exposure(queries, weights=weights, n_draws=n_draws, seed=seed)
                shown[way] = queries.in_query_order(exposure, "exposure")
            found[measure][:, column] = metric.values(queries, measure.k, shown[way])
    return found


class _Measured(NamedTuple):
    """What the kernels measure; see `isrr.metrics._kernels.evaluate_exactly`."""

    values: FloatArray
    value_weights: IntArray
    deserved: FloatArray
    pool: NDArray[np.int32]
    pool_rows: IntArray
    n_pools: IntArray
    pair_weights: IntArray


@dataclass(frozen=True, eq=False)
class _Work:
    """What the kernels have to add up for some measures; ways of weighting places that differ by a factor are one.

    Attributes:
        places: The distinct ways of weighting places, largest weight 1, (n_weights, k).
        measured: What is added up.
        column: Where each measure's sums stand, among the linear or among the quadratic ones.
        factor: What they are multiplied by.
        pools: What is compared by quadratic measures.
    """

    places: FloatArray
    measured: _Measured
    column: dict[Measure, int]
    factor: dict[Measure, float]
    pools: dict[Measure, Pools]

    @property
    def n_linear(self) -> int:
        return len(self.measured.value_weights)

    @property
    def n_quadratic(self) -> int:
        return len(self.measured.pair_weights)

    @classmethod
    def of(cls, queries: Queries, chosen: Sequence[Measure], k: int) -> "_Work":
        rows: dict[bytes, int] = {}
        places: list[FloatArray] = []
        column: dict[Measure, int] = {}
        factor: dict[Measure, float] = {}
        pools: dict[Measure, Pools] = {}
        values: list[FloatArray] = []
        value_weights: list[int] = []
        pair_weights: list[int] = []

        def row_of(measure: Measure, weights: FloatArray) -> int:
            factor[measure] = float(weights.max())
            padded = np.zeros(k)
            padded[: measure.k] = weights / (factor[measure] or 1.0)
            if padded.tobytes() not in rows:
                rows[padded.tobytes()] = len(places)
                places.append(padded)
            return rows[padded.tobytes()]

        for measure in chosen:
            metric = measure.metric
            if isinstance(metric, Metric):
                column[measure] = len(values)
                values.append(_checked_values(metric, queries))
                value_weights.append(row_of(measure, metric.weights(measure.k)))
            elif isinstance(metric, Disparity):
                same = next((m for m in pools if _same_sums(m, measure)), None)
                row = row_of(measure, discount(measure.k, metric.discount))
                pools[measure] = metric.pools(queries) if same is None else pools[same]
                column[measure] = len(pair_weights) if same is None else column[same]
                if same is None:
                    pair_weights.append(row)
        distinct = list({column[m]: pools[m] for m in pools}.values())
        pooled = [p.pool for p in distinct if p.pool is not None]
        is_pooled = np.array([p.pool is not None for p in distinct], bool)
        measured = _Measured(
            _stacked(values, queries.n_rows, np.float64),
            np.array(value_weights, np.int64),
            _stacked([p.deserved for p in distinct], queries.n_rows, np.float64),
            _stacked(pooled, queries.n_rows, np.int32),
            np.where(is_pooled, np.cumsum(is_pooled) - 1, -1),
            _stacked([p.n_pools for p in distinct], len(queries), np.int64),
            np.array(pair_weights, np.int64),
        )
        return cls(np.stack(places), measured, column, factor, pools)

    def room(self, longest: int) -> tuple[FloatArray, FloatArray, NDArray[np.int32], FloatArray, FloatArray]:
        """Arrays that the kernels measure in: values, deserved, pools and Σ deserved² of a query; exposure by pool."""
        n_linear, n_quadratic, n_pooled = self.n_linear, self.n_quadratic, len(self.measured.pool)
        by_item, pool = np.empty((n_linear + n_quadratic, longest)), np.empty((n_pooled, longest), np.int32)
        return by_item[:n_linear], by_item[n_linear:], pool, np.empty(n_quadratic), np.empty(longest)

    def finished(self, queries: Queries, measure: Measure, linear: FloatArray, quadratic: FloatArray) -> FloatArray:
        """One measure's values from the sums, (n_queries, n_grid)."""
        metric, column, factor = measure.metric, self.column[measure], self.factor[measure]
        if isinstance(metric, Metric):
            found = linear[:, :, column] * factor
            if metric.whole is None:
                return found
            whole = np.asarray(metric.whole(queries, measure.k), np.float64)
            found /= np.where(whole > 0, whole, 1.0)[:, None]
            found[whole <= 0] = empty_value(measure.empty_query)
            return found
        assert isinstance(metric, Disparity)
        pools = self.pools[measure]
        values = quadratic[:, :, column] * factor**2
        if metric.normalized:
            values = share_of_bound(values, metric.largest(queries, measure.k, pools))
        if measure.empty_query == "skip":
            values[pools.squares == 0] = np.nan
        return values


def _same_sums(one: Measure, other: Measure) -> bool:
    """Whether two disparities are found from the same sums."""
    a, b = one.metric, other.metric
    assert isinstance(a, Disparity)
    assert isinstance(b, Disparity)
    return (one.k, a.gain, a.discount, a.between_groups) == (other.k, b.gain, b.discount, b.between_groups)


def _stacked(rows: Sequence[NDArray[Any]], length: int, kind: type) -> NDArray[Any]:
    """Columns as the rows of a matrix, (n, length); a single one is not copied."""
    if len(rows) == 1:
        return np.require(rows[0], kind, ("C", "W"))[None]  # other layouts would be compiled for anew
    return np.array(rows, kind).reshape(len(rows), length)


def _checked_values(metric: Metric, queries: Queries) -> FloatArray:
    values = np.asarray(metric.value(queries), np.float64)
    if values.shape != (queries.n_rows,) or not np.isfinite(values).all():
        raise ValueError(
            f"the value of metric {metric.name!r} must be one finite number per row, shape ({queries.n_rows},); got "
            f"shape {values.shape}"
        )
    return values


def _check_kinds(queries: object, grid: object) -> None:
    """Refuse arguments of other kinds, with the call that was likely meant."""
    if not isinstance(queries, Queries):
        raise TypeError(
            f"evaluate takes queries, then a list of rankers; the first argument is a {type(queries).__name__}: "
            "evaluate(queries, [ranker])"
        )
    others = [x for x in grid if not isinstance(x, GPLRanker)] if isinstance(grid, Iterable) else [grid]
    if others:
        raise TypeError(
            f"the grid of evaluate is a list of rankers, got a {type(others[0]).__name__}; "
            "evaluate(queries, [ranker]); to check a promise use isrr.check(outcome, queries)"
        )


def _check(grid: Sequence[GPLRanker], method: str, n_draws: int) -> None:
    if not grid:
        raise ValueError("the grid is empty; expected at least one ranker")
    if len({ranker.k for ranker in grid}) > 1:
        raise ValueError(f"expected rankers with the same k, got {sorted({ranker.k for ranker in grid})}")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}")
    least = 2 if method == "draws" else 1
    if n_draws < least:
        raise ValueError(f"n_draws must be ≥ {least}, got {n_draws}")


def _check_cuts(chosen: Sequence[Measure], k: int) -> None:
    if not chosen:
        raise ValueError("nothing to measure; expected at least one metric")
    longer = [measure for measure in chosen if measure.k > k]
    if longer:
        raise ValueError(
            f"{longer[0]} looks at more places than the rankers fill; expected rankers with a larger k than {k}"
        )


def _family(ranker: GPLRanker, method: Method) -> tuple[object, ...]:
    """What rankers share that are evaluated together: what draws go by, what the floor is promised for, the kernel."""
    smoothed = method == "exact" and _decay(ranker) != 1.0
    return ranker.score_map, ranker.boost, ranker.boost_missing, ranker.mixture[2].tobytes(), smoothed


def _decay(ranker: GPLRanker) -> float:
    return 1.0 if ranker.is_deterministic or ranker.threshold == 0.0 else ranker.decay


def _evaluate_family(
    queries: Queries,
    members: dict[int, GPLRanker],
    work: _Work,
    method: Method,
    n_draws: int,
    seed: int,
    progress: Progress | None,
    linear: FloatArray,
    quadratic: FloatArray,
) -> None:
    """Fill the sums, (n_queries, n_grid, …), of some columns of the grid.

    Configurations are handed to the kernels in the order they share work.
    """
    grid = list(members.values())
    decay = np.array([_decay(ranker) for ranker in grid])
    scales, scale_of = np.unique([r.scale for r in grid], return_inverse=True)
    by_work = np.lexsort((-np.array([r.threshold for r in grid]), decay != 1.0, scale_of))
    places, promised = joined_weights(work.places, grid[0].mixture[2])
    thresholds = np.stack([expand(grid[c].threshold, grid[c].decay, places.shape[1]) for c in by_work])
    floors, anchors = (np.array([grid[c].mixture[part] for c in by_work]) for part in (0, 1))
    if method != "exact" and (floors.any() or anchors.any()):
        raise ValueError("rankers with a floor or an anchor are always evaluated exactly; omit method=")
    scores = grid[0].drawn_scores(queries)
    order, by_score, offsets = grid[0].drawn_order(queries, scores), queries.by_score, queries.offsets
    name, measured = stream_seed(seed, CALIBRATION), tuple(work.measured)
    scaled = scales, scale_of[by_work], np.array(list(members))[by_work]

    def block(start: int, stop: int) -> None:
        longest, inside = room(offsets, start, stop, *places.shape)
        measuring = work.room(longest)
        if method != "exact":
            _kernels.evaluate_by_drawing(
                offsets, order, scores, places, measured, *scaled, thresholds, decay[by_work],
                queries.keys, name, n_draws, method == "draws", inside, measuring, start, stop, linear, quadratic,
            )  # fmt: skip
        elif (decay != 1.0).any():
            _kernels.evaluate_smoothed(
                offsets, order, scores, by_score, places, measured, *scaled, thresholds, anchors,
                queries.keys, name, n_draws, inside, measuring, start, stop, linear, quadratic,
            )  # fmt: skip
        else:
            _kernels.evaluate_exactly(
                offsets, order, scores, by_score, places, promised, measured, *scaled,
                np.ascontiguousarray(thresholds[:, 0]), floors, anchors, laguerre_rules(), inside, measuring,
                start, stop, linear, quadratic,
            )  # fmt: skip

    await_kernels(compile_parts)
    several_blocks = min(MANY_ROWS, queries.n_rows // LEAST_BLOCKS)
    over_queries(block, offsets, progress, max(several_blocks, ENOUGH // len(grid), 1))


def compile_kernels() -> None:
    """Compile `evaluate_exactly`: the exposure that it calls, and then, with what `compile_parts` compiles, itself."""
    places = np.ones((1, 2))
    *_, scratch, polynomials = room(np.array([0, 2]), 0, 1, *places.shape)[1]
    exposure_of_block(np.ones(2), places, 0, 2, *laguerre_rules(), scratch, polynomials, np.ones((1, 2 + WIDTH)))
    evaluate(_smallest(), [GPLRanker()], ["dcg", "disparity"])


def compile_parts() -> None:
    """Compile what `evaluate_exactly` calls but the exposure, for arrays like those it passes, and drawing lists."""
    queries, k = _smallest(), GPLRanker().k
    work = _Work.of(queries, measures(["dcg", "disparity"], k), k)
    longest, inside = room(queries.offsets, 0, 1, *work.places.shape)
    weights, eligibility, heads, _, leading, where, *_ = inside
    of_query, measured, order = work.room(longest), tuple(work.measured), queries.by_score
    weigh(queries.scores, order, 1.0, weights, eligibility, heads)
    count_eligible(eligibility, 0.0, 0)
    _kernels.gather(measured, 0, 0, order, *of_query[:-1])
    find_leading(order, order, where, leading)
    GPLRanker().sample(queries)


def _smallest() -> Queries:
    """One query with two items, whose order is given: no kernel is compiled to sort them."""
    queries = Queries.from_arrays(scores=[1.0, 0.0], relevance=[1, 0], group=[2])
    vars(queries)["by_score"] = np.array([0, 1], np.int32)
    return queries
