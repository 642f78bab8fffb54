"""A recommender: jokes for people, with Jester's ratings where they are at hand, else with made-up ones.

A query is a user. Half of the user's ratings are seen and factorised; the other half is to be ranked.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import isrr

RATINGS = Path(__file__).parents[2] / "shared" / "data" / "jester5k" / "ratings.csv"
N_USERS, RANK = 1_500, 5


def ratings() -> pd.DataFrame:
    """Return user, joke and rating from −10 to 10."""
    if RATINGS.exists():
        return pd.read_csv(RATINGS).query("user < @N_USERS")
    rng = np.random.default_rng(0)
    taste, style = rng.normal(size=(N_USERS, 3)), rng.normal(size=(60, 3))
    liking = 2.5 * taste @ style.T + rng.normal(scale=3, size=(N_USERS, 60)) + 1.5 * rng.normal(size=60)
    user, joke = np.nonzero(rng.random(liking.shape) < 0.7)
    return pd.DataFrame({"user": user, "joke": joke, "rating": liking[user, joke].clip(-10, 10)})


table = ratings()
seen = np.random.default_rng(1).random(len(table)) < 0.5

# The mean of the user, the mean of the joke, and a few directions of taste.
known = table[seen].pivot(index="user", columns="joke", values="rating").reindex(index=table.user.unique())
users = known.mean(axis=1).fillna(0)
jokes = known.sub(users, axis=0).mean()
left, size, right = np.linalg.svd(known.sub(users, axis=0).sub(jokes).fillna(0).to_numpy(), full_matrices=False)
predicted = pd.DataFrame((left[:, :RANK] * size[:RANK]) @ right[:RANK], known.index, known.columns) + jokes

hidden = table[~seen & table.joke.isin(known.columns)].copy()
hidden["score"] = predicted.to_numpy()[known.index.get_indexer(hidden.user), known.columns.get_indexer(hidden.joke)]
hidden["relevance"] = np.rint((hidden.rating + 10) / 5)  # grades 0 to 4
queries = isrr.read_queries(hidden, isrr.Columns(query="user", item="joke"))
outcome = isrr.calibrate(queries, "ndcg@5 >= 95% of deterministic")
print(outcome, end="\n\n")

# Whose exposure changed? The share of the attention that the five most shown jokes get, before and after.
for name, ranker in (("by score", isrr.GPLRanker.deterministic(k=5)), ("certified", outcome.ranker)):
    exposure = ranker.exposure(queries)
    share = np.bincount(hidden.joke, exposure) / exposure.sum()
    print(f"{name:10} five jokes get {np.sort(share)[-5:].sum():.1%} of the attention")
