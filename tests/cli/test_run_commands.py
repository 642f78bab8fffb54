"""The tables people already have, through the commands: TREC and BEIR files, items without a grade."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from isrr import DataError, Monitor, calibrate, check, load, plan, read_queries
from isrr.cli.main import app

PROMISE = "ndcg@5 >= 90% of deterministic"


def isrr(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def rows_of(n_queries=250, n_items=12, seed=20230):
    """Query, item, grade, score and whether the item is judged."""
    rng = np.random.default_rng(seed)
    for q in range(n_queries):
        for d in range(n_items):
            grade = int(rng.choice(4, p=[0.5, 0.25, 0.15, 0.1]))
            yield f"q{seed}-{q}", f"d{d}", grade, grade + rng.normal(scale=0.8), rng.random() < 0.85


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same queries as TREC text, as BEIR's files and as a table with empty grades."""
    folder = tmp_path_factory.mktemp("runs")
    rows = list(rows_of())
    found = {name: folder / file for name, file in [
        ("run", "run.txt"), ("qrels", "qrels.txt"), ("beir", "qrels.tsv"), ("table", "judged.csv"),
    ]}  # fmt: skip
    found["run"].write_text("".join(f"{q} Q0 {d} 1 {s:.6f} tag\n" for q, d, _, s, _ in rows))
    found["qrels"].write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g, _, judged in rows if judged))
    judged = "".join(f"{q}\t{d}\t{g}\n" for q, d, g, _, judged in rows if judged)
    found["beir"].write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    table = "".join(f"{q},{d},{s:.6f},{g if judged else ''}\n" for q, d, g, s, judged in rows)
    found["table"].write_text(f"query_id,item_id,score,relevance\n{table}")
    return SimpleNamespace(folder=folder, **found)


@pytest.fixture(scope="module")
def ranker(files):
    return files.folder / "ranker.json"


@pytest.fixture(scope="module")
def told(files, ranker):
    """What the one command says."""
    return isrr("calibrate", "--run", files.run, "--qrels", files.qrels, "-p", PROMISE, "-o", ranker)


def test_trec_files_are_calibrated_on_in_one_command(told, files, ranker):
    assert told.exit_code == 0, told.output
    assert "unjudged     " in told.output
    assert "of the first 5 positions by score hold items without a grade" in told.output
    assert "counted as irrelevant" in told.output
    provenance = load(ranker).provenance
    assert provenance.unjudged == "zero"
    assert provenance.unjudged_share == pytest.approx(0.15, abs=0.05)
    assert calibrate(read_queries(files.run, qrels=files.qrels), PROMISE).ranker == load(ranker).ranker
    assert (files.folder / ".isrr-analyses.jsonl").exists()


def test_check_plan_and_report_take_the_run_as_calibrate_does(told, files, ranker):
    given = ("--run", files.run, "--qrels", files.qrels)
    checked = isrr("check", ranker, *given)
    assert checked.exit_code == 0, checked.output
    assert "these are the calibration queries" in checked.output
    assert "such items are counted as irrelevant (zero)" in checked.output
    planned = isrr("plan", *given, "-p", PROMISE)
    assert "to certify anything" in planned.output, planned.output
    page = files.folder / "report.html"
    written = isrr("report", ranker, *given, "-o", page)
    assert written.exit_code == 0, written.output
    assert page.stat().st_size > 10_000
    assert plan(read_queries(files.run, qrels=files.qrels), PROMISE).n_pilot > 200


def test_a_table_or_a_run_with_judgments_but_not_half_of_each(files):
    for given, said in [
        ((), "expected a table of judged queries, or --run and --qrels"),
        ((files.table, "--qrels", files.qrels), "found a table together with --qrels"),
        (("--run", files.run), "expected the judgments as --qrels"),
    ]:
        found = isrr("calibrate", *given, "-p", PROMISE, "-o", files.folder / "none.json")
        assert found.exit_code == 2
        assert said in " ".join(found.output.split())


