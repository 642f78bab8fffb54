"""`isrr monitor`, from a served log and judgments to an alarm that the service obeys."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from isrr.cli.main import app
from isrr.serve.writer import prepare
from serving import client_of


@pytest.fixture
def served(ranker_file, tmp_path):
    """A log of 300 queries, and judgments under which every item is as good, or just those that were not drawn."""
    prepare(tmp_path / "log")
    client = client_of(ranker_file, log=tmp_path / "log")
    rng, rows, queries = np.random.default_rng(20230), [], []
    for q in range(300):
        items = [{"id": f"i{n}", "score": score} for n, score in enumerate(rng.normal(1.0, 0.3, 12).round(4).tolist())]
        queries.append({"query_id": f"q{q}", "session": "s", "items": items})
    for answer, query in zip(client.post("/rank/batch", {"queries": queries}).json()["results"], queries, strict=True):
        top = {item["id"] for item in answer["items"]}
        rows += [(query["query_id"], i["id"], i["id"] not in top, "xy"[len(i["id"]) % 2]) for i in query["items"]]
    columns = list(zip(*rows, strict=True))
    for name, grades in (("good", np.ones(len(rows))), ("bad", np.array(columns[2], float))):
        table = {"query_id": columns[0], "item_id": columns[1], "relevance": grades, "group": columns[3]}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    return tmp_path


def run(folder, judgments, *more):
    arguments = ["monitor", str(folder / "ranker.json"), "--log", str(folder / "log")]
    return CliRunner().invoke(app, [*arguments, "--judgments", str(folder / judgments), *map(str, more)])


def test_a_kept_promise_is_watched_in_silence_and_the_ledger_is_written(served):
    figure, table = served / "exposure.png", served / "ledger.parquet"
    found = run(served, "good.parquet", "--ledger", table, "--figure", figure, "--parquet", served / "log.parquet")
    assert found.exit_code == 0, found.output
    assert "alarm        none" in found.output
    assert "exposure by group" in found.output
    assert figure.stat().st_size > 1_000
    assert pq.read_table(table).num_rows == 12 + 2
    again = run(served, "good.parquet", "--json")
    assert json.loads(again.output)["n_judged"] == 300
    from_parquet = CliRunner().invoke(
        app, ["monitor", str(served / "ranker.json"), "--log", str(served / "log.parquet"), "--judgments",
              str(served / "good.parquet"), "--state", str(served / "other.json"), "--json"],
    )  # fmt: skip
    assert from_parquet.output == again.output


def test_an_alarm_revokes_and_the_service_falls_back(served):
    found = run(served, "bad.parquet", "--delta", "0.05")
    assert found.exit_code == 4, found.output
    assert "is broken" in found.output
    client = client_of(served / "ranker.json")
    body = {"query_id": "q", "session": "s", "items": [{"id": "a", "score": 1.0}, {"id": "b", "score": 0.9}]}
    note = client.post("/rank", body).json()["certificate"]
    assert (note["status"], note["order"]) == ("revoked", "deterministic")
    assert "is broken" in note["reason"]


def test_a_term_is_written_beside_the_ranker(served):
    assert run(served, "good.parquet", "--expires", "2020-01-01").exit_code == 0
    body = {"query_id": "q", "items": [{"id": "a", "score": 1.0}]}
    client = client_of(served / "ranker.json")
    assert client.post("/rank", body).json()["certificate"]["status"] == "expired"
    assert client.post("/rank", {**body, "items": []}).json()["certificate"]["status"] == "expired"


def test_judgments_of_which_none_counts_watch_nothing_and_say_so(served):
    table = pq.read_table(served / "good.parquet")
    elsewhere = table.set_column(0, "query_id", pa.array([f"other {query}" for query in table["query_id"].to_pylist()]))
    pq.write_table(elsewhere.append_column("model", table["relevance"]), served / "other.parquet")
    found = run(served, "other.parquet", "--score", "model")
    assert found.exit_code == 2
    assert "alarm        none (nothing was counted)" in found.stdout
    assert "no judgment counts, so nothing is monitored: no judgment belongs to a served query" in found.stderr
    assert run(served, "good.parquet").exit_code == 0
    assert run(served, "other.parquet").exit_code == 0  # what was counted before is watched


def test_damaged_lines_are_counted_and_a_damaged_status_does_not_keep_the_alarm_from_revoking(served):
    (file,) = (served / "log").glob("*.jsonl")
    with file.open("ab") as log:
        log.write(b"nonsense\n\0\0\n")
    (served / "ranker.status.json").write_text("{")
    found = run(served, "bad.parquet", "--delta", "0.05", "--expires", "2999-01-01")
    assert found.exit_code == 4, found.output
    assert "2 damaged lines skipped" in found.stderr
    assert "ranker.status.json: not a certificate status" in found.stderr
    assert json.loads((served / "ranker.status.json").read_text())["status"] == "revoked"


def test_what_groups_are_called_cannot_steer_the_terminal(served):
    table = pq.read_table(served / "good.parquet")
    named = pa.array(["\x1b[2J\x9b31m\u202e" + group for group in table["group"].to_pylist()])
    pq.write_table(table.set_column(3, "group", named), served / "good.parquet")
    found = run(served, "good.parquet", "--ledger", served / "ledger.parquet")
    assert found.exit_code == 0, found.output
    assert "\\x1b[2J\\x9b31m" in found.output
    assert not {"\x1b", "\x9b", "\u202e"} & set(found.output)


def test_a_revoked_certificate_is_reinstated_with_a_reason_and_watched_anew(served):
    client = client_of(served / "ranker.json", log=served / "log")
    command = ["monitor", str(served / "ranker.json"), "--reinstate"]
    idle = CliRunner().invoke(app, [*command, "nothing to do"])
    assert (idle.exit_code, "is not revoked" in idle.output) == (2, True)
    assert run(served, "bad.parquet", "--delta", "0.05").exit_code == 4
    assert client.service.current.refresh()
    revoked = json.loads((served / "ranker.status.json").read_text())
    assert CliRunner().invoke(app, [*command, " "]).exit_code == 2
    found = CliRunner().invoke(app, [*command, "the feed was repaired"])
    assert found.exit_code == 0, found.output
    status = json.loads((served / "ranker.status.json").read_text())
    assert status["status"] == "valid"
    assert status["reason"] == f"reinstated: the feed was repaired (revoked {revoked['since']}: {revoked['reason']})"
    assert status["since"] >= revoked["since"]
    assert client.service.current.refresh()
    assert client.service.current.now.note.status == "valid"
    assert client.get("/info").json()["status"]["reason"] == status["reason"]
    (kept,) = served.glob("ranker.monitor.json.*")
    assert json.loads(kept.read_text())["alarm"]
    again = run(served, "bad.parquet", "--delta", "0.05")  # the lists from before do not count again
    assert again.exit_code == 2, again.output
    assert "alarm        none (nothing was counted)" in again.output
    assert run(served, "good.parquet", "--expires", "2999-01-01").exit_code == 2
    assert json.loads((served / "ranker.status.json").read_text())["since"] == status["since"]


def test_an_alarm_that_cannot_be_written_is_raised_all_the_same(served):
    (served / "ranker.status.json").mkdir()
    found = run(served, "bad.parquet", "--delta", "0.05")
    assert (found.exit_code, "is broken: evidence" in found.stdout) == (4, True)
    assert "ranker.status.json: Is a directory, so the certificate is not revoked" in found.stderr
    (served / "ranker.status.json").rmdir()
    assert run(served, "bad.parquet", "--delta", "0.05").exit_code == 4
    assert json.loads((served / "ranker.status.json").read_text())["status"] == "revoked"


def test_judgments_may_come_twice_if_that_is_said(served):
    table = pq.read_table(served / "good.parquet")
    pq.write_table(pa.concat_tables([table, table]), served / "twice.parquet")
    refused = run(served, "twice.parquet")
    assert (refused.exit_code, "--duplicates first" in refused.stderr) == (2, True)
    assert run(served, "twice.parquet", "--duplicates", "first").exit_code == 0


def test_a_name_is_not_repeated_at_length(served):
    table = pq.read_table(served / "good.parquet")
    long = pa.array(["q" * 10_000] * table.num_rows)
    items = pa.array([f"i{i}" for i in range(table.num_rows)])
    pq.write_table(table.set_column(0, "query_id", long).set_column(1, "item_id", items), served / "long.parquet")
    found = run(served, "long.parquet")
    assert (found.exit_code, "queries such as 'qqq" in found.stderr, len(found.output) < 3_000) == (2, True, True)


def test_a_state_that_reinstating_did_not_know_of_starts_over(served):
    own = "--delta", "0.05", "--state", str(served / "own.json")
    assert run(served, "bad.parquet", *own).exit_code == 4
    again = run(served, "bad.parquet", *own)
    assert (again.exit_code, "ranker.json is revoked since" in again.stderr) == (4, True)
    assert CliRunner().invoke(app, ["monitor", str(served / "ranker.json"), "--reinstate", "repaired"]).exit_code == 0
    assert run(served, "bad.parquet", *own).exit_code == 2
    assert json.loads((served / "ranker.status.json").read_text())["status"] == "valid"
