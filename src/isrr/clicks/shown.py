"""Refuse lists that their logger cannot have shown: estimates would be false, however many clicks there are.

A log that names another ranker than the one that drew, or counts places wrongly, looks like any other. So what was
shown is compared with what the logger shows: the propensity of each placement, where the log has it, and how often the
order by score is shown, as a whole and place by place, each with its exact chance.
"""

import numpy as np

from isrr.clicks.estimate import Estimated, logged_placement
from isrr.clicks.impressions import Impressions
from isrr.counting import percent
from isrr.data.queries import IntArray, Queries
from isrr.data.ragged import rows_within
from isrr.errors import DataError
from isrr.gains import leading
from isrr.promises import INEXACTNESS

DEVIATIONS = 5.0  # standard deviations, and lists, by which what was shown may be off
AT_ONCE = 1 << 16  # lists whose propensities are computed at a time


def check_shown(found: Impressions) -> tuple[float, float]:
    """Share of the lists shown in the order by score, and the share expected of their loggers; refuse what differs."""
    k, loggers = found.rules.k, found.logger_of[found.list_of]
    by_score = leading(found.lists, k)
    in_place = (found.shown == by_score[found.list_of]) & (by_score[found.list_of] >= 0)
    whole = (found.shown == by_score[found.list_of]).all(axis=1)
    seen = np.column_stack((whole, in_place))
    placed = logged_placement(found.loggers, found.logger_of, found.lists, k)
    rows = found.lists.offsets[:-1, None] + np.maximum(by_score, 0)
    chance = np.empty((len(found.lists), k + 1))
    chance[:, 1:] = np.where(by_score >= 0, placed[rows, np.arange(k)], 0.0)
    for g in np.unique(loggers).tolist():
        mine = np.flatnonzero(found.logger_of == g)
        chance[mine, 0] = np.exp(found.loggers[g].of_length(k).log_prob(by_score[mine], found.lists[mine]))
    chance = chance[found.list_of]
    for g in np.unique(loggers).tolist():
        mine = loggers == g
        off = seen[mine].sum(axis=0) - chance[mine].sum(axis=0)
        excess = np.abs(off) - DEVIATIONS * (1.0 + np.sqrt((chance[mine] * (1.0 - chance[mine])).sum(axis=0)))
        worst = int(np.argmax(excess))
        if excess[worst] > 0:
            what = f"at place {worst} what the order by score has there" if worst else "the order by score"
            raise DataError(
                f"{percent(seen[mine, worst].mean())} of {mine.sum():,} lists show {what}, but their logger "
                f"({found.loggers[g].in_words}) shows it in {percent(chance[mine, worst].mean())}; expected the logger "
                "that drew the lists, the candidates and scores that it ranked, and places counted from 1"
            )
    _check_propensities(found)
    return float(whole.mean()), float(chance[:, 0].mean())


def _check_propensities(found: Impressions) -> None:
    """Refuse lists whose logged propensities are not those of their logger."""
    if found.propensity is None:
        return
    for start in range(0, len(found), AT_ONCE):
        list_of, shown = (column[start : start + AT_ONCE] for column in (found.list_of, found.shown))
        own, loggers = np.empty(shown.shape), found.logger_of[list_of]
        for g in np.unique(loggers).tolist():
            mine = loggers == g
            ranker = found.loggers[g].of_length(found.rules.k)
            own[mine] = ranker.propensity(shown[mine], repeated(found.lists, list_of[mine]))
        logged = found.propensity[start : start + AT_ONCE]
        off = np.argwhere((shown >= 0) & ~(np.abs(logged - own) <= INEXACTNESS))
        if off.size:
            i, place = off[0].tolist()
            raise DataError(
                f"a list of query {str(found.lists.query_ids[list_of[i]])!r}, served at {found.times[start + i]:.0f}, "
                f"was logged with propensity {logged[i, place]:.6g} at place {place + 1}, but its logger "
                f"({found.loggers[loggers[i]].in_words}) gives {own[i, place]:.6g}; expected the ranker that drew it"
            )


def repeated(lists: Queries, which: IntArray) -> Queries:
    """Lists as often as they are named."""
    offsets, rows = rows_within(lists.offsets, which)
    assert lists.items is not None
    return Queries(offsets, lists.query_ids[which], lists.need_scores()[rows], items=lists.items.take(rows))


def check_estimates(found: Impressions, measured: Estimated, most: float) -> None:
    """Refuse estimates above the most that there can be, by more than chance explains.

    Args:
        found: The impressions.
        measured: What was estimated from them.
        most: What the clicks on one list can be worth.
    """
    values = np.column_stack((measured.reference, measured.values))
    mean = values.mean(axis=0)
    error = np.sqrt((values.var(axis=0) + most**2 / (found.anchor * measured.block)) / len(values))
    worst = int(np.argmax(mean - DEVIATIONS * error))
    if mean[worst] - DEVIATIONS * error[worst] > most:
        raise DataError(
            f"a ranker is estimated to get {mean[worst]:.4g} ± {error[worst]:.2g} clicks per {found.unit}, of at most "
            f"{most:g}: its logger did not draw these lists; expected the logger that did"
        )
