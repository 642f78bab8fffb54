"""POST /rank: a pure function of certificate, query and session; pages, ties, drift, status."""

import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest
from msgspec.structs import replace

from isrr import Queries
from isrr.calibration.calibrate import calibrate
from isrr.data.log import read_log
from isrr.outcome.status import Status
from isrr.promises import Promise
from isrr.serve.current import Snapshot
from serving import client_of, unnamed

SCORES = np.random.default_rng(20230).normal(1.0, 0.4, size=30).round(3).tolist()


def items(scores=SCORES):
    return [{"id": f"i{n}", "score": score} for n, score in enumerate(scores)]


def ask(client, path="/rank", **given):
    body = {"query_id": "q7", "session": "u42", "items": items(), **given}
    return client.post(path, {name: value for name, value in body.items() if value is not None})


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_the_order_is_that_of_the_loaded_certificate(client, certificate):
    answer = ask(client, k=30).json()
    order = certificate.rank(SCORES, "q7", "u42", 30)
    assert [item["id"] for item in answer["items"]] == [f"i{i}" for i in order]
    assert [item["rank"] for item in answer["items"]] == list(range(1, 31))
    assert [item["score"] for item in answer["items"]] == [SCORES[i] for i in order]
    queries = Queries.from_arrays(scores=SCORES, query_ids=["q7"] * 30)
    expected = certificate.ranker.propensity(order[None, :5], queries)[0]
    assert [item["propensity"] for item in answer["items"][:5]] == pytest.approx(expected)
    assert answer["certificate"] == {
        "id": certificate.id, "promise": "ndcg@5 >= 90% of deterministic", "confidence": 0.95, "status": "valid",
        "order": "drawn",
    }  # fmt: skip


def test_the_same_request_gets_the_same_list_and_another_session_another_draw(client, ranker_file):
    first = unnamed(ask(client, k=30))
    assert unnamed(ask(client, k=30)) == first == unnamed(ask(client_of(ranker_file), k=30))
    assert len({tuple(ids(ask(client, session=f"u{n}", k=30))) for n in range(20)}) > 15
    assert len({tuple(ids(ask(client, session=None, k=30))) for _ in range(20)}) > 15
    assert ids(ask(client, query_id=7, k=30)) == ids(ask(client, query_id="7", k=30))


def test_the_callers_order_never_matters_even_where_scores_tie(client):
    tied = items([1.0, 1.0, 0.9, 0.9, 0.9, 0.7])
    whole = ids(ask(client, items=tied, k=6))
    for seed in range(10):
        shuffled = np.random.default_rng(seed).permutation(tied).tolist()
        assert ids(ask(client, items=shuffled, k=6)) == whole


def test_pages_continue_each_other_and_the_first_places_do_not_depend_on_k(client):
    whole = ids(ask(client, k=30))
    pages = [ids(ask(client, page=page, page_size=7)) for page in (1, 2, 3, 4, 5, 6)]
    assert [len(page) for page in pages] == [7, 7, 7, 7, 2, 0]
    assert [name for page in pages for name in page] == whole
    assert ids(ask(client)) == whole[:5]
    assert ids(ask(client, k=3)) == whole[:3]
    assert ids(ask(client, k=10, page=2, page_size=7)) == whole[7:10]
    assert ask(client, page=2, page_size=7).json()["items"][0]["rank"] == 8


def test_a_seed_names_another_draw_and_alone_it_is_not_covered(client, certificate):
    seeded = ask(client, seed=3, k=30)
    assert ids(seeded) == [f"i{i}" for i in certificate.rank(SCORES, "q7", ("u42", 3), 30)]
    assert seeded.json()["certificate"]["status"] == "valid"
    frozen = ask(client, seed=3, session=None)
    assert unnamed(frozen) == unnamed(ask(client, seed=3, session=None))
    assert frozen.json()["certificate"]["status"] == "uncovered"


def positions(answer):
    return [result["index"] for result in (answer["results"] if isinstance(answer, dict) else answer)]


def test_an_empty_session_is_none(client, ranker_file, tmp_path):
    assert len({tuple(ids(ask(client, session="", k=30))) for _ in range(20)}) > 15
    shapes = ("/v2/rerank", {"documents": items()}), ("/rerank", {"texts": [*"abcdefgh"], "scores": SCORES[:8]})
    for path, body in shapes:
        orders = [positions(client.post(path, {"query": "q", "session": "", **body}).json()) for _ in range(20)]
        assert len(set(map(tuple, orders))) > 8
    assert ask(client, seed=3, session="").json()["certificate"]["status"] == "uncovered"
    assert unnamed(ask(client, session=0)) == unnamed(ask(client, session="0"))
    (tmp_path / "log").mkdir()
    ask(client_of(ranker_file, log=tmp_path / "log"), session="")
    assert read_log(tmp_path / "log").table["session"].to_pylist() == [None]


def test_scores_far_from_calibration_are_served_and_marked(client, certificate):
    low, _, _, _, high = certificate.provenance.score_quantiles
    width = high - low
    mere_maximum = ask(client, items=items([*SCORES, high + 0.5 * width])).json()["certificate"]
    assert mere_maximum["status"] == "valid"
    far = ask(client, items=items([*SCORES, high + 1.1 * width])).json()
    assert far["certificate"]["status"] == "uncovered"
    assert "lies far outside" in far["certificate"]["reason"]
    assert len(far["items"]) == 5
    moved = ask(client, items=items((np.linspace(0.1, 0.9, 9) * width + high).tolist())).json()["certificate"]
    assert moved["status"] == "uncovered"
    assert moved["reason"].startswith("9 of 9 scores lie outside")
    assert ask(client, items=items([high + 0.1 * width])).json()["certificate"]["status"] == "valid"


