"""Bad input is refused with a documented code and a sentence; nothing is a 500."""

import asyncio
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving import client_of

ITEMS = [{"id": "a", "score": 1.0}, {"id": "b", "score": 0.5}]
GONE = b"the client is gone"
GOOD = {"query_id": "q", "items": ITEMS}


def item(id, score):
    return json.dumps(GOOD).replace('"a"', id, 1).replace("1.0", score, 1).encode()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"query_id": "q", "items": [' + b"[" * 100_000, 422),
        (b'{"query_id": "q", "items": [], "x": ' + b"[" * 100_000, 422),
        (b"[" * 1_000_000, 422),
        (item('"é"', "1.0"), 200),
        (json.dumps(GOOD).encode().replace(b'"a"', b'"\xff\xfe"'), 400),
        (json.dumps(GOOD).encode().replace(b'"a"', b'"\\ud800"'), 400),
        (json.dumps(GOOD).encode("utf-16"), 400),
        (item('"a"', "NaN"), 400),
        (item('"a"', "Infinity"), 400),
        (item('"a"', "1e999"), 422),
        (item('"a"', "1e308"), 200),
        (item('"a"', "-0"), 200),
        (item('"a"', "true"), 422),
        (item('"a"', '"1"'), 422),
        (item('"a"', "null"), 422),
        (item("1", "1.0"), 200),
        (item("1.5", "1.0"), 422),
        (item("99999999999999999999999999", "1.0"), 422),
        (item("null", "1.0"), 422),
        (item('"b"', "1.0"), 422),
        (json.dumps({**GOOD, "items": [{"id": 1, "score": 1.0}, {"id": "1", "score": 0.5}]}).encode(), 422),
        (item('""', "1.0"), 200),
        (json.dumps({**GOOD, "k": 0}).encode(), 422),
        (json.dumps({**GOOD, "k": 10**12}).encode(), 422),
        (json.dumps({**GOOD, "k": 10**9}).encode(), 200),
        (json.dumps({**GOOD, "page": 2**31, "page_size": 2**31}).encode(), 200),
        (json.dumps({**GOOD, "page": -1}).encode(), 422),
        (json.dumps({**GOOD, "sesion": "u42"}).encode(), 422),
        (json.dumps({"items": ITEMS}).encode(), 422),
        (json.dumps({**GOOD, "items": [{"id": str(n), "score": 0} for n in range(100_000)]}).encode(), 413),
        (b" " * (17 << 20), 413),
    ],
)
def test_codes(client, body, code):
    answer = client.post("/rank", content=body)
    assert answer.status_code == code, answer.text[:200]
    assert code != 400 or "JSON" in answer.text
    assert ("error" in answer.json()) == (code != 200)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/rank", b"", "the body cannot be read as JSON: Input data was truncated; see /openapi.json"),
        ("/rank", b'{"query_id": 1, "items": [], "sesion": 1}', "did you mean 'session'?"),
        (
            "/rank/batch",
            b'{"queries": [{"query_id": 1, "items": [{"x": 1}]}]}',
            "field `x` - at `$.queries[0].items[0]`; see",
        ),
        ("/rank", item('"a"', "-Infinity"), "JSON has no NaN or Infinity, though Python writes them"),
        ("/rank", b'{"query_id": 1, "items": [], "` - at `$.x.y": 1}', "unknown field"),
    ],
)
def test_a_refusal_names_what_would_do(client, path, body, said):
    assert said in client.post(path, content=body).json()["error"]


def test_a_batch_says_which_query_is_wrong_and_how_many_it_takes(client):
    answer = client.post("/rank/batch", {"queries": [GOOD, {"query_id": "q", "items": ITEMS * 2}]})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("queries[1]: item id 'a'")
    assert client.post("/rank/batch", {"queries": [GOOD] * 1_001}).status_code == 413
    assert client.post("/rank/batch", {"queries": []}).json() == {"results": []}


def test_unknown_paths_and_methods_are_refused_as_json(client):
    assert client.get("/nowhere").status_code == 404
    assert client.get("/rank").status_code == 405
    assert client.get("/rank").headers["allow"] == "POST"
    assert "error" in client.request("DELETE", "/rank").json()


