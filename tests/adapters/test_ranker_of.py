"""Where adapters get their ranker from."""

from isrr.adapters import ranker_of
from isrr.outcome.status import revoke
from isrr.ranker.gpl import GPLRanker


def test_a_file_gives_the_ranker_in_force(certificate, tmp_path):
    file = tmp_path / "ranker.json"
    certificate.save(file)
    assert ranker_of(certificate.ranker) is ranker_of(certificate) is certificate.ranker
    assert ranker_of(file) == ranker_of(str(file)) == certificate.ranker
    revoke(file, certificate.id, "the share fell")
    assert ranker_of(file) == GPLRanker.deterministic(certificate.k) != certificate.ranker
