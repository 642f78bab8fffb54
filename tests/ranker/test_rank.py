"""Serving one query: sessions, pages, fresh draws."""

from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import chisquare

import oracles
from isrr import DataError, GPLRanker, Queries
from isrr.compiled import config
from isrr.ranker import kernels
from isrr.ranker.placements import placements
from isrr.ranker.scale import ScoreMap

SCORES = np.random.default_rng(20230).normal(size=30)


def test_the_same_session_gets_the_same_order_and_another_gets_another():
    ranker = GPLRanker(k=10)
    first = ranker.rank(SCORES, query_id="q7", session="u42")
    assert (ranker.rank(SCORES, query_id="q7", session="u42") == first).all()
    assert (GPLRanker(k=10).rank(SCORES, query_id="q7", session="u42") == first).all()
    assert (ranker.rank(SCORES, query_id=7, session=1) == ranker.rank(SCORES, query_id="7", session="1")).all()
    others = [ranker.rank(SCORES, query_id="q7", session=f"u{i}") for i in range(20)]
    assert len({tuple(order) for order in others}) > 15
    assert (ranker.rank(SCORES, query_id="q8", session="u42") != first).any()


@pytest.mark.parametrize("ranker", [GPLRanker(), GPLRanker(threshold=0.1, decay=0.5), GPLRanker(temperature=0.01)])
def test_the_first_places_do_not_depend_on_how_many_are_asked_for(ranker):
    for session in range(50):
        whole = ranker.rank(SCORES, query_id="q", session=session, k=30)
        assert sorted(whole) == list(range(30))
        for k in (1, 5, 12):
            assert (ranker.rank(SCORES, query_id="q", session=session, k=k) == whole[:k]).all()


def test_without_a_session_every_call_is_a_fresh_draw():
    for session in (None, "", np.str_("")):
        orders = {tuple(GPLRanker(k=10).rank(SCORES, query_id="q7", session=session)) for _ in range(20)}
        assert len(orders) > 15
    assert GPLRanker(k=10).rank(SCORES, session="").size == 10
    lists = Queries.from_arrays(scores=[*SCORES] * 20, query_ids=np.repeat(np.arange(20), len(SCORES)))
    assert not np.array_equal(*(GPLRanker(k=10).rank_queries(lists, "") for _ in range(2)))
    assert placements(GPLRanker(k=10), lists, 5, "")["session"].null_count == 100


@pytest.mark.parametrize("ranker", [GPLRanker(k=3), GPLRanker(k=3, threshold=0.3, decay=0.6)])
def test_served_orders_follow_the_enumerated_law(ranker):
    scores = np.array([0.4, 0.0, -0.3, -0.5])
    eligibility = ranker.eligibility(Queries.from_arrays(scores=scores, query_ids=[0] * 4))
    law = oracles.ranking_law(scores, 3, ranker.threshold, ranker.decay, 1.0, eligibility)
    served = [tuple(ranker.rank(scores, query_id="q", session=i).tolist()) for i in range(20_000)]
    counts = [served.count(ranking) for ranking in law]
    assert sum(counts) == len(served)
    assert chisquare(counts, [p * len(served) for p in law.values()]).pvalue > 1e-3


def test_ranking_a_table_serves_what_ranking_one_query_serves(many_queries):
    ranker = GPLRanker(k=7, threshold=0.02, decay=0.9)
    table = ranker.rank_queries(many_queries, session="u1")
    for q in (0, 3, 500, 1999):
        query = many_queries[q]
        alone = ranker.rank(query.scores, query_id=query.query_ids[0], session="u1")
        assert table[q, : alone.size].tolist() == alone.tolist()
        assert (table[q, alone.size :] == -1).all()
    assert (ranker.rank_queries(many_queries) != ranker.rank_queries(many_queries)).any()


def test_a_session_names_one_query_and_one_session_unambiguously():
    ranker = GPLRanker(k=10)
    assert (ranker.rank(SCORES, query_id="ab", session="c") != ranker.rank(SCORES, query_id="a", session="bc")).any()


