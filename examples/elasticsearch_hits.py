"""An Elasticsearch or OpenSearch hit list, post-processed by a certificate.

The response is a recorded one, so no server is needed: what is below `reranked` is all that an application adds between
its search client and its template. The scores are BM25's; any `_score` will do.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import isrr

RESPONSE = json.loads(Path(__file__).with_name("elasticsearch_response.json").read_text())


def judged_searches(n: int = 400) -> pd.DataFrame:
    """Stand-in for your judged searches: the hits of past queries, `_score` beside a grade."""
    rng = np.random.default_rng(3)
    grade = rng.choice(4, n * 10, p=[0.45, 0.3, 0.18, 0.07])
    bm25 = np.exp(2.0 + 0.16 * grade + rng.normal(scale=0.18, size=grade.size))
    return pd.DataFrame({"query": np.repeat(np.arange(n), 10), "score": bm25, "relevance": grade})


def reranked(response: dict, ranker: isrr.Certificate, *, query: str, session: str, start: int, size: int) -> dict:
    """The same response with its hits in the order drawn for this session, and one page of them.

    Ask the engine for the whole window that may be shown (`"from": 0, "size": 10` here), not for one page: what is
    drawn is an order of the window. `_score` stays the engine's; a client that sorts by it again undoes the draw.
    """
    hits = response["hits"]["hits"]
    scores, ids = [hit["_score"] for hit in hits], [hit["_id"] for hit in hits]  # ids decide between equal scores
    order = ranker.rank(scores, query_id=query, session=session, k=len(hits), item_ids=ids)
    page = [hits[place] for place in order[start : start + size]]
    return {**response, "hits": {**response["hits"], "hits": page}}


outcome = isrr.calibrate(isrr.read_queries(judged_searches()), "ndcg@5 >= 95% of deterministic")
print(outcome, end="\n\n")


def titles(response: dict) -> str:
    return ", ".join(f"{hit['_source']['title']} ({hit['_score']:.2f})" for hit in response["hits"]["hits"])


query = "walking boots"
print(f"{query}, as the engine has it:\n   ", titles({"hits": {"hits": RESPONSE["hits"]["hits"][:5]}}))
for session in ("anna", "ben"):
    for page in (0, 1):
        shown = reranked(RESPONSE, outcome, query=query, session=session, start=5 * page, size=5)
        print(f"{session}, page {page + 1}:\n   ", titles(shown))
