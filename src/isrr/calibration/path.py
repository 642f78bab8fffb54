"""What is tested, in which order, and which queries fix that.

A path runs from the safest configuration to the one that gives up most. Fixed-sequence testing has no price for length,
so paths are fine; it stops at the first configuration that fails, so their order is what matters.

temperature   Plackett–Luce from cold to hot: the best path that needs no labels
front         the best family on validation queries: score map, admitted share, then temperature; for promises about
              groups, boosts of their items at every temperature

The order by score comes first when utility is promised and last when fairness is.

A path must be fixed without the queries it is tested on. Validation queries do that where there are any; otherwise some
of the judged queries, those of smallest key, are set aside for it and not tested on: few when they fix the score scale
alone, a share of all when the path is learned from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.request import NO_FLOOR, Floor, Request
from isrr.counting import counted
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.sample import canonical_order
from isrr.errors import DataError
from isrr.gains import has_relevant
from isrr.metrics.evaluate import evaluate
from isrr.promises import Promise, move_together, objectives
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import Scale, fit_log_gain, scale_of

COLDEST, HOTTEST = 0.02, 5.0  # in score deviations
MILD = np.geomspace(0.0005, COLDEST, 8, endpoint=False)  # first, so that a scale far off doesn't end a path at once
TEMPERATURES = np.array([*MILD, *np.geomspace(COLDEST, HOTTEST, 120)])
MOST_TESTED = 150
HOPELESS = -3.0  # standard errors by which a promise is missed on validation queries
COARSE_TEMPERATURES = np.geomspace(COLDEST, HOTTEST, 32)
SHARES_TURNED_AWAY = (0.0, 0.3, 0.5, 0.65, 0.8)
AT_ONCE = 1_000_000  # queries times configurations that are tried together, rows times temperatures
BOOSTS = np.linspace(0.0, 2.5, 11)  # deviations
MOST_BOOSTS = 36  # combinations for several groups
SET_ASIDE_FROM = 300  # judged queries from which setting some aside for score map and family pays (docs/guarantees.md)
SET_ASIDE_SHARE = 0.2
MOST_SET_ASIDE = 2_000
FOR_THE_SCALE = 5  # queries that fix a score deviation well enough for temperatures that span a factor of 250
LEARNABLE_FROM = 20  # queries with a relevant item that a score map and a family are learned from


@dataclass(frozen=True)
class SearchPath:
    """Configurations in the order they are tested, safest first, and what they were fixed by, in words."""

    rankers: tuple[GPLRanker, ...]
    name: str
    basis: str


def temperature_path(
    k: int, scale: Scale, promises: Sequence[Promise], basis: str, floor: Floor = NO_FLOOR
) -> SearchPath:
    """Plackett–Luce at temperatures up to 5 score deviations."""
    hot = [GPLRanker(k=k, temperature=float(t), **scale, **floor) for t in TEMPERATURES]
    return _directed([GPLRanker.deterministic(k), *hot], promises, "temperature", basis)


def front_path(validation: Queries, k: int, promises: Sequence[Promise], basis: str, *floors: Floor) -> SearchPath:
    """Return the family that does best at the promise on the validation queries, from cold to hot.

    A family is a score map (none, or log-gain) and a share of the items that thresholds turn away at every temperature.
    Its curve over temperature is smooth, so a fixed sequence along it is not stopped by one unlucky configuration, as
    it is along the front of single configurations. Where fairness is promised it starts at the fairest temperature:
    beyond that, lists hardly longer than k get less fair again. For promises of both kinds, or about groups,
    configurations of all families come in the order of their slack: the safe ones may lie anywhere on the curves. Those
    that no other beats at all promises at once come last where they are not safe: what can be reached is read off them.
    """
    boosts = _boosts(promises)
    coarse, shares = (COARSE_TEMPERATURES[::3], (0.0,)) if boosts else (COARSE_TEMPERATURES, SHARES_TURNED_AWAY)
    few = len(validation) * len(shares) * len(coarse) <= AT_ONCE
    judged = validation.relevance is not None and learnable(validation, promises)
    fitted = fit_log_gain(validation, promises[0].metric.gain) if judged else None
    scales = [scale_of(validation, score_map) for score_map in ([None] if fitted is None else [None, fitted])]
    dials = product(scales, floors or (NO_FLOOR,), boosts or [{}])
    trials = [
        trial
        for base in [GPLRanker(k=k, boost=boost, **scale, **floor) for scale, floor, boost in dials]
        for some in ([shares] if few else [(share,) for share in shares])
        for trial in _tried(base, some, coarse, validation, promises)
    ]
    if not move_together(promises):
        return SearchPath(_by_slack(trials), "front", basis)
    best = min(trials, key=lambda trial: trial.regret())
    hottest = HOTTEST if best.utility else best.grid[int(np.argmax(best.slack))].temperature
    (fine,) = _curves(best.base, (best.share,), TEMPERATURES[hottest >= TEMPERATURES], validation)
    return _directed([GPLRanker.deterministic(k), *fine], promises, "front", basis)


def _by_slack(trials: "Sequence[_Trial]") -> tuple[GPLRanker, ...]:
    """Return the plausible configurations, safest first, then those that no other beats at every promise."""
    rankers = [ranker for trial in trials for ranker in trial.grid]
    least = np.concatenate([trial.slack for trial in trials])
    margins = np.concatenate([trial.margins for trial in trials], axis=1)
    safest_first = np.argsort(-least, kind="stable")
    plausible = safest_first[: max(int((least > HOPELESS).sum()), 1)]
    unbeaten = safest_first[_unbeaten(margins[:, safest_first])]
    order = (*plausible[:: -(-plausible.size // MOST_TESTED)], *unbeaten[:: -(-unbeaten.size // MOST_TESTED)])
    return tuple(dict.fromkeys(rankers[c] for c in order))


def _unbeaten(margins: FloatArray) -> NDArray[np.bool_]:
    """Return which configurations no other is at least as good as at every promise, and better at one, (n_grid,)."""
    beaten = np.zeros(margins.shape[1], bool)
    for c in range(margins.shape[1]):
        ours = margins[:, [c]]
        beaten |= (margins <= ours).all(axis=0) & (margins < ours).any(axis=0)
    return ~beaten


def _curves(
    base: GPLRanker, shares: Sequence[float], temperatures: FloatArray, queries: Queries
) -> list[list[GPLRanker]]:
    """Return a family for each share of items that is turned away: its rankers at each temperature."""
    if not any(shares):
        return [[replace(base, temperature=float(t)) for t in temperatures] for _ in shares]
    prepared = base.prepare(queries)
    chances = (prepared.eligibility(1.0 / (base.deviation * temperature)) for temperature in temperatures.tolist())
    levels: list[FloatArray] = []
    while some := list(islice(chances, max(AT_ONCE // queries.n_rows, 1))):
        levels.extend(np.quantile(np.stack(some), shares, axis=1).T)
    return [
        [
            replace(base, temperature=float(t), threshold=float(level[i]) if share else base.threshold)
            for t, level in zip(temperatures, levels, strict=True)
        ]
        for i, share in enumerate(shares)
    ]


def _boosts(promises: Sequence[Promise]) -> list[dict[str, float]]:
    """Additions to the scores of the groups that promises name: up where at least a share is promised, else down.

    Where both are promised of a group, both are tried.
    """
    pairs = dict.fromkeys((p.group, 1.0 if p.at_least is not None else -1.0) for p in promises if p.group is not None)
    groups = dict.fromkeys(group for group, _ in pairs)
    if not groups:
        return []
    n_steps = max(int(MOST_BOOSTS ** (1 / len(pairs))), 2) if len(groups) > 1 else BOOSTS.size
    steps = BOOSTS[np.linspace(0, BOOSTS.size - 1, n_steps).astype(int)].tolist()
    ways = [dict.fromkeys(sign * step for group, sign in pairs if group == name for step in steps) for name in groups]
    return [dict(zip(groups, chosen, strict=True)) for chosen in product(*ways)]


@dataclass(frozen=True, eq=False)
class _Trial:
    """A family tried on the validation queries.

    Attributes:
        base: A ranker of the family.
        share: Share of the items that thresholds turn away.
        grid: The order by score, then the configurations from cold to hot.
        margins: alpha − mean loss of each promise and configuration, (n_promises, n_grid).
        slack: For each configuration the least margin over the promises, in standard errors, (n_grid,).
        cost: What is to be minimised.
        utility: Whether it is utility that is promised, so that the coldest is the safest.
    """

    base: GPLRanker
    share: float
    grid: Sequence[GPLRanker]
    margins: FloatArray
    slack: FloatArray
    cost: FloatArray
    utility: bool

    def regret(self) -> tuple[float, float]:
        """Return what families are chosen by, smallest first: how doubtful the first test is, then the promises' cost.

        The first is what the safest configuration lacks of two standard errors to spare: where it fails, nothing is
        certified. The cost is the least of those with one to spare, as all safer ones have; between the last of them
        and the next it is interpolated.
        """
        safest_first = slice(None) if self.utility else slice(int(np.argmax(self.slack)), None, -1)
        slack, cost = self.slack[safest_first] - 1.0, self.cost[safest_first]
        doubt = max(1.0 - float(slack[0]), 0.0)
        last = int(np.argmax(slack < 0)) if (slack < 0).any() else slack.size
        if last in (0, slack.size):
            return doubt, float(cost[: last + 1].min())
        share = slack[last - 1] / (slack[last - 1] - slack[last])
        return doubt, float(min(cost[:last].min(), cost[last - 1] + share * (cost[last] - cost[last - 1])))


def _tried(
    base: GPLRanker, shares: Sequence[float], temperatures: FloatArray, queries: Queries, promises: Sequence[Promise]
) -> list[_Trial]:
    """Try families that turn away different shares of the items, on one evaluation of all their configurations."""
    curves = _curves(base, shares, temperatures, queries)
    rankers = [GPLRanker.deterministic(base.k), *chain(*curves)]
    utility, disparity = objectives(promises, judged=queries.relevance is not None)
    values = evaluate(queries, rankers, [utility, disparity, *(promise.measure for promise in promises)])
    margins, errors = np.empty((2, len(promises), len(rankers)))
    for i, promise in enumerate(promises):
        of_promise = values[promise.measure]
        reference, counts = promise.reference(queries, of_promise[:, 0]), ~np.isnan(of_promise[:, 0])
        losses = promise.loss().of(of_promise[counts], reference[counts])
        margins[i] = promise.alpha - losses.mean(axis=0)
        errors[i] = np.maximum(losses.std(axis=0) / np.sqrt(len(losses)), 1e-9)
    slack, rising = (margins / errors).min(axis=0), promises[0].safe_end == "cold"
    cost = values.mean(disparity) if rising else -values.mean(utility)
    trials = []
    for i, share in enumerate(shares):
        own = np.append(0, np.arange(len(temperatures)) + 1 + i * len(temperatures))
        grid = [rankers[c] for c in own]
        trials.append(_Trial(base, share, grid, margins[:, own], slack[own], cost[own], rising))
    return trials


def _directed(rankers: list[GPLRanker], promises: Sequence[Promise], name: str, basis: str) -> SearchPath:
    """Fairness promised: the order by score last. Otherwise it comes first."""
    safest_first = rankers[::-1] if promises[0].metric.kind == "fairness" else rankers
    return SearchPath(tuple(safest_first), name, basis)


def n_set_aside(n_queries: int, request: Request, *, validated: bool) -> int:
    """Return how many judged queries fix the path and are not tested on; none where validation queries are given."""
    if validated or not isinstance(request.path, str):
        return 0
    many = request.path == "auto" and n_queries >= SET_ASIDE_FROM
    learns = request.path == "front" or not move_together(request.promises) or many
    share = round(SET_ASIDE_SHARE * n_queries)
    return int(np.clip(share if learns else min(share, FOR_THE_SCALE), 1, min(MOST_SET_ASIDE, n_queries - 1)))


def set_aside(queries: Queries, rows: IntArray, request: Request, *, validated: bool) -> int:
    """Return how many of these rows, queries in canonical order, fix the path and are not tested on.

    Where their scores do not vary, twice as many are taken: when to stop depends on those taken alone, so the others
    are still as good as fresh.
    """
    n_aside = n_set_aside(rows.size, request, validated=validated)
    while n_aside and np.ptp(queries[rows[:n_aside]].need_scores()) == 0 and n_aside < rows.size - 1:
        n_aside = min(2 * n_aside, rows.size - 1)
    return n_aside


def refuse_shared(queries: Queries, validation: Queries) -> None:
    """Refuse validation queries that are tested on: a path fixed on these would void the promise.

    Queries are compared by id or, where ids were made from positions and so name nothing, by scores and relevance.
    """
    made_ids = queries.made_ids or validation.made_ids
    names, others = (
        part.content_keys(judged=validation.relevance is not None) if made_ids else part.keys
        for part in (queries, validation)
    )
    both = np.isin(others, names)
    if both.any():
        told = ", by their scores and relevance (ids were made from positions; give ids where they merely agree)"
        raise DataError(
            f"judged queries that are validation queries too{told if made_ids else ''}: {both.sum():,}, "
            f"{str(validation.query_ids[both][0])!r} among them; the path must be fixed without the queries it is "
            "tested on: give others, or none"
        )


def fixed_path(request: Request, n_tested: int, aside: Queries | None, validation: Queries | None) -> SearchPath:
    """Return the path that was requested, fixed by validation queries or by those set aside."""
    if not isinstance(request.path, str):
        return SearchPath(request.path, "custom", "the caller")
    if validation is not None:
        fixed_by, basis = in_order(validation), counted(len(validation), "validation query")
    else:
        assert aside is not None
        fixed_by, basis = in_order(aside), f"{counted(len(aside), 'judged query')} set aside"
    k, promises, floor = request.k, request.promises, request.floor_arguments(request.floor_for(n_tested))
    boosted = bool(_boosts(promises))
    if request.path == "temperature" or not (boosted or learnable(fixed_by, promises)):
        return temperature_path(k, scale_of(fixed_by), promises, basis, floor)
    if boosted and floor and request.floor is None:  # a floor guards utility, and holds a group back: both are tried
        return front_path(fixed_by, k, promises, basis, NO_FLOOR, floor)
    return front_path(fixed_by, k, promises, basis, floor)


def in_order(queries: Queries) -> Queries:
    """Return the same queries in canonical order."""
    return queries[canonical_order(queries.keys, queries.scores_fingerprint)]


def learnable(queries: Queries, promises: Sequence[Promise]) -> bool:
    """Return whether a score map and a family can be learned from these queries, not only a scale."""
    if queries.relevance is None:
        return all("relevance" not in promise.columns for promise in promises) and len(queries) > LEARNABLE_FROM
    return int(has_relevant(queries, gain=promises[0].metric.gain).sum()) > LEARNABLE_FROM
