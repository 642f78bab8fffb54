"""Refuse lists that their logger cannot have shown: estimates would be false, however many clicks there are.

A log that names another ranker than the one that drew, or counts positions wrongly, looks like any other. So what was
shown is compared with what the logger shows: the propensity of each placement, where the log has it, and how often the
order by score is shown, as a whole and position by position, each with its exact chance.
"""

import numpy as np
from numpy.typing import NDArray

from isrr.clicks.estimate import Estimates, placement
from isrr.clicks.impressions import Impressions
from isrr.counting import percent
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import rows_within
from isrr.errors import DataError
from isrr.gains import leading
from isrr.promises import INEXACTNESS
from isrr.ranker.gpl import GPLRanker

DEVIATIONS = 5.0  # standard deviations, and lists, by which what was shown may be off
AT_ONCE = 1 << 16  # lists whose propensities are computed at a time


def check_shown(log: Impressions) -> tuple[float, float]:
    """Return the share of lists in the order by score, and the share expected of their loggers; refuse what differs."""
    k, by_score = log.rules.k, leading(log.lists, log.rules.k)
    same = log.shown == by_score[log.list_of]
    seen = np.column_stack((same.all(axis=1), same & (by_score[log.list_of] >= 0)))
    chance = np.empty(seen.shape)
    for g, logger in enumerate(log.loggers):
        mine, drawn = np.flatnonzero(log.logger_of == g), np.flatnonzero(log.logger_of[log.list_of] == g)
        if not drawn.size:
            continue
        lists, first = log.lists[mine], by_score[mine]
        rows = lists.offsets[:-1, None] + np.maximum(first, 0)
        at_positions = np.where(first >= 0, placement(logger, lists, k)[rows, np.arange(k)], 0.0)
        of_lists = np.column_stack((np.exp(logger.of_length(k).log_prob(first, lists)), at_positions))
        chance[drawn] = of_lists[np.searchsorted(mine, log.list_of[drawn])]
        _check_share(logger, seen[drawn], chance[drawn])
        for start in range(0, 0 if log.propensity is None else drawn.size, AT_ONCE):
            _check_propensities(log, logger, drawn[start : start + AT_ONCE])
    return float(seen[:, 0].mean()), float(chance[:, 0].mean())


def _check_share(logger: GPLRanker, seen: NDArray[np.bool_], chance: FloatArray) -> None:
    """Refuse lists that show the order by score, or its item at a position, much more or less often than expected."""
    off = np.abs(seen.sum(axis=0) - chance.sum(axis=0))
    excess = off - DEVIATIONS * (1.0 + np.sqrt((chance * (1.0 - chance)).sum(axis=0)))
    worst = int(np.argmax(excess))
    if excess[worst] > 0:
        what = f"at position {worst} what the order by score has there" if worst else "the order by score"
        raise DataError(
            f"{percent(seen[:, worst].mean())} of {len(seen):,} lists show {what}, but their logger "
            f"({logger.in_words}) shows it in {percent(chance[:, worst].mean())}; expected the logger "
            "that drew the lists, the candidates and scores that it ranked, and positions counted from 1"
        )


def _check_propensities(log: Impressions, logger: GPLRanker, some: IntArray) -> None:
    """Refuse lists whose logged propensities are not those of their logger."""
    assert log.propensity is not None
    list_of, shown, logged = log.list_of[some], log.shown[some], log.propensity[some]
    own = logger.of_length(log.rules.k).propensity(shown, repeated(log.lists, list_of))
    off = np.argwhere((shown >= 0) & ~(np.abs(logged - own) <= INEXACTNESS))
    if off.size:
        i, position = off[0].tolist()
        raise DataError(
            f"a list of query {str(log.lists.query_ids[list_of[i]])!r}, served at {log.times[some][i]:.0f}, was logged "
            f"with propensity {logged[i, position]:.6g} at position {position + 1}, but its logger "
            f"({logger.in_words}) gives {own[i, position]:.6g}; expected the ranker that drew it"
        )


def repeated(lists: Queries, which: IntArray) -> Queries:
    """Return lists as often as they are named."""
    offsets, rows = rows_within(lists.offsets, which)
    assert lists.items is not None
    return Queries(offsets, lists.query_ids[which], lists.need_scores()[rows], items=lists.items.take(rows))


def check_estimates(log: Impressions, estimates: Estimates, most: float) -> None:
    """Refuse estimates above what the clicks on one list can be worth at most, by more than chance explains."""
    values = np.column_stack((estimates.reference, estimates.values))
    mean = values.mean(axis=0)
    error = np.sqrt((values.var(axis=0) + most**2 * estimates.inflation / estimates.block) / len(values))
    worst = int(np.argmax(mean - DEVIATIONS * error))
    if mean[worst] - DEVIATIONS * error[worst] > most:
        raise DataError(
            f"a ranker is estimated to get {mean[worst]:.4g} ± {error[worst]:.2g} clicks per {log.unit}, of at most "
            f"{most:g}: its logger did not draw these lists; expected the logger that did"
        )
