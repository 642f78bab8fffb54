"""`isrr.load(…).rank` gives the order that the running service gives: with ties, groups, any ids, sessions and k."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

import isrr
from serving import Server

N_REQUESTS = 100


@pytest.fixture(scope="module", params=["boosted", "boosted, with a floor", "plain", "abstention"])
def served(request, certificate, abstention, tmp_path_factory):
    """A running service, and what Python loads from the same file."""
    boost = {"boost": {"new": 0.8, "local": -0.3}} if "boosted" in request.param else {}
    floor = {"floor": 0.6} if "floor" in request.param else {"floor": 0.0}
    outcome = structs.replace(certificate, ranker=replace(certificate.ranker, **boost, **floor))
    file = tmp_path_factory.mktemp("served") / "ranker.json"
    (abstention if request.param == "abstention" else outcome).save(file)
    server = Server(file)
    yield server, isrr.load(file)
    server.kill()


def requests():
    """Lists with many equal scores, as any service sends them."""
    rng = np.random.default_rng(20230)
    choices = [None, "old", "new", ["new", "local"], []]
    for n in range(N_REQUESTS):
        size = int(rng.integers(1, 12))
        names = rng.permutation(50)[:size]
        items = [
            {
                "id": [int(name), str(name), f"item {name}"][n % 3],
                "score": float(rng.integers(0, 3)) / 2,
                "group": choices[rng.integers(1, 5)],
            }
            for name in names
        ]
        query = [n, str(n), f"query {n}"][n % 3]
        yield {"query_id": query, "session": [n, f"u{n}"][n % 2], "k": int(rng.integers(1, 15)), "items": items}


def test_python_and_the_service_give_the_same_order(served):
    server, outcome = served
    n_tied = 0
    for body in requests():
        ids, scores, groups = ([item[name] for item in body["items"]] for name in ("id", "score", "group"))
        query, session, k = body["query_id"], body["session"], body["k"]
        answer = server.post("/rank", body)
        assert answer.status_code == 200, answer.text
        items = answer.json()["items"]
        order = outcome.rank(scores, query, session, k, groups=groups, item_ids=ids)
        assert [ids[i] for i in order] == [item["id"] for item in items]
        ranker = outcome.ranker
        assert ranker.rank(scores, query, session, k, groups=groups, item_ids=ids).tolist() == order.tolist()
        audited = ranker.rank_with_propensity(scores, query, session, k, groups=groups, item_ids=ids)
        assert audited.ranking.tolist() == order.tolist()
        assert audited.propensity.tolist() == [item["propensity"] for item in items]
        n_tied += audited.tied
    assert n_tied > 0.8 * N_REQUESTS


def test_columns_of_a_table_rank_as_lists_do(served):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    _, outcome = served
    table = {"id": ["a", "b", "c", "d", "e"], "score": [1.0, 0.5, 1.0, 1.0, 0.5], "group": ["new", "old"] * 2 + ["new"]}
    expected = outcome.rank(table["score"], "q", "u", groups=table["group"], item_ids=table["id"]).tolist()
    for frame in (pandas.DataFrame(table), polars.DataFrame(table), pyarrow.table(table)):
        columns = frame["score"], frame["group"], frame["id"]
        order = outcome.rank(columns[0], "q", "u", groups=columns[1], item_ids=columns[2])
        assert order.tolist() == expected
