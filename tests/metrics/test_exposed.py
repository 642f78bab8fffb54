"""Expected-exposure loss and AWRF against the published formulas, written item by item."""

from math import log2

import numpy as np
import pytest

from isrr import GPLRanker, PromiseError, Queries, calibrate, evaluate

K = 4


@pytest.fixture(scope="module")
def queries():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(2, 9, 40)
    relevance = rng.integers(0, 3, sizes.sum())
    relevance[: sizes[0]] = 0  # a query without a relevant item
    groups = [["new"], ["known"], ["new", "local"], ["known", "local"]]
    return Queries.from_arrays(
        scores=rng.normal(size=sizes.sum()),
        relevance=relevance,
        query_ids=np.repeat(np.arange(40), sizes),
        item_groups=[groups[g] for g in rng.integers(0, 4, sizes.sum())],
    )


def by_query(queries, exposure):
    for q in range(len(queries)):
        rows = slice(queries.offsets[q], queries.offsets[q + 1])
        groups = [str(g).split("\x1f") for g in queries.item_groups[rows]]
        yield exposure[rows].tolist(), queries.relevance[rows].tolist(), groups


def weight(position, discount):
    return 0.0 if position > K else 1 / log2(max(position, 2)) if discount == "trec" else 1 / log2(1 + position)


def target(grades, discount):
    """Diaz and others, 2020: an item's exposure is the mean over all orders of falling grade."""
    found = []
    for grade in grades:
        above, equal = sum(g > grade for g in grades), sum(g == grade for g in grades)
        found.append(sum(weight(above + i, discount) for i in range(1, equal + 1)) / equal)
    return found


def divergence(p, q):
    """Jensen–Shannon, base 2."""
    middle = {g: (p[g] + q[g]) / 2 for g in p}
    return sum(s[g] / 2 * log2(s[g] / middle[g]) for s in (p, q) for g in s if s[g] > 0)


@pytest.mark.parametrize("discount", ["log2", "trec"])
@pytest.mark.parametrize("ranker", [GPLRanker.deterministic(K), GPLRanker(k=K, temperature=0.4, floor=0.5)], ids=str)
def test_measures_of_expected_exposure_are_those_of_the_published_formulas(queries, ranker, discount):
    names = ["expected_exposure_loss", "expected_exposure_disparity", "expected_exposure_relevance", "awrf", "ndcg"]
    found = evaluate(queries, [ranker], names, discount=discount)
    positions = [weight(j, discount) for j in range(1, K + 1)]
    exposure = ranker.exposure(queries, weights=positions)
    for q, (shown, grades, groups) in enumerate(by_query(queries, exposure)):
        if not any(grades):
            assert all(np.isnan(found[name][q, 0]) for name in names)
            continue
        ideal = target(grades, discount)
        loss, disparity, relevance = (found[name][q, 0] for name in names[:3])
        assert loss == pytest.approx(sum((e - t) ** 2 for e, t in zip(shown, ideal, strict=True)), abs=1e-9)
        assert disparity == pytest.approx(sum(e**2 for e in shown), abs=1e-9)
        assert relevance == pytest.approx(sum(e * t for e, t in zip(shown, ideal, strict=True)), abs=1e-9)
        assert loss == pytest.approx(disparity - 2 * relevance + sum(t**2 for t in ideal), abs=1e-9)
        shares = []
        for worth in (shown, [2**grade - 1 for grade in grades]):
            parts = dict.fromkeys(("new", "known", "local"), 0.0)
            for value, mine in zip(worth, groups, strict=True):
                for group in mine:
                    parts[group] += value / len(mine) / sum(worth)
            shares.append(parts)
        assert found["awrf"][q, 0] == pytest.approx(1 - divergence(*shares), abs=1e-9)


def test_what_is_only_reported_is_not_promised(queries):
    with pytest.raises(PromiseError, match="awrf"):
        calibrate(queries, "awrf@4 >= 0.9")
