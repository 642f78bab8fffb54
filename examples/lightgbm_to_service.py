"""A LightGBM ranker, from features to a running service. Needs `pip install '.[demo,serve]'`."""

import json
import re
import subprocess
import sys
from urllib.request import Request, urlopen

import lightgbm

import isrr
from isrr.data.synthetic import generate

data = generate("small", n_queries=1_000)  # made-up queries with 20 features and grades 0 to 4

# LightGBM's `group` is the size of each list, not an id; Queries have it as n_items.
model = lightgbm.LGBMRanker(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1, random_state=0)
model.fit(data.train.features, data.train.queries.relevance, group=data.train.queries.n_items)

# Judged queries that the model has not seen: scores of training queries would be too good.
judged = data.test.queries.with_scores(model.predict(data.test.features))
validation = data.validation.queries.with_scores(model.predict(data.validation.features))
outcome = isrr.calibrate(judged, "ndcg@5 >= 90% of deterministic", validation=validation)
print(outcome, end="\n\n")
outcome.save("ranker.json")

# From here on only ranker.json is needed. Port 0 is any free one; the service's log says which.
command = [sys.executable, "-m", "isrr", "serve", "ranker.json", "--port", "0", "--log", "served"]
service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
try:
    url = next(match[0] for match in (re.search(r"http://[\w.:]+", line) for line in service.stderr) if match)
    items = [{"id": f"item-{i}", "score": float(score)} for i, score in enumerate(judged[0].scores)]
    print("by score     ", *(item["id"] for item in sorted(items, key=lambda item: -item["score"])[:5]))
    for session in ("anna", "ben", "anna"):  # the same session, the same order
        body = json.dumps({"query_id": "q0", "session": session, "items": items}).encode()
        with urlopen(Request(f"{url}/rank", body, {"content-type": "application/json"})) as response:
            answer = json.load(response)
        print(f"session {session:5}", *(item["id"] for item in answer["items"]), answer["certificate"]["status"])
finally:
    service.terminate()
    service.communicate(timeout=60)