def test_a_key_is_asked_for_where_one_is_set(ranker_file):
    client = client_of(ranker_file, api_key="s3cret")
    assert client.get("/health").status_code == 200
    assert client.post("/rank", GOOD).status_code == 401
    for headers in ({"X-API-Key": "wrong"}, {"Authorization": "Bearer"}, {"Authorization": "Basic s3cret"}):
        assert client.post("/rank", GOOD, headers=headers).status_code == 401
    assert client.post("/rank", GOOD, headers={"X-API-Key": "schlüssel".encode()}).status_code == 401
    assert client.post("/rank", GOOD, headers={"X-API-Key": "s3cret"}).status_code == 200
    assert client.post("/rank", GOOD, headers={"Authorization": "bearer s3cret"}).status_code == 200
    assert client.get("/metrics").status_code == 401


def slow_request(client, chunks, pause):
    """Send a body in pieces with pauses; the status codes seen."""
    codes = []

    async def drive():
        pieces = iter(chunks)

        async def receive():
            await asyncio.sleep(pause)
            piece = next(pieces, None)
            if piece == GONE:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

        async def send(message):
            codes.append(message.get("status"))

        scope = {"type": "http", "method": "POST", "path": "/rank", "headers": [], "query_string": b""}
        await client.app(scope, receive, send)

    asyncio.run(drive())
    return codes[0]


def test_slow_and_endless_bodies_are_cut_off(ranker_file):
    client = client_of(ranker_file, body_timeout=0.2, max_body=10_000)
    assert slow_request(client, [json.dumps(GOOD).encode()], 0.01) == 200
    assert slow_request(client, [b"{"] * 1_000, 0.05) == 408
    assert slow_request(client, [b"{", GONE], 0.01) == 408
    assert slow_request(client, [b" " * 6_000] * 3, 0.001) == 413
    assert slow_request(client, [b" " * 11_000, json.dumps(GOOD).encode()], 0.001) == 413


def test_only_a_late_body_is_refused_as_late_and_a_request_that_is_cancelled_stays_so(ranker_file):
    client, codes = client_of(ranker_file, body_timeout=0.1), []
    scope = {"type": "http", "method": "POST", "path": "/rank", "headers": [], "query_string": b""}

    async def send(message):
        codes.append(message.get("status"))

    async def drive(n_messages, cancelled):
        messages = iter([{"type": "http.request", "body": b"{", "more_body": True}] * n_messages)

        async def receive():
            return next(messages, None) or await asyncio.Event().wait()

        task = asyncio.create_task(client.app(dict(scope), receive, send))
        await asyncio.sleep(0)
        if cancelled:
            task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert [asyncio.run(drive(n, False)) for n in (0, 1)] == [False] * 2
    assert codes[::2] == [408] * 2
    assert [asyncio.run(drive(n, True)) for n in (0, 1)] == [True] * 2
    assert len(codes) == 4
    assert client.service.n_unfinished == 0


def test_no_more_requests_at_a_time_than_the_limit_and_unfinished_bodies_do_not_count(ranker_file):
    client = client_of(ranker_file, max_concurrency=2)
    body, batch = json.dumps(GOOD).encode(), {"queries": [GOOD] * 500}

    async def drive():
        rest, begun = asyncio.Event(), []

        async def slowly():
            begun.append(True)
            yield body[:10]
            await rest.wait()
            yield body[10:]

        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://isrr") as asking:
            slow = [asyncio.create_task(asking.post("/rank", content=slowly())) for _ in range(3)]
            while len(begun) < 3:
                await asyncio.sleep(0)
            beside_bodies = await asking.post("/rank", json=GOOD)
            long = [asyncio.create_task(asking.post("/rank/batch", json=batch)) for _ in range(2)]
            for _ in range(100):
                await asyncio.sleep(0)
            refused, healthy = await asking.post("/rank", json=GOOD), await asking.get("/health")
            codes = [answer.status_code for answer in await asyncio.gather(*long)]
            rest.set()
            return beside_bodies, refused, healthy, codes + [each.status_code for each in await asyncio.gather(*slow)]

    beside_bodies, refused, healthy, codes = asyncio.run(drive())
    assert beside_bodies.status_code == healthy.status_code == 200
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert codes[:2] == [200] * 2
    assert set(codes[2:]) <= {200, 503}  # three bodies become complete at the same moment


