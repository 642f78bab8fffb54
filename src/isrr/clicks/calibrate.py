"""`calibrate_clicks`: from a log of clicks on explored lists to a certificate about clicks.

Everything that a test must not see is fixed before: the path and its scale by the logger's ranker file, the order of
units by a hash of the lists' ids, the number of units by the log. What the clicks decide is which configurations pass,
and, among those, which one is the fairest, with gains estimated from the same clicks.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from isrr.calibration.certify import KeptSample
from isrr.calibration.outcome import CountLook, Findings, quantiles
from isrr.calibration.path import COLDEST, HOTTEST, SearchPath
from isrr.calibration.quality import quality_shares, quality_values, summed_quality
from isrr.calibration.request import Request
from isrr.calibration.table import Sums, Table
from isrr.clicks.estimate import Estimated, check_anchor, check_loggers, estimated, gains
from isrr.clicks.impressions import MOST_CLICKS, Impressions, Rules, Unit, impressions, impressions_of_table
from isrr.clicks.shown import check_estimates, check_shown
from isrr.clicks.table import read_clicks
from isrr.counting import counted
from isrr.data.queries import FloatArray, IntArray
from isrr.errors import DataError, PromiseError
from isrr.exact import exact_sums
from isrr.metrics.evaluate import evaluate
from isrr.metrics.metric import metric as named_metric
from isrr.outcome.certificate import Abstention, Certificate, Outcome, load
from isrr.outcome.findings import ClickLog, Provenance, Quality
from isrr.parallel import Progress
from isrr.promises import Promise, promises, relevance_measure, values_alone
from isrr.ranker.gpl import GPLRanker

N_TEMPERATURES = 60
LISTS_WEIGHED = 5_000  # distinct lists, the most frequent ones, that disparity is measured on
ASSUMPTION = "the chance of a click depends on the query, the item and its place, not on the other items shown"
Loggers = str | os.PathLike[str] | Outcome | GPLRanker | Mapping[str, GPLRanker] | Iterable[str | os.PathLike[str]]


def calibrate_clicks(
    clicks: Any,
    promise: str | Promise,
    confidence: float = 0.95,
    *,
    log: str | os.PathLike[str] | None = None,
    logger: Loggers | None = None,
    unit: Unit | None = None,
    within: float | None = None,
    most_clicks: int = MOST_CLICKS,
    kind: str | None = None,
    anchor: float = 0.0,
    n_analyses: int = 1,
    count_look: CountLook | None = None,
    progress: Progress | None = None,
) -> Certificate | Abstention:
    """Find the fairest ranker that keeps a share of the clicks, and certify it from a log that explored.

    Args:
        clicks: With a log: a table of clicks (list_id, item_id, time). Without: a table with one row per impression and
            candidate (impression_id, query_id, item_id, score, position, click). A file, or a table of pandas, polars
            or pyarrow.
        promise: At least a share of deterministic: "clicks@5 >= 95% of deterministic", or "value(margin)@5 >= 95% of
            deterministic with bound 40", the column `margin` of the clicks added up over clicked items.
        confidence: Probability with which the promise holds.
        log: The served-ranking log, a folder or a file.
        logger: Ranker file (or several) that served the lists, or rankers by their id in the log; by default the
            files that `isrr serve` left in the log's folder.
        unit: What is independent of each other: "impression", "session" or "user"; by default the session, if
            sessions are logged, otherwise the impression. The first list of each unit counts.
        within: Seconds after a list was served within which clicks on it count.
        most_clicks: If more items of a list than this were clicked, no click on it counts (a bot).
        kind: Count only clicks of this kind, such as "purchase".
        anchor: Share of lists that the new ranker serves in the order by score. With one, its promise can be
            monitored with clicks (`isrr monitor --clicks`), without a control arm.
        n_analyses: Number of planned analyses of this log; delta is split over them.
        count_look: As for `calibrate`.
        progress: Called with (rankers estimated, rankers in total).

    Returns:
        A `Certificate`, or an `Abstention` with its reason and the order by score.
    """
    promised = checked_promise(promise)
    rules = checked_rules(Rules(promised.k, unit, within, most_clicks))
    value = value_column(promised)
    loggers = _loggers(logger, log)
    if log is None:
        if len(loggers) != 1:
            raise DataError(f"a table of impressions has one logger; found {len(loggers)}")
        found = impressions_of_table(clicks, next(iter(loggers.values())), rules, value=value)
    else:
        found = impressions(log, read_clicks(clicks, value=value, kind=kind), loggers, rules)
    return certified(found, promised, confidence, anchor, n_analyses, count_look, progress)


def checked_promise(promise: str | Promise) -> Promise:
    """A promise that clicks can be held against: at least a share of what the order by score gets."""
    (asked,) = promises(promise)
    if asked.metric.name.startswith("value("):  # of clicked items: every place counts alike
        metric = named_metric(asked.metric.name, discount="uniform")
        asked = Promise(metric, asked.k, at_least=asked.at_least, at_most=asked.at_most, of=asked.of, bound=asked.bound)
    if value_column(asked) is None and asked.metric.name != "clicks":
        needs = "judged queries" if "relevance" in asked.columns else "no clicks, only scores"
        raise PromiseError(f"'{asked}' needs {needs}; clicks promise clicks@k or value(COLUMN)@k")
    if asked.of != "deterministic" or asked.at_least is None or asked.per is not None or asked.range[0] < 0:
        raise PromiseError(
            f"'{asked}': a click log can prove at least a share of the order by score, over all traffic, such as "
            f"'{asked.metric.name}@{asked.k} >= 95% of deterministic'"
        )
    return asked


def checked_rules(rules: Rules) -> Rules:
    """Refuse rules that make no sense."""
    if rules.unit not in (None, "impression", "session", "user"):
        raise PromiseError(f"`unit=` must be 'impression', 'session' or 'user', got {rules.unit!r}")
    if rules.most_clicks < 1:
        raise PromiseError(f"`most_clicks=` must be ≥ 1, got {rules.most_clicks}")
    if rules.within is not None and not rules.within > 0:
        raise PromiseError(f"`within=` must be a number of seconds > 0, got {rules.within:g}")
    return rules


def certified(
    found: Impressions,
    promise: Promise,
    confidence: float = 0.95,
    anchor: float = 0.0,
    n_analyses: int = 1,
    count_look: CountLook | None = None,
    progress: Progress | None = None,
) -> Certificate | Abstention:
    """The outcome of impressions that were joined with their clicks."""
    path = click_path(found, promise.k, anchor)
    request = Request((promise,), confidence, path.rankers, n_analyses=n_analyses)
    check_loggers(found)
    in_order = check_shown(found)
    bound = 1.0 if promise.bound is None else promise.bound[1]
    if found.value.max(initial=0.0) > bound:
        raise PromiseError(
            f"'{promise}': a click is worth {found.value.max():.6g}, above the bound {bound:g}; expected a bound that "
            "holds for every click to come"
        )
    if found.n_clicks:
        check_anchor(found, promise.target, request.delta, bound)
    measured = estimated(found, path.rankers, progress)
    check_estimates(found, measured, promise.k * bound)
    sample = click_sample(measured, promise, path, found.anchor)
    frequent, times = _frequent(found)
    lists = found.lists[frequent]
    alone = values_alone(request.promises)
    remaining = quality_shares(lists, path.rankers, request.promises, times) if alone else None
    findings = Findings.of(request, path, _table(found, measured, path), [sample], found.unit, remaining)
    search = ("clicks", found.unit, *found.rules[2:], request.n_analyses)
    asked = findings.look(found.digest, found.clicks_digest, search)
    analysis, spent = (1, None) if count_look is None else count_look(asked)
    kept = relevance_measure(request.promises, judged=False)

    def quality(ranker: GPLRanker) -> Quality:
        sums = _weighed(quality_values(lists, ranker, kept), times)
        return summed_quality(kept, replace(sums, sums=sums.sums[1:]))

    provenance = _provenance(findings, found, measured, in_order, analysis, spent)
    outcome = findings.outcome(provenance, promise.measure, quality)
    if found.n_clicks or not isinstance(outcome, Abstention):
        return outcome
    left_out = ", ".join(f"{n:,} {why}" for why, n in found.counts.items())
    reason = f"{counted(len(found), 'list')} without a click that counts" + (
        f" (left out: {left_out})" if left_out else ""
    )
    return msgspec.structs.replace(outcome, cause="too_few_queries", reason=reason, queries_needed=None)


def click_path(found: Impressions, k: int, anchor: float = 0.0) -> SearchPath:
    """Temperatures from cold to hot on the scale of the logger that served most lists."""
    served = np.bincount(found.logger_of[found.list_of], minlength=len(found.loggers))
    logger = found.loggers[int(np.argmax(served))]
    plain = replace(
        logger, k=k, threshold=0.0, decay=1.0, floor=0.0, floor_weights=(), boost=(), anchor=anchor, temperature=1.0
    )
    temperatures = np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES)
    hot = [replace(plain, temperature=float(t)) for t in temperatures[temperatures <= found.hottest]]
    if not hot:
        raise DataError(
            f"the log leaves out candidates that rankers above temperature {found.hottest:g} show; expected a log with "
            f"all candidates, or those up to {COLDEST:g} at least"
        )
    return SearchPath((GPLRanker.deterministic(k), *hot), "temperature", "the ranker that served")


def click_sample(measured: Estimated, promise: Promise, path: SearchPath, anchor: float) -> KeptSample:
    """Estimated clicks on the promise's own scale, on which the order by score gets at most 1."""
    most = promise.k * (1.0 if promise.bound is None else promise.bound[1]) / anchor
    scale = promise.range[1] / most
    exempt = np.array([promise.kept_by_definition(ranker) for ranker in path.rankers])
    values, reference = measured.values * scale, measured.reference * scale
    return KeptSample(promise, None, "betting", exempt, values, reference, np.zeros(exempt.size), measured.block)


