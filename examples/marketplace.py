"""A marketplace: new sellers get a share of the exposure, visitors keep relevance, the shop keeps its margin.

Writes `offers.parquet` and `new-offers.parquet`, the made-up tables that docs/marketplace.md uses, then certifies the
three promises in Python. The model scores the offers of new sellers too low, because it knows them less.
"""

import numpy as np
import pandas as pd

import isrr


def judged_searches(n_searches: int, seed: int) -> pd.DataFrame:
    """Return judged searches of 12 to 30 offers, a fifth of them from new sellers."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(12, 31, n_searches)
    new = rng.random(sizes.sum()) < 0.2
    quality = rng.normal(size=new.size)
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"{seed}-{i}" for i in range(n_searches)], sizes),
            "item_id": np.arange(new.size),
            "group": np.where(new, "new", "known"),
            "relevance": np.clip(np.floor(quality + 1), 0, 4),
            "score": quality + 0.6 * rng.normal(size=new.size) - 0.8 * new,
            "margin": np.minimum(rng.gamma(3.0, 2.0, new.size) + quality.clip(0), 20.0).round(2),
        }
    )


if __name__ == "__main__":
    judged_searches(1_500, seed=1).to_parquet("offers.parquet")
    judged_searches(2_000, seed=2).to_parquet("new-offers.parquet")

    promises = [
        "exposure(new)@10 >= 20%",
        "ndcg@10 >= 95% of deterministic",
        "value(margin)@10 >= 97% of deterministic with bound 20",
    ]
    outcome = isrr.calibrate("offers.parquet", promises)
    print(outcome, end="\n\n")
    print(isrr.check(outcome, "new-offers.parquet"), end="\n\n")

    # One list. The ranker needs each offer's group, as the service does.
    scores, groups = [2.1, 1.7, 1.4, 0.9, 0.2], ["known", "known", "known", "new", "new"]
    print(outcome.ranker.rank(scores, query_id="shoes", session="visitor 7", k=5, groups=groups))
