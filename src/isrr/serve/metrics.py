"""Metrics for Prometheus.

`isrr serve` runs prometheus_client in its multiprocess mode: each worker counts in a file of its own in the folder that
PROMETHEUS_MULTIPROC_DIR names, and whichever worker is asked adds them up. Files of dead workers stay, so that counters
never fall.
"""

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from isrr.serve.current import Snapshot
from isrr.serve.drift import BINS, stability_index
from isrr.serve.ranking import RankedList
from isrr.serve.schema import StatusName

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000)
STATUSES: tuple[StatusName, ...] = get_args(StatusName)


class ServiceMetrics(Collector):
    """Counts requests, lists and drift."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

        def named(kind: Any, name: str, says: str, *labels: str, **more: Any) -> Any:
            return kind(f"isrr_{name}", says, labels, registry=self._registry, **more)

        self._requests = named(Counter, "requests", "Requests by path and status code.", "path", "code")
        self._seconds = named(Histogram, "request_seconds", "Time from request to answer.", "path", buckets=SECONDS)
        self._lengths = named(Histogram, "list_items", "Candidates per list.", buckets=LENGTHS)
        lists = named(Counter, "lists", "Lists by status of the promise.", "status")
        self._lists = {status: lists.labels(status) for status in STATUSES}
        changed = "Lists whose first k places differ from the order by score."
        self._changed = named(Counter, "lists_changed", changed)
        self._failures = named(Counter, "reload_failures", "Ranker or status files that could not be loaded.")
        scores = named(Counter, "score_bins", "Scores by quantile of the calibration scores.", "bin")
        self._scores = [scores.labels(name) for name in BINS]
        first = "Best items' chance of first place, by quantile at calibration."
        eligibility = named(Counter, "eligibility_bins", first, "bin")
        self._eligibility = [eligibility.labels(name) for name in BINS]
        latest = {"multiprocess_mode": "mostrecent"}
        self._certificate = named(Gauge, "certificate", "1 for the certificate in use, by id.", "id", **latest)
        standing = "1 for the status of the certificate in use."
        self._status = named(Gauge, "certificate_status", standing, "status", **latest)
        self._shown: set[str] = set()
        self._pending = defaultdict[Counter, float](float)

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """Count an answered request; `path` is the endpoint's, not what the client typed."""
        if (path, code) not in self._answered:
            self._answered[path, code] = self._requests.labels(path, code), self._seconds.labels(path)
        requests, timed = self._answered[path, code]
        self._pending[requests] += 1
        timed.observe(seconds)

    def count_list(self, ranked: RankedList, snapshot: Snapshot) -> None:
        """Count a served list."""
        k = snapshot.outcome.k
        pending = self._pending
        pending[self._lists[ranked.note.status]] += 1
        self._lengths.observe(ranked.scores.size)
        if ranked.ranking[:k] != ranked.deterministic[:k]:
            pending[self._changed] += 1
        for counter, count in zip(self._scores, ranked.bins, strict=False):  # an empty list has no bins
            if count:
                pending[counter] += count
        if ranked.bins and snapshot.eligibility:
            pending[self._eligibility[bisect_left(snapshot.eligibility, ranked.eligibility)]] += 1

    def share(self) -> None:
        """Hand over what was counted, for all workers to see."""
        for counter, amount in self._pending.items():
            counter.inc(amount)
        self._pending.clear()

    def count_reload_failure(self) -> None:
        """Count a ranker or status file that could not be loaded."""
        self._failures.inc()

    def show_certificate(self, id: str, current: StatusName) -> None:
        """Show which certificate is in use, and its status."""
        for known in self._shown | {id}:
            self._certificate.labels(known).set(known == id)
        self._shown.add(id)
        for status in STATUSES:
            self._status.labels(status).set(status == current)

    def render(self) -> bytes:
        """Return the text that Prometheus reads, over all workers."""
        self.share()
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """Yield what was counted, and how far scores and chances are from calibration's."""
        several: Any = MultiProcessCollector
        counted = several(CollectorRegistry()) if FOLDER in os.environ else self._registry
        for family in counted.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
            for name in ("score", "eligibility"):
                if family.name == f"isrr_{name}_bins":
                    values = {sample.labels["bin"]: sample.value for sample in family.samples}
                    counts = np.array([values.get(label, 0.0) for label in BINS])
                    index = f"Population stability index of {name} since the start, against calibration."
                    yield GaugeMetricFamily(f"isrr_{name}_drift", index, stability_index(counts))
