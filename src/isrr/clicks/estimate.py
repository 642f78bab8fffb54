"""What clicks on one ranker's lists say about other rankers: the item–position estimator.

A logger serves the order by score with chance λ, else a draw. If the chance of a click depends on the query, the item
and its place, and on nothing else that was shown, then with exact placements P (the chance of an item at a place)

    V̂(π) = Σ over clicks on item d at place j ≤ k of  P_π(d, j) / P_0(d, j)

has the clicks that ranker π would get as its expectation, whatever users examine or trust. For the order by score the
ratio is at most 1/λ, so that V̂_det ≤ k/λ per list if each place counts one click. The paired loss

    s · V̂_det − V̂_π ≤ s · k / λ

is bounded from above, and that is all the betting test needs; where P_0 is tiny, V̂_π may be huge, which only lowers it.
Numerical error is taken to the safe side: P_π and P_0 are each shifted by more than the kernels are off.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isrr.clicks.impressions import Impressions
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import DataError
from isrr.gains import leading
from isrr.parallel import Progress
from isrr.promises import INEXACTNESS
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.isotonic import isotonic_blocks

LARGE_ANCHOR = 0.8  # where more than this would be needed, it is impressions that are too few
MOST_UNITS = 200_000  # units whose losses are kept one by one; beyond that, blocks of them are averaged


@dataclass(frozen=True, eq=False)
class Estimated:
    """Clicks that rankers would get, estimated for each unit, or for blocks of them, in canonical order.

    Attributes:
        values: Of each ranker, (n_blocks, n_grid), the mean over the units of a block.
        reference: Of the order by score, (n_blocks,).
        block: Units per block.
    """

    values: FloatArray
    reference: FloatArray
    block: int


def estimated(
    found: Impressions, rankers: Sequence[GPLRanker], progress: Progress | None = None, *, most: int = MOST_UNITS
) -> Estimated:
    """Estimate the clicks in the first k places of every ranker."""
    k, block = found.rules.k, -(-found.n_units // most)
    n_blocks = found.n_units // block
    if not found.n_clicks:
        return Estimated(np.zeros((n_blocks, len(rankers))), np.zeros(n_blocks), block)
    which, row_of_click = _clicked_lists(found)
    lists = found.lists[which]
    cells, cell = np.unique(row_of_click * k + found.place, return_inverse=True)
    row, place = cells // k, cells % k
    by_score = order_placement(lists, k)[row, place]
    logged = logged_placement(found.loggers, found.logger_of[which], lists, k)[row, place]
    where = found.unit_of[found.impression] // block
    inside = where < n_blocks  # the last units, fewer than a block, are left out

    def summed(ratio: FloatArray) -> FloatArray:
        weights = (found.value * ratio[cell])[inside]
        return np.bincount(where[inside], weights, n_blocks) / block

    reference = summed(by_score / np.maximum(logged - INEXACTNESS, np.where(by_score > 0, found.anchor, 1.0)))
    values = np.empty((n_blocks, len(rankers)))
    for g, ranker in enumerate(rankers):
        drawn = _placement(ranker, lists, k)[row, place]
        values[:, g] = summed(np.maximum(drawn - INEXACTNESS, 0.0) / (logged + INEXACTNESS))
        if progress is not None:
            progress(g + 1, len(rankers))
    return Estimated(values, reference, block)


def _clicked_lists(found: Impressions) -> tuple[IntArray, IntArray]:
    """The lists that were clicked on, and which of their rows each click belongs to."""
    list_of_click = found.list_of[found.impression].astype(np.int64)
    which = np.unique(list_of_click)
    sizes = found.lists.n_items[which]
    starts, where = np.cumsum(sizes) - sizes, np.searchsorted(which, list_of_click)
    return which, starts[where] + found.row - found.lists.offsets[list_of_click]


def _placement(ranker: GPLRanker, lists: Queries, k: int) -> FloatArray:
    """Chance of each candidate at each place, (n_rows, k); the order by score to the last bit."""
    if ranker.is_deterministic:
        return order_placement(lists, k)
    return ranker.of_length(k).placement(lists)


def order_placement(lists: Queries, k: int) -> FloatArray:
    """1 where the order by score has a candidate, (n_rows, k)."""
    out, placed = np.zeros((lists.n_rows, k)), leading(lists, k)
    query, place = np.nonzero(placed >= 0)
    out[lists.offsets[query] + placed[query, place], place] = 1.0
    return out


def logged_placement(loggers: Sequence[GPLRanker], logger_of: IntArray, lists: Queries, k: int) -> FloatArray:
    """Chance of each candidate at each place under the logger that drew its list, (n_rows, k)."""
    out = np.empty((lists.n_rows, k))
    for g in np.unique(logger_of).tolist():
        rows = np.repeat(logger_of == g, lists.n_items)
        out[rows] = _placement(loggers[g], lists[np.flatnonzero(logger_of == g)], k)
    return out


def check_loggers(found: Impressions) -> None:
    """Refuse loggers whose lists cannot be reweighted."""
    for ranker in found.loggers:
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


def check_anchor(found: Impressions, share: float, delta: float, bound: float) -> None:
    """Refuse an anchor that is too small for so many impressions, and say which one would do.

    In each unit wealth grows by a factor of about 1 + λ·(V_π − s·V_det)/(s·k·b) at most, and V_π is about V_det at
    most, so n units reach 1/δ only if λ · n · (1 − s)·V / (s·k·b) ≥ log(1/δ).
    """
    n, worth = found.n_units, float(found.value.sum()) / found.n_units
    most = share * found.rules.k * bound
    least = most * np.log(1 / delta) / (n * (1 - share) * worth)
    if found.anchor < least <= LARGE_ANCHOR:
        raise DataError(
            f"an anchor of {found.anchor:g} is too small for {n:,} {found.unit}s worth {worth:.3g} clicks each: "
            f"nothing could be certified; expected an anchor of at least {least:.2g}, or about "
            f"{n * least / found.anchor:,.0f} {found.unit}s"
        )


def gains(found: Impressions) -> FloatArray:
    """What each candidate seems to be worth, (n_rows,): clicks over propensity, made to rise with the score.

    A fit without a guarantee: it chooses among rankers that are certified already.
    """
    k, lists = found.rules.k, found.lists
    times = np.bincount(found.list_of, minlength=len(lists)).astype(np.float64)
    logged = logged_placement(found.loggers, found.logger_of, lists, k)[found.row, found.place]
    worth = found.value / np.maximum(logged, 1.0 / np.sqrt(len(found)))
    per_row = np.bincount(found.row, worth, lists.n_rows)
    scores, which = np.unique(lists.need_scores(), return_inverse=True)
    shown = np.bincount(which, np.repeat(times, lists.n_items))
    clicked = np.bincount(which, per_row)
    seen = shown > 0
    fitted = isotonic_blocks(clicked[seen] / shown[seen], shown[seen]).fitted
    return np.asarray(np.interp(scores, scores[seen], fitted)[which])
