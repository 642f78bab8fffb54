"""The boost: draws go by boosted scores, the floor and the order by score do not."""

import numpy as np
import pytest

import oracles
from isrr import DataError, GPLRanker, Queries
from isrr.gains import discount

SCORES = [0.4, 1.3, -0.3, 0.9, 0.9]
GROUPS = ["new", "old", "new", "old", "local"]
BOOST = {"new": 0.8, "local": -0.5}
ADDED = np.array([0.8, 0.0, 0.8, 0.0, -0.5])


def one_query(scores, groups):
    return Queries.from_arrays(scores=scores, query_ids=[0] * len(scores), item_groups=groups)


@pytest.mark.parametrize("temperature", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.2, 2.0])
@pytest.mark.parametrize("dials", [{}, {"floor": 0.9}, {"anchor": 0.3}, {"floor": 0.6, "anchor": 0.1}])
def test_a_boosted_ranker_follows_the_enumerated_law(temperature, threshold, dials):
    queries, deviation = one_query(SCORES, GROUPS), 1.7
    ranker = GPLRanker(
        k=3, temperature=temperature, threshold=threshold, deviation=deviation, boost=BOOST, mean=0.3, **dials
    )
    boosted = list((np.array(SCORES) + deviation * ADDED) / deviation)
    order = queries.by_score.tolist()
    eligibility = ranker.eligibility(queries)
    np.testing.assert_allclose(eligibility, oracles.softmax(np.array(boosted) / temperature), atol=1e-12)
    drawn = oracles.ranking_law(boosted, 5, threshold, 1.0, temperature, eligibility)
    share = max(oracles.order_share(drawn, order, ranker.floor, [discount(3)]), ranker.anchor)
    law = oracles.mixed_law(drawn, order, share)
    np.testing.assert_allclose(ranker.exposure(queries), oracles.exposure_of_law(law, 5, discount(3)), atol=2e-6)
    placed = np.stack([oracles.exposure_of_law(law, 5, unit) for unit in np.eye(3)], axis=1)
    np.testing.assert_allclose(ranker.placement(queries), placed, atol=2e-6)
    whole, lists = ranker.of_length(5), np.array(list(law))[None]
    np.testing.assert_allclose(np.exp(whole.log_prob(lists, queries))[0], list(law.values()), atol=2e-6)
    for session in range(30):
        served = ranker.rank_with_propensity(SCORES, 0, session, k=5, groups=GROUPS)
        assert (served.ranking == whole.rank_queries(queries, session)[0]).all()
        assert (served.ranking == ranker.rank(SCORES, 0, session, k=5, groups=GROUPS)).all()
        assert served.deterministic.tolist() == order
        expected = whole.propensity(served.ranking[None], queries)[0]
        np.testing.assert_allclose(served.propensity, expected, rtol=1e-8, atol=1e-11)
    assert not ranker.is_deterministic


def test_every_query_keeps_the_floor_of_the_order_without_the_boost():
    rng = np.random.default_rng(20240)
    for n, k in [(3, 2), (10, 5), (30, 5)]:
        scores, groups = rng.normal(size=(100, n)), rng.choice(["new", "old"], (100, n))
        queries = Queries.from_arrays(scores=scores.ravel(), group=[n] * 100, item_groups=groups.ravel())
        gains = rng.exponential(size=(100, n)) * (rng.uniform(size=(100, n)) < 0.3)
        ranker = GPLRanker(k=k, temperature=0.2, floor=0.8, boost={"new": 3.0})
        shown = ranker.exposure(queries).reshape(100, n)
        by_score = np.take_along_axis(gains, np.argsort(-scores)[:, :k], axis=1) @ discount(k)
        assert ((gains * shown).sum(axis=1) >= (0.8 - 1e-6) * by_score).all()
        unfloored = GPLRanker(k=k, temperature=0.2, boost={"new": 3.0}).exposure(queries).reshape(100, n)
        assert ((gains * unfloored).sum(axis=1) < 0.8 * by_score).any()


def test_a_boost_moves_exposure_to_its_group_and_none_leaves_it():
    queries = one_query(SCORES, GROUPS)
    new = np.array(GROUPS) == "new"
    shares = [GPLRanker(k=3, boost={"new": b}).exposure(queries)[new].sum() for b in (0.0, 0.5, 1.0, 2.0)]
    assert (np.diff(shares) > 0.05).all()
    assert GPLRanker(boost={"new": 0.0}) == GPLRanker()


def test_items_of_equal_boosted_scores_stand_as_in_the_order_by_score():
    ranker = GPLRanker(k=3, threshold=2.0, boost={"new": 1.0})
    assert ranker.rank([0.0, 1.0, 1.0], "q", "s", groups=["new", "old", "old"]).tolist() == [1, 2, 0]


def test_an_item_of_several_groups_gets_all_of_their_additions():
    ranker = GPLRanker(k=3, threshold=2.0, boost={"new": 1.0, "local": 1.0})
    groups = ["old", ["new", "local", "new"], []]
    assert ranker.rank([1.5, 0.0, 1.2], "q", "s", groups=groups).tolist() == [1, 0, 2]


def test_a_missing_group_is_refused_or_adds_nothing_as_the_ranker_says():
    strict, lenient = GPLRanker(boost=BOOST), GPLRanker(boost=BOOST, boost_missing="none")
    for groups in (None, ["new", None, "old", "old", "old"]):
        with pytest.raises(DataError, match=r"item [01] has no group, and this ranker boosts local, new; expected"):
            strict.rank(SCORES, 0, "s", groups=groups)
        assert lenient.rank(SCORES, 0, "s", groups=groups).size == 5
    without = Queries.from_arrays(scores=SCORES, query_ids=["q"] * 5)
    with pytest.raises(DataError, match="no item groups"):
        strict.exposure(without)
    np.testing.assert_array_equal(lenient.exposure(without), GPLRanker().exposure(without))


@pytest.mark.parametrize("groups", ["new", ["new"], 7, [["new"]] * 4])
def test_groups_that_do_not_match_the_scores_are_refused(groups):
    with pytest.raises(DataError, match="expected a list of 5, one entry per score"):
        GPLRanker(boost=BOOST).rank(SCORES, 0, "s", groups=groups)


@pytest.mark.parametrize("boost", [{"new": np.nan}, {"new": "much"}, "new", {7: 1.0, "7": 2.0}, 3])
def test_a_boost_that_means_nothing_is_refused(boost):
    with pytest.raises(ValueError, match="boost must map each group to a finite number of deviations"):
        GPLRanker(boost=boost)
    with pytest.raises(ValueError, match="boost_missing must be one of refuse, none"):
        GPLRanker(boost_missing="ignore")


def test_a_boost_reads_back_from_json_and_is_hashable():
    ranker = GPLRanker(boost={"new": 0.4, "local": 0.1})
    assert ranker == GPLRanker(boost=[["local", 0.1], ["new", 0.4]])
    assert hash(ranker) == hash(GPLRanker(boost=(("new", 0.4), ("local", 0.1))))
