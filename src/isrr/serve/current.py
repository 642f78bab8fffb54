"""The certificate in use: loaded whole, replaced whole, never half of each.

A request takes one `Snapshot` at its beginning and uses nothing else; reloading puts another in its place.
"""

import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from isrr.clicks.rollout import Rollout, read_rollout
from isrr.gains import discount
from isrr.outcome.certificate import Abstention, Outcome, load
from isrr.outcome.status import Status, beside, ranker_in_force, read_status, status_file
from isrr.serve.schema import CertificateNote

log = logging.getLogger("isrr.serve")


class Snapshot:
    """A certificate as it stands at a moment: what ranks, and what to say of it.

    Attributes:
        note: What a covered answer says of it.
        ranker: Its own ranker, or the deterministic one where it no longer stands.
        rollout: Where its rollout stands, if there is one.
        discounts: What each of the promise's k positions is worth.
        groups: Groups that a boosted ranker's calibration saw; empty where unknown, or of no matter.
    """

    def __init__(self, outcome: Outcome, status: Status, now: datetime, rollout: Rollout | None = None) -> None:
        standing, reason = status.standing(now)
        self.outcome, self.status, self.rollout = outcome, status, rollout if standing == "valid" else None
        self.ranker = ranker_in_force(outcome, standing) if self.rollout is None else self.rollout.ranker(outcome)
        self.quantiles = np.array(outcome.provenance.score_quantiles)
        self.discounts: list[float] = discount(outcome.k).tolist()
        self.groups = frozenset(outcome.provenance.groups if self.ranker.boost else ())
        if isinstance(outcome, Abstention):
            reason = f"nothing was certified: {outcome.reason}"
        self.note = CertificateNote(
            id=outcome.id,
            promise=" and ".join(str(promise) for promise in outcome.promises),
            confidence=outcome.confidence,
            status="uncovered" if outcome.abstained else standing,
            order="deterministic" if self.ranker.is_deterministic else "drawn",
            reason=reason or UNSET,
        )

    @cached_property
    def in_full(self) -> tuple[msgspec.Raw, str]:
        """The certificate as JSON, without its curve, and as text."""
        content = self.outcome.document()
        del content["curve"]
        return msgspec.Raw(msgspec.json.encode(content)), str(self.outcome)

    def uncovered(self, reason: str, deterministic: bool = False) -> CertificateNote:
        """Return the note of a list that the promise does not cover; one that no longer stands is said first."""
        order = "deterministic" if deterministic else self.note.order
        if self.note.status != "valid":
            return replace(self.note, order=order)
        return replace(self.note, status="uncovered", reason=reason, order=order)


class CurrentCertificate:
    """Holds the snapshot in use, and replaces it when the files change or its term ends.

    Attributes:
        now: The snapshot in use.
        reload_error: Why the last look at the files changed nothing, or None.
    """

    def __init__(self, file: Path, trust_edited: bool = False, rolled_out: bool = False) -> None:
        self._file, self._trust_edited, self._rolled_out = file, trust_edited, rolled_out
        self._seen, self.now = self._signature(), self._load()
        self.reload_error: str | None = None

    def refresh(self) -> bool:
        """Look at the files and load them if they changed; return whether the note changed.

        Files that cannot be loaded leave the snapshot in use where it is, and are tried again at the next look.
        """
        before = self.now
        try:
            if (signature := self._signature()) != self._seen:
                self.now, self._seen = self._load(), signature
            elif before.note.status == "valid" and before.status.standing(datetime.now(UTC))[0] == "expired":
                self.now = Snapshot(before.outcome, before.status, datetime.now(UTC))
            self.reload_error = None
        except Exception as error:  # nothing that a file holds may end the watch
            if str(error) != self.reload_error:
                log.error("reload failed", extra={"certificate": before.note.id, "error": repr(error)})
            self.reload_error = str(error)
            return False
        note = self.now.note
        if note == before.note and self.now.rollout == before.rollout:
            return False
        level = logging.INFO if note.status == "valid" else logging.WARNING
        log.log(level, "certificate in use", extra={"certificate": note.id, "status": note.status})
        return True

    def _load(self) -> Snapshot:
        outcome = load(self._file, trust_edited=self._trust_edited)
        rollout = read_rollout(self._file, outcome.id) if self._rolled_out else None
        return Snapshot(outcome, read_status(self._file, outcome.id), datetime.now(UTC), rollout)

    def _signature(self) -> list[tuple[int, ...]]:
        """Return what changes with the files."""
        signature = list[tuple[int, ...]]()
        for file in (self._file, status_file(self._file), beside(self._file, "rollout")):
            with suppress(OSError):
                stat = os.stat(file)
                signature.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return signature
