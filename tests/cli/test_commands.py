"""The command line as people and scripts use it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from msgspec.structs import replace

from command_line import isrr
from isrr import load, read_queries, write_queries
from isrr.outcome.status import Status

PROMISE = "ndcg@5 >= 90% of deterministic"


def changed(source, target, column, values):
    """Write a table with another column."""
    table = parquet.read_table(source)
    position = table.column_names.index(column)
    parquet.write_table(table.set_column(position, column, [pa.array(values(table[column].to_numpy()))]), target)
    return target


def test_calibrate_writes_a_certificate_that_show_prints(ranker):
    done = isrr("show", ranker)
    assert done.stdout.startswith("Certificate ")
    assert PROMISE in done.stdout
    assert "\x1b" not in done.stdout  # no colours in a pipe
    assert "tested risk" not in done.stdout
    assert "tested risk" in isrr("show", ranker, "--verbose").stdout
    assert json.loads(isrr("show", ranker, "--json").stdout)["kind"] == "certificate"


def test_expert_options_reach_the_library(judged, tmp_path):
    options = "--path temperature --evidence hoeffding_bentkus --selection holm --seed 3 --analyses 2 --distinct"
    options += " --judged-by model --gain linear --discount reciprocal --floor 0.4"
    options += " --empty-query zero --confidence 0.9"
    done = isrr("calibrate", judged, "-p", "ndcg@5 >= 0.2", *options.split(), "-o", tmp_path / "r.json", "--json")
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    provenance = document["provenance"]
    expected = {
        "requested_path": "temperature", "evidence": "hoeffding_bentkus", "selection": "holm", "seed": 3,
        "n_analyses": 2, "distinct": True, "judged_by": "model",
    }  # fmt: skip
    assert {name: provenance[name] for name in expected} == expected
    assert document["confidence"] == 0.9
    (promise,) = load(tmp_path / "r.json").promises
    assert dict(promise.metric.settings) == {"gain": "linear", "discount": "reciprocal"}
    assert promise.empty_query == "zero"


def test_an_abstention_has_its_own_exit_code_and_ranks_by_score(judged, tmp_path):
    file = tmp_path / "no.json"
    done = isrr("calibrate", judged, "-p", "ndcg@5 >= 0.99", "-o", file, "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["kind"] == "abstention"
    assert load(file).abstained
    for arguments, code, verb in (
        (["check", file, judged], 3, "measuring"),
        (["rank", file, judged, "-o", tmp_path / "ranked.parquet"], 0, "using"),
    ):
        done = isrr(*arguments)
        assert done.returncode == code
        assert f"no.json is an abstention: nothing was promised; {verb} the order by score" in done.stderr


def test_rank_writes_positions_with_propensities(judged, ranker, tmp_path):
    done = isrr("rank", ranker, judged, "--out", tmp_path / "a.parquet", "--session", "u1")
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["query_id", "rank", "item_id", "score", "propensity", "session"]
    propensity = table["propensity"].to_numpy()
    assert ((propensity > 0) & (propensity <= 1)).all()
    isrr("rank", ranker, judged, "--out", tmp_path / "b.parquet", "--session", "u1", "--k", 8)
    longer = parquet.read_table(tmp_path / "b.parquet")
    first = longer.filter(longer["rank"].to_numpy() <= 5)
    assert first["item_id"].to_pylist() == table["item_id"].to_pylist()
    for name in ("a.csv", "a.jsonl"):
        assert isrr("rank", ranker, judged, "-o", tmp_path / name, "--session", "u1").returncode == 0
    assert arrow_csv.read_csv(tmp_path / "a.csv").equals(table)
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()] == table.to_pylist()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"status": "revoked", "reason": "it broke", "since": "2026-01-01"}, "revoked since 2026-01-01: it broke"),
        ({"expires": "2020-01-31"}, "expired: the certificate expired on 2020-01-31"),
    ],
)
def test_a_promise_that_is_no_longer_valid_is_warned_of_and_ranks_by_score(judged, ranker, tmp_path, status, said):
    file = tmp_path / "ranker.json"
    file.write_bytes(ranker.read_bytes())
    assert "\nstatus       valid\n" in isrr("show", file).stdout
    Status(load(file).id, **status).save(file)
    assert f"\nstatus       {said}\n" in isrr("show", file).stdout
    assert f"is {said}" in isrr("show", file, "--json").stderr
    assert f"is {said}; measuring its ranker anyway" in isrr("check", file, judged).stderr
    done = isrr("rank", file, judged, "-o", tmp_path / "ranked.parquet")
    assert done.returncode == 0
    assert f"is {said}; using the order by score" in done.stderr
    assert set(parquet.read_table(tmp_path / "ranked.parquet")["propensity"].to_pylist()) == {1.0}


def test_check_says_whether_the_promise_holds_and_who_is_seen(judged, ranker, tmp_path):
    done = isrr("check", ranker, judged)
    assert done.returncode == 0, done.stderr
    assert "these are the calibration queries" in done.stderr
    assert "kept" in done.stdout
    assert "theirs" in done.stdout
    assert json.loads(isrr("check", ranker, judged, "--json").stdout)["fairness_gain"] > 0
    bold = replace(load(ranker), promises=(load(ranker).promises[0].at(0.999),))
    bold.save(tmp_path / "bold.json")
    done = isrr("check", tmp_path / "bold.json", judged, "--json")
    assert (done.returncode, json.loads(done.stdout)["promises"][0]["verdict"]) == (4, "broken")


def test_check_tells_an_unclear_verdict_and_segments_that_nothing_was_promised_of(judged, ranker, tmp_path):
    table = parquet.read_table(judged)
    devices = pa.array([["phone", "desk"][query % 2] for query in table["query_id"].to_pylist()])
    parquet.write_table(table.append_column("device", devices), tmp_path / "judged.parquet")
    measured = json.loads(isrr("check", ranker, judged, "--json").stdout)["promises"][0]["value"]
    promise = load(ranker).promises[0].at(measured["value"])
    replace(load(ranker), promises=(promise,)).save(tmp_path / "close.json")
    shown = isrr("check", tmp_path / "close.json", tmp_path / "judged.parquet", "--segment", "device").stdout
    assert "] (the interval contains the promise: judge more queries)\n" in shown
    assert "% of deterministic in segment 'phone': measured 9" in shown


def test_queries_of_one_item_are_no_queries(judged, tmp_path):
    table = parquet.read_table(judged)
    swapped = ("--query", "item_id", "--item", "query_id", "-o", tmp_path / "r.json")
    done = isrr("calibrate", judged, "-p", PROMISE, *swapped)
    assert done.returncode == 2
    assert "every query has a single item" in done.stderr
    assert "swapped (--query, --item)?" in done.stderr
    some = np.where(np.arange(table.num_rows) < 2_000, table["item_id"].to_numpy(), "list")
    parquet.write_table(table.append_column("list", [some.astype(str)]), tmp_path / "some.parquet")
    done = isrr("calibrate", tmp_path / "some.parquet", "-p", PROMISE, "--query", "list", "-o", tmp_path / "r.json")
    assert "warning      99% of the queries have a single item" in done.stdout


@pytest.mark.parametrize(
    ("verb", "factor", "said"),
    [
        ("rank", 10.0, "outside"),
        ("check", -1.0, "here; queries or scores have changed"),
        ("check", 0.1, "isrr: warning: scores are spread 0.1 times as wide as at calibration"),
    ],
)
def test_scores_on_another_scale_are_warned_of(judged, ranker, tmp_path, verb, factor, said):
    out = ["-o", tmp_path / "out.parquet"] if verb == "rank" else []
    for name, by in (("same.parquet", 1.0), ("other.parquet", factor)):
        table = changed(judged, tmp_path / name, "score", lambda scores, by=by: by * scores)
        assert (said in isrr(verb, ranker, table, *out).stderr) == (by != 1.0)


def test_plan_answers_for_all_promises_together_whatever_their_order(judged):
    assert "232" in isrr("plan", "-p", "ndcg@5 >= 0.50", "--utility", "0.55").stdout
    both, plans = [PROMISE, "ndcg@5 >= 97% of deterministic"], []
    for promises in (both, both[::-1], both[:1]):
        words = [word for promise in promises for word in ("-p", promise)]
        plans.append(json.loads(isrr("plan", judged, *words, "--json").stdout))
    one_way, other_way, alone = plans
    assert one_way["promises"] == both
    assert one_way["queries_needed"] == other_way["queries_needed"] > alone["queries_needed"]
    assert one_way["needs"][0]["queries_needed"] == alone["queries_needed"]


def test_every_command_takes_several_files_by_a_pattern(judged, tmp_path):
    queries = read_queries(judged)
    for name, part in (("a", slice(250)), ("b", slice(250, 300)), ("c", slice(300, 500))):
        write_queries(queries[part], tmp_path / f"{name}.parquet")
    some, rest = tmp_path / "[ab].parquet", tmp_path / "c.parquet"
    done = isrr("calibrate", rest, "--validation", some, "-p", PROMISE, "-o", tmp_path / "ranker.json")
    assert "300 validation queries" in load(tmp_path / "ranker.json").provenance.path_basis, done.stderr
    done = isrr("plan", some, "-p", "disparity@5 <= 4", "--bound", 400, "--item-group", "item_group", "--json")
    assert json.loads(done.stdout)["n_pilot"] > 290, done.stderr


def test_an_edited_ranker_is_read_on_demand_and_said_to_be_so(ranker, tmp_path):
    edited = tmp_path / "edited.json"
    edited.write_text(ranker.read_text().replace('"confidence": 0.95', '"confidence": 0.99'))
    assert isrr("show", edited).returncode == 2
    done = isrr("show", edited, "--trust-edited")
    assert done.returncode == 0
    assert "edited by hand" in done.stderr


def test_demo_does_the_main_job_end_to_end(tmp_path):
    done = isrr("demo", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert "Certificate" in done.stdout
    assert "What more fairness costs" in done.stdout
    for name in ("judged.parquet", "ranker.json", "tradeoff.png", "report.html"):
        assert (tmp_path / "demo" / name).stat().st_size > 1_000


def test_data_commands_convert_and_describe(tmp_path):
    (tmp_path / "queries.csv").write_text("query,Score_,grade\na,0.5,2\na,0.25,0\nb,3,1\n")
    done = isrr("data", "convert", tmp_path / "queries.csv", tmp_path / "queries.arrow", "--score", "Score_")
    assert done.returncode == 0, done.stderr
    shown = isrr("data", "show", tmp_path / "queries.arrow").stdout
    assert "2 queries, 3 items" in shown
    assert "relevance       0: 33.3%, 1: 33.3%, 2: 33.3%\n" in shown
    (tmp_path / "many.csv").write_text("query,score,grade\n" + "".join(f"a,{i},{i}\n" for i in range(13)))
    assert "9: 7.7% and 3 more values\n" in isrr("data", "show", tmp_path / "many.csv").stdout


def test_a_run_with_its_judgments_is_converted(tmp_path):
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2.5 t\nq1 Q0 b 2 1.5 t\nq2 Q0 a 1 1.0 t\n")
    (tmp_path / "qrels.txt").write_text("q1 0 b 2\nq1 0 z 3\n")
    judged, files = tmp_path / "judged.parquet", ("--run", tmp_path / "run.txt", "--qrels", tmp_path / "qrels.txt")
    done = isrr("data", "convert", *files, "-o", judged, "--ties", "trec")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("judged.parquet: Queries(1 query, 2 items; scores, relevance, item_ids)\n")
    assert "run.txt: 1 query without judgments left out: q2" in done.stderr
    assert "1 item without a grade (50.0 %): counted as irrelevant (--unjudged zero)" in done.stderr
    assert "not retrieved   1 relevant item, counted in the ideal" in isrr("data", "show", judged).stdout
    assert isrr("data", "convert", *files, judged).returncode == 0
    for wrong, said in (
        ([*files, "--unjudged", "refuse", "-o", judged], "--unjudged zero, --unjudged drop or --unjudged worst"),
        (["-o", judged], "expected a file of queries, or --run and --qrels"),
        ([tmp_path / "run.txt"], "no output file; expected an .arrow or .parquet file as --output"),
        ([tmp_path / "x.txt", judged, "-o", judged], "found two output files"),
        ([*files, "-o", tmp_path / "run.txt"], "must end in"),
    ):
        done = isrr("data", "convert", *wrong)
        assert done.returncode == 2
        assert said in done.stderr


def test_start_takes_the_gain_and_the_discount_of_its_promise(judged, tmp_path):
    worth = ("--gain", "linear", "--discount", "reciprocal")
    done = isrr("start", judged, "-p", PROMISE, *worth, "-o", tmp_path / "started.json")
    assert done.returncode == 0, done.stderr
    settings = load(tmp_path / "started.json").promises[0].metric.settings
    assert dict(settings) == {"gain": "linear", "discount": "reciprocal"}
