"""From a promise to new sellers to served lists, and the watch over it by the log alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from isrr import Monitor, PromiseError, Queries, calibrate, load, write_queries
from isrr.cli.main import app
from isrr.outcome.status import read_status
from serving import client_of

PROMISES = ["exposure(new)@5 >= 20%", "ndcg@5 >= 90% of deterministic"]


def market(n_queries, lowered, seed=20230):
    rng = np.random.default_rng(seed)
    new = rng.random(n_queries * 12) < 0.2
    quality = rng.normal(size=new.size)
    return Queries.from_arrays(
        scores=quality + 0.7 * rng.normal(size=new.size) - lowered * new,
        relevance=np.clip(np.floor(quality + 1.0), 0, 4),
        query_ids=np.repeat(np.arange(n_queries), 12),
        item_ids=np.arange(new.size),
        item_groups=np.where(new, "new", "known"),
    )


@pytest.fixture(scope="module")
def ranker_file(tmp_path_factory):
    outcome = calibrate(market(600, lowered=0.7), PROMISES)
    assert not outcome.abstained
    file = tmp_path_factory.mktemp("shares") / "ranker.json"
    outcome.save(file)
    return file


def serve(file, traffic, log):
    """Answer each query of the traffic once, and log it."""
    log.mkdir()
    service = client_of(file, log=log)
    for q in range(len(traffic)):
        rows = range(traffic.offsets[q], traffic.offsets[q + 1])
        items = [
            {"id": str(traffic.item_ids[i]), "score": traffic.scores[i], "group": traffic.item_groups[i]} for i in rows
        ]
        answer = service.post("/rank", {"query_id": str(q), "session": "s", "items": items})
        assert answer.status_code == 200
    service.service.log.close()


@pytest.mark.parametrize(("lowered", "broken"), [(0.7, False), (3.0, True)])
def test_shares_are_watched_by_the_log_alone(ranker_file, tmp_path, lowered, broken):
    file = tmp_path / "ranker.json"
    file.write_bytes(ranker_file.read_bytes())
    serve(file, market(400, lowered, seed=7), tmp_path / "served")
    command = ["monitor", str(file), "--log", str(tmp_path / "served"), "--json"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == (4 if broken else 0), found.output
    said = json.loads(found.stdout)
    assert said["n_counted"] == 400
    assert (said["alarm"] is not None) == broken
    assert (said["evidence"] >= 1) == broken
    certificate = json.loads(file.read_text())["integrity"][:16]
    assert read_status(file, certificate).status == ("revoked" if broken else "valid")
    again = json.loads(CliRunner().invoke(app, command).stdout)
    assert again["n_counted"] == 400  # each query counts once, as remembered


def test_values_are_watched_with_the_judgments_and_shares_with_them_or_without(tmp_path):
    """What a promise protects is a column of the judgments; the log has none of it."""
    judged = [with_prices(market(n_queries, lowered=0.7, seed=seed)) for n_queries, seed in ((600, 20230), (50, 7))]
    promises = ["exposure(new)@5 >= 20%", "value(price)@5 >= 90% of deterministic with bound 4"]
    calibrate(judged[0], promises).save(file := tmp_path / "ranker.json")
    serve(file, judged[1], tmp_path / "served")
    write_queries(judged[1], tmp_path / "judged.parquet")
    command = ["monitor", str(file), "--log", str(tmp_path / "served"), "--json"]
    for more, n_promises in ((["--judgments", str(tmp_path / "judged.parquet")], 2), ([], 1)):
        answer = CliRunner().invoke(app, [*command, *more])
        assert answer.exit_code == 0, answer.output
        assert json.loads(answer.stdout)["n_counted"] == 50
        assert [each["promise"] for each in json.loads(answer.stdout)["promises"]] == promises[:n_promises]
    assert "counted      50 served queries, by the log alone" in CliRunner().invoke(app, command[:-1]).stdout
    watch = Monitor(load(file), state=tmp_path / "ranker.monitor.json")
    said = [line.partition(" ")[::2] for line in str(watch).splitlines()[2:6]]
    assert [name for name, _ in said] == ["promise", "kept"] * 2  # what was kept stands below its promise
    assert [text.strip() for name, text in said if name == "promise"] == promises


def with_prices(queries):
    return replace(queries, values={"price": 1.0 + np.arange(queries.n_rows) % 4})


def test_the_log_alone_does_not_show_what_stays_in_place():
    with pytest.raises(PromiseError, match="the log alone shows shares of exposure of groups"):
        Monitor(calibrate(market(600, lowered=0.7), "kept@5 >= 0.6"), judged=False)


def test_a_list_with_an_item_of_no_known_group_is_served_by_score_and_not_covered(ranker_file):
    items = [{"id": "a", "score": 1.0, "group": "new"}, {"id": "b", "score": 0.5}]
    answer = client_of(ranker_file).post("/rank", {"query_id": "q", "items": items})
    assert [item["id"] for item in answer.json()["items"]] == ["a", "b"]
    assert answer.json()["certificate"]["status"] == "uncovered"
    assert answer.json()["certificate"]["order"] == "deterministic"
    assert "item 1 has no group" in answer.json()["certificate"]["reason"]


def test_a_group_that_calibration_never_saw_is_not_covered(ranker_file):
    client = client_of(ranker_file)
    for group, status in (("new", "valid"), ("known", "valid"), ("New", "uncovered"), (["known", "x"], "uncovered")):
        items = [{"id": "a", "score": 1.0, "group": "new"}, {"id": "b", "score": 0.5, "group": group}]
        note = client.post("/rank", {"query_id": "q", "items": items}).json()["certificate"]
        assert note["status"] == status
        assert note["order"] == "drawn"
        assert status == "valid" or f"item 1 is in group {'x' if len(group) == 2 else 'New'!r}" in note["reason"]
