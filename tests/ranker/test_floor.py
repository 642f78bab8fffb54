"""The floor and the anchor: what every query keeps, whatever is relevant, and the exact law of the mixture."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import oracles
from isrr import GPLRanker, Queries
from isrr.gains import discount

SCORES = np.random.default_rng(20230).normal(size=30)
DIALS = [
    {"floor": 0.5},
    {"floor": 0.9},
    {"floor": 0.7, "anchor": 0.4},
    {"anchor": 0.3},
    {"floor": 0.95, "floor_weights": ((1.0, 0.5), (0.25, 0.25, 0.25, 0.25), (1.0,))},
]
RANKERS = [
    {"temperature": 1.0},
    {"temperature": 0.1},
    {"temperature": 3.0, "threshold": 0.1},
    {"temperature": 1.0, "threshold": 0.3, "decay": 0.6},
]


def one_query(scores, groups=None):
    return Queries.from_arrays(scores=scores, query_ids=[0] * len(scores), item_groups=groups)


def laws(ranker, scores):
    """The law of the mixture over whole lists, the order by score, and its share, by enumeration."""
    n, order = len(scores), oracles.standard_order(scores, query_id=0)
    eligibility = ranker.eligibility(one_query(scores))
    drawn = oracles.ranking_law(scores, n, ranker.threshold, ranker.decay, ranker.temperature, eligibility)
    weightings = ranker.floor_weights or (discount(ranker.k),)
    if ranker.decay < 1.0:
        share = ranker.floor
    else:
        share = oracles.order_share(drawn, order, ranker.floor, weightings)
    share = max(share, ranker.anchor)
    return oracles.mixed_law(drawn, order, share), order, share


@settings(max_examples=250, deadline=None)
@given(
    n=st.integers(1, 14),
    k=st.integers(1, 7),
    floor=st.floats(0, 1),
    temperature=st.floats(0.02, 5),
    threshold=st.sampled_from([0.0, 0.0, 0.05, 0.3]),
    kind=st.sampled_from(["discount", "flat", "first"]),
    spread=st.sampled_from([1e-6, 0.3, 1.0, 20.0]),
    ties=st.sampled_from([None, 0.5, 2.0]),
    seed=st.integers(0, 2**32),
)
def test_every_query_keeps_the_floor_whatever_its_items_are_worth(
    n, k, floor, temperature, threshold, kind, spread, ties, seed
):
    rng = np.random.default_rng(seed)
    scores = spread * rng.normal(size=(50, n))  # 50 queries at a time: 12,500 in all
    scores = scores if ties is None else np.round(scores / (ties * spread)) * spread
    gains = rng.choice([0.0, 1.0, 3.0, 1e6], (50, n)) * rng.choice([1.0, rng.uniform()], (50, n))
    queries = Queries.from_arrays(scores=scores.ravel(), group=[n] * 50)
    weights = {"discount": discount(k), "flat": np.full(k, 1 / k), "first": np.eye(k)[0]}[kind]
    promised = () if kind == "discount" else (weights,)
    ranker = GPLRanker(k=k, floor=floor, temperature=temperature, threshold=threshold, floor_weights=promised)
    shown = ranker.exposure(queries, weights=weights).reshape(50, n)
    by_score = np.take_along_axis(gains, queries.by_score.reshape(50, n)[:, :k], axis=1) @ weights[:n]
    assert ((gains * shown).sum(axis=1) >= (floor - 1e-6) * by_score).all()
    np.testing.assert_allclose(shown.sum(axis=1), weights[:n].sum(), rtol=1e-7)


def test_without_the_floor_there_are_queries_that_keep_next_to_nothing():
    scores, gains = np.r_[0.1, np.zeros(99)], np.r_[1.0, np.zeros(99)]
    assert GPLRanker().exposure(one_query(scores)) @ gains < 0.1
    assert GPLRanker(floor=0.8).exposure(one_query(scores)) @ gains == pytest.approx(0.8, abs=1e-7)


@pytest.mark.parametrize("dials", DIALS)
@pytest.mark.parametrize("settings_", RANKERS)
@pytest.mark.parametrize(
    "scores", [[0.4, 0.0, -0.3, -0.5], [1.0, 1.0, 0.0, 0.0, -0.2], [0.3, 2.0, 0.9, 1.5, -1.0, 0.1]]
)
def test_exposure_placement_and_chances_are_those_of_the_enumerated_mixture(dials, settings_, scores):
    ranker, queries, n = GPLRanker(k=3, **settings_, **dials), one_query(scores), len(scores)
    law, _, share = laws(ranker, scores)
    assert ranker.order_share(queries)[0] == pytest.approx(share, abs=2e-6)
    tolerance = {"atol": 2e-6} if ranker.decay == 1.0 else {"atol": 0.05}
    expected = oracles.exposure_of_law(law, n, discount(3))
    np.testing.assert_allclose(ranker.exposure(queries, n_draws=2_000), expected, **tolerance)
    placed = np.stack([oracles.exposure_of_law(law, n, unit) for unit in np.eye(3)], axis=1)
    np.testing.assert_allclose(ranker.placement(queries, n_draws=2_000), placed, **tolerance)
    whole = ranker.of_length(n)
    lists = np.array(list(law))[None]
    found = np.exp(whole.log_prob(lists, queries))[0]
    np.testing.assert_allclose(found, list(law.values()), atol=2e-6)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(whole.propensity(lists, queries).prod(axis=-1)[0], found, rtol=1e-9, atol=1e-15)
    first = {}
    for ranking, probability in law.items():
        first[ranking[:2]] = first.get(ranking[:2], 0.0) + probability
    found = np.exp(ranker.log_prob(np.array(list(first))[None], queries))[0]
    np.testing.assert_allclose(found, list(first.values()), atol=2e-6)


@pytest.mark.parametrize("dials", DIALS)
@pytest.mark.parametrize("settings_", RANKERS)
def test_sampled_lists_follow_the_enumerated_mixture(dials, settings_):
    scores = [0.3, 2.0, 0.9, 1.5, -1.0]
    ranker = GPLRanker(k=3, **settings_, **dials).of_length(5)
    law, _, _ = laws(GPLRanker(k=3, **settings_, **dials), scores)
    lists = ranker.sample(one_query(scores), n_draws=50_000, seed=20238)[0]
    assert compares_well(lists, law)


def compares_well(lists, law):
    """Whether lists have the frequencies of a law, and none that it has not."""
    names = {ranking: sum(item * 8**j for j, item in enumerate(ranking)) for ranking in law}
    seen, counts = np.unique(lists @ 8 ** np.arange(lists.shape[1]), return_counts=True)
    observed = dict(zip(seen.tolist(), counts, strict=True))
    assert set(observed) <= {names[ranking] for ranking, p in law.items() if p > 0}
    frequent = [ranking for ranking, p in law.items() if p * len(lists) >= 5]
    found = np.array([observed.get(names[ranking], 0) for ranking in frequent], float)
    wanted = np.array([law[ranking] for ranking in frequent])
    return len(frequent) == 1 or chisquare(found, wanted * found.sum() / wanted.sum()).pvalue > 1e-3


@pytest.mark.slow
def test_a_million_served_lists_have_the_frequencies_that_their_propensities_say():
    scores, ranker = [0.3, 2.0, 0.9, 1.5], GPLRanker(k=2, temperature=0.8, floor=0.9)
    law, _, share = laws(ranker, scores)
    assert 0.1 < share < 0.9
    queries = one_query(scores)
    lists = ranker.of_length(4).sample(queries, n_draws=1_000_000, seed=20239)[0]
    assert compares_well(lists, law)
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    said = np.exp(ranker.log_prob(np.array(pairs)[None], queries))[0]
    assert said.sum() == pytest.approx(1.0, abs=1e-9)
    assert compares_well(lists[:, :2], dict(zip(pairs, said, strict=True)))
    served = [ranker.rank(scores, 0, session, k=4) for session in range(20_000)]
    assert compares_well(np.array(served), law)


@pytest.mark.parametrize("dials", DIALS)
@pytest.mark.parametrize("settings_", RANKERS)
def test_what_is_served_is_what_the_table_says(dials, settings_):
    ranker, queries = GPLRanker(k=5, **settings_, **dials), one_query(SCORES)
    tables = {k: ranker.of_length(k) for k in (3, 5, 30)}
    for session in range(60):
        served = ranker.rank_with_propensity(SCORES, 0, session, k=30)
        for k, table in tables.items():
            assert (ranker.rank(SCORES, 0, session, k=k) == served.ranking[:k]).all()
            assert (table.rank_queries(queries, session)[0] == served.ranking[:k]).all()
        expected = tables[30].propensity(served.ranking[None], queries)[0]
        np.testing.assert_allclose(served.propensity, expected, rtol=1e-9, atol=1e-11)
        assert (served.deterministic == np.argsort(-SCORES)).all()
        assert served.order_share == ranker.order_share(queries)[0]


@pytest.mark.parametrize("dials", [{"floor": 1.0}, {"anchor": 1.0}, {"floor": 1.0, "decay": 0.5, "threshold": 0.01}])
def test_a_whole_floor_or_anchor_is_the_order_by_score_exactly(dials, many_queries):
    ranker, by_score = GPLRanker(k=4, **dials), GPLRanker.deterministic(k=4)
    assert ranker.is_deterministic
    assert (ranker.exposure(many_queries, n_draws=3) == by_score.exposure(many_queries)).all()
    assert (ranker.sample(many_queries) == by_score.sample(many_queries)).all()
    assert (ranker.rank(SCORES, 0, "s", k=30) == np.argsort(-SCORES)).all()
    assert (ranker.propensity(by_score.sample(many_queries)[:, 0], many_queries) == 1.0).all()
    swapped = ranker.log_prob([[1, 0, 2]], one_query([3.0, 2.0, 1.0]))
    assert swapped.tolist() == [-np.inf]


@pytest.mark.slow
def test_a_floor_that_draws_keep_by_themselves_changes_nothing(many_queries):
    plain, floored = GPLRanker(temperature=0.05), GPLRanker(temperature=0.05, floor=0.05)
    kept = floored.order_share(many_queries) == 0.0
    assert kept.mean() > 0.5
    rows = np.repeat(kept, many_queries.n_items)
    assert (floored.exposure(many_queries) == plain.exposure(many_queries))[rows].all()
    assert not floored.is_deterministic


def test_a_floor_is_about_the_k_it_is_promised_for_and_not_about_the_page():
    ranker = GPLRanker(k=3, floor=0.9)
    shares = {k: ranker.rank_with_propensity(SCORES, 0, "s", k=k).order_share for k in (1, 3, 30)}
    assert len(set(shares.values())) == 1
    assert shares[1] == ranker.of_length(7).order_share(one_query(SCORES))[0]
    assert shares[1] != GPLRanker(k=7, floor=0.9).order_share(one_query(SCORES))[0]


def test_several_promises_take_the_largest_share_of_the_order():
    weightings = [tuple(discount(5)), (0.1,) * 10, (1.0,)]
    shares = [GPLRanker(floor=0.6, floor_weights=(w,)).order_share(one_query(SCORES))[0] for w in weightings]
    both = GPLRanker(floor=0.6, floor_weights=weightings)
    assert both.order_share(one_query(SCORES))[0] == pytest.approx(max(shares), abs=1e-6)
    assert hash(both) == hash(GPLRanker(floor=0.6, floor_weights=tuple(weightings)))


def test_dials_that_are_off_are_not_shown_and_do_not_change_a_draw():
    assert "floor" not in repr(GPLRanker())
    assert repr(GPLRanker(floor=0.5)).endswith("score_map=None, floor=0.5)")
    assert eval(repr(GPLRanker(floor=0.5, boost={"new": 0.4}))) == GPLRanker(floor=0.5, boost={"new": 0.4})


@pytest.mark.parametrize(
    ("dials", "said"),
    [
        ({"floor": -0.1}, "floor must be in"),
        ({"floor": 1.5}, "floor must be in"),
        ({"anchor": float("nan")}, "anchor must be in"),
        ({"floor_weights": ((),)}, "floor_weights must hold finite numbers ≥ 0"),
        ({"floor_weights": ((1.0, -1.0),)}, "floor_weights must hold finite numbers ≥ 0"),
        ({"floor_weights": (1.0,)}, "floor_weights must hold finite numbers ≥ 0"),
    ],
)
def test_dials_that_mean_nothing_are_refused(dials, said):
    with pytest.raises(ValueError, match=said):
        GPLRanker(**dials)


def test_a_floor_protects_its_own_weights_at_any_scale_and_no_others():
    ranker, weights = GPLRanker(k=5, floor=0.5), discount(5)
    assert ranker.protects(3.0 * weights)
    assert not ranker.protects(np.ones(5))
    assert not ranker.protects(weights + 1e-9)
    assert not ranker.protects(weights[:4])
    assert not GPLRanker(k=5).protects(weights)