def _table(found: Impressions, measured: Estimated, path: SearchPath) -> Table:
    """What is reported: clicks per unit, and disparity by the gains that clicks suggest."""
    values = np.concatenate((measured.reference[:, None], measured.values), axis=1)
    frequent, times = _frequent(found)
    lists = replace(found.lists, relevance=gains(found))[frequent]
    disparity = named_metric("disparity", gain="linear").at(found.rules.k)
    grid = [GPLRanker.deterministic(found.rules.k), *path.rankers]
    unfair = evaluate(lists, grid, [disparity])[disparity]
    sums = Sums.of(values, measured.reference), _weighed(unfair, times)
    return Table(len(values) * measured.block, 0, np.empty(0, np.uint64), None, (), {}, *sums)


def _frequent(found: Impressions) -> tuple[IntArray, FloatArray]:
    """Which lists were shown most often, and how often each of them was."""
    times = np.bincount(found.list_of, minlength=len(found.lists)).astype(np.float64)
    frequent = np.sort(np.argsort(-times, kind="stable")[:LISTS_WEIGHED])
    return frequent, times[frequent]


def _weighed(values: FloatArray, times: FloatArray) -> Sums:
    """Sums over lists, each as often as it was shown, as though there were as many as distinct ones."""
    counted = ~np.isnan(values[:, 0])
    values, times = values[counted], times[counted] / max(times[counted].mean() if counted.any() else 1.0, 1e-300)
    reference = values[:, :1]
    parts = (values, reference + 0 * values, values**2, values * reference, reference**2 + 0 * values)
    sums = [exact_sums((times[:, None] * part).sum(axis=0)[None])[0] for part in parts]
    return Sums(int(counted.sum()), np.stack(sums, axis=1))