def test_unfinished_bodies_do_not_fill_the_memory(ranker_file):
    client = client_of(ranker_file, max_body=1_000)

    async def drive():
        rest = asyncio.Event()

        async def slowly():
            yield b" " * 900
            await rest.wait()
            yield json.dumps(GOOD)[:100].encode()

        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://isrr") as asking:
            slow = [asyncio.create_task(asking.post("/rank", content=slowly())) for _ in range(20)]
            done, _ = await asyncio.wait(slow, timeout=0.5)
            rest.set()
            await asyncio.gather(*slow)
            return [task.result().status_code for task in done], await asking.post("/rank", json=GOOD)

    refused, later = asyncio.run(drive())
    assert refused == [503] * 3  # 17 bodies are one too many for sixteen times the limit
    assert later.status_code == 200


def test_what_nobody_foresaw_is_a_503_and_a_line_in_the_log(client, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("isrr.serve.app.rank_list", broken)
    answer = client.post("/rank", GOOD)
    assert answer.status_code == 503
    assert "Traceback" not in answer.text
    assert "ZeroDivisionError" in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(["query_id", "items", "session", "k", "seed", "page", "page_size", "id", "score", "queries"])


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["/rank", "/rank/batch", "/preview", "/v2/rerank", "/rerank"]),
    st.dictionaries(FIELDS, JSON, max_size=5),
    st.lists(st.tuples(st.text(max_size=3) | st.integers(), st.floats() | st.integers()), max_size=8),
)
def test_any_json_is_answered_with_a_documented_code(client, path, fields, pairs):
    items = [{"id": name, "score": score} for name, score in pairs]
    ids = [name for name, _ in pairs]
    shapes = {
        "/rank": {"query_id": "q", "items": items},
        "/rank/batch": {"queries": [{"query_id": "q", "items": items}]},
        "/preview": {"queries": [{"query_id": "q", "items": items}]},
        "/v2/rerank": {"query": "q", "documents": items},
        "/rerank": {"query": "q", "texts": ids, "scores": [score for _, score in pairs]},
    }
    answer = client.post(path, content=json.dumps({**shapes[path], **fields}).encode())
    assert answer.status_code in (200, 400, 413, 422), answer.text
    assert answer.json() is not None


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        ("/rank", {**GOOD, "query_id": "a\0"}, "query"),
        ("/rank", {**GOOD, "session": "a\0"}, "session"),
        ("/rank", {**GOOD, "session": "\0", "seed": 3}, "session"),
        ("/rank", {**GOOD, "items": [{"id": 1, "score": 1.0}, {"id": "a\0", "score": 1.0}]}, "item id"),
        ("/rank", {**GOOD, "items": [{"id": "a", "score": 1.0, "group": ["x", "a\0"]}]}, "group"),
        ("/rank/batch", {"queries": [GOOD, {**GOOD, "query_id": "a\0"}]}, "query"),
        ("/preview", {"queries": [GOOD, {**GOOD, "query_id": "a\0"}]}, "query"),
        ("/v2/rerank", {"query": "a", "documents": ITEMS, "session": "a\0"}, "session"),
        ("/v2/rerank", {"query": "a", "documents": [{"id": "a\0", "score": 1.0}]}, "item id"),
        ("/rerank", {"query": "a\0", "texts": ["a"], "scores": [1.0]}, "query"),
        ("/rerank", {"query": "a", "texts": ["a"], "scores": [1.0], "groups": ["a\0"]}, "group"),
    ],
)
def test_ids_with_nul_characters_are_refused_before_they_reach_the_log(ranker_file, tmp_path, path, body, what):
    (tmp_path / "log").mkdir()
    client = client_of(ranker_file, log=tmp_path / "log")
    answer = client.post(path, body)
    assert answer.status_code == 422
    assert f"{what} '" in answer.json()["error"]
    assert "has a NUL character; expected an id without" in answer.json()["error"]
    assert not any(file.stat().st_size for file in (tmp_path / "log").glob("*.jsonl"))
