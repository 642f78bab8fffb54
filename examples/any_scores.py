"""Any scores, from a pandas or polars table: no model, no features, no training.

All isrr needs to know is which list a row belongs to, what the model said and what a judge said.
"""

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
table = table.sample(frac=1, random_state=0)

names = {"query": "search", "item": "offer", "score": "model_v7", "relevance": "stars"}
queries = isrr.read_queries(table, **names)
print(queries, end="\n\n")

# How many judged lists would this promise take? Ask before paying for labels, here with the first fifty as a pilot.
promise = "ndcg@5 >= 95% of deterministic"
print(isrr.plan(queries[:50], promise), end="\n\n")

# The pilot was looked at, so it may fix the path but not be tested on.
outcome = isrr.calibrate(queries[50:], promise, validation=queries[:50])
print(outcome, end="\n\n")

# polars goes the same way, and gives the same certificate: row order and library change nothing.
again = isrr.read_queries(pl.from_pandas(table.sort_values("model_v7")), **names)
pilot = np.isin(again.query_ids, queries[:50].query_ids)
same = isrr.calibrate(again[~pilot], promise, validation=again[pilot])
print("from polars, rows sorted otherwise:", same.id, "the same" if same.id == outcome.id else "another")

# One list, as served to two visitors.
one = table[table.search == "search-7"].sort_values("model_v7", ascending=False)
for session in ("anna", "ben"):
    order = outcome.rank(one.model_v7, query_id="search-7", session=session)
    print(session, "sees", *one.offer.iloc[order])
