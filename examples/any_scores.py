"""Any scores, from a pandas or polars table: no model, no features, no training."""

import numpy as np
import pandas as pd
import polars as pl

import isrr

# A table as it comes out of a warehouse: its own column names, rows in no particular order.
rng = np.random.default_rng(7)
n_lists, n_items = 500, 12
table = pd.DataFrame(
    {
        "search": np.repeat([f"search-{i}" for i in range(n_lists)], n_items),
        "offer": np.tile([f"offer-{i}" for i in range(n_items)], n_lists),
        "stars": rng.choice(4, n_lists * n_items, p=[0.55, 0.25, 0.15, 0.05]),
    }
)
table["model_v7"] = 0.8 * table.stars + rng.normal(size=len(table))
columns = isrr.Columns(query="search", item="offer", score="model_v7", relevance="stars")
queries = isrr.read_queries(table.sample(frac=1, random_state=0), columns)
pilot, judged = queries[:50], queries[50:]

# How many judged lists would this promise take? The pilot is then used to fix the path, not to test.
promise = "ndcg@5 >= 95% of deterministic"
print(isrr.plan(pilot, promise), end="\n\n")
outcome = isrr.calibrate(judged, promise, validation=pilot)
print(outcome, end="\n\n")

# polars gives the same certificate: neither the library nor the order of rows changes it.
same = isrr.read_queries(pl.from_pandas(table.sort_values("model_v7")), columns)
in_pilot = np.isin(same.query_ids, pilot.query_ids)
print("from polars:", isrr.calibrate(same[~in_pilot], promise, validation=same[in_pilot]).id == outcome.id)

# One list, as served to two visitors.
candidates = table[table.search == "search-7"].sort_values("model_v7", ascending=False)
for session in ("anna", "ben"):
    order = outcome.rank(candidates.model_v7, query_id="search-7", session=session)
    print(session, "sees", *candidates.offer.iloc[order])
