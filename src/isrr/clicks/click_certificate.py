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

from isrr.calibration.certify import Tested
from isrr.calibration.measured import Curve, Means
from isrr.calibration.outcome import Findings, quantiles
from isrr.calibration.path import COLDEST, HOTTEST, SearchPath
from isrr.calibration.quality import averaged_quality, quality_shares, quality_values
from isrr.calibration.request import Request
from isrr.clicks.click_table import read_clicks
from isrr.clicks.estimate import ITEM_POSITION, ClickModel, Estimates, estimated_gains
from isrr.clicks.impressions import MOST_CLICKS, Impressions, Rules, Unit, impressions, impressions_of_table
from isrr.clicks.promised import checked_promise, click_bound, largest_worth, value_column
from isrr.clicks.shown import check_estimates, check_shown
from isrr.counting import counted
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError, PromiseError
from isrr.metrics.evaluate import evaluate
from isrr.metrics.metric import metric as named_metric
from isrr.outcome.certificate import Abstention, Certificate, Outcome, load
from isrr.outcome.findings import ClickLog, Provenance, Quality
from isrr.parallel import Progress
from isrr.promises import Promise, relevance_measure, values_alone
from isrr.ranker.gpl import GPLRanker

N_TEMPERATURES = 60
LISTS_WEIGHED = 5_000  # distinct lists, the most frequent ones, that disparity is measured on
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
    model: ClickModel = ITEM_POSITION,
    progress: Progress | None = None,
) -> Certificate | Abstention:
    """Find the fairest ranker that keeps a share of the clicks, and certify it.

    Args:
        clicks: With a log: a table of clicks (list_id, item_id, time). Without: a table with one row per impression and
            candidate (impression_id, query_id, item_id, score, position, click). A file, or a table of pandas, polars
            or pyarrow. Or `Impressions`, whose clicks were joined already.
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
        model: How clicks on lists that were not shown are estimated.
        progress: Called with (rankers estimated, rankers in total).

    Returns:
        A `Certificate`, or an `Abstention` with its reason and the order by score.
    """
    promise = checked_promise(promise)
    if isinstance(clicks, Impressions):
        shown = clicks
    else:
        shown = _read_impressions(clicks, promise, log, logger, kind, Rules(promise.k, unit, within, most_clicks))
    path = click_path(shown, promise.k, anchor)
    request = Request((promise,), confidence, path.rankers, n_analyses=n_analyses)
    if shown.value.max(initial=0.0) > click_bound(promise):
        raise PromiseError(
            f"'{promise}': a click is worth {shown.value.max():.6g}, above the bound {click_bound(promise):g}; "
            "expected a bound that holds for every click to come"
        )
    model.check(shown, promise, request.delta)
    in_order = check_shown(shown)
    estimates = model.estimate(shown, path.rankers, progress)
    check_estimates(shown, estimates, largest_worth(promise))
    times = np.bincount(shown.list_of, minlength=len(shown.lists)).astype(np.float64)
    frequent = np.sort(np.argsort(-times, kind="stable")[:LISTS_WEIGHED])
    lists, times = shown.lists[frequent], times[frequent]
    remaining = quality_shares(lists, path.rankers, request.promises, times) if values_alone(request.promises) else None
    curve = _curve(shown, estimates, path, replace(shown.lists, relevance=estimated_gains(shown))[frequent], times)
    sample = click_sample(estimates, promise, path)
    findings = Findings.of(request, path, curve, [sample], shown.unit, remaining)
    measure = relevance_measure(request.promises, judged=False)

    def quality(ranker: GPLRanker) -> Quality:
        return averaged_quality(measure, quality_values(lists, ranker, measure), times)

    counts = ClickLog(
        shown.unit, len(shown), shown.n_clicks, shown.anchor, estimates.block, shown.counts, model.assumption, *in_order
    )
    provenance = Provenance(
        n_queries=curve.n_queries, requested_path="temperature", path=path.name, path_basis=path.basis,
        evidence=request.evidence.name, selection=request.selection.name, method="exact", data=shown.digest,
        judgments=shown.clicks_digest, hash_key=shown.digest, n_analyses=request.n_analyses, clicks=counts,
        **quantiles(shown.lists, findings.ranker),
    )  # fmt: skip
    outcome = findings.outcome(provenance, promise.measure, quality)
    if shown.n_clicks or not isinstance(outcome, Abstention):
        return outcome
    left_out = ", ".join(f"{n:,} {why}" for why, n in shown.counts.items())
    reason = f"{counted(len(shown), 'list')} without a click that counts"
    reason += f" (left out: {left_out})" if left_out else ""
    return msgspec.structs.replace(outcome, cause="too_few_queries", reason=reason, queries_needed=None)


