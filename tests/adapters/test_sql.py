"""The statements of docs/sql.md draw what the ranker draws."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

import oracles
from doc_pages import blocks
from isrr import GPLRanker, Queries, write_queries
from isrr.adapters.sql import sql_scale, sql_stream
from isrr.noise import uniform
from isrr.ranker.scale import ScoreMap

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
SESSIONS = 40_000
WEIGHTS = {"a": 0.5, "b": 0.25, "c": 0.15, "d": 0.1}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's examples define, in a folder with queries of 1 to 60 items."""
    rng = np.random.default_rng(20230)
    sizes = rng.integers(1, 61, 150)
    relevance = rng.integers(0, 4, sizes.sum())
    scores, ids = relevance + rng.normal(size=relevance.size), [f"d{i}" for i in range(relevance.size)]
    query_ids = np.repeat([f"q{i}" for i in range(sizes.size)], sizes)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=query_ids, item_ids=ids)
    folder, names = tmp_path_factory.mktemp("sql"), {}
    with contextlib.chdir(folder):
        write_queries(queries, folder / "judged.parquet")
        for block in blocks(PAGE):
            exec(block.body, names)
        yield {**names, "queries": queries}


def drawn(page, query, n_positions):
    """Lists of one query for many sessions, by the expression that the page's statement sorts by, as texts."""
    key = re.search(r"ORDER BY (.+) DESC LIMIT 5", page["any_list"])[1].replace("$session", "session")
    items = ", ".join(f"('{item}', {np.log(weight)})" for item, weight in WEIGHTS.items())
    statement = f"""
    SELECT string_agg(item_id, '' ORDER BY {key} DESC)[:{n_positions}] AS shown
    FROM (VALUES {items}) AS items(item_id, score), (SELECT 'seed 20230, ' || range AS session FROM range({SESSIONS}))
    GROUP BY session ORDER BY session
    """
    parameters = {"query": query, "scale": sql_scale(GPLRanker())}
    return np.array([row[0] for row in page["database"].execute(statement, parameters).fetchall()])


def assert_law(shown, law):
    lists, counts = np.unique(shown, return_counts=True)
    assert set(lists) == set(law)
    assert chisquare(counts, [SESSIONS * law[ranking] for ranking in lists]).pvalue > 1e-3


def test_lists_follow_the_enumerated_law_of_the_ranker(page):
    weights = np.array([*WEIGHTS.values()])
    law = oracles.ranking_law(np.log(weights), 3, 0.0, 1.0, 1.0, weights)
    assert_law(drawn(page, "q1", 3), {"".join("abcd"[i] for i in ranking): chance for ranking, chance in law.items()})


def test_lists_of_two_queries_are_independent(page):
    both = np.char.add(drawn(page, "q1", 1), drawn(page, "q2", 1))
    assert_law(both, {x + y: p * q for x, p in WEIGHTS.items() for y, q in WEIGHTS.items()})


def test_a_session_keeps_its_order_and_none_gets_a_fresh_one(page):
    longest = str(page["queries"].query_ids[page["queries"].n_items.argmax()])

    def shown(session, statement=page["any_list"]):
        parameters = {"query": longest, "session": session, "scale": page["scale"]}
        return page["database"].execute(statement, parameters).fetchall()

    assert shown("u1") == shown("u1") != shown("u2")
    assert shown("u1") + shown("u1", page["any_list"] + " OFFSET 5") == shown("u1", page["any_list"].replace("5", "10"))
    assert len({tuple(shown(None)) for _ in range(20)}) > 5


@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.0, 20.0])
def test_lists_are_those_that_the_ranker_serves_a_session(page, temperature):
    ranker = GPLRanker(k=3, temperature=temperature, mean=0.7, deviation=1.3)
    for query in page["queries"]:
        query_id = str(query.query_ids[0])
        for session in ("u42", 7, "ü, 'quoted'"):
            stream = sql_stream(ranker, query_id, session)
            parameters = {"query": query_id, "scale": sql_scale(ranker), "stream": stream}
            shown = [item for (item,) in page["database"].execute(page["same_list"], parameters).fetchall()]
            served = ranker.rank(query.scores, query_id, session, 5, query.item_ids)
            assert shown == query.item_ids[served].tolist()


def test_noise_is_the_same_in_sql(page):
    rng = np.random.default_rng(20230)
    names = [0, 2**64 - 1, *(int(name) for name in rng.integers(0, 2**64, 500, dtype=np.uint64))]
    rows = ", ".join(f"({name}::UBIGINT, {1 + i % 60})" for i, name in enumerate(names))
    statement = f"SELECT session_gumbel(name, position) FROM (VALUES {rows}) AS named(name, position)"
    noise = [row[0] for row in page["database"].execute(statement).fetchall()]
    uniforms = np.array([uniform(np.uint64(name), i % 60) for i, name in enumerate(names)])
    np.testing.assert_allclose(noise, -np.log(-np.log(uniforms)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "dial",
    [
        {"threshold": 0.1},
        {"floor": 0.5},
        {"anchor": 0.2},
        {"boost": {"new": 1.0}},
        {"score_map": ScoreMap((0, 1), (0, 2))},
    ],
    ids=lambda dial: next(iter(dial)),
)
def test_a_ranker_that_no_order_by_follows_is_refused(dial):
    with pytest.raises(ValueError, match=rf"has a {next(iter(dial))}; expected one of calibrate"):
        sql_scale(GPLRanker(**dial))


def test_the_page_has_at_most_400_words():
    assert len(PAGE.read_text().split()) <= 400
