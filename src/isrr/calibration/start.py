"""`start`: a ranker that keeps a promise on every query by construction, before anything is judged.

The floor of the ranker is the promised share, so "at least 95 % of deterministic" holds on every single query, whatever
is relevant. What is left to choose is the temperature. The one that spreads exposure most evenly, all items taken as
equally worthy, shuffles a few lists and leaves the others as they are; the coldest one that moves four fifths as much
exposure lets near-equal items take turns, at half the cost.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from isrr.calibration.judged import refuse_single
from isrr.calibration.outcome import quantiles
from isrr.calibration.path import COLDEST, in_order
from isrr.calibration.quality import measured_quality
from isrr.calibration.request import Request
from isrr.data.columns import Columns
from isrr.data.queries import Queries
from isrr.data.tables import as_queries
from isrr.errors import PromiseError
from isrr.gains import Discount, Gain
from isrr.metrics.evaluate import evaluate
from isrr.outcome.certificate import Start
from isrr.outcome.findings import Provenance
from isrr.promises import Promise, objectives, promises
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import scale_of

N_TEMPERATURES = 32
HOTTEST = 100.0  # in deviations within a query: draws are next to even, however far lists lie apart
EXPLORING_ANCHOR = 0.8
MILDER = 0.8  # share of the exposure that the fairest temperature moves, which the one in use moves
N_HALVINGS = 10  # of the range of temperatures, in logarithms
EXPLORED = 0.4  # share of exposure that draws of an exploring ranker move
SAMPLE = 5_000  # queries that the temperature is chosen on
SHOWN = 1e-3  # chance of being shown from which an item counts as shown


def start(
    queries: Any,
    promise: str | Promise,
    *,
    explore: bool = False,
    gain: Gain | None = None,
    discount: Discount | None = None,
    columns: Columns | None = None,
) -> Start:
    """Return a ranker that is certain to keep the promised share on every query.

    Args:
        queries: Scored queries: `Queries`, a path or a table, as `calibrate` takes them; relevance is not read.
        promise: At least a share of the order by score, such as "ndcg@5 >= 95% of deterministic".
        explore: Explore, so that clicks can be certified later: serve the order by score with a fixed probability
            (anchor 0.8), otherwise draw at a mild temperature, see `exploring`. It keeps about 99 % of the clicks.
        gain: How much a grade is worth, for a promise given as text; as for `calibrate`.
        discount: How much a position is worth, likewise.
        columns: The names of columns that are not called as usual, for queries still to be read; see `isrr.Columns`.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.5, 1.2, 0.0, 1.0, 0.9, 0.2], group=[4, 3])
        >>> start(queries, "ndcg@2 >= 90% of deterministic").ranker.floor
        0.9
    """
    (promised,) = promises(promise, gain, discount)
    if not promised.can_be_floored or promised.target >= 1:
        raise PromiseError(_why_not(promised))
    request = Request((promised,), floor=promised.target)
    scored = replace(as_queries(queries, columns, roles=request.columns), relevance=None)
    refuse_single(scored)
    sample = in_order(scored)[:SAMPLE]
    base = GPLRanker(k=request.k, **scale_of(sample), **request.floor_arguments(promised.target))
    if explore:
        return _made(promised, scored, sample, exploring(base, sample))
    temperatures = np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES).tolist()
    grid = [replace(base, temperature=temperature) for temperature in temperatures]
    _, disparity = objectives((promised,), judged=False)
    normalized = replace(disparity.metric, name="normalized_disparity", normalized=True).at(disparity.k)  # type: ignore[type-var]
    best = grid[int(np.argmin(evaluate(sample, grid, [normalized]).mean(normalized)))]
    return _made(promised, scored, sample, milder(best, sample))


def milder(best: GPLRanker, queries: Queries) -> GPLRanker:
    """Return the same ranker at the coldest temperature that moves four fifths of the exposure that it moves."""
    least = MILDER * _moved(queries, best)[0]
    cold, hot = np.log(COLDEST), np.log(best.temperature)
    for _ in range(N_HALVINGS):
        middle = (cold + hot) / 2
        moves_enough = _moved(queries, replace(best, temperature=float(np.exp(middle))))[0] >= least
        cold, hot = (cold, middle) if moves_enough else (middle, hot)
    return replace(best, temperature=float(np.exp(hot)))


def _why_not(promise: Promise) -> str:
    """Say what a promise needs that does not hold by construction."""
    share = f"'ndcg@{promise.k} >= 95% of deterministic'"
    if promise.metric.name == "clicks":
        return f"'{promise}' needs clicks; start with {share} and `explore=True`, and certify it from the log"
    if "relevance" not in promise.columns:
        return f"'{promise}' needs no labels, but a test: certify it by `isrr calibrate` on the same table"
    return (
        f"'{promise}' needs judged queries; without them, only a share of the order by score can be promised, and "
        f"not of every metric; try {share}"
    )


def exploring(base: GPLRanker, queries: Queries) -> GPLRanker:
    """Return the same ranker with an anchor, and with the temperature at which draws move 40 % of the exposure.

    It is chosen by its effect, because a deviation means little across scorers: the scores within one list may lie
    close together, and those of different lists far apart.
    """
    alone = replace(base, floor=0.0, anchor=0.0)
    temperatures = np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES)
    moved = [_moved(queries, replace(alone, temperature=temperature))[0] for temperature in temperatures.tolist()]
    temperature = np.exp(np.interp(EXPLORED, moved, np.log(temperatures)))
    return replace(base, temperature=float(temperature), anchor=EXPLORING_ANCHOR)


def _made(promised: Promise, scored: Queries, sample: Queries, ranker: GPLRanker) -> Start:
    provenance = Provenance(
        n_queries=len(scored),
        requested_path="start",
        path="start",
        path_basis="scores alone",
        evidence="none",
        selection="none",
        method="exact",
        data=scored.fingerprint,
        hash_key=scored.scores_fingerprint,
        made_ids=scored.made_ids,
        n_single=int((scored.n_items == 1).sum()),
        **quantiles(sample, ranker),
    )
    quality = measured_quality(sample, ranker, (promised,))
    return Start((promised,), 1.0, ranker, promised.measure.title, (), (), provenance, *_moved(sample, ranker), quality)


def _moved(queries: Queries, ranker: GPLRanker) -> tuple[float, float, float]:
    """Share of exposure that moves, and of items that are shown, before and after."""
    before, after = GPLRanker.deterministic(ranker.k).exposure(queries), ranker.exposure(queries)
    moved = float(np.abs(after - before).sum() / 2 / before.sum())
    return moved, float((before > 0).mean()), float((after >= SHOWN).mean())
