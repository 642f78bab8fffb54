"""A marketplace: providers who want their share, and a promise that holds in every segment.

Three providers sell through one search. The model favours the largest a little, as models trained on clicks do. The
promise must hold for the app and for the web, each by itself; what it does to providers is measured on new queries.
"""

import numpy as np
import pandas as pd

import isrr

PROVIDERS = {"Alder": 0.55, "Birch": 0.30, "Cedar": 0.15}


def searches(n: int, seed: int) -> pd.DataFrame:
    """Judged searches of 8 to 20 offers; visitors of the app search for less and find it more easily."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 21, n)
    segment = rng.choice(["app", "web"], n, p=[0.4, 0.6])
    table = pd.DataFrame(
        {
            "query_id": np.repeat([f"{seed}-{i}" for i in range(n)], sizes),
            "segment": np.repeat(segment, sizes),
            "provider": rng.choice(list(PROVIDERS), sizes.sum(), p=list(PROVIDERS.values())),
            "relevance": rng.choice(4, sizes.sum(), p=[0.5, 0.3, 0.15, 0.05]),
        }
    )
    table["item_id"] = np.arange(len(table))
    noise = np.where(table.segment == "app", 0.8, 1.2) * rng.normal(size=len(table))
    table["score"] = table.relevance + 0.5 * (table.provider == "Alder") + noise
    return table


judged = isrr.read_queries(searches(900, seed=1))
promise = isrr.Promise.parse("ndcg@5 >= 93% of deterministic", per="segment")
outcome = isrr.calibrate(judged, promise, attempts=2)  # a second question follows below
print(outcome, end="\n\n")

# On new queries: is it kept in each segment, and whose exposure moved?
print(isrr.check(outcome, isrr.read_queries(searches(2_000, seed=2))), end="\n\n")

# Chance lets offers take turns that the model cannot tell apart. It does not take back all that the model adds to a
# provider's offers: ask for that, and the answer is an abstention. Then the scores are what has to be mended.
print(isrr.calibrate(judged, "group_disparity@5 <= 0.05", attempts=2))