def test_the_score_of_beir_judgments_is_not_taken_for_that_of_a_model(files, ranker, told):
    found = isrr("calibrate", files.beir, "-p", PROMISE, "-o", files.folder / "beir.json")
    assert found.exit_code == 2
    assert "in BEIR's qrels the column 'score' is the grade" in " ".join(found.output.split())
    same = calibrate(read_queries(files.run, qrels=files.beir), PROMISE)
    assert same.provenance.data == load(ranker).provenance.data


def test_empty_grades_are_refused_or_count_as_asked(files, ranker, told):
    refused = isrr("calibrate", files.table, "-p", PROMISE, "-o", files.folder / "table.json")
    assert refused.exit_code == 2
    for option in ("--unjudged zero", "--unjudged drop", "--unjudged worst"):
        assert option in " ".join(refused.output.split())
    outcomes = {policy: calibrate(read_queries(files.table, unjudged=policy), PROMISE) for policy in ("zero", "drop")}
    outcomes["worst"] = calibrate(read_queries(files.table, unjudged="worst"), "ndcg@5 >= 0.4")
    for policy, outcome in outcomes.items():
        assert outcome.provenance.unjudged == policy
        assert check(outcome, files.table).unjudged == policy
    assert outcomes["zero"].provenance.data == load(ranker).provenance.data
    assert outcomes["worst"].deterministic_utility.value < outcomes["zero"].deterministic_utility.value
    with pytest.raises(DataError, match=r"dropped here \(drop\), but in calibration they were counted as irrelevant"):
        check(outcomes["zero"], read_queries(files.table, unjudged="drop"))


def test_the_monitor_counts_unjudged_items_as_calibration_did(files, ranker, told):
    outcome = load(ranker)
    lines, judged = [], []
    for q, d, grade, _score, known in rows_of(400, 8, seed=7):
        if d == "d0":
            shown = [f"d{i}" for i in range(5)]
            lines.append({"query_id": q, "session": None, "time": len(lines), "top": shown, "deterministic": shown,
                          "certificate": outcome.id, "status": "valid"})  # fmt: skip
        if known:
            judged.append({"query_id": q, "item_id": d, "relevance": grade})
    file = files.folder / "judgments.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in judged))
    watch = Monitor(outcome)
    watch.update(lines, read_queries(file))
    assert watch.batch.n_incomplete == 0
    assert watch.n_judged == 400
    assert "of the positions served hold items without a grade (zero)" in str(watch)
    strict = Monitor(calibrate(read_queries(files.table, unjudged="zero"), PROMISE))
    strict.unjudged, strict.certificate = "refuse", outcome.id
    strict.update(lines, read_queries(file))
    assert strict.batch.n_incomplete > 100
    assert "are no random sample then" in strict.batch.selected


def test_rows_that_cannot_be_used_are_left_out_on_demand_and_the_certificate_says_so(files):
    lines = files.table.read_text().splitlines()
    rows = [re.sub(r",[^,]*(,[^,]*)$", r",\1", line) if n % 40 == 3 else line for n, line in enumerate(lines)]
    file, out = files.folder / "gaps.csv", files.folder / "gaps.json"
    file.write_text("\n".join([*rows, rows[1]]))
    refused = isrr("calibrate", file, "--unjudged", "zero", "-p", PROMISE, "-o", out)
    assert refused.exit_code == 2
    assert "row 3 (line 4), column 'score', query" in (said := " ".join(refused.output.split()))
    assert "no value (75 such rows); expected one in every row, or leave such rows out: --missing-score drop" in said
    given = ("--unjudged", "zero", "--missing-score", "drop")
    refused = isrr("calibrate", file, *given, "-p", PROMISE, "-o", out)
    assert "appears twice (1 row repeats an item)" in (said := " ".join(refused.output.split()))
    assert "--duplicates first" in said
    done = isrr("calibrate", file, *given, "--duplicates", "first", "-p", PROMISE, "-o", out)
    assert done.exit_code == 0, done.output
    assert "left out     75 rows without a score" in done.output
    assert load(out).provenance.dropped == {"missing_score": 75, "duplicates": 1}
