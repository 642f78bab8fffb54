"""The watch over a promise in production: served lists, judged as judgments arrive, against what was certified.

Each judged query counts once, with the mean loss of the lists it was served. While every query's expected loss, given
the past, is within the promise, an alarm is raised with probability at most δ, for as long as the watch runs
(`isrr.risk.eprocess`). The judged queries must be a random sample of the traffic. Promises about utility can be
watched; disparity is about expected exposure, which a served list does not show.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from isrr.counting import against, counted, in_segment, percent
from isrr.data.queries import Queries
from isrr.data.unjudged import policy_needed, refuse_other_policy
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.files import locked, read_json, write_atomically
from isrr.metrics.metric import Metric
from isrr.monitor.matching import Judged, JudgedQuery, match
from isrr.outcome.certificate import Certificate, Outcome
from isrr.outcome.status import revoke
from isrr.promises import Promise, refuse_worst
from isrr.risk.eprocess import EProcess, likely_start

SCHEMA = 1


@dataclass(frozen=True)
class Alarm:
    """A promise that was found broken.

    Attributes:
        promise: Which.
        segment: In which segment, or None for all queries.
        n_judged: Queries judged when the alarm was raised.
        evidence: E at the alarm.
        since: When the promise most likely broke, ISO 8601: when the first query after it was served.
        since_query: The same as a count of judged queries.
        shortfall: By how much, in units of the metric, over the queries since then.
    """

    promise: str
    segment: str | None
    n_judged: int
    evidence: float
    since: str
    since_query: int
    shortfall: float

    def __str__(self) -> str:
        return (
            f"'{self.promise}' is broken{in_segment(self.segment)}: evidence {self.evidence:.3g} after "
            f"{counted(self.n_judged, 'judged query')}; since about {self.since} "
            f"(query {self.since_query + 1:,}), by about {self.shortfall:.3f} (estimates)"
        )


@dataclass(eq=False)
class Watch:
    """One promise, in one segment: its evidence, the losses it came from, and what they add up to.

    Attributes:
        promise, segment: What is watched.
        process: The evidence.
        losses, times: Each query's loss, and when it was served.
        value, reference: Sums over queries of the promised metric and of what it is compared with.
    """

    promise: Promise
    segment: str | None
    process: EProcess
    losses: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    value: float = 0.0
    reference: float = 0.0

    def add(self, value: float, reference: float, time: float) -> None:
        """Count one query, served at a time."""
        loss = float(np.clip(self.promise.losses(np.array([[value]]), np.array([reference]))[0, 0], 0.0, 1.0))
        self.process = self.process.after(loss)
        self.losses.append(loss)
        self.times.append(time)
        self.value += value
        self.reference += 0.0 if self.promise.of is None else reference

    @property
    def kept(self) -> float:
        """The promised quantity so far; NaN before the first query."""
        n = len(self.losses)
        return self.promise.kept(self.value / n, self.reference / n) if n else float("nan")

    def alarm(self) -> Alarm:
        """What to say once the evidence is strong enough."""
        start = likely_start(self.losses, self.promise.alpha)
        excess = float(np.mean(self.losses[start:])) - self.promise.alpha
        return Alarm(
            promise=str(self.promise),
            segment=self.segment,
            n_judged=self.process.n,
            evidence=float(self.process.evidence),
            since=datetime.fromtimestamp(self.times[start], UTC).isoformat(timespec="seconds"),
            since_query=start,
            shortfall=excess / abs(self.promise.affine[0]),
        )


class Monitor:
    """Monitors the promise of one certificate.

    Args:
        certificate: What was promised.
        delta: Probability of ever raising a false alarm; by default 1 − confidence.
        state: File with the state; read if it exists, and written after each batch. Several
            monitors may share one: each continues from what the others have counted.
        judged: Whether judgments will be given; without any, promises that need none are monitored (shares of
            exposure), with the candidates of the log (`isrr.monitor.matching.candidates`).

    Attributes:
        alarm: The alarm, once raised; it stays.
        n_judged: Queries counted.
        n_empty: Judged queries without a relevant item, left out as the promise leaves them out.
        n_incomplete: Judged queries of which a served item has no judgment, in the last batch; they may come again.
        n_before: Judged queries of the last batch that had been counted before; what is judged of them now is ignored.
        unjudged: How served items without a judgment count, as in calibration; "refuse" where each had a grade there.
        n_served, n_unjudged: Places of the lists counted in the last batch, and those that hold such an item.
        n_unwatched: Judged queries in segments that the promise does not name, in the last batch.
        note: Why nothing of the last batch could be counted, which judgment is lacking, or which segment is not
            monitored; empty if there is nothing to say.
    """

    def __init__(
        self,
        certificate: Outcome,
        *,
        delta: float | None = None,
        state: str | PathLike[str] | None = None,
        judged: bool = True,
    ) -> None:
        if not isinstance(certificate, Certificate):
            raise CertificateError("nothing was certified, so there is no promise to monitor")
        if certificate.provenance.clicks is not None:
            raise PromiseError(
                f"'{certificate.promises[0]}' is about clicks, which judgments do not show; monitor it with `clicks=`"
            )
        refuse_worst(certificate.promises, certificate.provenance.unjudged)
        cells = [
            (test.promise, test.segment)
            for test in certificate.tests
            if isinstance(test.promise.metric, Metric) and test.promise.of != "merit"  # about what single lists hold
            and (judged or not {"relevance", "segment"} & set(test.promise.columns))
        ]  # fmt: skip
        if not cells and not judged:
            raise PromiseError(
                f"'{certificate.promises[0]}' is monitored with judgments (`judgments=`) or clicks (`clicks=`); the "
                "log alone shows shares of exposure of groups"
            )
        if not cells:
            raise PromiseError(
                f"'{certificate.promises[0]}' is about expected exposure, which served lists do not show; "
                "promises about what a list holds, such as ndcg, can be watched"
            )
        self.certificate, self.delta = certificate.id, 1 - certificate.confidence if delta is None else delta
        if not 0 < self.delta < 1:
            raise PromiseError(f"delta must lie in (0, 1), got {self.delta}; it is the chance of a false alarm")
        self._watches = [Watch(promise, segment, EProcess.start(promise.alpha)) for promise, segment in cells]
        self._segments = sorted({segment for _, segment in cells if segment is not None})
        self._seen: set[int] = set()
        self.alarm: Alarm | None = None
        self.unjudged = certificate.provenance.unjudged
        self.n_empty = self.n_incomplete = self.n_before = self.n_unwatched = self.n_served = self.n_unjudged = 0
        self.note = ""
        self._state = None if state is None else Path(state)
        if self._state is not None and self._state.exists():
            self._restore(self._state)

    @property
    def n_judged(self) -> int:
        """Queries counted, those without a relevant item among them."""
        return len(self._seen)

    @property
    def n_counted(self) -> int:
        """Queries that weigh for or against the promise."""
        return self.n_judged - self.n_empty

    @property
    def evidence(self) -> float:
        """The strongest evidence of a broken promise, as a share of what raises an alarm (1 or more)."""
        return max(float(watch.process.evidence) for watch in self._watches) * self.delta / len(self._watches)

    def update(self, served: Iterable[Mapping[str, Any]], judgments: Queries) -> Alarm | None:
        """Count the judged queries that were served and not counted before; save; the alarm, if there is one.

        Args:
            served: Lines of the served-ranking log, as `isrr.data.log.ServedLists.lines` gives them.
            judgments: Judged candidates with item ids, and segments where the promise is about each segment; every item
                of a served list must be among them.
        """
        if judgments.segments is None and self._segments:
            unnamed = "the judgments have no segments; expected their column as `segment=`"
            raise DataError(
                f"{judgments.absent.get('segment', unnamed)}; the promise is watched in each segment: "
                f"{', '.join(self._segments)}"
            )
        if self._state is None:
            return self._updated(served, judgments)
        with locked(self._state):
            if self._state.exists():
                self._restore(self._state)
            alarm = self._updated(served, judgments)
            self._save(self._state)
        return alarm

    def _updated(self, served: Iterable[Mapping[str, Any]], judgments: Queries) -> Alarm | None:
        policy = policy_needed(judgments)
        refuse_worst((watch.promise for watch in self._watches), policy)
        refuse_other_policy(policy, self.unjudged)
        found = match(served, judgments, self.certificate, self._seen, self.unjudged)
        self.n_incomplete, self.n_before, self.n_unwatched = found.n_incomplete, found.n_before, 0
        self.n_served, self.n_unjudged = found.n_served, found.n_unjudged
        self.note = found.note
        measured = {watch.promise: Judged(watch.promise, judgments) for watch in self._watches}
        for query in found.queries:
            if self._segments and query.segment not in self._segments:
                self.n_unwatched += 1
                self.note = self.note or (
                    f"judged queries are in segments that are not monitored, such as {query.segment!r}; watched are "
                    f"{', '.join(map(repr, self._segments))}"
                )
            if concerned := [watch for watch in self._watches if watch.segment in (None, query.segment)]:
                self._seen.add(query.key)
                self._count(query, concerned, measured)
        if self.n_judged and not self.n_counted:
            self.note = self.note or f"of {counted(self.n_judged, 'judged query')} none has a relevant item"
        return self.alarm

    def revoke(self, ranker_file: str | PathLike[str]) -> None:
        """Write beside the ranker file that its promise is broken; the service reads it and falls back."""
        assert self.alarm is not None, "there is no alarm"
        revoke(ranker_file, self.certificate, str(self.alarm))

    def __str__(self) -> str:
        unwatched = f"; {self.n_unwatched:,} in segments that are not watched" if self.n_unwatched else ""
        lines = [
            f"Monitor of certificate {self.certificate}",
            f"judged       {counted(self.n_judged, 'query')} ({self.n_empty:,} without a relevant item; "
            f"{self.n_incomplete:,} more lack judgments of served items{unwatched})",
        ]
        if self.n_before:
            again = counted(self.n_before, "query")
            lines.append(f"ignored      {again} counted before: each counts once, as first judged")
        if self.n_unjudged:
            share = percent(self.n_unjudged / self.n_served)
            lines.append(f"unjudged     {share} of the places served hold items without a grade ({self.unjudged})")
        lines += [f"warning      {self.selected}"] if self.selected else []
        lines += dict.fromkeys(f"promise      {watch.promise}" for watch in self._watches)
        for watch in self._watches:
            lines.append(
                f"kept so far  {watch.promise.kept_so_far(watch.kept)}{in_segment(watch.segment)}; "
                f"{against(float(watch.process.evidence), len(self._watches) / self.delta)}"
            )
        lines += [f"note         {self.note}"] if self.note else []
        lines.append(f"alarm        {self.alarm or ('none' if self.n_counted else 'none (nothing was judged)')}")
        for watch in self._watches:
            if watch.losses:
                lines.append(f"tested risk  {np.mean(watch.losses):.4f}{in_segment(watch.segment)}")
        lines += dict.fromkeys(f"             {watch.promise.risk_in_words}" for watch in self._watches)
        return "\n".join(lines)

    @property
    def selected(self) -> str:
        """What to say where queries of the last batch had to be left out, so that the others are no random sample."""
        if not self.n_incomplete:
            return ""
        return (
            f"{counted(self.n_incomplete, 'judged query')} lack judgments of served items and are left out; those that "
            "count are no random sample then: judge every served item, or calibrate with a policy for unjudged items "
            "(`unjudged=zero`)"
        )

    def _count(self, query: JudgedQuery, concerned: list[Watch], measured: dict[Promise, Judged]) -> None:
        values = [
            [query.mean(order, measured[watch.promise]) for order in ("top", "deterministic")] for watch in concerned
        ]
        if np.isnan(values).all():
            self.n_empty += 1
            return
        for watch, (drawn, by_score) in zip(concerned, values, strict=True):
            if np.isnan(drawn):
                continue
            watch.add(drawn, by_score, query.time)
            if self.alarm is None and watch.process.evidence >= len(self._watches) / self.delta:
                self.alarm = watch.alarm()

    def _save(self, file: Path) -> None:
        state = {
            "schema": SCHEMA,
            "certificate": self.certificate,
            "delta": self.delta,
            "n_empty": self.n_empty,
            "seen": sorted(self._seen),
            "watches": [
                {
                    "promise": str(watch.promise),
                    "segment": watch.segment,
                    "wealth": watch.process.wealth.tolist(),
                    "losses": watch.losses,
                    "times": watch.times,
                    "sums": [watch.value, watch.reference],
                }
                for watch in self._watches
            ],
            "alarm": None if self.alarm is None else asdict(self.alarm),
        }
        write_atomically(file, json.dumps(state).encode())

    def _restore(self, file: Path) -> None:
        try:
            state = read_json(file)
            if state["schema"] != SCHEMA or state["certificate"] != self.certificate or state["delta"] != self.delta:
                raise DataError(
                    f"{file}: the state of another watch (certificate {state['certificate']}, delta {state['delta']}); "
                    f"this one is about {self.certificate} at {self.delta:g}: use another file"
                )
            kept = [_kept(watch, found) for watch, found in zip(self._watches, state["watches"], strict=True)]
            seen, n_empty = state["seen"], state["n_empty"]
            if not all(isinstance(number, int) for number in (*seen, n_empty)) or not 0 <= n_empty <= len(seen):
                raise ValueError("'seen' and 'n_empty' must be whole numbers")
            alarm = None if state["alarm"] is None else Alarm(**state["alarm"])
        except DataError:
            raise
        except ValueError as error:
            raise DataError(f"{file}: not the state of a monitor: {error}") from None
        except (KeyError, TypeError) as error:
            raise DataError(f"{file}: not the state of a monitor: {error!r}") from None
        self._watches, self._seen, self.n_empty, self.alarm = kept, set(seen), n_empty, alarm


def _kept(watch: Watch, found: Mapping[str, Any]) -> Watch:
    """A watch as a state file remembers it; a `ValueError` says what cannot be."""
    numbers = {name: np.array(found[name], np.float64) for name in ("wealth", "losses", "times", "sums")}
    for name, values in numbers.items():
        if values.ndim != 1 or np.isnan(values).any():
            raise ValueError(f"'{name}' holds what is not a number")
    wealth, losses, times, sums = numbers.values()
    if sums.size != 2:
        raise ValueError("'sums' must be two numbers")
    if wealth.shape != watch.process.wealth.shape or (wealth < 0).any():
        raise ValueError(f"'wealth' must be {watch.process.wealth.size} numbers ≥ 0")
    if losses.size != times.size or ((losses < 0) | (losses > 1)).any():
        raise ValueError("'losses' must lie in [0, 1], and have a time each")
    process = EProcess(watch.promise.alpha, wealth, losses.size)
    value, reference = sums.tolist()
    return replace(
        watch, process=process, losses=losses.tolist(), times=times.tolist(), value=value, reference=reference
    )
