"""The served-ranking log: what it keeps, what becomes of it under mishaps, and what its reader makes of damage."""

import asyncio
import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

from isrr import Queries
from isrr.data.formats import write_table
from isrr.data.log import log_parts, read_log
from isrr.errors import DataError
from isrr.serve.writer import LogWriter, compress
from serving import client_of

ITEMS = [{"id": name, "score": score} for name, score in (("a", 1.2), ("b", 1.0), ("c", 0.9), ("d", 0.2))]


def raises(error):
    raise error


def ask(client, query="q", session="s", **given):
    return client.post("/rank", {"query_id": query, "session": session, "items": ITEMS, **given})


def raw(folder):
    """The lines of a log as they were written."""
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


@pytest.fixture
def logging(ranker_file, folder):
    """A client of a service that keeps a log."""
    return client_of(ranker_file, log=folder)


def test_the_log_holds_what_was_served_before_it_is_served(logging, folder):
    answers = [ask(logging, session=n, k=2).json() for n in range(5)]
    page = ask(logging, session=0, page=2, page_size=2).json()
    found = read_log(folder)
    lines = list(found.lines())
    for line, answer in zip(lines, [*answers, page], strict=True):
        assert line["list_id"] == answer["list_id"]
        assert line["items"] == [item["id"] for item in answer["items"]]
        assert line["propensities"] == [item["propensity"] for item in answer["items"]]
        assert line["certificate"] == answer["certificate"]["id"]
        assert line["deterministic"] == ["a", "b", "c", "d"]
    assert lines[5]["first_rank"] == 3
    assert lines[5]["top"] == lines[0]["top"]
    assert len({line["list_id"] for line in lines}) == 6
    write_table(found.table, folder.parent / "log.parquet", "parquet")
    kept = read_log(folder.parent / "log.parquet")
    assert list(kept.lines()) == lines
    assert kept.n_damaged == 0


def test_every_candidate_is_kept_with_its_score_to_the_last_bit(logging, certificate, folder):
    rng = np.random.default_rng(20230)
    scores = [rng.normal(1.0, 0.4, size) for size in (1, 3, 40)]
    for q, values in enumerate(scores):
        items = [{"id": n, "score": score} for n, score in enumerate(values.tolist())]
        assert ask(logging, query=q, session=7, items=items).status_code == 200
    found = read_log(folder)
    assert found.table["scores"].to_pylist() == [values.tolist() for values in scores]
    assert found.table["item_ids"].to_pylist() == [[str(n) for n in range(values.size)] for values in scores]
    for q, (values, served) in enumerate(zip(scores, found.table.to_pylist(), strict=True)):
        order = certificate.rank(values, q, 7)
        assert served["ranking"] == order.tolist()
        queries = Queries.from_arrays(scores=values, query_ids=[q] * values.size)
        expected = certificate.ranker.propensity(order[None], queries)[0]
        assert served["propensities"] == pytest.approx(expected, abs=1e-7)
    assert found.table["query_id"].to_pylist() == ["0", "1", "2"]
    assert found.table["session"].to_pylist() == ["7"] * 3
    assert found.table["arm"].null_count == 3


def test_groups_reach_the_log_from_every_shape(logging, folder):
    items = [{"id": "a", "score": 1.0, "group": "new"}, {"id": "b", "score": 0.5, "group": ["x", "y"]}]
    given = [*items, {"id": "c", "score": 0.2}]
    texts = {"scores": [1.0, 0.5, 0.2], "groups": ["new", ["x", "y"], None]}
    for path, body in (
        ("/rank", {"query_id": "q", "items": given}),
        ("/v2/rerank", {"query": "q", "documents": given}),
        ("/v2/rerank", {"query": "q", "documents": ["a", "b", "c"], **texts}),
        ("/rerank", {"query": "q", "texts": ["a", "b", "c"], **texts}),
        ("/rank", {"query_id": "q", "items": ITEMS}),
    ):
        answer = logging.post(path, body)
        assert answer.status_code == 200, answer.text
    found = read_log(folder).table
    assert found["groups"].to_pylist() == [[["new"], ["x", "y"], []]] * 4 + [None]
    names = found["item_ids"].to_pylist()
    assert names[0] == names[1] == ["a", "b", "c"]
    assert names[2] == names[3]
    assert logging.post("/rerank", {"query": "q", "texts": ["a"], "scores": [1.0], "groups": []}).status_code == 422


