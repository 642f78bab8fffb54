"""Metrics for Prometheus.

`isrr serve` runs prometheus_client in its multiprocess mode: each worker counts in a file of its own in the folder that
PROMETHEUS_MULTIPROC_DIR names, and any of them adds them up. Files of dead workers stay, so that counters never fall.
"""

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any, get_args

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from isrr.gains import discount
from isrr.serve.drift import BINS, stability_index
from isrr.serve.ranking import RankedList
from isrr.serve.schema import StatusName

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000)


class ServiceMetrics(Collector):
    """Counts requests, lists and drift."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=own), partial(Histogram, registry=own)
        gauge = partial(Gauge, registry=own, multiprocess_mode="mostrecent")
        self._requests = counter("isrr_requests", "Requests by path and status code.", ("path", "code"))
        self._seconds = histogram("isrr_request_seconds", "Time from request to answer.", ("path",), buckets=SECONDS)
        self._lengths = histogram("isrr_list_items", "Candidates per list.", buckets=LENGTHS)
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
        self._pending[self._requests, path, code] += 1
        self._seconds.labels(path).observe(seconds)

    def count_list(self, ranked: RankedList) -> None:
        """Count a served list: its length and status, the exposure it moves, and where its scores lie."""
        line, k, pending = ranked.line, ranked.snapshot.outcome.k, self._pending
        pending[self._lists, ranked.note.status] += 1
        self._lengths.observe(len(line.item_ids))
        pending[self._changed,] += line.ranking[:k] != line.deterministic
        discounts = discount(k).tolist()
        served = dict(zip(line.ranking[:k], discounts, strict=False))
        for position, (item, by_score) in enumerate(zip(line.deterministic, discounts, strict=False), 1):
            pending[self._exposure, position, "score"] += by_score
            pending[self._exposure, position, "served"] += served.pop(item, 0.0)
        pending[self._exposure, "lower", "served"] += sum(served.values())
        for name, n_scores in zip(BINS, ranked.bins, strict=False):  # an empty list has no bins
            pending[self._scores, name] += n_scores
        if ranked.bins and (quantiles := ranked.snapshot.outcome.provenance.eligibility_quantiles):
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
        yield from families.values()
        for name in ("score", "eligibility"):
            says = f"Population stability index of {name} since the start, against calibration."
            bins = {sample.labels.get("bin"): sample.value for sample in families[f"isrr_{name}_bins"].samples}
            drift = stability_index(np.array([bins.get(label, 0.0) for label in BINS]))
            yield GaugeMetricFamily(f"isrr_{name}_drift", says, drift)