def _provenance(
    findings: Findings,
    found: Impressions,
    measured: Estimated,
    in_order: tuple[float, float],
    analysis: int,
    spent: float | None,
) -> Provenance:
    request = findings.request
    log = ClickLog(
        found.unit, len(found), found.n_clicks, found.anchor, measured.block, dict(found.counts), ASSUMPTION, *in_order
    )
    return Provenance(
        n_queries=findings.table.n_queries, requested_path="temperature", path=findings.path.name,
        path_basis=findings.path.basis, evidence=request.evidence.name, selection=request.selection.name,
        method="exact",
        data=found.digest, judgments=found.clicks_digest, hash_key=found.digest, n_analyses=request.n_analyses,
        analysis=analysis, spent=spent, clicks=log, **quantiles(found.lists, findings.ranker),
    )  # fmt: skip


def value_column(promise: Promise) -> str | None:
    """The column of the clicks that is added up; None where clicks are counted."""
    name = promise.metric.name
    return name[len("value(") : -1] if name.startswith("value(") else None


def _loggers(given: Loggers | None, log: str | os.PathLike[str] | None) -> Mapping[str, GPLRanker]:
    """The rankers that served, by the id of their certificate."""
    if log is not None and not Path(log).exists():
        raise DataError(f"{log}: no such served-ranking log; `isrr serve --log FOLDER` writes one")
    if given is None:
        folder = None if log is None else Path(log) if Path(log).is_dir() else Path(log).parent
        files: list[Any] = [] if folder is None else sorted(folder.glob("ranker-*.json"))
        if not files:
            raise DataError(
                f"{'a table of impressions' if folder is None else folder}: found no file of the ranker that drew the "
                "lists; give it as `logger=`"
            )
    elif isinstance(given, Mapping):
        return given
    elif isinstance(given, GPLRanker):
        return {"": given}
    else:
        files = [given] if isinstance(given, str | os.PathLike | Outcome) else list(given)
    outcomes = [file if isinstance(file, Outcome) else load(file) for file in files]
    return {outcome.id: outcome.ranker for outcome in outcomes}