def test_texts_are_named_by_their_digests_and_repeated_ones_are_numbered(logging, folder):
    answer = logging.post("/rerank", {"query": "q", "texts": ["a\0", "b" * 10_000, "a\0"], "scores": [1.0, 0.9, 0.8]})
    (line,) = raw(folder)
    assert line["list_id"] == answer.headers["x-isrr-list"]
    first, second, third = line["item_ids"]
    assert (len(first), len(second), third) == (16, 16, f"{first}-2")


def test_the_order_of_another_ranking_is_logged_and_changes_nothing(ranker_file, certificate, folder):
    client = client_of(ranker_file, log=folder)
    far = [*ITEMS, *({"id": n, "score": -9.0 - n} for n in range(20))]
    answer = ask(client, items=far, production=[7, "c", "7"])
    assert answer.status_code == 422
    for order, why in (([7, "c", "7"], "'7' appears twice"), (["x"], "'x' is not among the candidates")):
        assert why in ask(client, items=far, production=order).json()["error"]
    order = ["19", "c", 7]
    answer = ask(client, items=far, production=order)
    assert [item["id"] for item in answer.json()["items"]] == [
        far[i]["id"] for i in certificate.rank([item["score"] for item in far], "q", "s")
    ]
    ask(client, items=far)
    found = read_log(folder)
    (logged, none), names = (found.table[name].to_pylist() for name in ("production", "item_ids"))
    assert [names[0][i] for i in logged] == [*map(str, order)]
    assert none is None


def test_closed_files_are_compressed_and_read_all_the_same(ranker_file, folder):
    client = client_of(ranker_file, log=folder, log_bytes=2_000, log_compress=True)
    lists = [ask(client, session=n).json()["list_id"] for n in range(30)]
    asyncio.run(client.service.stop())
    for thread in threading.enumerate():
        if thread.name == "compress-log":
            thread.join()
    assert len([*folder.glob("*.jsonl.gz")]) > 2
    assert not [*folder.glob("*.jsonl")]
    assert read_log(folder).table["list_id"].to_pylist() == lists
    packed = sorted(folder.glob("*.jsonl.gz"))[0]
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))  # as while it is being compressed
    assert read_log(folder).table["list_id"].to_pylist() == lists
    packed.write_bytes(packed.read_bytes()[:50])
    with pytest.raises(DataError, match="not a served-ranking log"):
        read_log(folder)


def test_a_file_that_cannot_be_compressed_stays(folder, monkeypatch, caplog):
    (folder / "served-1.jsonl").write_bytes(b"{}\n")
    monkeypatch.setattr("gzip.open", lambda *_: raises(OSError(errno.ENOSPC, "no room")))
    compress(folder / "served-1.jsonl")
    assert [file.name for file in folder.iterdir()] == ["served-1.jsonl"]
    assert "cannot be compressed" in caplog.text


def test_a_batch_that_is_refused_leaves_nothing_in_the_log(logging, folder):
    good, bad = {"query_id": "q", "items": ITEMS}, {"query_id": "q", "items": ITEMS * 2}
    assert logging.post("/rank/batch", {"queries": [good, bad]}).status_code == 422
    assert raw(folder) == []


def test_a_batch_is_logged_as_a_whole_or_not_at_all(logging, folder, monkeypatch):
    batch = {"queries": [{"query_id": n, "items": ITEMS} for n in range(3)]}
    assert logging.post("/rank/batch", batch).status_code == 200
    size, whole = len(json.dumps(raw(folder)[0])), os.write
    left = [2 * size]  # bytes on the disk

    def write(file, data):
        left[0] -= (done := whole(file, data[: left[0]]))
        return done

    monkeypatch.setattr("os.write", write)
    assert logging.post("/rank/batch", batch).status_code == 503
    assert [line["query_id"] for line in raw(folder)] == ["0", "1", "2"]


