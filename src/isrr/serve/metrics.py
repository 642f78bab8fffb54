"""What the service tells Prometheus.

Counting is a few additions in memory, as prometheus_client's own would be an eighth of what a request costs; once a
second, and when asked, they are handed over to it. With several workers its multiprocess mode keeps each worker's
counts in a file of the folder that PROMETHEUS_MULTIPROC_DIR names, and whichever worker is asked adds them up; files of
workers that died stay, so counters never fall. `isrr.serve.server` makes the folder before it starts workers.
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
from isrr.serve.ranking import Made
from isrr.serve.schema import StatusName

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000)
STATUSES: tuple[StatusName, ...] = get_args(StatusName)


class ServiceMetrics(Collector):
    """Counts requests, lists and drift."""

    def __init__(self) -> None:
        self._registry, self._pending = CollectorRegistry(), defaultdict[Any, float](float)
        own: Any = {"registry": self._registry}
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter("isrr_requests", "Requests by path and status code.", ["path", "code"], **own)
        self._seconds = Histogram(
            "isrr_request_seconds", "Time from request to answer.", ["path"], buckets=SECONDS, **own
        )
        self._lengths = Histogram("isrr_list_items", "Candidates per list.", buckets=LENGTHS, **own)
        lists = Counter("isrr_lists", "Lists by status of the promise.", ["status"], **own)
        self._lists = {status: lists.labels(status) for status in STATUSES}
        changed = "Lists whose first k places differ from the order by score."
        self._changed = Counter("isrr_lists_changed", changed, **own)
        failures = "Ranker or status files that could not be loaded."
        self._failures = Counter("isrr_reload_failures", failures, **own)
        scores = Counter("isrr_score_bins", "Scores by quantile of the calibration scores.", ["bin"], **own)
        self._scores = [scores.labels(name) for name in BINS]
        first = "Best items' chance of first place, by quantile at calibration."
        eligibility = Counter("isrr_eligibility_bins", first, ["bin"], **own)
        self._eligibility = [eligibility.labels(name) for name in BINS]
        standing = "1 for the status of the certificate in use."
        status = Gauge("isrr_certificate_status", standing, ["status"], multiprocess_mode="mostrecent", **own)
        self._status = {name: status.labels(name) for name in STATUSES}

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """One answered request; `path` is the endpoint's, not what the client typed."""
        if (path, code) not in self._answered:
            self._answered[path, code] = self._requests.labels(path, code), self._seconds.labels(path)
        requests, timed = self._answered[path, code]
        self._pending[requests] += 1
        self._observe(timed, SECONDS, seconds)

    def count_list(self, made: Made, snapshot: Snapshot) -> None:
        """One served list."""
        k, pending = snapshot.outcome.k, self._pending
        pending[self._lists[made.note.status]] += 1
        self._observe(self._lengths, LENGTHS, made.scores.size)
        if made.ranking[:k] != made.deterministic[:k]:
            pending[self._changed] += 1
        for counter, count in zip(self._scores, made.bins, strict=False):  # an empty list has no bins
            if count:
                pending[counter] += count
        if made.bins and snapshot.eligibility:
            pending[self._eligibility[bisect_left(snapshot.eligibility, made.eligibility)]] += 1

    def count_reload_failure(self) -> None:
        """A ranker or status file could not be loaded."""
        self._failures.inc()

    def show_status(self, current: StatusName) -> None:
        """The status of the certificate in use."""
        for name, gauge in self._status.items():
            gauge.set(name == current)

    def share(self) -> None:
        """Hand over what was counted, for all workers to see."""
        for value, amount in self._pending.items():
            value.inc(amount)
        self._pending.clear()

    def render(self) -> bytes:
        """The text that Prometheus reads; of all workers together."""
        self.share()
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """What was counted, and how far the scores and chances are from calibration's."""
        several: Any = MultiProcessCollector
        counted = several(CollectorRegistry()) if FOLDER in os.environ else self._registry
        for family in counted.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
            for name in ("score", "eligibility"):
                if family.name == f"isrr_{name}_bins":
                    found = {sample.labels["bin"]: sample.value for sample in family.samples}
                    counts = np.array([found.get(label, 0.0) for label in BINS])
                    index = f"Population stability index of {name} since the start, against calibration."
                    yield GaugeMetricFamily(f"isrr_{name}_drift", index, stability_index(counts))

    def _observe(self, histogram: Histogram, bounds: tuple[float, ...], value: float) -> None:
        """What `histogram.observe` adds, where it adds it."""
        self._pending[histogram._buckets[bisect_left(bounds, value)]] += 1
        self._pending[histogram._sum] += value
