"""What the service tells Prometheus.

Counting is a few additions in memory. With several workers each writes its counts to a file of a shared folder now and
then, and whichever is asked adds up what the others wrote; files of workers that died stay, so counters never fall.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from isrr.serve.current import Snapshot
from isrr.serve.drift import BINS, stability_index
from isrr.serve.ranking import Made
from isrr.serve.schema import StatusName

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Histogram(msgspec.Struct, array_like=True):
    """Counts between bounds, the last without one, and the sum of what was counted."""

    counts: list[int]
    total: float = 0.0

    def add(self, value: float, bounds: tuple[float, ...]) -> None:
        """Count one value."""
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value

    def cumulative(self, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
        """As Prometheus has them: how many are at most each bound."""
        names = [*map(str, bounds), "+Inf"]
        return [(name, float(sum(self.counts[: i + 1]))) for i, name in enumerate(names)]


def _seconds() -> Histogram:
    return Histogram([0] * (len(SECONDS) + 1))


def _lengths() -> Histogram:
    return Histogram([0] * (len(LENGTHS) + 1))


class Counts(msgspec.Struct):
    """Everything one worker has counted."""

    requests: dict[str, int] = {}  # by "path code"
    seconds: dict[str, Histogram] = {}  # by path
    lengths: Histogram = msgspec.field(default_factory=_lengths)
    lists: dict[str, int] = {}
    changed: int = 0
    scores: list[int] = msgspec.field(default_factory=lambda: [0] * len(BINS))
    eligibility: list[int] = msgspec.field(default_factory=lambda: [0] * len(BINS))
    reload_failures: int = 0


class ServiceMetrics(Collector):
    """Counts requests, lists and drift; `shared` is the folder the workers share, None for a lone worker."""

    def __init__(self, shared: Path | None = None) -> None:
        self._own, self._status = Counts(), ""
        self._file = None if shared is None else shared / f"{os.getpid()}.json"

    def count_request(self, path: str, code: int, seconds: float) -> None:
        """One answered request; `path` is the route's, not what the client typed."""
        own, name = self._own, f"{path} {code}"
        own.requests[name] = own.requests.get(name, 0) + 1
        if path not in own.seconds:
            own.seconds[path] = _seconds()
        own.seconds[path].add(seconds, SECONDS)

    def count_list(self, made: Made, snapshot: Snapshot) -> None:
        """One served list."""
        own, k, status = self._own, snapshot.outcome.k, made.note.status
        own.lists[status] = own.lists.get(status, 0) + 1
        own.lengths.add(sum(made.bins), LENGTHS)
        own.changed += made.ranking[:k] != made.deterministic[:k]
        for i, count in enumerate(made.bins):
            own.scores[i] += count
        if made.bins and len(snapshot.eligibility):
            own.eligibility[bisect_left(snapshot.eligibility, made.eligibility)] += 1

    def count_reload_failure(self) -> None:
        """A ranker or status file could not be loaded."""
        self._own.reload_failures += 1

    def show_status(self, current: StatusName) -> None:
        """The status of the certificate in use."""
        self._status = current

    def share(self) -> None:
        """Let the other workers see what this one has counted."""
        if self._file is not None:
            partial = self._file.with_suffix(".tmp")
            partial.write_bytes(msgspec.json.encode(self._own))
            os.replace(partial, self._file)

    def render(self) -> bytes:
        """The text that Prometheus reads; of all workers together."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """The metrics, one family after the other."""
        all_counts = [self._own, *self._others()]
        requests: Counter[str] = sum((Counter(c.requests) for c in all_counts), Counter())
        family = CounterMetricFamily("isrr_requests", "Requests by path and status code.", labels=["path", "code"])
        for name, value in sorted(requests.items()):
            family.add_metric(name.split(" "), value)
        yield family
        timed = HistogramMetricFamily("isrr_request_seconds", "Time from request to answer.", labels=["path"])
        for path in sorted({path for c in all_counts for path in c.seconds}):
            one = _sum([c.seconds[path] for c in all_counts if path in c.seconds])
            timed.add_metric([path], one.cumulative(SECONDS), one.total)
        yield timed
        lengths = _sum([c.lengths for c in all_counts])
        yield HistogramMetricFamily(
            "isrr_list_items", "Candidates per list.", lengths.cumulative(LENGTHS), lengths.total
        )
        family = CounterMetricFamily("isrr_lists", "Lists by status of the promise.", labels=["status"])
        for status in get_args(StatusName):
            family.add_metric([status], sum(c.lists.get(status, 0) for c in all_counts))
        yield family
        changed = "Lists whose first k places differ from the order by score."
        yield CounterMetricFamily("isrr_lists_changed", changed, sum(c.changed for c in all_counts))
        failures = "Ranker or status files that could not be loaded."
        yield CounterMetricFamily("isrr_reload_failures", failures, sum(c.reload_failures for c in all_counts))
        scores = np.sum([c.scores for c in all_counts], axis=0, dtype=float)
        yield from _drift("score", "Scores by quantile of the calibration scores.", scores)
        first = np.sum([c.eligibility for c in all_counts], axis=0, dtype=float)
        yield from _drift("eligibility", "Best items' chance of first place, by quantile at calibration.", first)
        standing = GaugeMetricFamily(
            "isrr_certificate_status", "1 for the status of the certificate in use.", labels=["status"]
        )
        for status in get_args(StatusName):
            standing.add_metric([status], float(status == self._status))
        yield standing

    def _others(self) -> list[Counts]:
        if self._file is None:
            return []
        files = (file for file in self._file.parent.glob("*.json") if file != self._file)
        return [msgspec.json.decode(file.read_bytes(), type=Counts) for file in files]


def _sum(parts: list[Histogram]) -> Histogram:
    return Histogram(
        [sum(counts) for counts in zip(*(p.counts for p in parts), strict=True)], sum(p.total for p in parts)
    )


def _drift(name: str, what: str, counts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Iterable[Metric]:
    family = CounterMetricFamily(f"isrr_{name}_bins", what, labels=["bin"])
    for label, count in zip(BINS, counts, strict=True):
        family.add_metric([label], count)
    yield family
    index = f"Population stability index of {name} since the start, against calibration."
    yield GaugeMetricFamily(f"isrr_{name}_drift", index, stability_index(counts))
