"""The monitor of a certificate in production: streams of losses against what was certified.

Losses come from judgments of served lists, from the log alone (shares of exposure), or from clicks; evidence, state and
alarm are the same (`isrr.monitor.stream`). Promises about what single lists hold can be monitored; disparity is about
expected exposure, which a served list does not show.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins

from isrr.clicks.click_table import Clicks
from isrr.clicks.rollout import Rollout
from isrr.counting import against, counted, in_segment, percent, reasons_in_words
from isrr.data.queries import Queries
from isrr.data.unjudged import policy_needed, refuse_other_policy
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.files import locked
from isrr.monitor.clicked import ClickSource
from isrr.monitor.judgments import JudgedBatch, match, monitored
from isrr.monitor.stream import Alarm, Source, State, Stream
from isrr.outcome.certificate import Certificate, Outcome
from isrr.outcome.status import revoke
from isrr.promises import refuse_worst


class Monitor:
    """A watch over the promises of one certificate, as judgments or clicks arrive.

    Args:
        certificate: What was promised.
        delta: Probability of ever raising a false alarm; by default 1 − confidence.
        state: File with the state; read if it exists, and written after each batch. Several monitors may share one:
            each continues from what the others have counted.
        judged: Whether judgments will be given; without any, promises that need none are monitored (shares of
            exposure), with the candidates of the log (`isrr.monitor.judgments.candidates`).
        rollout: Of a promise about clicks: the rollout whose control arm is compared with, in place of the anchor.
        within: Seconds after a list within which clicks on it count; by default an hour, or as in the rollout.
        since: Only lists served from then on count, in seconds since 1970: when the certificate was reinstated. A state
            from before then starts over.

    Attributes:
        unjudged: How served items without a judgment count, as in calibration; "refuse" where each had a grade there.
        batch: What the last batch of judgments said of the log.
    """

    def __init__(
        self,
        certificate: Outcome,
        *,
        delta: float | None = None,
        state: str | PathLike[str] | None = None,
        judged: bool = True,
        rollout: Rollout | None = None,
        within: float | None = None,
        since: float = 0.0,
    ) -> None:
        if not isinstance(certificate, Certificate):
            raise CertificateError("nothing was certified, so there is no promise to monitor")
        delta = 1 - certificate.confidence if delta is None else delta
        if not 0 < delta < 1:
            raise PromiseError(f"delta must lie in (0, 1), got {delta}; it is the chance of a false alarm")
        self.certificate, self.unjudged = certificate.id, certificate.provenance.unjudged
        self.batch, self._clicks, self._since = JudgedBatch(), None, since or -1.0  # simulated time begins at 0
        if certificate.provenance.clicks is None:
            refuse_worst(certificate.promises, self.unjudged)
            source: Source = "judgments" if judged else "log"
            cells = monitored(certificate, judged)
            self._promises = [promise for promise, _ in cells]
            streams = [Stream(str(p), segment, p.alpha, float(np.abs(p.loss().a))) for p, segment in cells]
        else:
            self._clicks, self._promises = ClickSource(certificate, rollout, within), [certificate.promises[0]]
            streams = [Stream(str(self._promises[0]), None, self._clicks.alpha, self._clicks.slope)]
            source, within = "control" if rollout else "anchor", self._clicks.within
        self._state = State(certificate.id, delta, source, within, streams, since)
        self._file = None if state is None else Path(state)
        self._load()

    @property
    def alarm(self) -> Alarm | None:
        """The alarm, once raised; it stays."""
        return self._state.alarm

    @property
    def n_judged(self) -> int:
        """Judged queries counted, those without a relevant item among them."""
        return len(self._state.seen)

    @property
    def n_counted(self) -> int:
        """Queries, sessions or impressions that weigh for or against the promise."""
        return self._state.streams[0].n if self._clicks else self.n_judged - self._state.n_empty

    @property
    def evidence(self) -> float:
        """The strongest evidence of a broken promise, as a share of what raises an alarm (1 or more)."""
        return max(stream.evidence for stream in self._state.streams) / self._alarm_at

    @property
    def kept(self) -> list[float]:
        """What was kept so far of each promise, in each segment; NaN before the first loss."""
        return [
            promise.kept(stream.value / stream.value_weight, stream.reference / stream.reference_weight)
            if stream.value_weight and stream.reference_weight
            else float("nan")
            for promise, stream in zip(self._promises, self._state.streams, strict=True)
        ]

    @property
    def column(self) -> str | None:
        """The column of the clicks that is added up; None where clicks are counted."""
        return self._need_clicks().column

    @property
    def left_out(self) -> Mapping[str, int]:
        """How many lists and clicks of the last log do not count, by reason; empty with judgments."""
        return {} if self._clicks is None else self._clicks.left_out

    @property
    def _alarm_at(self) -> float:
        return len(self._state.streams) / self._state.delta

    def update(self, served: Iterable[Mapping[str, Any]], judgments: Queries) -> Alarm | None:
        """Count the judged queries that were served and not counted before; save; return the alarm, if there is one.

        Args:
            served: Lines of the served-ranking log, as `isrr.data.log.ServedLists.lines` gives them.
            judgments: Judged candidates with item ids, and segments where the promise is about each segment; every item
                of a served list must be among them.
        """
        if self._clicks is not None:
            raise PromiseError(
                f"'{self._promises[0]}' is about clicks, which judgments do not show; monitor it with `clicks=`"
            )
        segments = sorted({stream.segment for stream in self._state.streams if stream.segment is not None})
        if judgments.segments is None and segments:
            unnamed = "the judgments have no segments; expected their column as `segment=`"
            raise DataError(
                f"{judgments.absent.get('segment', unnamed)}; the promise is monitored in each segment: "
                f"{', '.join(segments)}"
            )
        policy = policy_needed(judgments)
        refuse_worst(self._promises, policy)
        refuse_other_policy(policy, self.unjudged)
        return self._locked(lambda: self._count_judged(served, judgments, segments))

    def update_clicks(self, log: str | PathLike[str], clicks: Clicks, *, now: float) -> Alarm | None:
        """Count the sessions whose time for clicks ended since the last time; save; return the alarm, if there is one.

        Args:
            log: The served-ranking log, with everything served since the last time and in the sessions from before it.
            clicks: The clicks on its lists.
            now: The present, in seconds since 1970.
        """
        source = self._need_clicks()

        def count() -> None:
            state = self._state
            for unit in source.losses(log, clicks, state.streams[0], max(state.until, self._since), now).tolist():
                self._add(state.streams[0], *unit)
            state.until = max(state.until, source.until(now))

        return self._locked(count)

    def revoke(self, ranker_file: str | PathLike[str]) -> None:
        """Write beside the ranker file that its promise is broken; the service reads it and falls back."""
        assert self.alarm is not None, "there is no alarm"
        revoke(ranker_file, self.certificate, str(self.alarm))

    def document(self) -> dict[str, Any]:
        """Return how the watch stands, for JSON."""
        kept = [
            {"promise": stream.promise, "segment": stream.segment, "kept": None if isnan(share) else share}
            for stream, share in zip(self._state.streams, self.kept, strict=True)
        ]
        return {
            "n_judged": self.n_judged, "n_counted": self.n_counted, "promises": kept, "evidence": self.evidence,
            "note": self.batch.note or None, "left_out": dict(self.left_out), "alarm": to_builtins(self.alarm),
        }  # fmt: skip

    def __str__(self) -> str:
        state, n_counted = self._state, self.n_counted
        lines = [f"Monitor of certificate {self.certificate}", *(self._clicked() if self._clicks else self._judged())]
        cells = list(zip(self._promises, state.streams, self.kept, strict=True))
        for promise in dict.fromkeys(self._promises):
            lines.append(f"promise      {promise}")
            for _, stream, share in (cell for cell in cells if cell[0] == promise):
                evidence = against(stream.evidence, self._alarm_at)
                lines.append(f"kept so far  {promise.kept_so_far(share)}{in_segment(stream.segment)}; {evidence}")
        lines += [f"note         {self.batch.note}"] if self.batch.note else []
        lines.append(f"alarm        {self.alarm or ('none' if n_counted else 'none (nothing was counted)')}")
        if self._clicks is None:
            for promise in dict.fromkeys(self._promises):
                for _, stream, _ in (cell for cell in cells if cell[0] == promise and cell[1].n):
                    lines.append(f"tested risk  {stream.total / stream.n:.4f}{in_segment(stream.segment)}")
                lines.append(f"             {promise.risk_in_words}")
        return "\n".join(lines)

    def _judged(self) -> list[str]:
        """Return what was counted of judgments."""
        batch, n = self.batch, self.n_judged
        if self._state.source == "log":
            return [f"counted      {counted(n, 'served query')}, by the log alone"]
        apart = f"; {batch.n_unmonitored:,} in segments that are not monitored" if batch.n_unmonitored else ""
        lines = [
            f"judged       {counted(n, 'query')} ({self._state.n_empty:,} without a relevant item; "
            f"{batch.n_incomplete:,} more lack judgments of served items{apart})"
        ]
        if batch.n_before:
            again = counted(batch.n_before, "query")
            lines.append(f"ignored      {again} counted before: each counts once, as first judged")
        if batch.n_unjudged:
            share = percent(batch.n_unjudged / batch.n_served)
            lines.append(f"unjudged     {share} of the positions served hold items without a grade ({self.unjudged})")
        return lines + ([f"warning      {batch.selected}"] if batch.selected else [])

    def _clicked(self) -> list[str]:
        """Return what was counted of clicks."""
        compared = "the lists its anchor leaves in that order" if self._state.source == "anchor" else "the control arm"
        units = counted(self.n_counted, self._need_clicks().unit)
        known = f"counted      clicks on {units}; the order by score is known from {compared}"
        return [known, *reasons_in_words(self.left_out)]

    def _need_clicks(self) -> ClickSource:
        if self._clicks is None:
            raise PromiseError(f"'{self._promises[0]}' is not about clicks; monitor it with judgments")
        return self._clicks

    def _locked(self, count: Callable[[], None]) -> Alarm | None:
        """Count, from the state that others may have written meanwhile, and write it."""
        if self._file is None:
            count()
            return self.alarm
        with locked(self._file):
            self._load()
            count()
            self._state.save(self._file)
        return self.alarm

    def _load(self) -> None:
        if self._file is not None and self._file.exists():
            self._state = self._state.load(self._file)

    def _count_judged(self, served: Iterable[Mapping[str, Any]], judgments: Queries, segments: list[str]) -> None:
        state, lines = self._state, (line for line in served if line["time"] >= self._since)
        production = any(promise.compared_with == "production" for promise in self._promises)
        self.batch = batch = match(lines, judgments, self.certificate, state.seen, self.unjudged, production)
        measured = {promise: batch.measured(promise) for promise in self._promises}
        for i, query in enumerate(batch.queries):
            if segments and query.segment not in segments:
                batch.n_unmonitored += 1
                batch.note = batch.note or (
                    f"judged queries are in segments that are not monitored, such as {query.segment!r}; monitored are "
                    f"{', '.join(map(repr, segments))}"
                )
            cells = [
                (stream, promise, *measured[promise][i].tolist())
                for stream, promise in zip(state.streams, self._promises, strict=True)
                if stream.segment in (None, query.segment)
            ]
            state.seen |= {query.key} if cells else set()
            state.n_empty += bool(cells) and all(isnan(value) for *_, value, _ in cells)
            for stream, promise, value, reference in cells:
                if not isnan(value):
                    losses = promise.loss().of(np.array([[value]]), np.array([reference]))
                    loss = min(max(float(losses[0, 0]), 0.0), 1.0)
                    self._add(stream, loss, query.time, value, reference if promise.of else 0.0)
        if self.n_judged and not self.n_counted:
            batch.note = batch.note or f"of {counted(self.n_judged, 'judged query')} none has a relevant item"

    def _add(self, stream: Stream, loss: float, time: float, *sums: float) -> None:
        """Add one loss to a stream, and raise the alarm at the first one whose evidence is strong enough."""
        stream.add(loss, time, *sums)
        if self._state.alarm is None and stream.evidence >= self._alarm_at:
            self._state.alarm = stream.alarm("judged query" if self._clicks is None else self._clicks.unit)
