"""What promises speak of, against the slow and obvious."""

import numpy as np
import pytest

import oracles
from isrr import GPLRanker, Queries, evaluate
from isrr.calibration.values import values_of
from isrr.gains import discount
from isrr.guarantee import Guarantee

GRID = [GPLRanker.deterministic(), GPLRanker(), GPLRanker(temperature=0.3, threshold=0.1)]
GROUPS = Guarantee.parse("group_exposure@5 <= 0.2")


@pytest.fixture
def queries():
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
    return Queries.from_arrays(  # rows of a query stand apart, so that the caller's order is not the queries'
        scores=rng.normal(size=400),
        relevance=relevance,
        query_ids=rng.integers(0, 40, 400),
        item_groups=rng.choice(["large", "middle", "small"], 400, p=[0.6, 0.3, 0.1]),
    )


def test_groups_found_once_serve_every_ranker_to_the_bit(queries):
    together = values_of(evaluate(queries, GRID), GROUPS, queries, GRID)
    for column, ranker in enumerate(GRID):
        alone = values_of(evaluate(queries, [ranker]), GROUPS, queries, [ranker])
        assert np.array_equal(alone[:, 0], together[:, column], equal_nan=True)


def test_disparity_between_groups_is_that_of_their_sums_over_its_bound(queries):
    found = values_of(evaluate(queries, GRID), GROUPS, queries, GRID)
    for column, ranker in enumerate(GRID):
        exposure = queries.in_query_order(ranker.exposure(queries), "exposure")
        for q, (start, stop) in enumerate(zip(queries.offsets[:-1], queries.offsets[1:], strict=True)):
            groups = queries.item_groups[start:stop]
            names = sorted(set(groups))
            shown = [exposure[start:stop][groups == name].sum() for name in names]
            gains = [oracles.gain(queries.relevance[start:stop])[groups == name].sum() for name in names]
            largest = 4 * discount(5)[: stop - start].sum() ** 2 * np.square(gains).sum()
            share = oracles.disparity(shown, gains) * len(names) * (len(names) - 1) / largest
            assert found[q, column] == pytest.approx(share, abs=1e-12)