def test_what_cannot_be_logged_is_not_served(logging, folder, monkeypatch):
    ask(logging)
    whole = os.write
    monkeypatch.setattr("os.write", lambda file, data: whole(file, data[: len(data) // 2]))
    assert ask(logging).status_code == 503
    assert "No space" in logging.service.log.problem()
    monkeypatch.undo()
    assert logging.service.log.problem() is None
    assert ask(logging).status_code == 200
    found = read_log(folder)
    assert (len(found), found.n_damaged) == (2, 0)


@pytest.mark.parametrize("how", ["moved", "removed", "replaced"])
def test_a_folder_that_is_gone_stops_the_service_until_it_is_back(logging, folder, how):
    log = logging.service.log
    first = ask(logging).json()["list_id"]
    away = folder.with_name("away")
    folder.rename(away)
    if how == "replaced":
        folder.mkdir()
    assert (log.problem() is None) == (how == "replaced")  # noticed before anything is lost
    assert ask(logging).status_code == (200 if how == "replaced" else 503)
    assert (log.problem() is None) == (how == "replaced")
    if how == "moved":
        away.rename(folder)
    elif how == "removed":
        shutil.rmtree(away)
        folder.mkdir()
    assert log.problem() is None
    last = ask(logging).json()["list_id"]
    logged = [line["list_id"] for place in (away, folder) if place.exists() for line in raw(place)]
    assert logged.count(last) == 1
    assert (first in logged) == (how != "removed")
    assert len(logged) == {"moved": 2, "removed": 1, "replaced": 3}[how]


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_gone_is_begun_anew_and_loses_nothing_that_is_acknowledged_later(logging, folder, how):
    first = ask(logging).json()["list_id"]
    (file,) = folder.glob("*.jsonl")
    if how == "replaced":  # by a copy under the same name
        shutil.copy(file, folder / "copy").rename(file)
    else:
        file.unlink()
    later = [ask(logging).json()["list_id"] for _ in range(3)]
    assert [line["list_id"] for line in raw(folder)] == ([first] if how == "replaced" else []) + later


def test_a_file_that_others_cut_is_never_filled_up_with_nothing(logging, folder, monkeypatch):
    for _ in range(5):
        ask(logging)
    (file,) = folder.glob("*.jsonl")
    os.truncate(file, 0)  # as copytruncate does
    whole = os.write
    with monkeypatch.context() as full:
        full.setattr("os.write", lambda file, data: whole(file, data[:10]))
        assert ask(logging).status_code == 503
    assert file.read_bytes() == b""
    assert ask(logging).status_code == 200
    assert len(raw(folder)) == 1


def test_processes_that_are_forked_name_their_lists_differently():
    code = "import os; from isrr.serve.ranking import new_list_id as new; new(); "
    code += 'child = os.fork(); os.write(1, f"{new()}\\n".encode()); child and os.wait()'
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len({*names}) == 2
    assert {*map(len, names)} == {16}


def test_the_log_rotates_by_size(folder):
    log = LogWriter(folder, 60)
    for n in range(10):
        log.write(json.dumps({"n": n, "filler": "x" * 30}).encode())
    log.write(b'{"n": 10}')
    assert len(sorted(folder.glob("served-*.jsonl"))) == 6
    assert [line["n"] for line in raw(folder)] == list(range(11))


def test_an_unfinished_last_line_is_skipped_and_is_no_damage(logging, folder):
    ask(logging)
    (file,) = folder.glob("*.jsonl")
    with file.open("ab") as torn:
        torn.write(b'{"list_id": "x", "ti')
    found = read_log(folder)
    assert (len(found), found.n_damaged) == (1, 0)


def test_a_log_that_could_not_begin_another_file_writes_on_once_it_can(folder, monkeypatch):
    log = LogWriter(folder, 5)
    log.write(b'{"n": 0}')
    with monkeypatch.context() as full:
        full.setattr("os.open", lambda *_: raises(OSError(errno.EMFILE, "too many open files")))
        with pytest.raises(OSError, match="too many"):
            log.write(b'{"n": 1}')
        assert "too many" in log.problem()
    with open(os.devnull, "rb") as somebody_elses:  # takes the number of a file that was closed
        log.write(b'{"n": 2}')
        log.write(b'{"n": 3}')
        os.fstat(somebody_elses.fileno())
        assert [line["n"] for line in raw(folder)] == [0, 2, 3]
        log.close()


def test_a_log_is_read_alike_in_parts(logging, folder, monkeypatch):
    for n in range(30):
        ask(logging, query=n)
    whole = read_log(folder)
    monkeypatch.setattr("isrr.data.log.CHUNK", 1_000)
    assert sum(1 for _ in log_parts(folder)) > 5
    assert read_log(folder).table.combine_chunks() == whole.table.combine_chunks()


def test_what_is_no_log_is_refused_with_the_reason_and_an_empty_file_is_one(tmp_path):
    with pytest.raises(DataError, match="no served-ranking log"):
        read_log(tmp_path)
    write_table(pa.table({"x": [1]}), tmp_path / "x.parquet", "parquet")
    with pytest.raises(DataError, match=r"x\.parquet: not a served-ranking log"):
        read_log(tmp_path / "x.parquet")
    (tmp_path / "served-2.jsonl").write_bytes(b"")
    assert len(read_log(tmp_path / "served-2.jsonl")) == 0
