"""The command line as people and scripts use it."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from command_line import ISRR, isrr
from isrr import Queries, load, read_queries, write_queries
from isrr.outcome.status import Status

PROMISE = "ndcg@5 >= 90% of deterministic"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(20230)
    sizes = rng.integers(4, 20, 500)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.3, 0.15, 0.05])
    judged = Queries.from_arrays(
        scores=relevance + rng.normal(scale=1.2, size=relevance.size),
        relevance=relevance,
        query_ids=np.repeat(np.arange(500), sizes),
        item_ids=[f"d{i}" for i in range(relevance.size)],
        item_groups=rng.choice(["ours", "theirs"], relevance.size),
    )
    made = tmp_path_factory.mktemp("cli")
    write_queries(judged, made / "judged.parquet")
    return made


@pytest.fixture(scope="module")
def ranker(folder):
    done = isrr("calibrate", folder / "judged.parquet", "-p", PROMISE, "-o", folder / "ranker.json")
    assert done.returncode == 0, done.stderr
    return folder / "ranker.json"


def test_calibrate_prints_and_writes_a_certificate(folder, ranker):
    done = isrr("show", ranker)
    assert done.returncode == 0
    assert done.stdout.startswith("Certificate ")
    assert PROMISE in done.stdout
    assert "\x1b" not in done.stdout  # no colours in a pipe
    assert json.loads(isrr("show", ranker, "--json").stdout)["kind"] == "certificate"


def test_an_abstention_has_its_own_exit_code(folder):
    done = isrr("calibrate", folder / "judged.parquet", "-p", "ndcg@5 >= 0.99", "-o", folder / "no.json", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["kind"] == "abstention"
    assert load(folder / "no.json").abstained


def test_rank_writes_places_with_propensities(folder, ranker):
    done = isrr("rank", ranker, folder / "judged.parquet", "--out", folder / "a.parquet", "--session", "u1")
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(folder / "a.parquet")
    assert table.column_names == ["query_id", "rank", "item_id", "score", "propensity", "session"]
    propensity = table["propensity"].to_numpy()
    assert ((propensity > 0) & (propensity <= 1)).all()
    isrr("rank", ranker, folder / "judged.parquet", "--out", folder / "b.parquet", "--session", "u1", "--k", 8)
    longer = parquet.read_table(folder / "b.parquet")
    first = longer.filter(longer["rank"].to_numpy() <= 5)
    assert first["item_id"].to_pylist() == table["item_id"].to_pylist()
    for name in ("a.csv", "a.jsonl"):
        assert isrr("rank", ranker, folder / "judged.parquet", "-o", folder / name, "--session", "u1").returncode == 0
    assert arrow_csv.read_csv(folder / "a.csv").equals(table)
    assert [json.loads(line) for line in (folder / "a.jsonl").read_text().splitlines()] == table.to_pylist()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"status": "revoked", "reason": "it broke", "since": "2026-01-01"}, "revoked since 2026-01-01: it broke"),
        ({"expires": "2020-01-31"}, "expired: the certificate expired on 2020-01-31"),
    ],
)
def test_a_promise_that_no_longer_stands_is_said_to_and_ranks_by_score(folder, ranker, tmp_path, status, said):
    file = tmp_path / "ranker.json"
    file.write_bytes(ranker.read_bytes())
    assert "\nstatus       valid\n" in isrr("show", file).stdout
    Status(load(file).id, **status).save(file)
    assert f"\nstatus       {said}\n" in isrr("show", file).stdout
    assert f"is {said}" in isrr("show", file, "--json").stderr
    done = isrr("check", file, folder / "judged.parquet")
    assert f"is {said}; measuring its ranker anyway" in done.stderr
    done = isrr("rank", file, folder / "judged.parquet", "-o", tmp_path / "ranked.parquet")
    assert done.returncode == 0
    assert f"is {said}; using the order by score" in done.stderr
    assert set(parquet.read_table(tmp_path / "ranked.parquet")["propensity"].to_pylist()) == {1.0}


def test_check_says_whether_the_promise_holds_and_who_is_seen(folder, ranker):
    done = isrr("check", ranker, folder / "judged.parquet")
    assert done.returncode == 0, done.stderr
    assert "these are the calibration queries" in done.stderr
    assert "kept" in done.stdout
    assert "theirs" in done.stdout
    assert "Intervals in brackets have about 95 % confidence.\n" in done.stdout
    found = json.loads(isrr("check", ranker, folder / "judged.parquet", "--json").stdout)
    assert found["promises"][0]["verdict"] in ("kept", "unclear")
    assert found["fairness_gain"] > 0


def test_check_tells_a_broken_promise_and_one_that_was_never_made_by_exit_code(folder, ranker, tmp_path):
    judged = parquet.read_table(folder / "judged.parquet")
    column = judged.column_names.index("relevance")
    turned = judged.set_column(column, "relevance", [(judged["score"].to_numpy() < 0.5).astype(float)])
    parquet.write_table(turned, tmp_path / "turned.parquet")
    promise = load(ranker).promises[0].at(0.999)
    replace(load(ranker), promises=(promise,)).save(tmp_path / "bold.json")
    done = isrr("check", tmp_path / "bold.json", folder / "judged.parquet", "--json")
    assert (done.returncode, json.loads(done.stdout)["promises"][0]["verdict"]) == (4, "broken")
    isrr("calibrate", folder / "judged.parquet", "-p", "ndcg@5 >= 0.99", "-o", tmp_path / "no.json")
    done = isrr("check", tmp_path / "no.json", tmp_path / "turned.parquet")
    assert done.returncode == 3
    assert "no.json is an abstention: nothing was promised" in done.stderr
    assert "not promised ndcg@5 >= 0.99: measured" in done.stdout
    assert "\nNDCG@5  " in done.stdout
    done = isrr("rank", tmp_path / "no.json", folder / "judged.parquet", "-o", tmp_path / "ranked.parquet")
    assert done.returncode == 0
    assert "no.json is an abstention: nothing was promised; using the order by score" in done.stderr
    done = isrr("check", tmp_path / "no.json", tmp_path / "turned.parquet")
    assert "calibrated on" not in done.stderr


def test_queries_of_one_item_are_no_queries(folder, tmp_path):
    judged = parquet.read_table(folder / "judged.parquet")
    swapped = ("--query", "item_id", "--item", "query_id", "-o", tmp_path / "r.json")
    done = isrr("calibrate", folder / "judged.parquet", "-p", PROMISE, *swapped)
    assert done.returncode == 2
    assert "every query has a single item" in done.stderr
    assert "swapped (--query, --item)?" in done.stderr
    some = np.where(np.arange(judged.num_rows) < 2_000, judged["item_id"].to_numpy(), "list")
    parquet.write_table(judged.append_column("list", [some.astype(str)]), tmp_path / "some.parquet")
    done = isrr("calibrate", tmp_path / "some.parquet", "-p", PROMISE, "--query", "list", "-o", tmp_path / "r.json")
    assert "warning      99% of the queries have a single item" in done.stdout


def test_scores_on_another_scale_are_warned_of(folder, ranker, tmp_path):
    judged = parquet.read_table(folder / "judged.parquet")
    column = judged.column_names.index("score")
    wide = judged.set_column(column, "score", [10.0 * judged["score"].to_numpy()])
    parquet.write_table(wide, tmp_path / "wide.parquet")
    done = isrr("rank", ranker, tmp_path / "wide.parquet", "--out", tmp_path / "out.parquet")
    assert done.returncode == 0
    assert "outside" in done.stderr


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (-1.0, "here; queries or scores have changed"),
        (0.1, "isrr: warning: scores are spread 0.1 times as wide as at calibration"),
    ],
)
def test_check_warns_of_scores_of_another_kind(folder, ranker, tmp_path, factor, said):
    judged = parquet.read_table(folder / "judged.parquet")
    for name, by in (("same", 1.0), ("other", factor)):
        scores = pa.array(by * judged["score"].to_numpy())
        parquet.write_table(judged.set_column(judged.column_names.index("score"), "score", scores), tmp_path / name)
    assert said not in isrr("check", ranker, tmp_path / "same").stderr
    assert said in isrr("check", ranker, tmp_path / "other").stderr


def test_check_tells_an_unclear_verdict_and_segments_that_nothing_was_promised_of(folder, ranker, tmp_path):
    judged = parquet.read_table(folder / "judged.parquet")
    even = pa.array([["phone", "desk"][query % 2] for query in judged["query_id"].to_pylist()])
    parquet.write_table(judged.append_column("device", even), tmp_path / "judged.parquet")
    measured = json.loads(isrr("check", ranker, folder / "judged.parquet", "--json").stdout)["promises"][0]["value"]
    promise = load(ranker).promises[0].at(measured["value"])
    replace(load(ranker), promises=(promise,)).save(tmp_path / "close.json")
    shown = isrr("check", tmp_path / "close.json", tmp_path / "judged.parquet", "--segment", "device").stdout
    assert "] (the interval contains the promise: judge more queries)\n" in shown
    assert "% of deterministic in segment 'phone': measured 0." in shown
    found = json.loads(isrr("check", ranker, tmp_path / "judged.parquet", "--segment", "device", "--json").stdout)
    assert [kept["segment"] for kept in found["segments"]] == ["desk", "phone"]
    assert len(found["promises"]) == 1


def test_plan_works_from_a_guess_and_from_a_pilot(folder):
    done = isrr("plan", "-p", "ndcg@5 >= 0.50", "--utility", "0.55")
    assert "232" in done.stdout
    assert "(with a relevant item each)" not in isrr("plan", "-p", "ndcg@5 >= 0.60", "--utility", "0.55").stdout
    done = isrr("plan", folder / "judged.parquet", "-p", PROMISE)
    assert "the true risk one standard error above that of the" in done.stdout


def test_plan_answers_for_all_promises_whatever_their_order(folder):
    both, found = [PROMISE, "ndcg@5 >= 97% of deterministic"], []
    for promises in (both, both[::-1], both[:1]):
        given = [word for promise in promises for word in ("-p", promise)]
        found.append(json.loads(isrr("plan", folder / "judged.parquet", *given, "--json").stdout))
    one_way, other_way, alone = found
    assert one_way["promises"] == both
    assert one_way["queries_needed"] == other_way["queries_needed"] > alone["queries_needed"]
    assert one_way["needs"][0]["queries_needed"] == alone["queries_needed"]


def test_every_command_takes_several_files_by_a_pattern(folder, ranker, tmp_path):
    judged = read_queries(folder / "judged.parquet")
    for name, part in (("a", slice(250)), ("b", slice(250, 300)), ("c", slice(300, 500))):
        write_queries(judged[part], tmp_path / f"{name}.parquet")
    some, rest = tmp_path / "[ab].parquet", tmp_path / "c.parquet"
    done = isrr("calibrate", rest, "--validation", some, "-p", PROMISE, "-o", tmp_path / "ranker.json")
    assert "fixed by 300 validation queries" in done.stdout, done.stderr
    done = isrr("plan", some, "-p", "disparity@5 <= 4", "--bound", 400, "--item-group", "item_group", "--json")
    assert json.loads(done.stdout)["n_pilot"] > 290, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("calibrate", "nowhere.parquet", "-p", PROMISE), "nowhere.parquet"),
        (("calibrate", "{judged}", "-p", "nonsense"), "cannot read the promise"),
        (("calibrate", "{judged}", "-p", PROMISE, "--query", "Query_ID"), "did you mean 'query_id'?"),
        (
            ("calibrate", "{judged}", "-p", "disparity@5 <= 0.2"),
            "expected 'with bound B', where B is the largest value a query",
        ),
        (("calibrate", "{judged}", "-p", PROMISE, "--confidence", "95"), "did you mean 0.95"),
        (("calibrate", "{judged}", "-p", PROMISE, "-o", "no/such/folder/r.json"), "does not exist"),
        (("show", "{judged}"), "expected a ranker file (.json), found a table of queries"),
        (("calibrate", "{judged}", "-p", "ndgc@5 >= 0.7"), "did you mean ndcg?"),
        (("calibrate", "{judged}", "-p", "ngcd@5 >= 0.7"), "did you mean ndcg?"),
        (
            ("calibrate", "{judged}", "-p", "ndcg@5>=0.95 of deterministic"),
            "did you mean 'ndcg@5>=95% of deterministic'?",
        ),
        (("calibrate", "{judged}", "-p", PROMISE, "--confidence", "5"), "did you mean 0.95?"),
        (("calibrate", "{judged}", "-p", PROMISE, "--confidence", "0.05"), "did you mean 0.95?"),
        (("rank", "nowhere.json", "{judged}", "--out", "x.parquet"), "no such file"),
        (("rank", "{ranker}", "{judged}", "--out", "ranked.txt"), "must end in .parquet or .csv or .jsonl"),
        (("calibrate", "{judged}", "-p", PROMISE, "--validation", "{judged}"), "validation queries too"),
        (("plan", "-p", "ndcg@5 >= 0.5"), "a plan needs judged pilot queries, or --utility"),
        (("plan", "-p", "ndcg@5 >= 0.5", "--utility", "0.6", "--confidence", "95"), "did you mean 0.95"),
        (
            ("plan", "-p", "ndcg@5 >= 0.5", "--utility", "0.6", "--per-segment"),
            "a plan for a promise per segment needs",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(folder, ranker, tmp_path, arguments, said):
    filled = [str(argument).format(judged=folder / "judged.parquet", ranker=ranker) for argument in arguments]
    done = isrr(*filled, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_edited_ranker_is_read_on_demand_and_said_to_be_so(ranker, tmp_path):
    edited = tmp_path / "edited.json"
    edited.write_text(ranker.read_text().replace('"confidence": 0.95', '"confidence": 0.99'))
    assert isrr("show", edited).returncode == 2
    done = isrr("show", edited, "--trust-edited")
    assert done.returncode == 0
    assert "edited by hand" in done.stderr


def test_help_and_version():
    assert isrr("--version").stdout.startswith("isrr 0.")
    for command in ("calibrate", "check", "demo", "plan", "rank", "show"):
        done = isrr(command, "--help")
        assert done.returncode == 0
        assert "Options" in done.stdout


def test_ctrl_c_leaves_the_old_file_whole(folder, ranker, tmp_path):
    target = tmp_path / "ranker.json"
    target.write_bytes(ranker.read_bytes())
    command = [*ISRR, "calibrate", str(folder / "judged.parquet"), "-p", PROMISE, "-o", str(target)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.8)
    os.kill(running.pid, signal.SIGINT)
    running.communicate(timeout=60)
    load(target)
    assert not [file for file in tmp_path.iterdir() if file.suffix == ".tmp"]


def test_demo_does_the_main_job_end_to_end(tmp_path):
    done = isrr("demo", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert "Certificate" in done.stdout
    assert "How the cost grows with fairness" in done.stdout
    for name in ("judged.parquet", "ranker.json", "tradeoff.png"):
        assert (tmp_path / "demo" / name).stat().st_size > 1_000


def test_data_commands_convert_and_describe(tmp_path):
    (tmp_path / "queries.csv").write_text("query,score,grade\na,0.5,2\na,0.25,0\nb,3,1\n")
    done = isrr("data", "convert", tmp_path / "queries.csv", tmp_path / "queries.arrow")
    assert done.returncode == 0, done.stderr
    shown = isrr("data", "show", tmp_path / "queries.arrow").stdout
    assert "2 queries, 3 items" in shown
    assert isrr("data", "convert", tmp_path / "queries.arrow", tmp_path / "again.csv").returncode == 2


def test_a_run_with_its_judgments_is_converted(tmp_path):
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2.5 t\nq1 Q0 b 2 1.5 t\nq2 Q0 a 1 1.0 t\n")
    (tmp_path / "qrels.txt").write_text("q1 0 b 2\nq1 0 z 3\n")
    judged, given = tmp_path / "judged.parquet", ("--run", tmp_path / "run.txt", "--qrels", tmp_path / "qrels.txt")
    done = isrr("data", "convert", *given, "-o", judged, "--ties", "trec")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("judged.parquet: Queries(1 query, 2 items; scores, relevance, item_ids)\n")
    assert "warning:" in done.stderr
    assert "run.txt: 1 query without judgments left out: q2" in done.stderr
    assert "1 item without a grade (50.0 %): counted as irrelevant (--unjudged zero)" in done.stderr
    assert "not retrieved   1 relevant item, counted in the ideal" in isrr("data", "show", judged).stdout
    assert isrr("data", "convert", *given, judged).returncode == 0
    for wrong, said in (
        ([tmp_path / "run.txt", judged], "this looks like a TREC run; give its judgments too: --run"),
        ([*given, "--unjudged", "refuse", "-o", judged], "--unjudged zero, --unjudged drop or --unjudged worst"),
        (["-o", judged], "expected a file of queries, or --run and --qrels"),
        ([tmp_path / "run.txt"], "no output file; expected an .arrow or .parquet file as --output"),
        ([tmp_path / "x.txt", judged, "-o", judged], "found two output files"),
        ([*given, "-o", tmp_path / "run.txt"], "must end in"),
    ):
        done = isrr("data", "convert", *wrong)
        assert done.returncode == 2
        assert said in done.stderr


def test_start_takes_the_gain_and_the_discount_of_its_promise(folder):
    worth = ("--gain", "linear", "--discount", "reciprocal")
    done = isrr("start", folder / "judged.parquet", "-p", PROMISE, *worth, "-o", folder / "started.json")
    assert done.returncode == 0, done.stderr
    started = load(folder / "started.json")
    assert dict(started.promises[0].metric.settings) == {"gain": "linear", "discount": "reciprocal"}


def test_who_judged_is_told_to_calibrate_and_shown(folder):
    made = folder / "by-model.json"
    done = isrr("calibrate", folder / "judged.parquet", "-p", "ndcg@5 >= 0.5", "--judged-by", "model", "-o", made)
    assert done.returncode == 0, done.stderr
    assert "warning      grades come from a model, and 'ndcg@5 >= 0.5' promises a level of them" in done.stdout
    assert "judged by    a model\n" in isrr("show", made).stdout
    done = isrr("calibrate", "--clicks", "c.csv", "-p", "clicks@5 >= 90% of deterministic", "--judged-by", "people")
    assert done.returncode == 2
    assert "--judged-by is for judged queries" in done.stderr
