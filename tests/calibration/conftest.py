"""Judged queries that these tests share."""

import numpy as np
import pytest

from isrr import Queries


@pytest.fixture(scope="session")
def judged():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(5, 30, 700)
    relevance = rng.choice(5, sizes.sum(), p=[0.5, 0.25, 0.15, 0.07, 0.03])
    scores = relevance + rng.normal(scale=1.2, size=relevance.size)
    query_ids = np.repeat([f"q{i}" for i in range(700)], sizes)
    segment = np.repeat(rng.choice(["mobile", "desktop"], 700), sizes)
    groups = rng.choice(["ours", "theirs"], relevance.size)
    return Queries.from_arrays(
        scores=scores, relevance=relevance, query_ids=query_ids, segments=segment, item_groups=groups
    )
