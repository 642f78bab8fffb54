"""A LightGBM ranker, from features to a running service.

Train on some queries, score others that were judged and not trained on, certify, serve, ask. The features here are made
up; yours come from wherever they come from. Needs the extras `lightgbm` and `serve`.
"""

import json
import re
import subprocess
import sys
from urllib.request import Request, urlopen

import lightgbm
import numpy as np

import isrr
from isrr.data.synthetic import generate

made = generate("small", n_queries=1_000)  # queries with 20 features and grades 0 to 4

# LightGBM's `group` is the size of each list, not an id; a Queries object knows it as n_items.
model = lightgbm.LGBMRanker(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1, random_state=0)
model.fit(made.train.features, made.train.queries.relevance, group=made.train.queries.n_items)

# Judged queries that the model has not seen. Scores of training queries would be too good to be true.
judged = made.test.queries.with_scores(model.predict(made.test.features))
validation = made.validation.queries.with_scores(model.predict(made.validation.features))
print(judged)

outcome = isrr.calibrate(judged, "ndcg@5 >= 90% of deterministic", validation=validation)
print(outcome, end="\n\n")
outcome.save("ranker.json")  # an abstention is saved, too, and served as the order by score

# From here on only ranker.json is needed: neither LightGBM nor the features.
# Port 0 is any that is free; the service says which in its log, once it is ready.
command = [sys.executable, "-m", "isrr", "serve", "ranker.json", "--port", "0", "--log", "served"]
service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
url = next(found[0] for found in (re.search(r"http://[\w.:]+", line) for line in service.stderr) if found)


def ask(path: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url + path, data, {"content-type": "application/json"})) as answer:
        return json.load(answer)


try:
    query = judged[0]
    items = [{"id": f"item-{i}", "score": float(score)} for i, score in enumerate(query.scores)]
    by_score = [f"item-{i}" for i in np.argsort(-query.scores, kind="stable")[:5]]
    print("by score      ", *by_score)
    for session in ("anna", "ben", "anna"):  # the same session, the same order
        answer = ask("/rank", {"query_id": "q0", "session": session, "items": items})
        shown, status = [item["id"] for item in answer["items"]], answer["certificate"]["status"]
        print(f"session {session:5} ", *shown, f"({status})")
finally:
    service.terminate()
    service.communicate(timeout=60)