@pytest.mark.parametrize("scores", [[1e308, -1e308, 0.0, 5e-324], [1e300, 1e300, 1.0]])
def test_scores_at_the_end_of_the_numbers_are_served(client, scores):
    answer = ask(client, items=items(scores), k=4).json()
    served = [item["score"] for item in answer["items"]]
    assert sorted(served) == sorted(scores)
    assert served[0] == max(scores)
    assert answer["certificate"]["status"] == "uncovered"


def test_an_empty_list_is_an_empty_answer(client):
    answer = ask(client, items=[]).json()
    assert answer["items"] == []
    assert answer["certificate"]["reason"] == "there is nothing to rank"
    assert ids(ask(client, items=items([1.0]))) == ["i0"]


@pytest.mark.parametrize(("status", "expires"), [("revoked", None), ("valid", "2020-01-01")])
def test_a_certificate_that_no_longer_stands_falls_back_to_the_order_by_score(client, ranker_file, status, expires):
    current = client.service.current
    Status(current.now.note.id, status, "tested", expires=expires).save(ranker_file)
    assert current.refresh()
    answer = ask(client).json()
    by_score = np.argsort(-np.array(SCORES), kind="stable")[:5]
    assert [item["id"] for item in answer["items"]] == [f"i{i}" for i in by_score]
    assert [item["propensity"] for item in answer["items"]] == [1.0] * 5
    note = answer["certificate"]
    assert (note["status"], note["order"]) == ("revoked" if status == "revoked" else "expired", "deterministic")
    assert note["reason"]


def test_a_revoked_promise_of_fairness_keeps_drawing(client, certificate):
    fair = replace(certificate, promises=(Promise("normalized_disparity", 5, at_most=0.5),))
    found = Snapshot(fair, Status(fair.id, "revoked", "tested"), datetime.now(UTC))
    assert (found.note.status, found.note.order) == ("revoked", "drawn")


def test_an_abstention_serves_the_order_by_score_uncovered(tmp_path, many_queries):
    calibrate(many_queries[:50], "ndcg@5 >= 0.99").save(tmp_path / "ranker.json")
    note = ask(client_of(tmp_path / "ranker.json")).json()["certificate"]
    assert (note["status"], note["order"]) == ("uncovered", "deterministic")
    assert note["reason"].startswith("nothing was certified")


def test_a_group_that_calibration_never_saw_is_uncovered_where_groups_are_boosted(certificate, tmp_path):
    ranker = dataclasses.replace(certificate.ranker, boost={"new": 0.8})
    provenance = replace(certificate.provenance, groups=("new", "old"))
    for name, outcome in (
        ("boosted", replace(certificate, ranker=ranker, provenance=provenance)),
        ("plain", certificate),
    ):
        outcome.save(tmp_path / f"{name}.json")
        client = client_of(tmp_path / f"{name}.json")
        for group, known in (("new", True), (["old", "new"], True), (["old", "newest"], False)):
            grouped = [{**item, "group": "old"} for item in items()[:3]] + [{"id": "x", "score": 1.0, "group": group}]
            note = ask(client, items=grouped).json()["certificate"]
            assert (note["status"] == "valid") == (known or name == "plain")
    assert ask(client_of(tmp_path / "boosted.json"), items=grouped).json()["certificate"]["reason"] == (
        "item 3 is in group 'newest', which calibration never saw; this ranker boosts new"
    )


def test_rotating_orders_are_the_same_for_everybody_until_the_period_ends(ranker_file, monkeypatch, tmp_path):
    (tmp_path / "log").mkdir()
    one, other = client_of(ranker_file, rotate=3_600, log=tmp_path / "log"), client_of(ranker_file, rotate=3_600)
    found = []
    for hour in range(20):
        monkeypatch.setattr("time.time", lambda hour=hour: 3_600.0 * hour + 7)
        whole = ids(ask(one, session=None, k=30))
        monkeypatch.setattr("time.time", lambda hour=hour: 3_600.0 * hour + 3_599)
        pages = [ids(ask(other, session=empty, page=n, page_size=15)) for n, empty in ((1, None), (2, ""))]
        assert pages[0] + pages[1] == whole
        found.append(tuple(whole))
    assert len(set(found)) > 15
    note = ask(one, session=None).json()["certificate"]
    assert note["covers"] == "the mean over periods: one order per query and hour, for everybody"
    assert ids(ask(one, session=None, query_id="q8", k=30)) != list(found[-1])
    assert "covers" not in ask(one).json()["certificate"]
    assert ids(ask(one, k=30)) == ids(ask(client_of(ranker_file), k=30))
    assert ask(one, session=None, seed=3).json()["certificate"]["status"] == "uncovered"
    shapes = ("/v2/rerank", {"documents": items()}), ("/rerank", {"texts": [*"abcdefgh"], "scores": SCORES[:8]})
    for path, body in shapes:
        orders = [positions(one.post(path, {"query": "q", **body}).json()) for _ in range(5)]
        assert orders == orders[:1] * 5
    logged = read_log(tmp_path / "log").table["session"].to_pylist()
    assert logged[:2] == ["period 0 of q7", "period 1 of q7"]


@pytest.mark.parametrize("given", [{"rotate": 0.5}, {"rotate": 60, "rollout": True}])
def test_orders_that_cannot_rotate_are_refused(ranker_file, given):
    with pytest.raises(ValueError, match="`rotate=`"):
        client_of(ranker_file, **given)
