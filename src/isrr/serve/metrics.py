"""What the service tells Prometheus.

With several workers each keeps its numbers in files of a shared folder, and whichever is asked adds them up
(prometheus_client's multiprocess mode, switched on by PROMETHEUS_MULTIPROC_DIR before the import).
"""

import os
from typing import get_args

import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from isrr.serve.current import Snapshot
from isrr.serve.drift import BINS, stability_index
from isrr.serve.ranking import Made
from isrr.serve.schema import StatusName

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class ServiceMetrics:
    """Counts requests, lists and drift."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "isrr_requests", "Requests by path and status code.", ["path", "code"], registry=registry
        )
        self._seconds = Histogram(
            "isrr_request_seconds", "Time from request to answer.", ["path"], buckets=SECONDS, registry=registry
        )
        self._lengths = Histogram("isrr_list_items", "Candidates per list.", buckets=LENGTHS, registry=registry)
        lists = Counter("isrr_lists", "Lists by status of the promise.", ["status"], registry=registry)
        self._lists = {status: lists.labels(status) for status in get_args(StatusName)}
        self._changed = Counter(
            "isrr_lists_changed", "Lists whose first k places differ from the order by score.", registry=registry
        )
        scores = Counter("isrr_scores", "Scores by quantile of the calibration scores.", ["bin"], registry=registry)
        first = Counter(
            "isrr_eligibility", "Best items' chance of first place, by quantile at calibration.", ["bin"],
            registry=registry,
        )  # fmt: skip
        self._scores, self._first = [scores.labels(b) for b in BINS], [first.labels(b) for b in BINS]
        self._reload_failures = Counter(
            "isrr_reload_failures", "Ranker or status files that could not be loaded.", registry=registry
        )
        self._status = Gauge(
            "isrr_certificate_status", "1 for the status of the certificate in use.", ["status"],
            multiprocess_mode="mostrecent", registry=registry,
        )  # fmt: skip
        self._children: dict[tuple[str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """One answered request; `path` is the route's, not what the client typed."""
        child = self._children.get((path, code))
        if child is None:
            child = self._children[path, code] = self._requests.labels(path, str(code))
            self._timers[path] = self._seconds.labels(path)
        child.inc()
        self._timers[path].observe(seconds)

    def count_list(self, made: Made, snapshot: Snapshot) -> None:
        """One served list."""
        k = snapshot.outcome.k
        self._lists[made.note.status].inc()
        self._lengths.observe(sum(made.bins))
        if made.ranking[:k] != made.deterministic[:k]:
            self._changed.inc()
        for child, count in zip(self._scores, made.bins, strict=False):
            if count:
                child.inc(count)
        if snapshot.eligibility.size and made.bins:
            self._first[int(snapshot.eligibility.searchsorted(made.eligibility))].inc()

    def count_reload_failure(self) -> None:
        """A ranker or status file could not be loaded."""
        self._reload_failures.inc()

    def show_status(self, current: str) -> None:
        """The status of the certificate in use."""
        for status in get_args(StatusName):
            self._status.labels(status).set(status == current)

    def render(self) -> bytes:
        """The text that Prometheus reads; of all workers together."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        lines = [generate_latest(registry).decode()]
        for name, source in (("score", "isrr_scores"), ("eligibility", "isrr_eligibility")):
            counts = {
                sample.labels["bin"]: sample.value
                for metric in registry.collect()
                for sample in metric.samples
                if sample.name == f"{source}_total"
            }
            index = stability_index(np.array([counts.get(b, 0.0) for b in BINS]))
            what = f"Population stability index of {name} since the start, against calibration."
            lines.append(
                f"# HELP isrr_{name}_drift {what}\n# TYPE isrr_{name}_drift gauge\nisrr_{name}_drift {index}\n"
            )
        return "".join(lines).encode()
