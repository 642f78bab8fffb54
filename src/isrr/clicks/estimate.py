"""What clicks on one ranker's lists say about other rankers: click models, and the item–position model.

A `ClickModel` turns clicks into estimates, which `calibrate_clicks(model=…)` tests. `ITEM_POSITION`: a logger serves
the order by score with chance λ, else a draw. If the chance of a click depends on the query, the item and its position,
and on nothing else that was shown, then with exact placements P (the chance of an item at a position)

    V̂(π) = Σ over clicks on item d at position j ≤ k of  P_π(d, j) / P_0(d, j)

has the clicks that ranker π would get as its expectation, whatever users examine or trust. For the order by score the
ratio is at most 1/λ, so that V̂_det ≤ k/λ per list if each position counts one click. The paired loss

    s · V̂_det − V̂_π ≤ s · k / λ

is bounded from above, and that is all the betting test needs; where P_0 is tiny, V̂_π may be huge, which only lowers it.
Numerical error is taken to the safe side: P_π and P_0 are each shifted by more than the kernels are off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isrr.clicks.impressions import Impressions
from isrr.clicks.promised import largest_worth
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import rows_within
from isrr.errors import DataError
from isrr.gains import leading
from isrr.parallel import Progress
from isrr.promises import INEXACTNESS, Promise
from isrr.ranker.gpl import GPLRanker

LARGE_ANCHOR = 0.8  # where more than this would be needed, it is impressions that are too few
MOST_UNITS = 200_000  # units whose losses are kept one by one; beyond that, blocks of them are averaged


@dataclass(frozen=True, eq=False)
class Estimates:
    """Clicks that rankers would get, estimated for each unit, or for blocks of them, in canonical order.

    Attributes:
        values: Of each ranker, (n_blocks, n_grid), the mean over the units of a block.
        reference: Of the order by score, (n_blocks,).
        block: Units per block.
        inflation: The reference of a unit is at most this many times what the clicks on a list can be worth.
    """

    values: FloatArray
    reference: FloatArray
    block: int
    inflation: float


@dataclass(frozen=True)
class ClickModel:
    """How clicks on lists that were not shown are estimated.

    Attributes:
        assumption: What is assumed of users, as the certificate says it.
        check: Refuses impressions that the model says nothing about, or too few of them, given the promise and delta.
        estimate: Estimates the clicks in the first k positions of every ranker; see `estimate_by_position`.
    """

    assumption: str
    check: Callable[[Impressions, Promise, float], None]
    estimate: Callable[..., Estimates]


def estimate_by_position(
    shown: Impressions, rankers: Sequence[GPLRanker], progress: Progress | None = None, *, most: int = MOST_UNITS
) -> Estimates:
    """Weight each click by how much likelier a ranker puts its item there than the logger, in at most `most` blocks."""
    k, block = shown.rules.k, -(-len(shown) // most)
    n_blocks = len(shown) // block
    if not shown.n_clicks:
        return Estimates(np.zeros((n_blocks, len(rankers))), np.zeros(n_blocks), block, shown.inflation)
    lists, row, logger_of = _clicked_lists(shown)
    cells, cell = np.unique(row * k + shown.position, return_inverse=True)
    row, position = cells // k, cells % k
    by_score = order_placement(lists, k)[row, position]
    logged = logged_placement(shown.loggers, logger_of, lists, k)[row, position]
    where = shown.impression // block
    inside = where < n_blocks  # the last units, fewer than a block, are left out

    def summed(ratio: FloatArray) -> FloatArray:
        weights = (shown.value * ratio[cell])[inside]
        return np.bincount(where[inside], weights, n_blocks) / block

    reference = summed(by_score / np.maximum(logged - INEXACTNESS, np.where(by_score > 0, shown.anchor, 1.0)))
    values = np.empty((n_blocks, len(rankers)))
    for g, ranker in enumerate(rankers):
        drawn = placement(ranker, lists, k)[row, position]
        values[:, g] = summed(np.maximum(drawn - INEXACTNESS, 0.0) / (logged + INEXACTNESS))
        if progress is not None:
            progress(g + 1, len(rankers))
    return Estimates(values, reference, block, shown.inflation)


def _clicked_lists(shown: Impressions) -> tuple[Queries, IntArray, IntArray]:
    """Return the lists that were clicked on, the row of each click among theirs, and the logger of each list."""
    list_of_click = shown.list_of[shown.impression]
    which, where = np.unique(list_of_click, return_inverse=True)
    offsets, _ = rows_within(shown.lists.offsets, which)
    row = offsets[where] + shown.row - shown.lists.offsets[list_of_click]
    return shown.lists[which], row, shown.logger_of[which]


def placement(ranker: GPLRanker, lists: Queries, k: int) -> FloatArray:
    """Return the chance of each candidate at each position, (n_rows, k); the order by score to the last bit."""
    if ranker.is_deterministic:
        return order_placement(lists, k)
    return ranker.of_length(k).placement(lists)


def order_placement(lists: Queries, k: int) -> FloatArray:
    """Return 1 where the order by score has a candidate, (n_rows, k)."""
    out, placed = np.zeros((lists.n_rows, k)), leading(lists, k)
    query, position = np.nonzero(placed >= 0)
    out[lists.offsets[query] + placed[query, position], position] = 1.0
    return out


def logged_placement(loggers: Sequence[GPLRanker], logger_of: IntArray, lists: Queries, k: int) -> FloatArray:
    """Return the chance of each candidate at each position under the logger that drew its list, (n_rows, k)."""
    out = np.empty((lists.n_rows, k))
    for g in np.unique(logger_of).tolist():
        rows = np.repeat(logger_of == g, lists.n_items)
        out[rows] = placement(loggers[g], lists[np.flatnonzero(logger_of == g)], k)
    return out


def check_loggers(shown: Impressions) -> None:
    """Refuse loggers whose lists cannot be reweighted."""
    for ranker in shown.loggers:
        if ranker.anchor == 1.0 or ranker.is_deterministic:
            raise DataError(
                "the lists were all served in the order by score, so clicks say nothing about items further down; "
                "expected a ranker that explores: isrr start … --explore"
            )
        if ranker.anchor == 0.0:
            raise DataError(
                "the lists were drawn by a ranker without an anchor, so clicks on the order by score cannot be "
                "estimated within bounds; expected one that serves the order by score with a fixed chance: "
                "isrr start … --explore"
            )
        if ranker.boost:
            raise DataError("the lists were drawn with a boost of groups; expected a logger without one")
        if ranker.decay < 1.0 and ranker.threshold > 0.0:
            raise DataError(
                f"the lists were drawn at decay {ranker.decay:g}, for which placements are not exact; expected decay 1"
            )


def check_by_position(shown: Impressions, promise: Promise, delta: float) -> None:
    """Refuse loggers whose lists cannot be reweighted, and an anchor too small for so many impressions.

    In each unit wealth grows by a factor of about 1 + λ·(V_π − s·V_det)/(s·k·b) at most, and V_π is about V_det at
    most, so n units reach 1/δ only if λ · n · (1 − s)·V / (s·k·b) ≥ log(1/δ).
    """
    check_loggers(shown)
    if not shown.n_clicks:
        return
    n, worth, share = len(shown), float(shown.value.sum()) / len(shown), promise.target
    least = share * largest_worth(promise) * np.log(1 / delta) / (n * (1 - share) * worth)
    if shown.anchor < least <= LARGE_ANCHOR:
        raise DataError(
            f"an anchor of {shown.anchor:g} is too small for {n:,} {shown.unit}s worth {worth:.3g} clicks each: "
            f"nothing could be certified; expected an anchor of at least {least:.2g}, or about "
            f"{n * least / shown.anchor:,.0f} {shown.unit}s"
        )


def estimated_gains(shown: Impressions) -> FloatArray:
    """Return what each candidate seems to be worth, (n_rows,): clicks over propensity, made to rise with the score.

    A fit without a guarantee: it chooses among rankers that are certified already.
    """
    from scipy.optimize import isotonic_regression

    k, lists = shown.rules.k, shown.lists
    times = np.bincount(shown.list_of, minlength=len(lists)).astype(np.float64)
    logged = logged_placement(shown.loggers, shown.logger_of, lists, k)[shown.row, shown.position]
    worth = shown.value / np.maximum(logged, 1.0 / np.sqrt(len(shown)))
    scores, which = np.unique(lists.need_scores(), return_inverse=True)
    n_shown = np.bincount(which, np.repeat(times, lists.n_items))
    clicked = np.bincount(which, np.bincount(shown.row, worth, lists.n_rows))
    seen = n_shown > 0
    fitted = isotonic_regression(clicked[seen] / n_shown[seen], weights=n_shown[seen]).x
    return np.asarray(np.interp(scores, scores[seen], fitted)[which])


ITEM_POSITION = ClickModel(
    "the chance of a click depends on the query, the item and its position, not on the other items shown",
    check_by_position, estimate_by_position,
)  # fmt: skip
