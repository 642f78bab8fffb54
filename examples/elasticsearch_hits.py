"""An Elasticsearch or OpenSearch response, re-ranked by a certificate.

The response is a recorded one, so no server is needed. The scores are BM25's; any `_score` will do.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import isrr

RESPONSE = json.loads(Path(__file__).with_name("elasticsearch_response.json").read_text())


def judged_searches(n_searches: int = 400) -> pd.DataFrame:
    """Return a stand-in for your judged searches: the hits of past queries, `_score` beside a grade."""
    rng = np.random.default_rng(3)
    grade = rng.choice(4, n_searches * 10, p=[0.45, 0.3, 0.18, 0.07])
    bm25 = np.exp(2.0 + 0.16 * grade + rng.normal(scale=0.18, size=grade.size))
    return pd.DataFrame({"query": np.repeat(np.arange(n_searches), 10), "score": bm25, "relevance": grade})


def reranked(
    response: dict, ranker: isrr.Certificate, *, query: str, session: str, start: int, size: int
) -> list[dict]:
    """Return one page of the hits, in the order drawn for this session.

    Ask the engine for all hits that may be shown (`"from": 0, "size": 10` here), not for one page. `_score` stays the
    engine's; a client that sorts by it again undoes the draw.
    """
    hits = response["hits"]["hits"]
    scores, ids = [hit["_score"] for hit in hits], [hit["_id"] for hit in hits]
    order = ranker.rank(scores, query_id=query, session=session, k=len(hits), item_ids=ids)
    return [hits[position] for position in order[start : start + size]]


def titles(hits: list[dict]) -> str:
    return ", ".join(f"{hit['_source']['title']} ({hit['_score']:.2f})" for hit in hits)


outcome = isrr.calibrate(judged_searches(), "ndcg@5 >= 95% of deterministic")
print(outcome, end="\n\n")
print("as the engine has it:\n   ", titles(RESPONSE["hits"]["hits"][:5]))
for session in ("anna", "ben"):
    for start in (0, 5):
        hits = reranked(RESPONSE, outcome, query="walking boots", session=session, start=start, size=5)
        print(f"{session}, page {start // 5 + 1}:\n   ", titles(hits))