def test_a_session_without_a_query_id_is_refused():
    for serve in (GPLRanker().rank, GPLRanker().rank_with_propensity):
        with pytest.raises(DataError, match="session 'u42' without a query id"):
            serve(SCORES, session="u42")
    assert GPLRanker(k=3).rank(SCORES, query_id="None", session="u42").size == 3


def test_one_query_and_a_table_meet_the_same_thresholds_to_the_last_bit():
    rng = np.random.default_rng(0)
    for _ in range(300):
        scores = rng.normal(size=6)
        queries = Queries.from_arrays(scores=scores, query_ids=["q"] * 6)
        decay = round(float(rng.uniform(0.3, 0.95)), 2)
        met = np.sort(GPLRanker().eligibility(queries))[1] / decay**3  # by the fifth item, at the fourth position
        ranker = GPLRanker(k=5, threshold=met, decay=decay)
        table = ranker.rank_queries(queries, session="u")[0]
        assert (ranker.rank(scores, "q", "u") == table).all()
        assert (ranker.rank_with_propensity(scores, "q", "u", k=6).ranking[:5] == table).all()


def test_scores_that_a_map_rounds_to_one_are_ranked_as_they_came():
    ranker = GPLRanker(k=2, threshold=2.0, score_map=ScoreMap((0.0, 1.0), (1000.0, 1000.0 + 1e-9)))
    scores = np.array([0.5, 0.5 + 1e-6])
    assert ranker.mapped(scores)[0] == ranker.mapped(scores)[1]
    served = ranker.rank_with_propensity(scores, "q", "s")
    assert served.ranking.tolist() == served.deterministic.tolist() == ranker.rank(scores, "q", "s").tolist() == [1, 0]
    assert not served.tied
    assert ranker.rank_queries(Queries.from_arrays(scores=scores, query_ids=["q"] * 2), "s").tolist() == [[1, 0]]


@pytest.mark.parametrize("k", [0, 2.0, True, "3"])
def test_a_number_of_places_that_is_none_is_refused(k):
    with pytest.raises(DataError, match="k must be a whole number ≥ 1"):
        GPLRanker().rank(SCORES, k=k)