def _read_impressions(
    clicks: Any,
    promise: Promise,
    log: str | os.PathLike[str] | None,
    logger: Loggers | None,
    kind: str | None,
    rules: Rules,
) -> Impressions:
    """Return the impressions of a log and its clicks, or of a table that has both."""
    value = value_column(promise)
    if log is not None:
        if not Path(log).exists():
            raise DataError(f"{log}: no such served-ranking log; `isrr serve --log FOLDER` writes one")
        return impressions(log, read_clicks(clicks, value=value, kind=kind), _loggers(logger, log), rules)
    if kind is not None or rules.within is not None:
        raise PromiseError("`kind=` and `within=` are for clicks on a log; in a table, `click` says which ones count")
    loggers = list(_loggers(logger, log).values())
    if len(loggers) != 1:
        raise DataError(f"a table of impressions has one logger; found {len(loggers)}")
    return impressions_of_table(clicks, loggers[0], rules, value=value)


def click_path(shown: Impressions, k: int, anchor: float = 0.0) -> SearchPath:
    """Return temperatures from cold to hot on the scale of the logger that served most lists."""
    served = np.bincount(shown.logger_of[shown.list_of], minlength=len(shown.loggers))
    logger = shown.loggers[int(np.argmax(served))]
    plain = replace(logger, k=k, threshold=0.0, decay=1.0, floor=0.0, floor_weights=(), boost=(), anchor=anchor)
    temperatures = np.geomspace(COLDEST, HOTTEST, N_TEMPERATURES)
    hot = [replace(plain, temperature=float(t)) for t in temperatures[temperatures <= shown.hottest]]
    if not hot:
        raise DataError(
            f"the log leaves out candidates that rankers above temperature {shown.hottest:g} show; expected a log with "
            f"all candidates, or those up to {COLDEST:g} at least"
        )
    return SearchPath((GPLRanker.deterministic(k), *hot), "temperature", "the ranker that served")


def click_sample(estimates: Estimates, promise: Promise, path: SearchPath) -> Tested:
    """Return estimated clicks on the promise's own scale, on which the order by score gets at most 1."""
    scale = promise.range[1] / (largest_worth(promise) * estimates.inflation)
    exempt = np.array([promise.kept_by_definition(ranker) for ranker in path.rankers])
    values, reference = estimates.values * scale, estimates.reference * scale
    return Tested(promise, None, exempt, values, reference, np.zeros(exempt.size), estimates.block)


def _curve(shown: Impressions, estimates: Estimates, path: SearchPath, lists: Queries, times: FloatArray) -> Curve:
    """Return what is reported: clicks per unit, and disparity by the gains that clicks suggest."""
    values = np.concatenate((estimates.reference[:, None], estimates.values), axis=1)
    disparity = named_metric("disparity", gain="linear").at(shown.rules.k)
    unfair = evaluate(lists, [GPLRanker.deterministic(shown.rules.k), *path.rankers], [disparity])[disparity]
    means = Means.of(values, estimates.reference), Means.of(unfair, unfair[:, 0], times)
    return Curve(len(values) * estimates.block, 0, *means)


def _loggers(loggers: Loggers | None, log: str | os.PathLike[str] | None) -> Mapping[str, GPLRanker]:
    """Return the rankers that served, by the id of their certificate."""
    if isinstance(loggers, Mapping):
        return loggers
    if isinstance(loggers, GPLRanker):
        return {"": loggers}
    if loggers is None and log is None:
        raise DataError("a table of impressions: who drew the lists is unknown; give the ranker's file as `logger=`")
    if loggers is None:
        folder = Path(str(log)) if Path(str(log)).is_dir() else Path(str(log)).parent
        loggers = sorted(folder.glob("ranker-*.json"))
        if not loggers:
            raise DataError(f"{folder}: found no file of the ranker that drew the lists; give it as `logger=`")
    files = [loggers] if isinstance(loggers, str | os.PathLike | Outcome) else loggers
    outcomes = [file if isinstance(file, Outcome) else load(file) for file in files]
    return {outcome.id: outcome.ranker for outcome in outcomes}
