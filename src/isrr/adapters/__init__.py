"""isrr inside other libraries."""

from datetime import UTC, datetime
from os import PathLike

from isrr.outcome.certificate import Outcome, load
from isrr.outcome.status import ranker_in_force, read_status
from isrr.ranker.gpl import GPLRanker

RankerSource = GPLRanker | Outcome | str | PathLike[str]


def ranker_of(source: RankerSource) -> GPLRanker:
    """Return a ranker, that of an outcome, or that of a file: the one in force now, see `isrr.outcome.status`."""
    if isinstance(source, GPLRanker):
        return source
    if isinstance(source, Outcome):
        return source.ranker
    outcome = load(source)
    return ranker_in_force(outcome, read_status(source, outcome.id).standing(datetime.now(UTC))[0])
