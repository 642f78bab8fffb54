"""Whether a certificate still stands, kept in a small file beside the ranker file.

Certificates are checked against their own digest and never edited. What happens to one afterwards (the monitor revokes
it, its term ends) is written next to it, `ranker.json` → `ranker.status.json`, by the monitor, and read by the service
and by every command that uses the certificate. A status belongs to one certificate, by id: a new certificate in the
same file starts valid.
"""

from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from isrr.errors import CertificateError
from isrr.files import locked, read_json, write_atomically
from isrr.outcome.certificate import Outcome, ranker_path
from isrr.outcome.findings import Record
from isrr.ranker.gpl import GPLRanker

Standing = Literal["valid", "revoked", "expired"]


class Status(Record, frozen=True):
    """A certificate's status: valid or revoked, why, since when and until when.

    Attributes:
        certificate: Its id.
        status: "valid" or "revoked".
        reason: Why, in words.
        since: When it was written, ISO 8601, UTC.
        expires: When its term ends, ISO 8601; None for no term.
    """

    certificate: str
    status: Literal["valid", "revoked"] = "valid"
    reason: str = ""
    since: str = ""
    expires: str | None = None

    def __post_init__(self) -> None:
        if self.expires is not None:
            moment(self.expires)
        if self.since:
            moment(self.since)

    def standing(self, now: datetime) -> tuple[Standing, str]:
        """Return what holds at a moment, and why."""
        if self.status == "revoked":
            return "revoked", self.reason
        if self.expires is not None and now >= moment(self.expires):
            return "expired", f"the certificate expired on {self.expires}"
        return "valid", ""

    def in_words(self, now: datetime) -> str:
        """Return what holds at a moment, since when or until when, and why."""
        standing, reason = self.standing(now)
        if standing == "revoked":
            return f"revoked since {self.since or 'an unknown time'}: {reason or 'no reason is written'}"
        if standing == "expired":
            return f"expired: {reason}"
        words = "valid" if self.expires is None else f"valid until {self.expires}"
        return f"{words}, {self.reason}, since {self.since}" if self.since else words

    def save(self, ranker_file: str | PathLike[str]) -> None:
        """Write the status beside a ranker file, all of it or nothing."""
        write_atomically(status_file(ranker_file), msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def moment(text: str) -> datetime:
    """Return an ISO 8601 date or time; UTC unless it says otherwise."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError(f"{text!r} is not a date like 2027-01-31 or a time like 2027-01-31T12:00:00+00:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def status_file(ranker_file: str | PathLike[str]) -> Path:
    """Return where the status of a ranker file is kept."""
    return beside(ranker_file, "status")


def beside(ranker_file: str | PathLike[str], what: str) -> Path:
    """Return a file beside a ranker file: `ranker.json` → `ranker.status.json`."""
    file = ranker_path(ranker_file)
    return file.with_name(f"{file.name.removesuffix('.json')}.{what}.json")


def read_status(ranker_file: str | PathLike[str], certificate: str) -> Status:
    """Return the status of the certificate with this id; valid where nothing else is written."""
    file = status_file(ranker_file)
    try:
        status = msgspec.convert(read_json(file), Status)
    except FileNotFoundError:
        return Status(certificate)
    except ValueError as error:
        raise CertificateError(f"{file}: not a certificate status: {error}") from None
    return status if status.certificate == certificate else Status(certificate)


def revoke(ranker_file: str | PathLike[str], certificate: str, reason: str) -> None:
    """Write that a certificate no longer stands, whatever was written of it before; the first reason stays."""
    with locked(status_file(ranker_file)):
        try:
            known = read_status(ranker_file, certificate)
        except CertificateError:  # a damaged file says nothing that could stand against it
            known = Status(certificate)
        if known.status != "revoked":
            now = datetime.now(UTC).isoformat(timespec="seconds")
            replace(known, status="revoked", reason=reason, since=now).save(ranker_file)


def reinstate(ranker_file: str | PathLike[str], certificate: str, reason: str) -> None:
    """Write that a revoked certificate stands again, since when and why; what had revoked it stays in the reason."""
    with locked(status_file(ranker_file)):
        known = read_status(ranker_file, certificate)
        if known.status != "revoked":
            raise CertificateError(f"{ranker_file}: the certificate is not revoked, so there is nothing to reinstate")
        if not reason.strip():
            raise ValueError("`reinstate=` is empty; expected the reason, which is kept in the certificate's status")
        why = f"reinstated: {reason} (revoked {known.since}: {known.reason})"
        now = datetime.now(UTC).isoformat(timespec="microseconds")  # lists from before must not count, to the last one
        replace(known, status="valid", reason=why, since=now).save(ranker_file)


def reinstated_at(ranker_file: str | PathLike[str], certificate: str) -> float:
    """Return when a certificate was reinstated, in seconds since 1970; 0 if it never was, or nothing can be read."""
    try:
        known = read_status(ranker_file, certificate)
    except CertificateError:
        return 0.0
    return moment(known.since).timestamp() if known.status == "valid" and known.since else 0.0


def set_term(ranker_file: str | PathLike[str], certificate: str, expires: str) -> None:
    """Write when a certificate's term ends; one that is revoked stays so."""
    with locked(status_file(ranker_file)):
        replace(read_status(ranker_file, certificate), expires=expires).save(ranker_file)


def ranker_in_force(outcome: Outcome, standing: Standing) -> GPLRanker:
    """Return the ranker in use: deterministic once a promise about utility no longer stands.

    A promise about fairness that no longer stands goes on drawing: the order by score would be less fair still.
    """
    if standing != "valid" and any(promise.safe_end == "cold" for promise in outcome.promises):
        return GPLRanker.deterministic(outcome.k)
    return outcome.ranker