def test_a_score_map_changes_chances_and_not_the_order():
    mapped = GPLRanker(k=2, score_map=ScoreMap((0.0, 1.0, 2.0), (0.0, 3.0, 9.0)))
    queries = Queries.from_arrays(scores=[2.0, 1.0, 0.0], query_ids=[0, 0, 0])
    by_hand = queries.with_scores([9.0, 3.0, 0.0])
    np.testing.assert_allclose(mapped.exposure(queries), GPLRanker(k=2).exposure(by_hand), atol=1e-12)
    assert mapped.rank([2.0, 1.0, 0.0], "q", "s").size == 2


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([], "non-empty"),
        ([[1.0, 2.0]], "shape"),
        ([1.0, np.nan], "score 1 is nan"),
        ([np.inf, 0.0], "score 0 is inf"),
        (["a"], r"scores are \['a'\]; expected a non-empty list of numbers"),
        ([[1.0], [1.0, 2.0]], "expected a non-empty list of numbers"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(scores, said):
    with pytest.raises(DataError, match=said):
        GPLRanker().rank(scores)


@pytest.mark.parametrize(
    "ranker",
    [
        GPLRanker(k=30),
        GPLRanker(k=30, threshold=0.03, decay=0.8),
        GPLRanker(k=30, temperature=0.02),
        GPLRanker(k=30, temperature=0.004, threshold=0.1, decay=0.5),
        GPLRanker.deterministic(k=30),
    ],
)
def test_propensities_served_with_a_list_are_those_of_the_list(ranker):
    queries = Queries.from_arrays(scores=SCORES, query_ids=["q"] * 30)
    for session in range(50):
        served = ranker.rank_with_propensity(SCORES, "q", session)
        assert (served.ranking == ranker.rank(SCORES, "q", session)).all()
        assert (served.deterministic == np.argsort(-SCORES)).all()
        expected = ranker.propensity(served.ranking[None], queries)[0]
        np.testing.assert_allclose(served.propensity, expected, rtol=1e-9, atol=1e-11)
        assert not served.tied


@pytest.mark.parametrize("item_ids", [None, [f"i{i}" for i in range(40)], list(range(40))])
def test_equal_scores_are_served_in_the_order_that_calibration_takes(item_ids):
    scores = np.random.default_rng(5).integers(0, 3, 40).astype(float)
    queries = Queries.from_arrays(scores=scores, query_ids=["q"] * 40, item_ids=item_ids)
    for ranker in (GPLRanker.deterministic(k=40), GPLRanker(k=40), GPLRanker(k=40, threshold=0.02, decay=0.9)):
        served = ranker.rank_with_propensity(scores, "q", "u", item_ids=item_ids)
        assert served.deterministic.tolist() == queries.by_score.tolist()
        assert served.ranking.tolist() == ranker.rank_queries(queries, "u")[0].tolist()
        assert served.ranking.tolist() == ranker.rank(scores, "q", "u", item_ids=item_ids).tolist()
        if item_ids is not None:
            by_id = [item_ids[i] for i in served.ranking]
            turned = ranker.rank(scores[::-1], "q", "u", item_ids=item_ids[::-1])
            assert [item_ids[::-1][i] for i in turned] == by_id


def test_a_whole_float_names_the_query_that_the_integer_names():
    assert GPLRanker(k=30).rank(SCORES, 7.0, "u").tolist() == GPLRanker(k=30).rank(SCORES, "7", "u").tolist()
    with pytest.raises(DataError, match=r"an id is 7.5 .float.; expected an integer or text"):
        GPLRanker().rank(SCORES, 7.5, "u")


def test_as_many_item_ids_as_scores_are_expected():
    with pytest.raises(DataError, match="there are 2 item ids and 3 scores; expected one id per score"):
        GPLRanker().rank([1.0, 2.0, 3.0], item_ids=["a", "b"])


def test_a_served_list_says_whether_scores_tie_and_how_sure_the_first_place_is():
    served = GPLRanker(k=2).rank_with_propensity([0.0, 1.0, 0.0], "q", "s")
    assert served.tied
    assert served.eligibility == pytest.approx(np.e / (np.e + 2))
    with pytest.raises(DataError, match="score map"):
        GPLRanker(score_map=ScoreMap((0, 1), (0, 10))).rank_with_propensity([1e308, -1e308], "q", "s")


@pytest.mark.parametrize("seven", [7, "7", 7.0, np.int32(7), np.float32(7), Decimal(7), Decimal("7.0")])
def test_ids_that_are_equal_draw_the_same(seven):
    ranker = GPLRanker(k=10)
    assert (ranker.rank(SCORES, seven, "u") == ranker.rank(SCORES, 7, "u")).all()
    assert (ranker.rank(SCORES, "q", seven) == ranker.rank(SCORES, "q", 7)).all()
    table = Queries.from_arrays(scores=SCORES, query_ids=[seven] * 30)
    assert (ranker.rank_queries(table, "u")[0] == ranker.rank(SCORES, seven, "u")).all()


@pytest.mark.parametrize("other", ["7.0", "07", True])
def test_ids_that_differ_draw_differently(other):
    ranker = GPLRanker(k=10)
    assert (ranker.rank(SCORES, other, "u") != ranker.rank(SCORES, 7, "u")).any()


@pytest.mark.parametrize("unusable", [7.5, float("inf"), float("nan"), 2.0**60])
def test_numbers_that_may_not_be_what_they_were_are_no_ids(unusable):
    with pytest.raises(DataError, match="an id is"):
        GPLRanker(k=10).rank(SCORES, unusable, "u")
    with pytest.raises(DataError, match="an id is"):
        GPLRanker(k=10).rank(SCORES, "q", unusable)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="kernels are not compiled")
def test_scores_that_cannot_be_written_to_are_ranked_by_the_same_kernel():
    """As pandas hands them out; for another kind of array, all that serves would be compiled once more."""
    given = np.array([0.3, 2.0, 1.1])
    expected, kernel = GPLRanker().rank(given, "q", "s"), kernels.rank_one
    compiled = len(kernel.signatures)
    given.flags.writeable = False
    np.testing.assert_array_equal(GPLRanker().rank(given, "q", "s"), expected)
    assert len(kernel.signatures) == compiled
