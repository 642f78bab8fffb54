"""Requests that bring texts and no scores: other services' clients as they are, and an upstream in trouble."""

import asyncio
import threading
import time
import warnings

import cohere
import httpx
import numpy as np
import pytest
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from scipy.stats import chisquare

import isrr
from bm25_service import RerankService, bm25
from isrr import Queries
from isrr.data.log import read_log
from isrr.serve import create_app
from isrr.serve.schema import Refusal
from isrr.serve.upstream import Upstream
from serving import Server, client_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the package says that it is no longer maintained
    from langchain_community.document_compressors import JinaRerank, jina_rerank

QUERY = "What is the capital of the United States?"
TEXTS = [
    "Carson City is the capital city of the American state of Nevada.",
    "The Commonwealth of the Northern Mariana Islands is a group of islands in the Pacific. Its capital is Saipan.",
    "Washington, D.C. is the capital of the United States. It is a federal district.",
    "Capital punishment has existed in the United States since before the United States was a country.",
    "Charlotte Amalie is the capital and largest city of the United States Virgin Islands.",
]
SESSION = "x-isrr-session"
N_SESSIONS = 2_000  # all clients together


@pytest.fixture(scope="module")
def upstream():
    service = RerankService()
    yield service
    service.stop()


def judged_texts():
    """400 queries of three words, each with eight texts that share more of them the more relevant they are."""
    rng = np.random.default_rng(20230)
    words = np.array([f"word{n}" for n in range(300)])
    for _ in range(400):
        query, relevance = rng.choice(words, 3, replace=False), rng.integers(0, 4, 8)
        shared = np.clip(relevance + rng.integers(-1, 2, 8), 0, 3)
        yield " ".join(query), [" ".join([*query[:n], *rng.choice(words, 9 - n)]) for n in shared], relevance


@pytest.fixture(scope="module")
def calibrated(upstream):
    """A certificate on the upstream's own scores."""

    async def scored():
        service, scores = Upstream(upstream.url("ok")), []
        for query, texts, _ in judged:
            scores += await service.scores(query, texts)
        await service.close()
        return scores

    judged = list(judged_texts())
    scores, relevance = asyncio.run(scored()), np.concatenate([grades for _, _, grades in judged])
    queries = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=np.repeat(np.arange(len(judged)), 8))
    outcome = isrr.calibrate(queries, "ndcg@5 >= 80% of deterministic")
    assert not outcome.abstained
    return outcome


