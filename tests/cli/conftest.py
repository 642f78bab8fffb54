"""A folder with judged queries and a ranker file, for the tests of commands."""

import numpy as np
import pytest

from command_line import isrr
from isrr import Queries, write_queries


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    rng = np.random.default_rng(20230)
    sizes = rng.integers(4, 20, 500)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.3, 0.15, 0.05])
    judged = Queries.from_arrays(
        scores=relevance + rng.normal(scale=1.2, size=relevance.size),
        relevance=relevance,
        query_ids=np.repeat(np.arange(500), sizes),
        item_ids=[f"d{i}" for i in range(relevance.size)],
        item_groups=rng.choice(["ours", "theirs"], relevance.size),
    )
    folder = tmp_path_factory.mktemp("cli")
    write_queries(judged, folder / "judged.parquet")
    return folder


@pytest.fixture(scope="session")
def judged(folder):
    return folder / "judged.parquet"


@pytest.fixture(scope="session")
def ranker(folder, judged):
    done = isrr("calibrate", judged, "-p", "ndcg@5 >= 90% of deterministic", "-o", folder / "ranker.json")
    assert done.returncode == 0, done.stderr
    return folder / "ranker.json"
