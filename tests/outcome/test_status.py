"""What became of a certificate, written beside its ranker file, by several at the same time."""

from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread

import pytest

from isrr.errors import CertificateError
from isrr.outcome.status import Status, read_status, revoke, set_term, status_file


def test_no_two_ranker_files_share_what_lies_beside_them(certificate, tmp_path):
    for name in ("ranker.eu", "ranker", "ranker.JSON"):
        for refused in (certificate, Status(certificate.id, "revoked")):
            with pytest.raises(CertificateError, match=r"must end in \.json; this one"):
                refused.save(tmp_path / name)
        with pytest.raises(CertificateError, match=r"must end in \.json"):
            read_status(tmp_path / name, certificate.id)
    assert not list(tmp_path.iterdir())
    beside_them = [status_file(tmp_path / name).name for name in ("ranker.eu.json", "ranker.us.json", "ranker.json")]
    assert beside_them == ["ranker.eu.status.json", "ranker.us.status.json", "ranker.status.json"]


def test_a_damaged_status_blocks_no_revocation_but_no_term_is_written_over_it(tmp_path):
    file = tmp_path / "ranker.json"
    odd = [
        b'{"certificate": 1}', b'{"certificate": "x", "status": "fine"}', b'{"certificate": "x", "a": 1}',
        b'{"certificate": "x", "since": "yesterday"}',
    ]  # fmt: skip
    for damaged in (b"{", b"\xff", b"[]", b"null", *odd):
        status_file(file).write_bytes(damaged)
        with pytest.raises(CertificateError, match="not a certificate status"):
            set_term(file, "x", "2999-01-01")
        revoke(file, "x", "broken")
        assert read_status(file, "x").status == "revoked"
    set_term(file, "x", "2999-01-01")
    found = read_status(file, "x")
    assert (found.status, found.reason, found.expires) == ("revoked", "broken", "2999-01-01")
    assert read_status(file, "another").status == "valid"
    with pytest.raises(ValueError, match="2027-01-31"):
        Status("x", expires="soon")


def test_a_revocation_and_a_term_written_at_the_same_time_are_both_kept(tmp_path, monkeypatch):
    file, both = tmp_path / "ranker.json", Barrier(2)

    def read_and_wait(*asked):
        found = read_status(*asked)
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # where nobody waits for the other, each has read before the other writes
        return found

    monkeypatch.setattr("isrr.outcome.status.read_status", read_and_wait)
    calls = ((revoke, "broken"), (set_term, "2999-01-01"))
    threads = [Thread(target=call, args=(file, "x", text)) for call, text in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_status(file, "x")
    assert (found.status, found.expires) == ("revoked", "2999-01-01")