@pytest.fixture(scope="module")
def service(calibrated, upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("upstream")
    calibrated.save(folder / "ranker.json")
    options = ("--log", str(folder / "log"), "--upstream", upstream.url("ok"), "--upstream-model", "bm25")
    server = Server(folder / "ranker.json", *options)
    yield server, folder / "log"
    server.kill()


@pytest.fixture(scope="module")
def clients(service):
    """Each client's own example as a function from a session to (index, score) in order."""
    url, patch = service[0].url, pytest.MonkeyPatch()
    patch.setattr(jina_rerank, "JINA_API_URL", f"{url}/v1/rerank")  # the class has no argument for it
    transport, plain = httpx.Client(), httpx.Client()
    co = cohere.ClientV2(api_key="none", base_url=url, httpx_client=transport)
    langchain = CohereRerank(client=co, model="rerank-v3.5", top_n=3)
    jina = JinaRerank(jina_api_key="none", top_n=3)

    def by_cohere(session):
        transport.headers[SESSION] = session
        found = co.rerank(model="rerank-v3.5", query=QUERY, documents=TEXTS, top_n=3)
        return [(result.index, result.relevance_score) for result in found.results]

    def by_langchain(session):
        transport.headers[SESSION] = session
        found = langchain.compress_documents([Document(text) for text in TEXTS], QUERY)
        return [(TEXTS.index(each.page_content), each.metadata["relevance_score"]) for each in found]

    def by_jina(session):
        jina.session.headers[SESSION] = session
        found = jina.compress_documents([Document(text) for text in TEXTS], QUERY)
        return [(TEXTS.index(each.page_content), each.metadata["relevance_score"]) for each in found]

    def by_tei(session):
        body = {"query": QUERY, "texts": TEXTS, "raw_scores": False}
        found = plain.post(f"{url}/rerank", json=body, headers={SESSION: session})
        return [(result["index"], result["score"]) for result in found.json()][:3]

    yield {"cohere": by_cohere, "langchain-cohere": by_langchain, "jina": by_jina, "tei": by_tei}
    patch.undo()
    for client in (transport, plain, jina.session):
        client.close()


def test_lists_of_unmodified_clients_have_the_rankers_exposure(clients, service, calibrated):
    asks, positions = list(clients.values()), np.zeros((len(TEXTS), 3))
    for n in range(N_SESSIONS):
        for position, (index, _) in enumerate(asks[n % len(asks)](f"session {n}")):
            positions[index, position] += 1
    scores = bm25(QUERY, TEXTS)
    queries = Queries.from_arrays(scores=scores, query_ids=[QUERY] * len(TEXTS))
    expected = N_SESSIONS * calibrated.ranker.placement(queries)[:, :3]
    assert ((expected.max(axis=1) > 20) & (expected.max(axis=1) < N_SESSIONS)).all()  # every text moves
    for counts, law in zip(positions.T, expected.T, strict=True):
        assert chisquare(counts, law).pvalue > 1e-3
    log = read_log(service[1])
    assert len(log) >= N_SESSIONS
    assert set(log.table["status"].to_pylist()) == {"valid"}


@pytest.mark.parametrize("name", ["cohere", "langchain-cohere", "jina", "tei"])
def test_a_session_sees_one_order_whatever_its_client(clients, calibrated, name):
    orders = {session: clients[name](session) for session in map(str, range(12))}
    assert len({tuple(order) for order in orders.values()}) > 3
    for session, order in orders.items():
        assert clients[name](session) == order
        assert [index for index, _ in order] == calibrated.rank(bm25(QUERY, TEXTS), QUERY, session, 3).tolist()
        assert [score for _, score in order] == [1 / rank for rank in (1, 2, 3)]


def test_scores_that_a_request_brings_are_used_and_nobody_is_asked(calibrated, tmp_path):
    calibrated.save(tmp_path / "ranker.json")
    client = client_of(tmp_path / "ranker.json", upstream=Upstream("http://127.0.0.1:1/rerank"))
    assert client.post("/rerank", {"query": "q", "texts": ["a", "b"], "scores": [1.0, 2.0]}).status_code == 200
    assert client.post("/rerank", {"query": "q", "texts": []}).status_code == 200
    partly = {"query": "q", "documents": [{"text": "a", "score": 1.0}, {"text": "b"}]}
    assert "documents[1] has none" in client.post("/v2/rerank", partly).json()["error"]


def test_documents_come_back_where_the_client_wants_them(service):
    body = {"query": QUERY, "documents": [{"text": text} for text in TEXTS], "return_documents": True}
    results = service[0].post("/v1/rerank", body).json()["results"]
    assert [result["document"]["text"] for result in results] == [TEXTS[result["index"]] for result in results]


TROUBLES = {
    "slow": (504, "did not answer within 0.5 seconds"),
    "nonsense": (502, "cannot be read: JSON is malformed"),
    "broken": (502, "answered 500 Internal Server Error"),
    "few": (502, "gave 4 scores for 5 texts"),
    "twice": (502, "; expected 0 to 4, each once"),
    "infinite": (502, "cannot be read"),
    "unknown/path": (502, "answered 404 Not Found"),
    "keyed": (502, "answered 401 Unauthorized"),
}


@pytest.mark.parametrize("trouble", [*TROUBLES, "dead"])
def test_an_upstream_in_trouble_is_named_and_nothing_is_logged(ranker_file, upstream, tmp_path, trouble):
    (tmp_path / "log").mkdir()
    url = "http://127.0.0.1:1/rerank" if trouble == "dead" else upstream.url(trouble)
    app = create_app(ranker_file, log=tmp_path / "log", upstream=Upstream(url, timeout=0.5))

    async def drive():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://isrr") as client:
            started = time.monotonic()
            answer = await client.post("/rerank", json={"query": QUERY, "texts": TEXTS})
            waited, metrics = time.monotonic() - started, await client.get("/metrics")
        await app.state.service.stop()
        return answer, waited, metrics.text

    answer, waited, metrics = asyncio.run(drive())
    code, why = TROUBLES.get(trouble, (502, "cannot be reached"))
    assert (answer.status_code, waited < 3) == (code, True)
    assert why in answer.json()["error"]
    assert answer.json()["detail"] == answer.json()["message"] == answer.json()["error"]
    assert not [*(tmp_path / "log").glob("*.jsonl")]
    assert 'isrr_lists_total{status="valid"}' not in metrics


def test_what_may_pass_is_tried_once_more(upstream):
    async def flaky():
        service = Upstream(upstream.url("flaky"))
        scores = [await service.scores(QUERY, TEXTS) for _ in range(3)]
        await service.close()
        return scores

    assert asyncio.run(flaky()) == [pytest.approx(bm25(QUERY, TEXTS))] * 3


def test_the_key_and_the_model_reach_the_upstream(upstream):
    async def keyed():
        service = Upstream(upstream.url("keyed"), model="bm25", key="upstream-secret")
        scores = await service.scores(QUERY, TEXTS)
        await service.close()
        return scores

    assert asyncio.run(keyed()) == pytest.approx(bm25(QUERY, TEXTS))


def test_calls_beyond_the_limit_are_refused_at_once(upstream):
    async def crowd():
        service = Upstream(upstream.url("slow"), timeout=0.5, max_calls=2)
        outcomes = await asyncio.gather(*(service.scores("q", ["a"]) for _ in range(5)), return_exceptions=True)
        await service.close()
        return [outcome.status for outcome in outcomes if isinstance(outcome, Refusal)]

    assert sorted(asyncio.run(crowd())) == [503, 503, 503, 504, 504]


def test_a_slow_upstream_disturbs_nobody_else(ranker_file, upstream):
    limits = ("--max-concurrency", "2", "--upstream-timeout", "3")
    server = Server(ranker_file, "--upstream", upstream.url("slow"), *limits)
    codes = []

    def wait():
        codes.append(server.post("/rerank", {"query": QUERY, "texts": TEXTS}, timeout=30).status_code)

    waiting = [threading.Thread(target=wait) for _ in range(20)]
    try:
        for thread in waiting:
            thread.start()
        time.sleep(0.5)
        items = [{"id": name, "score": 1.0} for name in "abc"]
        for _ in range(20):
            started = time.monotonic()
            assert server.post("/rank", {"query_id": "q", "items": items}).status_code == 200
            assert time.monotonic() - started < 1
        assert codes == []
    finally:
        for thread in waiting:
            thread.join()
        assert server.stop() == 0
    assert codes == [504] * 20
