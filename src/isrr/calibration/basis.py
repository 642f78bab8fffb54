"""Which queries fix the path, and the path they fix.

A path must be fixed without the queries it is tested on. Validation queries do, where there are any; else some of the
judged ones, those of smallest key, are set aside for it and not tested on: few when they fix the score scale alone, a
share of all when the path is learned from them.
"""

import math

import numpy as np

from isrr.calibration.order import canonical_order
from isrr.calibration.paths import Path, front_path, temperature_path, threshold_path
from isrr.calibration.sample import ALL, FindShared, Gather, smallest_keys
from isrr.calibration.terms import Terms
from isrr.counting import counted
from isrr.data.queries import Queries
from isrr.engines.task import Source
from isrr.errors import DataError
from isrr.findings import THE_TESTED, Provenance
from isrr.gains import has_relevant
from isrr.guarantee import Guarantee, move_together
from isrr.parallel import Progress
from isrr.scores.standardize import mean_and_deviation

SET_ASIDE_FROM = 300  # judged queries from which setting some aside for score map and family pays (docs/guarantees.md)
SET_ASIDE_SHARE = 0.2
MOST_SET_ASIDE = 2_000
FOR_THE_SCALE = 5  # queries that fix a score deviation well enough for temperatures that span a factor of 250
FOR_QUANTILES = 20  # queries that fix quantiles of eligibility
LEARNABLE_FROM = 20  # queries with a relevant item that a score map and a family are learned from


def n_set_aside(n_queries: int, terms: Terms, validation: Queries | None) -> int:
    """How many of the judged queries fix the path and are not tested on."""
    if validation is not None or terms.path == "paper" or not isinstance(terms.path, str):
        return 0
    many = terms.path == "auto" and n_queries >= SET_ASIDE_FROM
    learns = terms.selection == "split" or terms.path == "front" or not move_together(terms.guarantees) or many
    few = FOR_QUANTILES if terms.path == "thresholds" else FOR_THE_SCALE
    share = round(SET_ASIDE_SHARE * n_queries)
    return int(np.clip(share if learns else min(share, few), 1, min(MOST_SET_ASIDE, n_queries - 1)))


def set_aside(
    source: Source, n_queries: int, terms: Terms, validation: Queries | None, progress: Progress | None
) -> tuple[Queries | None, int]:
    """The queries set aside, None where there are none, and the key from which on queries are tested.

    Where their scores do not vary, twice as many are taken: when to stop is told by those taken alone, so the others
    are still as good as fresh.
    """
    n_aside = n_set_aside(n_queries, terms, validation)
    while n_aside:
        drawn = smallest_keys(source, n_aside + 1, n_queries, progress=progress)
        aside = drawn[:n_aside]
        if np.ptp(aside.need_scores()) > 0 or n_aside == n_queries - 1:
            return aside, int(drawn.keys[n_aside])
        n_aside = min(2 * n_aside, n_queries - 1)
    return None, 0


def judged_in_all(n_tested: float, terms: Terms, *, given: bool = False, share_counted: float = 1.0) -> int:
    """How many judged queries leave so many to test on.

    Args:
        n_tested: Queries to test on.
        terms: What is asked of the calibration.
        given: Whether validation queries fix the path, or the caller, so that none is set aside.
        share_counted: Share of the queries that are tested on, the others having no relevant item.

    Example:
        >>> judged_in_all(800, Terms((Guarantee.parse("ndcg@5 >= 0.5"),)))
        1000
    """
    wanted = math.ceil(n_tested / share_counted)
    n_judged = wanted
    while not given and (missing := wanted - n_judged + n_set_aside(n_judged, terms, None)) > 0:
        n_judged += missing
    return n_judged


def judged_again(n_tested: float, guarantees: tuple[Guarantee, ...], made: Provenance) -> int:
    """How many judged queries leave so many to test on when calibrating like before."""
    n_judged = made.n_queries + made.n_skipped + made.n_set_aside
    path = made.path
    if path == "custom" or (path in ("front", "temperature") and (path == "front") == (n_judged >= SET_ASIDE_FROM)):
        path = "auto"  # which names either by the number of queries
    terms = Terms(guarantees, path=path, selection=made.selection)
    share_counted = made.n_queries / (made.n_queries + made.n_skipped)
    return judged_in_all(n_tested, terms, given=made.n_set_aside == 0, share_counted=share_counted)


def refuse_shared(source: Source, validation: Queries) -> None:
    """A path fixed on the very queries it is tested on would void the promise."""
    made_ids = source.made_ids or validation.made_ids
    task = FindShared.among(validation, made_ids=made_ids)
    both = task.shared(validation, source.run(task))
    if both.any():
        told = ", by their scores and relevance (ids were made from positions; give ids where they merely agree)"
        raise DataError(
            f"judged queries that are validation queries too{told if made_ids else ''}: {both.sum():,}, "
            f"{str(validation.query_ids[both][0])!r} among them; the path must be fixed without the queries it is "
            "tested on: give others, or none"
        )


def fixed_path(terms: Terms, source: Source, aside: Queries | None, validation: Queries | None) -> Path:
    """The path these terms name, fixed by validation queries or by those set aside; the paper's needs neither."""
    if not isinstance(terms.path, str):
        return Path(terms.path, "custom", "the caller")
    fixed_by, basis = _fixed_by(source, aside, validation)
    if terms.path in ("paper", "thresholds"):
        return threshold_path(fixed_by, terms.k, terms.guarantees, paper=terms.path == "paper", basis=basis)
    if terms.path == "temperature" or not _learnable(fixed_by, terms.guarantees[0]):
        mean, deviation = mean_and_deviation(fixed_by)
        return temperature_path(terms.k, deviation, mean, terms.guarantees, basis)
    return front_path(fixed_by, terms.k, terms.guarantees, basis)


def _fixed_by(source: Source, aside: Queries | None, validation: Queries | None) -> tuple[Queries, str]:
    """The queries that fix the path, in the order in which sums over them have the same bits, and a name for them."""
    if validation is not None:
        return validation[canonical_order(validation.keys)], counted(len(validation), "validation query")
    if aside is not None:
        return aside[canonical_order(aside.keys)], f"{counted(len(aside), 'judged query')} set aside"
    judged = source.run(Gather(ALL))
    assert judged is not None
    return judged, THE_TESTED


def _learnable(queries: Queries, guarantee: Guarantee) -> bool:
    """Whether a score map and a family can be learned from these queries, not only a scale."""
    if queries.relevance is None:
        return False
    return int(has_relevant(queries, gain_kind=guarantee.gain_kind).sum()) > LEARNABLE_FROM
