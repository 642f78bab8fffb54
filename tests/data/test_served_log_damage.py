"""No line of a served-ranking log is fatal: whatever is wrong with it, every other line is read by everybody."""

import json
import time

import numpy as np
import pyarrow as pa
import pytest

from command_line import run
from isrr.clicks.click_table import read_clicks
from isrr.clicks.impressions import Rules, impressions
from isrr.clicks.rollout import Rollout
from isrr.clicks.sessions import sessions_of
from isrr.data.log import log_parts, read_log
from isrr.errors import DataError
from isrr.monitor.judgments import candidates
from log_fuzz import DEEP, damaged
from serving import client_of

LINES = 2_000


@pytest.fixture(scope="module")
def lines(certificate, tmp_path_factory):
    """Lines as the service writes them, with groups; some as in a rollout, some as in a pruned log."""
    folder = tmp_path_factory.mktemp("log")
    certificate.save(folder / "ranker.json")
    client = client_of(folder / "ranker.json", log=folder)
    rng = np.random.default_rng(20230)
    for start in range(0, LINES, 500):
        queries = []
        for n in range(start, start + 500):
            scores = enumerate(rng.normal(1.0, 0.4, 3 + n % 4).tolist())
            items = [{"id": f"d{i}", "score": score, "group": f"g{i % 3}"} for i, score in scores]
            queries.append({"query_id": f"q{n % 97}", "session": f"s{n}", "items": items})
        assert client.post("/rank/batch", {"queries": queries}).status_code == 200
    written = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()]
    for n, line in enumerate(written):
        line |= {"arm": f"treatment {n % 2}", "other_arm": line["deterministic"]} if n % 3 == 1 else {}
        line |= {"n_items": len(line["item_ids"]), "hottest": 2.0} if n % 3 == 2 else {}
    return [json.dumps(line).encode() for line in written]


def test_every_other_line_is_read_by_every_reader(lines, certificate, tmp_path):
    rng = np.random.default_rng(20230)
    hit = rng.random(len(lines)) < 0.3
    log = tmp_path / "served-damaged.jsonl"
    log.write_bytes(
        b"".join((damaged(line, rng) if bad else line) + b"\n" for line, bad in zip(lines, hit, strict=True))
    )
    found = read_log(log)
    whole = {json.loads(line)["list_id"]: json.loads(line) for line, bad in zip(lines, hit, strict=True) if not bad}
    kept = {row["list_id"]: row for row in found.table.to_pylist() if row["list_id"] in whole}
    assert kept.keys() == whole.keys()
    for name, line in whole.items():
        assert kept[name]["ranking"] == line["ranking"]
        assert kept[name]["session"] == line["session"]
    assert found.n_damaged > 0.15 * len(lines)
    assert len(found) + found.n_damaged >= len(lines) - 200  # those that were left empty
    assert len(list(found.lines())) == len(found)
    assert sum(len(part) for part in log_parts(log)) == len(found)
    clicks = read_clicks(pa.table({"list_id": ["x"], "item_id": ["a"], "time": [time.time()]}))
    assert len(impressions(log, clicks, {certificate.id: certificate.ranker}, Rules(5))) > 0.3 * len(lines)
    rollout = Rollout(certificate.id, 0.5, (0,))
    assert len(sessions_of(log, clicks, rollout, 5, now=time.time() + 1e6, every_step=True)) > 0.2 * len(lines)
    assert len(candidates(found)) >= 97


@pytest.mark.parametrize("name", ["list_id", "query_id", "session", "item_ids", "groups"])
@pytest.mark.parametrize("text", ["a\0", "\0"])
def test_an_id_that_ends_in_nul_is_one_damaged_line(lines, certificate, tmp_path, name, text):
    spoiled = json.loads(lines[0])
    spoiled[name] = {"item_ids": [text, "b", "c"], "groups": [[text], [], []]}.get(name, text)
    log = tmp_path / "served-nul.jsonl"
    log.write_bytes(b"\n".join([json.dumps(spoiled).encode(), *lines[1:40], b""]))
    clicks = read_clicks(pa.table({"list_id": ["x"], "item_id": ["a"], "time": [0.0]}))
    found = impressions(log, clicks, {certificate.id: certificate.ranker}, Rules(5))
    assert found.counts["damaged lines"] == 1
    assert read_log(log).n_damaged == 1
    assert len(candidates(read_log(log))) > 20


@pytest.mark.parametrize("line", ["null", DEEP, "[" * 1_000_000, '{"groups": ' + "[" * 1_000_000])
def test_a_line_that_could_end_the_parser_is_one_damaged_line(lines, tmp_path, line):
    log = tmp_path / "served-deep.jsonl"
    log.write_bytes(b"\n".join([line.encode(), *lines[:40], b""]))
    code = f"from isrr.data.log import read_log\nfound = read_log({str(log)!r})\nprint(len(found), found.n_damaged)"
    done = run("-c", code)
    assert (done.returncode, done.stdout.split()) == (0, ["40", "1"])


@pytest.mark.parametrize(
    "change",
    [
        {"first_rank": 2**63 - 1, "n_shown": 2**63 - 1},
        {"item_ids": ["d0", "d0", "d2"]},
        {"ranking": [0, 0, 1]},
        {"deterministic": [1, 1, 0]},
        {"groups": [["g"]]},
        {"arm": "treatment x"},
        {"arm": "treatment 99999999999999999999"},
        {"time": 1e300},
        {"time": -1.0},
        {"n_items": 2},
        {"hottest": 0.0},
        {"scores": "é"},
    ],
)
def test_a_line_that_no_service_writes_is_damaged(lines, tmp_path, change):
    log = tmp_path / "served-odd.jsonl"
    odd = json.loads(lines[0]) | change
    log.write_bytes(b"\n".join([json.dumps(odd).encode(), *lines[1:5], b""]))
    found = read_log(log)
    assert (len(found), found.n_damaged) == (4, 1)


def test_blank_lines_are_no_damage(lines, tmp_path):
    log = tmp_path / "served-windows.jsonl"
    log.write_bytes(b"\r\n\n" + b"\r\n".join([*lines[:3], b""]))
    assert (len(read_log(log)), read_log(log).n_damaged) == (3, 0)


def test_a_line_of_an_earlier_version_is_one_damaged_line_where_others_can_be_read(lines, tmp_path):
    log = tmp_path / "served-mixed.jsonl"
    log.write_bytes(b"\n".join([b'{"top":1}', *lines[:5], b""]))
    assert (len(read_log(log)), read_log(log).n_damaged) == (5, 1)
    log.write_bytes(b'{"top":1}\n')
    with pytest.raises(DataError, match="written by an earlier version"):
        read_log(log)


def test_a_log_that_may_not_be_read_is_not_called_another_file(lines, tmp_path, monkeypatch):
    log = tmp_path / "served-1.jsonl"
    log.write_bytes(lines[0])

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", str(log))

    monkeypatch.setattr("pathlib.Path.open", refused)
    with pytest.raises(PermissionError, match=r"Permission denied: .*served-1\.jsonl"):
        read_log(log)
