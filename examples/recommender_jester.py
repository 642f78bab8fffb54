"""A recommender: jokes for people, with Jester's ratings where they are at hand, else with made-up ones.

A query is a user. Half of the user's ratings are seen and factorised; the other half is what is to be ranked.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import isrr

RATINGS = Path(__file__).parents[2] / "shared" / "data" / "jester5k" / "ratings.csv"
N_USERS, RANK = 1_500, 5


def ratings() -> pd.DataFrame:
    """user, joke, rating from −10 to 10."""
    if RATINGS.exists():
        table = pd.read_csv(RATINGS)
        return table[table.user < N_USERS]
    rng = np.random.default_rng(0)
    taste, style = rng.normal(size=(N_USERS, 3)), rng.normal(size=(60, 3))
    liking = 2.5 * taste @ style.T + rng.normal(scale=3, size=(N_USERS, 60)) + 1.5 * rng.normal(size=60)
    user, joke = np.nonzero(rng.random(liking.shape) < 0.7)
    return pd.DataFrame({"user": user, "joke": joke, "rating": liking[user, joke].clip(-10, 10)})


table = ratings()
seen = np.random.default_rng(1).random(len(table)) < 0.5
known = table[seen].pivot(index="user", columns="joke", values="rating")
known = known.reindex(index=table.user.unique(), columns=sorted(table.joke.unique()))

# What a user thinks of a joke: the joke's mean, the user's mean, and a few directions of taste.
centred = known.sub(known.mean(axis=1).fillna(0), axis=0)
centred = centred.sub(centred.mean(axis=0).fillna(0), axis=1)
left, size, right = np.linalg.svd(centred.fillna(0).to_numpy(), full_matrices=False)
taste = pd.DataFrame((left[:, :RANK] * size[:RANK]) @ right[:RANK], known.index, known.columns)
predicted = taste.add(known.sub(known.mean(axis=1), axis=0).mean(axis=0).fillna(0), axis=1)

hidden = table[~seen].copy()
row, column = predicted.index.get_indexer(hidden.user), predicted.columns.get_indexer(hidden.joke)
hidden["score"] = predicted.to_numpy()[row, column]
hidden["relevance"] = np.rint((hidden.rating + 10) / 5)  # grades 0 to 4
queries = isrr.read_queries(hidden, query="user", item="joke")
print("Jester" if RATINGS.exists() else "made up", queries, sep=": ", end="\n\n")

outcome = isrr.calibrate(queries, "ndcg@5 >= 95% of deterministic")
print(outcome, end="\n\n")

# Whose exposure changed? The share of users' attention that the five most shown jokes have, before and after.
before = isrr.GPLRanker.deterministic(k=5).exposure(queries)
after = outcome.ranker.exposure(queries)
for name, exposure in (("by score", before), ("certified", after)):
    share = np.bincount(hidden.joke, exposure) / exposure.sum()
    top = np.sort(share)[::-1]
    print(f"{name:10} five jokes get {top[:5].sum():.1%} of the attention; {np.sum(share > 0.001)} get more than 0.1 %")
