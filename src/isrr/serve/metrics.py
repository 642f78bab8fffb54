"""Metrics for Prometheus.

`isrr serve` runs prometheus_client in its multiprocess mode: each worker counts in a file of its own in the folder that
PROMETHEUS_MULTIPROC_DIR names, and any of them adds them up. Files of dead workers stay, so that counters never fall.
"""

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from itertools import accumulate
from math import inf
from typing import Any, get_args

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from isrr.serve.drift import BINS, stability_index
from isrr.serve.ranking import RankedList
from isrr.serve.schema import StatusName

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, inf)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000, inf)
HISTOGRAMS = {"isrr_request_seconds": SECONDS, "isrr_list_items": LENGTHS}  # upper ends of their bins


class ServiceMetrics(Collector):
    """Counts requests, lists and drift."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        counter = partial(Counter, registry=own)
        gauge = partial(Gauge, registry=own, multiprocess_mode="mostrecent")
        self._requests = counter("isrr_requests", "Requests by path and status code.", ("path", "code"))
        # Histograms are counters until they are collected: a `Histogram` takes one observation at a time.
        says = "Time from request to answer."
        self._seconds = counter("isrr_request_seconds_bins", says, ("path", "le"))
        self._all_seconds = counter("isrr_request_seconds_sum", says, ("path",))
        self._lengths = counter("isrr_list_items_bins", "Candidates per list.", ("le",))
        self._all_items = counter("isrr_list_items_sum", "Candidates per list.")
        self._lists = counter("isrr_lists", "Lists by status of the promise.", ("status",))
        changed = "Lists whose first k positions differ from the order by score."
        self._changed = counter("isrr_lists_changed", changed)
        exposure = "Exposure of items by position in the order by score, in that order and as served."
        self._exposure = counter("isrr_exposure", exposure, ("position", "order"))
        self._scores = counter("isrr_score_bins", "Scores by quantile of the calibration scores.", ("bin",))
        first = "Best items' chance of first position, by quantile at calibration."
        self._eligibility = counter("isrr_eligibility_bins", first, ("bin",))
        for name in BINS:  # at 0 from the start
            self._scores.labels(name)
            self._eligibility.labels(name)
        self._certificate = gauge("isrr_certificate", "1 for the certificate in use, by id.", ("id",))
        self._status = gauge("isrr_certificate_status", "1 for the status of the certificate in use.", ("status",))
        self._shown: set[str] = set()
        self.reload_failures = counter("isrr_reload_failures", "Ranker or status files that could not be loaded.")
        self.log_failures = counter("isrr_log_failures", "Requests refused as their lists could not be logged.")
        # Amounts by counter and labels: writing for other processes takes time, so that is done once a second.
        self._pending = defaultdict[tuple[Counter, *tuple[object, ...]], float](float)

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """Count an answered request; `path` is the endpoint's, not what the client typed."""
        pending = self._pending
        pending[self._requests, path, code] += 1
        pending[self._seconds, path, SECONDS[bisect_left(SECONDS, seconds)]] += 1
        pending[self._all_seconds, path] += seconds

    def count_list(self, ranked: RankedList) -> None:
        """Count a served list: its length and status, the exposure it moves, and where its scores lie."""
        line, snapshot, pending = ranked.line, ranked.snapshot, self._pending
        served, by_score = line.ranking[: snapshot.outcome.k], line.deterministic
        pending[self._lists, ranked.note.status] += 1
        n_items = len(line.item_ids)
        pending[self._lengths, LENGTHS[bisect_left(LENGTHS, n_items)]] += 1
        pending[self._all_items,] += n_items
        pending[self._changed,] += served != by_score
        position_of = dict(zip(by_score, range(1, len(by_score) + 1), strict=True))
        for position, (item, weight) in enumerate(zip(served, snapshot.discounts, strict=False), 1):
            pending[self._exposure, position, "score"] += weight
            pending[self._exposure, position_of.get(item, "lower"), "served"] += weight
        for name, n_scores in zip(BINS, ranked.bins, strict=False):  # an empty list has no bins
            pending[self._scores, name] += n_scores
        if ranked.bins and (quantiles := snapshot.outcome.provenance.eligibility_quantiles):
            pending[self._eligibility, BINS[bisect_left(quantiles, ranked.eligibility)]] += 1

    def share(self) -> None:
        """Hand over what was counted, for all workers to see."""
        for (counter, *labels), amount in self._pending.items():
            (counter.labels(*labels) if labels else counter).inc(amount)
        self._pending.clear()

    def show_certificate(self, id: str, current: StatusName) -> None:
        """Show which certificate is in use, and its status."""
        self._shown.add(id)
        for known in self._shown:
            self._certificate.labels(known).set(known == id)
        for status in get_args(StatusName):
            self._status.labels(status).set(status == current)

    def render(self) -> bytes:
        """Return the text that Prometheus reads, over all workers."""
        self.share()
        return generate_latest(self)

    def collect(self) -> Iterable[Any]:
        """Yield what was counted, and how far scores and chances are from calibration's."""
        shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        several: Any = MultiProcessCollector
        source = several(CollectorRegistry()) if shared else self._registry
        families = {family.name: family for family in source.collect()}
        for name, ends in HISTOGRAMS.items():
            bins, sums = (families.pop(f"{name}_{part}", Metric(name, "", "counter")) for part in ("bins", "sum"))
            yield _histogram(name, ends, bins, sums)
        yield from families.values()
        for name in ("score", "eligibility"):
            says = f"Population stability index of {name} since the start, against calibration."
            bins = {sample.labels.get("bin"): sample.value for sample in families[f"isrr_{name}_bins"].samples}
            drift = stability_index(np.array([bins.get(label, 0.0) for label in BINS]))
            yield GaugeMetricFamily(f"isrr_{name}_drift", says, drift)


def _histogram(name: str, ends: tuple[float, ...], bins: Metric, sums: Metric) -> Metric:
    """Return a histogram from the counts in its bins and the sums of what was counted."""
    in_bins, totals = ([each for each in part.samples if each.name.endswith("_total")] for part in (bins, sums))
    counts = {frozenset(sample.labels.items()): sample.value for sample in in_bins}
    family = HistogramMetricFamily(name, sums.documentation, labels=[*totals[0].labels] if totals else ())
    for total in totals:
        up_to = accumulate(counts.get(frozenset({**total.labels, "le": str(end)}.items()), 0.0) for end in ends)
        buckets = zip(("+Inf" if end == inf else str(float(end)) for end in ends), up_to, strict=True)
        family.add_metric([*total.labels.values()], [*buckets], total.value)
    return family
