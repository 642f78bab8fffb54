"""`isrr report` from the command line."""

import shlex

import pytest
from typer.testing import CliRunner

from isrr import Queries, load
from isrr.calibration.calibrate import calibrate
from isrr.cli.main import app
from isrr.data.copies import write_queries
from isrr.data.tables import read_queries
from isrr.outcome.status import Status
from isrr.reporting.words import asking


@pytest.fixture(scope="module")
def folder(tmp_path_factory, many_queries):
    made = tmp_path_factory.mktemp("report")
    ids = Queries.from_arrays(
        scores=many_queries.scores,
        relevance=many_queries.relevance,
        query_ids=[f"q{q}" for q, n in enumerate(many_queries.n_items) for _ in range(n)],
    )
    write_queries(ids[:250], made / "judged.parquet")
    write_queries(ids[250:400], made / "other.parquet")
    calibrate(ids[:250], "ndcg@5 >= 90% of deterministic").save(made / "ranker.json")
    return made


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.mark.parametrize("pattern", ["judged.parquet", "part-*.parquet"])
def test_a_page_is_written_and_named(folder, tmp_path, pattern):
    judged = read_queries(folder / "judged.parquet")
    for name, part in (("judged", judged), ("part-a", judged[:100]), ("part-b", judged[100:])):
        write_queries(part, tmp_path / f"{name}.parquet")
    done = run(folder / "ranker.json", tmp_path / pattern, "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "r.html" in done.output.replace("\n", "")
    assert "Eight levels fixed beforehand" in (tmp_path / "r.html").read_text()


def test_a_certificate_alone_makes_a_page_without_a_slider(folder):
    assert run(folder / "ranker.json", "--out", folder / "r.html").exit_code == 0
    assert '"explorer":null' in (folder / "r.html").read_text()


def test_a_revoked_certificate_says_so_first(folder, tmp_path):
    outcome = load(folder / "ranker.json")
    outcome.save(tmp_path / "ranker.json")
    Status(outcome.id, "revoked", "the monitor raised an alarm", "2026-11-01").save(tmp_path / "ranker.json")
    assert run(tmp_path / "ranker.json", "--out", tmp_path / "r.html").exit_code == 0
    text = (tmp_path / "r.html").read_text()
    assert "No longer valid" in text
    assert "This certificate is revoked since 2026-11-01: the monitor raised an alarm." in text


def test_other_queries_are_refused_and_no_page_is_written(folder):
    done = run(folder / "ranker.json", folder / "other.parquet", "--out", folder / "none.html")
    assert done.exit_code == 2
    assert "not the judged queries of the calibration" in done.stderr
    assert not (folder / "none.html").exists()


def test_the_command_for_fresh_queries_can_be_typed(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    promises = ["ndcg@5 >= 60% of deterministic", "normalized_disparity@5 <= 0.9"]
    outcome = calibrate(read_queries(folder / "judged.parquet"), promises, selection="holm")
    command = asking(outcome).replace("@", str(outcome.promises[0]), 1)
    typed = [word.replace("fresh.parquet", str(folder / "other.parquet")) for word in shlex.split(command)[1:]]
    done = CliRunner().invoke(app, typed)
    assert done.exit_code in (0, 3), done.output
    again = load("ranker.json")
    assert again.promises == outcome.promises
    assert (again.provenance.path, again.provenance.selection) == ("front", "holm")
