"""The certificate in use: loaded whole, replaced whole, never half of each.

A request takes one `Snapshot` at its beginning and uses nothing else; reloading puts another in its place.
"""

import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from isrr.certificate import Abstention, Outcome, load
from isrr.clicks.rollout import Rollout, read_rollout
from isrr.data.queries import FloatArray
from isrr.errors import CertificateError
from isrr.ranker.gpl import GPLRanker
from isrr.serve.schema import CertificateNote
from isrr.status import Status, beside, ranker_in_force, read_status, status_file

log = logging.getLogger("isrr.serve")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A certificate as it stands: what ranks, and what to say of it."""

    outcome: Outcome
    note: CertificateNote  # what a covered answer says of it
    ranker: GPLRanker  # the certificate's own, or the deterministic one where it no longer stands
    fallback: GPLRanker  # the deterministic one
    quantiles: FloatArray  # of the calibration scores, for the drift rule
    eligibility: tuple[float, ...]  # quantiles of the best item's chance of first place at calibration, if kept
    status: Status  # what is written of it beside the file
    rollout: Rollout | None  # where its rollout stands, if there is one
    groups: frozenset[str]  # that a boosted ranker's calibration saw; empty where unknown, or of no matter

    @cached_property
    def in_full(self) -> tuple[msgspec.Raw, str]:
        """The certificate as JSON, without its curve, and as text; made once, when first asked for."""
        content = self.outcome.document()
        del content["curve"]
        return msgspec.Raw(msgspec.json.encode(content)), str(self.outcome)

    def uncovered(self, reason: str, deterministic: bool = False) -> CertificateNote:
        """The note of a list that the promise does not cover; a promise that no longer stands is what is said first."""
        order = "deterministic" if deterministic else self.note.order
        if self.note.status != "valid":
            return msgspec.structs.replace(self.note, order=order)
        return msgspec.structs.replace(self.note, status="uncovered", reason=reason, order=order)


def snapshot(outcome: Outcome, status: Status, now: datetime, rollout: Rollout | None = None) -> Snapshot:
    """What serves this outcome at a moment, given its status and its rollout."""
    standing, reason = status.standing(now)
    ranker, rollout = ranker_in_force(outcome, standing), rollout if standing == "valid" else None
    if rollout is not None:
        ranker = rollout.ranker(outcome)
    if isinstance(outcome, Abstention):
        reason = f"nothing was certified: {outcome.reason}"
    note = CertificateNote(
        id=outcome.id,
        promise=" and ".join(str(promise) for promise in outcome.promises),
        confidence=outcome.confidence,
        status="uncovered" if outcome.abstained else standing,
        order="deterministic" if ranker.is_deterministic else "drawn",
        reason=reason or msgspec.UNSET,
    )
    at, groups = outcome.provenance, frozenset(outcome.provenance.groups if ranker.boost else ())
    fallback, quantiles = GPLRanker.deterministic(outcome.k), np.array(at.score_quantiles)
    return Snapshot(outcome, note, ranker, fallback, quantiles, at.eligibility_quantiles, status, rollout, groups)


class CurrentCertificate:
    """Holds the snapshot in use, and replaces it when the files beside it change.

    Attributes:
        now: The snapshot in use.
        reload_error: Why the last look at the files changed nothing, or None.
    """

    def __init__(self, file: Path, *, trust_edited: bool = False, rolled_out: bool = False) -> None:
        self._file, self._trust_edited, self._rolled_out = file, trust_edited, rolled_out
        self._seen = self._signature()
        self.reload_error: str | None = None
        self.now = self._load()

    def refresh(self) -> bool:
        """Look at the files and load them if they changed; whether the note changed.

        A file that cannot be loaded leaves the snapshot in use where it is, and is tried again at the next look.
        """
        signature = self._signature()
        if signature != self._seen:
            try:
                found = self._load()
            except (CertificateError, OSError) as error:
                if str(error) != self.reload_error:
                    log.error("reload failed", extra={"certificate": self.now.note.id, "error": str(error)})
                self.reload_error = str(error)
                return False
            self._seen, self.reload_error = signature, None
        else:
            found = self.now
            standing, _ = found.status.standing(datetime.now(UTC))
            if standing in (found.note.status, "valid"):
                return False
            found = snapshot(found.outcome, found.status, datetime.now(UTC), found.rollout)
        before, rollout, self.now = self.now.note, self.now.rollout, found
        if found.note == before and self.now.rollout == rollout:
            return False
        level = logging.INFO if found.note.status == "valid" else logging.WARNING
        log.log(level, "certificate in use", extra={"certificate": found.note.id, "status": found.note.status})
        return True

    def _load(self) -> Snapshot:
        outcome = load(self._file, trust_edited=self._trust_edited)
        rollout = read_rollout(self._file, outcome.id) if self._rolled_out else None
        return snapshot(outcome, read_status(self._file, outcome.id), datetime.now(UTC), rollout)

    def _signature(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(_stat(file) for file in (self._file, status_file(self._file), beside(self._file, "rollout")))


def _stat(file: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
