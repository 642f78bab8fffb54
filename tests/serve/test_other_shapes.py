"""Cohere's and text-embeddings-inference's shapes."""

from itertools import pairwise

import pytest

DOCUMENTS = [{"id": f"d{n}", "score": 1.3 - 0.1 * n, "text": f"text {n}"} for n in range(8)]
SCORES = [document["score"] for document in DOCUMENTS]
TEXTS = [document["text"] for document in DOCUMENTS]


def test_cohere_results_fall_strictly_with_the_served_rank(client, certificate):
    answer = client.post("/v2/rerank", {"query": "q", "session": "s", "documents": DOCUMENTS, "model": "m"}).json()
    order = certificate.rank(SCORES, "q", "s", 8)
    assert [result["index"] for result in answer["results"]] == order.tolist()
    assert [result["id"] for result in answer["results"]] == [f"d{i}" for i in order]
    assert [result["model_score"] for result in answer["results"]] == [SCORES[i] for i in order]
    falling = [result["relevance_score"] for result in answer["results"]]
    assert all(high > low > 0 for high, low in pairwise(falling))
    assert answer["certificate"]["status"] == "valid"
    again = sorted(answer["results"], key=lambda result: -result["relevance_score"])
    assert again == answer["results"]


@pytest.mark.parametrize(
    "given",
    [
        {"documents": TEXTS, "scores": SCORES},
        {"documents": [{"score": score} for score in SCORES], "unknown_field_of_a_later_version": 1},
    ],
)
def test_scores_may_come_in_either_of_two_ways(client, certificate, given):
    answer = client.post("/v2/rerank", {"query": "q", "session": "s", "top_n": 3, **given}).json()
    assert [result["index"] for result in answer["results"]] == certificate.rank(SCORES, "q", "s", 3).tolist()


def test_tei_returns_its_own_shape_with_the_models_score_beside(client, certificate):
    body = {"query": "q", "session": "s", "texts": TEXTS, "scores": SCORES, "return_text": True}
    answer = client.post("/rerank", body)
    results, order = answer.json(), certificate.rank(SCORES, "q", "s", 8)
    assert [result["index"] for result in results] == order.tolist()
    assert [result["text"] for result in results] == [TEXTS[i] for i in order]
    assert [result["model_score"] for result in results] == [SCORES[i] for i in order]
    assert [result["score"] for result in results] == [1 / rank for rank in range(1, 9)]
    assert answer.headers["x-isrr-certificate"] == certificate.id
    assert "text" not in client.post("/rerank", {**body, "return_text": False}).json()[0]


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/v2/rerank", {"query": "q", "documents": TEXTS}, "not by text"),
        ("/v2/rerank", {"query": "q", "documents": TEXTS, "scores": [1.0]}, "1 scores for 8 documents"),
        ("/v2/rerank", {"query": "q", "documents": [DOCUMENTS[0]] * 2}, "'d0' appears twice"),
        (
            "/v2/rerank",
            {"query": "q", "documents": DOCUMENTS, "scores": SCORES},
            "documents[0] has a score, and so has",
        ),
        ("/v2/rerank", {"query": "q", "documents": ["a", {"score": 1}], "scores": [1, 2]}, "documents[1] has a score"),
        ("/rerank", {"query": "q", "texts": TEXTS}, "not by text"),
        ("/rerank", {"query": "q", "texts": TEXTS, "scores": ["1.0"] * 8}, "Expected `float`"),
    ],
)
def test_requests_without_usable_scores_are_refused_with_the_reason(client, path, body, why):
    answer = client.post(path, body)
    assert answer.status_code == 422
    assert why in answer.json()["error"]
