import numpy as np
import pytest

from isrr.data.queries import Queries
from isrr.ranker.gpl import GPLRanker
from simulated_users import Users


def searches(n_queries=40, n_items=12, seed=3):
    """Judged queries whose scores know something of relevance."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, n_items + 1, n_queries)
    relevance = rng.choice([0, 1, 2], sizes.sum(), p=[0.6, 0.3, 0.1])
    return Queries.from_arrays(
        scores=0.6 * relevance + rng.normal(size=sizes.sum()),
        relevance=relevance,
        query_ids=np.repeat([f"q{i}" for i in range(n_queries)], sizes),
        item_ids=np.array([f"d{i}" for i in range(sizes.sum())]),
    )


@pytest.fixture(scope="module")
def queries():
    return searches()


@pytest.fixture(scope="module")
def logger():
    return GPLRanker(k=3, temperature=0.6, anchor=0.7)


@pytest.fixture(
    params=[Users(), Users(model="trust"), Users(examination=0.5, idle=0.3)], ids=["position", "trust", "idle"]
)
def users(request):
    return request.param
