"""`isrr reproduce` on a small scored file: what it writes, that it resumes, what it refuses."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from isrr import Queries
from isrr.data.copies import write_queries
from isrr.data.synthetic import generate
from isrr.data.tables import read_queries
from isrr.gains import ideal_dcg
from isrr_paper.cli import app
from isrr_paper.experiments.result import machine
from isrr_paper.features import Featured
from isrr_paper.paper_tables import csv_text, latex, markdown

pytest.importorskip("matplotlib")


@pytest.fixture
def judged(tmp_path):
    rng = np.random.default_rng(20230)
    sizes = rng.integers(4, 12, 300)
    relevance = rng.choice(3, sizes.sum(), p=[0.5, 0.3, 0.2])
    scores = relevance + rng.normal(size=relevance.size)
    file = tmp_path / "shop.parquet"
    write_queries(Queries.from_arrays(scores=scores, relevance=relevance, group=sizes), file)
    return file


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *(str(word) for word in words)])


def test_tables_figures_and_json_are_written_and_read_again(judged, tmp_path):
    out = tmp_path / "out"
    sizes = ("--splits", 4, "--many", 6, "--bootstrap", 4)
    for result in ("tradeoff", "coverage"):
        assert run(result, "--data", judged, "--out", out, *sizes).exit_code == 0
        for suffix in ("md", "csv", "tex"):
            assert (out / f"{result}.{suffix}").stat().st_size > 0
        for suffix in ("png", "svg"):
            assert (out / f"{result}-shop-given.{suffix}").stat().st_size > 0
    assert (out / "coverage-averages.md").read_text().count("\n| shop |") == 6
    assert "7.7 %" in (out / "coverage.md").read_text()
    record = out / "results" / "coverage-shop-given.json"
    written = record.stat().st_mtime_ns
    table = (out / "coverage.csv").read_text()
    assert run("coverage", "--data", judged, "--out", out, *sizes).exit_code == 0
    assert record.stat().st_mtime_ns == written
    assert run("coverage", "--data", judged, "--out", tmp_path / "again", *sizes).exit_code == 0
    assert (tmp_path / "again" / "coverage.csv").read_text() == table
    assert json.loads(record.read_text())["settings"] == {"n_splits": 4, "many_splits": 6, "n_bootstrap": 4}


@pytest.fixture
def large(tmp_path):
    """A benchmark with parts of its own, laid out like MSLR: 60 training, 40 validation and 120 test queries."""
    made = generate("small", n_queries=220)
    queries = Featured.concatenate([Featured.of(*part) for part in made])
    folder = tmp_path / "MSLR" / "Fold1"
    folder.mkdir(parents=True)
    for name, part in (("train", queries[:60]), ("vali", queries[60:100]), ("test", queries[100:])):
        qid = np.repeat(part.query_ids, part.n_items)
        lines = [
            f"{grade:g} qid:{query} " + " ".join(f"{f}:{value:g}" for f, value in enumerate(row, 1))
            for grade, query, row in zip(part.relevance, qid, part.features, strict=True)
        ]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder.parent, queries[60:100], queries[100:]


def test_a_large_benchmark_keeps_its_own_parts(large, tmp_path):
    pytest.importorskip("lightgbm")
    folder, validation, test = large
    sizes = ("--splits", 4, "--many", 6, "--bootstrap", 4, "--threads", 1, "--scorer", "lightgbm")
    outcome = run("coverage", "--data", f"mslr-web30k={folder}", "--out", tmp_path, *sizes)
    assert outcome.exit_code == 0, outcome.output
    assert "train has 60 queries, published are 18,919" in outcome.stderr
    assert outcome.stderr.count("training LightGBM") == 1
    record = json.loads((tmp_path / "results" / "coverage-mslr-web30k-lightgbm.json").read_text())
    kept = [int((ideal_dcg(part) > 0).sum()) for part in (validation, test)]
    assert [record["n_validation"], record["n_judged"]] == kept
    assert record["deterministic"] > 0.55  # a random order has 0.32


def test_other_queries_under_the_same_name_are_measured_anew(judged, tmp_path):
    words = ("tradeoff", "--data", judged, "--out", tmp_path, "--splits", 2)
    assert run(*words).exit_code == 0
    before = (tmp_path / "tradeoff.csv").read_text()
    queries = read_queries(judged)
    write_queries(queries.with_scores(-queries.scores), judged)
    assert run(*words).exit_code == 0
    assert (tmp_path / "tradeoff.csv").read_text() != before


def test_scorers_are_trained_anew_on_other_files_of_a_benchmark(large, tmp_path):
    pytest.importorskip("lightgbm")
    folder, *_ = large
    rest = ("--out", tmp_path, "--splits", 2, "--threads", 1, "--scorer", "lightgbm")
    words = ("tradeoff", "--data", f"mslr-web30k={folder}", *rest)
    assert run(*words).stderr.count("training LightGBM") == 1
    assert run("decay", *words[1:]).stderr.count("training LightGBM") == 0
    train = folder / "Fold1" / "train.txt"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:-1]))
    assert run(*words).stderr.count("training LightGBM") == 1


def test_results_of_another_version_are_kept_and_named(judged, tmp_path):
    words = ("tradeoff", "--data", judged, "--out", tmp_path, "--splits", 2)
    assert "measured by isrr" not in run(*words).stderr
    record = tmp_path / "results" / "tradeoff-shop-given.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"isrr": "0.0.1"}))
    assert f"{record} was measured by isrr 0.0.1" in run(*words).stderr


def test_the_machine_is_named_where_cores_cannot_be_reserved(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert f"{os.cpu_count()} cores" in machine()


def test_other_settings_are_measured_anew(judged, tmp_path):
    assert run("tradeoff", "--data", judged, "--out", tmp_path, "--splits", 2).exit_code == 0
    assert run("tradeoff", "--data", judged, "--out", tmp_path, "--splits", 3).exit_code == 0
    record = json.loads((tmp_path / "results" / "tradeoff-shop-given.json").read_text())
    assert record["settings"]["n_splits"] == 3


@pytest.mark.parametrize("words", [("everything",), ("coverage",), ("coverage", "--data", "nowhere")])
def test_what_cannot_be_reproduced_is_refused(words):
    outcome = run(*words)
    assert outcome.exit_code != 0
    assert isinstance(outcome.exception, ValueError | SystemExit)


def test_tables_escape_what_their_format_reads():
    rows = [{"a|b": "50 %", "α": 0.05}]
    assert markdown(rows).splitlines()[0] == "| a\\|b | α |"
    assert csv_text(rows) == "a|b,α\n50 %,0.05\n"
    assert r"50 \% & 0.0500 \\" in latex(rows)
