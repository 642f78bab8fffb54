"""Any metrics of a whole grid of rankers on queries, in one pass.

Exposure and the position of the first relevant item are exact for decay 1, and means of drawn rankings below 1. Metrics
that are linear in exposure are expected over draws; disparity is that of expected exposure, from two independent
samples where exposure is sampled: the squares of one would overstate it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from isrr.counting import counted
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import DataError
from isrr.gains import Discount, EmptyQuery, Gain
from isrr.metrics.measure import EXPOSURE, Block, Measurable, Measure, Ways
from isrr.metrics.metric import measures
from isrr.parallel import Progress, over_queries
from isrr.ranker.exposure import Family, family_of
from isrr.ranker.gpl import N_DRAWS, GPLRanker

AT_ONCE = 1 << 18  # rows times configurations of a block, whose exposures stay near a core
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
        """Return the values of one measure, by its name (`"ndcg"`, `"ndcg@5"`), (n_queries, n_grid)."""
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
        """Return one row per query and ranker, one column per measure, as a frame of pandas, or polars without it."""
        n_queries, n_grid = self.values[0].shape
        query, ranker = np.divmod(np.arange(n_queries * n_grid), n_grid)
        measured = {str(measure): values.ravel() for measure, values in zip(self.measures, self.values, strict=True)}
        return frame_of({"query": query, "ranker": ranker} | measured)

    def mean(self, name: str | Measure) -> FloatArray:
        """Return the mean over the queries that count, (n_grid,); NaN if none does."""
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
    metrics: Iterable[str | Measurable | Measure] = USUAL,
    *,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    gain: Gain = "exponential",
    discount: Discount = "log2",
    empty_query: EmptyQuery | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Return the metrics of every ranker on every query.

    Args:
        queries: Queries, with the columns that the metrics read.
        grid: Rankers with the same k; they may differ in everything else.
        metrics: Names ("ndcg", "precision@3", "exposure(new)", "awrf") or objects; by default over the rankers' k.
        n_draws: Rankings drawn per query for rankers with decay below 1 and for "ap", at least 2.
        seed: Random seed, used only when rankings are sampled.
        gain: Gain of a grade, for metrics given by name.
        discount: Weight of a position, for metrics given by name.
        empty_query: For metrics given by name, how queries without a relevant item count: "skip" (NaN),
            "zero" or "one"; by default each metric's policy.
        progress: Called with (queries done, queries in total).

    Example:
        >>> queries = Queries.from_arrays(scores=[2, 1, 0], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> evaluate(queries, [GPLRanker(), GPLRanker.deterministic()])["ndcg"].round(3)
        array([[0.727, 0.659]])
    """
    _check(queries, grid)
    chosen = measures(metrics, grid[0].k, gain=gain, discount=discount, empty_query=empty_query)
    _check_measures(queries, chosen, grid[0].k)
    values = tuple(np.empty((len(queries), len(grid))) for _ in chosen)
    families = [family_of(ranker) for ranker in grid]
    for family in dict.fromkeys(families):
        columns = np.array([c for c, other in enumerate(families) if other == family])
        _evaluate_family(queries, [grid[c] for c in columns], columns, chosen, n_draws, seed, progress, values)
    return Evaluation(chosen, values)


def _evaluate_family(
    queries: Queries,
    rankers: Sequence[GPLRanker],
    columns: IntArray,
    chosen: Sequence[Measure],
    n_draws: int,
    seed: int,
    progress: Progress | None,
    values: Sequence[FloatArray],
) -> None:
    """Fill some columns of the values, a block of queries at a time."""
    k, needs = rankers[0].k, {EXPOSURE, *(measure.metric.needs for measure in chosen)}
    ways = {
        need: Ways.of([m.metric.position_weights(m.k) for m in chosen if m.metric.needs == need], k) for need in needs
    }
    prepared, family = rankers[0].prepare(queries), Family.of(rankers, ways[EXPOSURE].weights)
    summaries = [measure.metric.summary(prepared, measure) for measure in chosen]
    into = columns[family.columns]

    def evaluate_block(start: int, stop: int) -> None:
        exposure = family.exposure(prepared, start, stop, whole=False, n_draws=n_draws, seed=seed)
        block = Block(prepared, start, stop, exposure, family, ways, n_draws, seed)
        for summary, out in zip(summaries, values, strict=True):
            out[start:stop, into] = summary(block)

    over_queries(evaluate_block, queries.offsets, progress, max(AT_ONCE // len(rankers), 1))


def _check(queries: Queries, grid: Sequence[GPLRanker]) -> None:
    """Refuse arguments of other kinds, with the call that was likely meant, and rankers that do not go together."""
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
    if not grid:
        raise ValueError("the grid is empty; expected at least one ranker")
    if len({ranker.k for ranker in grid}) > 1:
        raise ValueError(f"expected rankers with the same k, got {sorted({ranker.k for ranker in grid})}")


def _check_measures(queries: Queries, chosen: Sequence[Measure], k: int) -> None:
    """Refuse measures that look further than lists of k positions, and queries that lack a column that one reads."""
    if not chosen:
        raise ValueError("nothing to measure; expected at least one metric")
    longer = [measure for measure in chosen if measure.k > k]
    if longer:
        raise ValueError(
            f"{longer[0]} looks at more positions than the rankers fill; expected rankers with a larger k than {k}"
        )
    for name, column in [(m.metric.name, column) for m in chosen for column in m.metric.columns]:
        if column == "relevance":
            queries.need_relevance()
        elif column == "item_group":
            queries.coded_groups  # noqa: B018 — raises where there are none
        elif column.startswith("value:"):
            queries.column(column.removeprefix("value:"))
        else:
            raise DataError(f"{name} reads column {column!r}; expected relevance, item_group or value:NAME")


def frame_of(columns: Mapping[str, Any]) -> Any:
    """Return a frame of pandas where it is installed, else of polars, else of pyarrow."""
    name = next((name for name in ("pandas", "polars") if find_spec(name)), None)
    return import_module(name).DataFrame(dict(columns)) if name else import_module("pyarrow").table(dict(columns))
