"""A marketplace: "new sellers get at least 20 % of the exposure, and users keep 95 % of NDCG@10".

The model knows new sellers less, and scores their offers too low. A boost takes that back; how much of one is needed,
and what users pay for it, is certified on judged searches. The promise is then asked for in each segment, and a list is
served.
"""

import numpy as np
import pandas as pd

import isrr


def searches(n: int, seed: int, worth: float = 0.0) -> pd.DataFrame:
    """Judged searches of 12 to 30 offers, a fifth of them from new sellers; `worth` makes those truly worse."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(12, 31, n)
    new = rng.random(sizes.sum()) < 0.2
    quality = rng.normal(size=new.size) - worth * new
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"{seed}-{i}" for i in range(n)], sizes),
            "item_id": np.arange(new.size),
            "segment": np.repeat(rng.choice(["app", "web"], n, p=[0.4, 0.6]), sizes),
            "group": np.where(new, "new", "known"),
            "relevance": np.clip(np.floor(quality + 1), 0, 4),
            "score": quality + 0.6 * rng.normal(size=new.size) - 0.8 * new,
        }
    )


promises = ["exposure(new)@10 >= 20%", "ndcg@10 >= 95% of deterministic"]
outcome = isrr.calibrate(searches(500, seed=1), promises)
print(outcome, end="\n\n")

# On new searches: are both kept, and who gained exposure?
print(isrr.check(outcome, searches(2_000, seed=2)), end="\n\n")

# Where new sellers truly are less relevant, both cannot be had. The answer names what can.
print(isrr.calibrate(searches(500, seed=3, worth=1.0), ["exposure(new)@10 >= 30%", promises[1]]), end="\n\n")

# Serving one list: the service takes each item's group in the request, and so does `rank`.
scores, groups = [2.1, 1.7, 1.4, 0.9, 0.2], ["known", "known", "known", "new", "new"]
print(outcome.ranker.rank(scores, query_id="shoes", session="visitor 7", k=5, groups=groups))
