"""Queries: any row order in, the caller's row order out, and a clear refusal for what cannot be ranked."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from isrr import DataError, GPLRanker, Queries, read_queries
from isrr.data.identifiers import Ids, identifier_key
from isrr.data.ordering import sum_largest
from isrr.gains import ndcg

CLOSE = Decimal("1.00000000000000000002")  # as a float it is 1


def test_rows_in_any_order_give_results_in_the_callers_order():
    scores, query_ids = np.array([2.0, 5.0, 1.0, 4.0, 0.0]), np.array(["b", "a", "b", "a", "b"])
    queries = Queries.from_arrays(scores=scores, query_ids=query_ids)
    assert queries.query_ids.tolist() == ["b", "a"]
    assert queries.n_items.tolist() == [3, 2]
    grouped = Queries.from_arrays(scores=scores[[0, 2, 4, 1, 3]], query_ids=query_ids[[0, 2, 4, 1, 3]])
    assert (queries.scores == grouped.scores).all()
    exposure = GPLRanker(k=2).exposure(grouped)
    assert (GPLRanker(k=2).exposure(queries) == exposure[[0, 3, 1, 4, 2]]).all()
    assert (GPLRanker(k=3).sample(queries) == GPLRanker(k=3).sample(grouped)).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), min_size=1, max_size=30), st.randoms())
def test_shuffling_rows_keeps_every_query_and_moves_results_along(rows, random):
    query_ids, scores = np.array([q for q, _ in rows]), np.array([s for _, s in rows], float)
    scores += np.linspace(0, 0.5, len(rows))  # distinct, so that the input order breaks no tie
    shuffle = np.array(random.sample(range(len(rows)), len(rows)))
    straight = Queries.from_arrays(scores=scores, query_ids=query_ids)
    turned = Queries.from_arrays(scores=scores[shuffle], query_ids=query_ids[shuffle])
    assert dict(zip(straight.query_ids, straight.n_items, strict=True)) == dict(
        zip(turned.query_ids, turned.n_items, strict=True)
    )
    ranker = GPLRanker(k=3, threshold=0.1)
    assert (ranker.exposure(turned) == ranker.exposure(straight)[shuffle]).all()


def test_group_sizes_stand_in_for_ids_and_say_so():
    queries = Queries.from_arrays(scores=[3, 2, 1], group=[2, 1])
    assert queries.made_ids
    assert queries.query_ids.tolist() == [0, 1]
    assert queries.offsets.tolist() == [0, 2, 3]


def test_the_number_7_and_the_text_7_are_the_same_query():
    mixed = Queries.from_arrays(scores=[1, 2, 3], query_ids=np.array([7, "7", 8], dtype=object))
    assert len(mixed) == 2
    numbers = Queries.from_arrays(scores=[1, 2], query_ids=[7, 8])
    texts = Queries.from_arrays(scores=[1, 2], query_ids=["7", "8"])
    floats = Queries.from_arrays(scores=[1, 2], query_ids=[7.0, 8.0])
    assert (numbers.keys == texts.keys).all()
    assert (numbers.keys == floats.keys).all()
    assert (GPLRanker().sample(numbers, 5) == GPLRanker().sample(texts, 5)).all()


def test_judgments_keep_their_name_when_scored_anew_in_any_order_and_by_any_spelling_of_ids():
    def named(scores=(3, 2, 1), relevance=(1, 0, 2), query_ids=(7, 7, 8), item_ids=(1, 2, 1)):
        return Queries.from_arrays(scores=scores, relevance=relevance, query_ids=query_ids, item_ids=item_ids).judgments

    same = [named(scores=(0, 9, 5)), named(item_ids=["1", "2", "1"])]
    same.append(named(relevance=(2, 0, 1), query_ids=(8, 7, 7), item_ids=(1, 2, 1)))
    other = [named(relevance=(0, 1, 2)), named(item_ids=(1, 3, 1)), named(query_ids=(7, 7, 9)), named(item_ids=None)]
    assert set(same) == {named()}
    assert len({named(), *other}) == 5


def test_slicing_and_joining_queries():
    queries = Queries.from_arrays(
        scores=np.arange(6.0), relevance=[0, 1, 2, 0, 1, 2], query_ids=[4, 4, 5, 6, 6, 6], segments=list("xxyzzz"),
        item_ids=list("abcdef"), item_groups=[1, 2, 1, 2, 1, 2],
    )  # fmt: skip
    last = queries[-1:]
    assert last.query_ids.tolist() == [6]
    assert last.scores.tolist() == [3.0, 4.0, 5.0]
    assert last.segments.tolist() == ["z"]
    assert queries[[2, 0]].query_ids.tolist() == [6, 4]
    assert queries[np.array([False, True, False])].item_ids.tolist() == ["c"]
    joined = Queries.concatenate([queries[[2]], queries[:2]])
    assert joined.scores.tolist() == [3, 4, 5, 0, 1, 2]
    assert [len(query) for query in queries] == [1, 1, 1]
    with pytest.raises(DataError, match="more than one part"):
        Queries.concatenate([queries, queries[:1]])
    with pytest.raises(DataError, match="chosen twice"):
        queries[[0, 0]]
    with pytest.raises(DataError, match="no query"):
        queries[[]]


@pytest.mark.parametrize(
    ("index", "chosen"), [(1, [5]), (np.int64(1), [5]), (np.int32(-1), [6]), ((0, 2), [4, 6]), (np.array(1), [5])]
)
def test_queries_are_chosen_by_any_kind_of_index(index, chosen):
    queries = Queries.from_arrays(scores=np.arange(6.0), query_ids=[4, 4, 5, 6, 6, 6])
    part = queries[index]
    assert part.query_ids.tolist() == chosen
    assert part.scores.tolist() == [score for score, query in enumerate([4, 4, 5, 6, 6, 6]) if query in chosen]
    expected = [identifier_key(query) for query in chosen]
    assert part.keys.tolist() == expected
    assert queries.keys.size == 3
    assert queries[index].keys.tolist() == expected  # taken from those of all
    assert GPLRanker(k=2).rank_queries(part, session="u").shape == (len(chosen), 2)


@pytest.mark.parametrize("index", [True, None, [[0, 1]]])
def test_what_does_not_choose_queries_is_refused(index):
    with pytest.raises(DataError, match="queries are chosen by a number, a slice, a list of numbers or a mask"):
        Queries.from_arrays(scores=np.arange(3.0), group=[1, 1, 1])[index]


def test_joined_queries_without_ids_are_numbered_anew_only_where_numbers_meet():
    part = Queries.from_arrays(scores=[1.0, 2.0, 3.0], group=[1, 1, 1])
    assert Queries.concatenate([part, part]).query_ids.tolist() == [0, 1, 2, 3, 4, 5]
    turned = Queries.concatenate([part[2:], part[:2]])
    assert turned.query_ids.tolist() == [2, 0, 1]
    assert turned.made_ids
    assert turned.keys.tolist() == part.keys[[2, 0, 1]].tolist()


def written_later(queries):
    """All that a caller could have changed behind the queries' back."""
    return [column.tolist() for column in (queries.scores, queries.relevance, queries.item_ids)]


@pytest.mark.parametrize("query_ids", [[1, 1, 2], [1, 2, 1]], ids=["in order", "scattered"])
def test_what_the_caller_writes_later_changes_nothing(query_ids):
    given = {
        "scores": np.array([3.0, 2.0, 1.0]),
        "relevance": np.array([0.0, 1.0, 2.0]),
        "item_ids": np.array(["a", "b", "c"], object),
    }
    queries = Queries.from_arrays(query_ids=query_ids, **given)
    before = written_later(queries)
    for column in given.values():
        column[:] = column[::-1].copy()
    assert written_later(queries) == before
    scores = np.array([1.0, 2.0, 3.0])
    rescored = queries.with_scores(scores)
    scores[:] = 0
    assert sorted(rescored.scores.tolist()) == [1.0, 2.0, 3.0]


def test_a_pandas_frame_written_later_changes_nothing():
    frame = pd.DataFrame({"qid": [1, 1], "score": [2.0, 1.0], "grade": [0.0, 1.0]})
    queries = read_queries(frame)
    frame.iloc[0, 1:] = 9.0
    assert queries.scores.tolist() == [2.0, 1.0]
    assert queries.relevance.tolist() == [0.0, 1.0]


def test_item_groups_are_coded_in_the_order_of_their_text():
    for groups in ([10, 9, 10, 2], ["10", "9", "10", "2"]):
        coded = Queries.from_arrays(scores=np.arange(4.0), group=[4], item_groups=groups).coded_groups
        assert coded.names.tolist() == ["10", "2", "9"]
        assert coded.codes.tolist() == [0, 2, 0, 1]
    with pytest.raises(DataError, match="no item groups"):
        _ = Queries.from_arrays(scores=[1.0], group=[1]).coded_groups


@pytest.mark.parametrize("n", [1, 2, 11, 12, 13, 100, 399, 400, 401, 1_000, 5_000])
def test_the_order_by_score_is_that_of_the_slow_twin_at_every_length(n):
    scores = np.random.default_rng(n).integers(-max(n // 6, 2), max(n // 6, 2), n).astype(float)
    plain = Queries.from_arrays(scores=scores, query_ids=np.full(n, 7))
    assert plain.by_score.tolist() == oracles.standard_order(scores, query_id=7)
    ids = np.random.default_rng(n + 1).permutation(n) - 2
    with_ids = Queries.from_arrays(scores=scores, query_ids=np.full(n, 7), item_ids=ids)
    assert with_ids.by_score.tolist() == oracles.standard_order(scores, ids.tolist(), 7)
    tied, texts = scores // 50, [f"{'ü' * (i % 3)}{i}" for i in ids]
    with_texts = Queries.from_arrays(scores=tied, query_ids=["q"] * n, item_ids=texts)
    assert with_texts.by_score.tolist() == oracles.standard_order(tied, texts, "q")


def relevance_sorted(scores, relevance):
    """The rows of each query by falling relevance, as a join with judgments may leave them."""
    rows = np.argsort(-relevance, axis=1, kind="stable")
    return np.take_along_axis(scores, rows, 1), np.take_along_axis(relevance, rows, 1)


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_rows_sorted_by_relevance_do_not_improve_the_order_by_score(levels):
    rng = np.random.default_rng(20230)
    n_queries, n_items = 4_000, 12
    relevance = rng.integers(0, 3, (n_queries, n_items))
    scores = np.floor((relevance + rng.normal(scale=3, size=relevance.shape)) / 20 * levels)

    def mean_ndcg(scores, relevance):
        columns = {"scores": scores.ravel(), "relevance": relevance.ravel()}
        found = ndcg(Queries.from_arrays(**columns, query_ids=np.arange(n_queries).repeat(n_items)))
        return np.nanmean(found), np.nanstd(found) / np.sqrt(n_queries)

    shuffled, error = mean_ndcg(scores, relevance)  # rows in no order
    best, _ = mean_ndcg(*relevance_sorted(scores, relevance))
    worst, _ = mean_ndcg(*relevance_sorted(scores, -relevance)[:1], -relevance_sorted(scores, -relevance)[1])
    assert abs(best - shuffled) < 4 * error
    assert abs(worst - shuffled) < 4 * error


def test_with_item_ids_ties_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(3)
    query_ids, item_ids = rng.integers(0, 20, 900), np.array([f"i{i}" for i in rng.permutation(900)])
    scores, shuffle = rng.integers(0, 4, 900).astype(float), rng.permutation(900)

    def orders(rows):
        queries = Queries.from_arrays(scores=scores[rows], query_ids=query_ids[rows], item_ids=item_ids[rows])
        return {str(query.query_ids[0]): query.item_ids[query.by_score].tolist() for query in queries}

    assert orders(shuffle) == orders(np.arange(900))


def test_a_minus_before_a_zero_changes_nothing():
    scores = np.array([0.0, 1.0, 0.0, -1.0, 0.0, 0.0])
    signed = np.where(scores == 0, [-0.0, 0, 0.0, 0, -0.0, 0.0], scores)
    plain, minus = (Queries.from_arrays(scores=s, relevance=[1, 0, 2, 0, 1, 0], group=[6]) for s in (scores, signed))
    assert not np.signbit(minus.scores[minus.scores == 0]).any()
    assert plain.by_score.tolist() == minus.by_score.tolist()
    assert plain.fingerprint == minus.fingerprint
    assert plain.content_keys(judged=True) == minus.content_keys(judged=True)
    assert not np.signbit(plain.with_scores(signed).scores[0])
    ranker = GPLRanker.deterministic(k=6)
    assert ranker.rank(scores, 0).tolist() == ranker.rank(signed, 0).tolist() == plain.by_score.tolist()


@pytest.mark.parametrize("grades", [2, 5, 1_000])  # few leave many equal values
def test_the_largest_and_the_smallest_values_of_lists_are_added_up_as_if_they_were_sorted(grades):
    rng, factors = np.random.default_rng(20230), np.array([1.0, 0.5, 0.25, 0.125])
    sizes = np.arange(1, 60)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    values = rng.integers(-grades, grades, sizes.sum()).astype(float)
    for smallest, sign in ((False, -1), (True, 1)):
        ordered = [sign * np.sort(sign * part)[:4] for part in np.split(values, offsets[1:-1])]
        expected = [part @ factors[: part.size] for part in ordered]
        assert sum_largest(offsets, values, factors, smallest).tolist() == expected


def test_tied_positions_are_those_that_scores_do_not_decide():
    queries = Queries.from_arrays(scores=[3, 1, 1, 0, 5, 2, 2, 2, 9, 8, 7], group=[4, 4, 1, 2])
    assert queries.tied_positions(1).tolist() == [0, 0, 0, 0]
    assert queries.tied_positions(2).tolist() == [1, 1, 0, 0]
    assert queries.tied_positions(3).tolist() == [2, 2, 0, 0]
    assert queries.tied_positions(10).tolist() == [2, 3, 0, 0]
    assert Queries.from_arrays(scores=np.zeros(7), group=[7]).tied_positions(5).tolist() == [5]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=1, max_size=6), st.booleans())
def test_repeated_items_are_found_as_by_hand(lists, as_text):
    items = [f"i{item}" if as_text else item for query in lists for item in query]
    query_ids = np.repeat(np.arange(len(lists)), [len(query) for query in lists])
    columns = {"scores": np.zeros(len(items)), "query_ids": query_ids, "item_ids": items}
    found = oracles.repeated_item(lists)
    if found is None:
        assert len(Queries.from_arrays(**columns)) == len(lists)
    else:
        item, query, n_rows = found
        with pytest.raises(DataError, match=rf"query '{query}': item 'i?{item}' appears twice \({n_rows} row"):
            Queries.from_arrays(**columns)


def test_items_whose_hashes_meet_stay_different(monkeypatch):
    monkeypatch.setattr(Ids, "hashes", lambda ids: np.array([len(text) for text in ids.array], np.uint64))
    queries = Queries.from_arrays(scores=[1.0, 2.0, 3.0], group=[3], item_ids=["ab", "ba", "a"])
    assert queries.item_ids.tolist() == ["ab", "ba", "a"]
    with pytest.raises(DataError, match="item 'ba' appears twice"):
        Queries.from_arrays(scores=[1.0, 2.0, 3.0], group=[3], item_ids=["ab", "ba", "ba"])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"scores": [1, np.nan], "query_ids": ["a", "b"]}, r"row 2, column 'scores', query 'b': nan"),
        ({"scores": [np.inf, 1], "query_ids": [3, 3]}, r"row 1, column 'scores', query '3': inf"),
        (
            {"relevance": [0, -1, 2], "query_ids": [3, 4, 3]},
            r"row 2, column 'relevance', query '4': -1; expected .* ≥ 0",
        ),
        (
            {"scores": [1, 2, 3], "relevance": [0, 1, np.nan], "query_ids": [3, 4, 3]},
            r"row 3, column 'relevance', query '3'",
        ),
        ({"scores": [1, 2], "relevance": [0], "query_ids": [1, 1]}, r"relevance has shape \(1,\); expected \(2,\)"),
        ({"scores": [1, 2], "query_ids": [1]}, "query_ids has shape"),
        ({"scores": [], "query_ids": []}, "no rows"),
        ({"query_ids": None}, "nothing to rank"),
        ({"scores": [1, 2]}, "no query structure"),
        ({"scores": [1, 2], "query_ids": [1, 1], "group": [2]}, "not both"),
        ({"scores": [1, 2], "group": [1, 2]}, "add up to 3; expected the number of rows, 2"),
        ({"scores": [1, 2], "group": [2, 0]}, "group 1 has size 0"),
        ({"scores": [1, 2], "group": [1.5, 0.5]}, "whole numbers"),
        (
            {"scores": ["1.5", "2"], "query_ids": [1, 1]},
            r"column 'scores', query '1': '1.5' \(text\) \(2 such rows\); expected a number",
        ),
        (
            {"scores": np.array([b"1.5", b"2"]), "query_ids": [1, 1]},
            r"b'1.5' \(bytes\) \(2 such rows\); expected a number",
        ),
        (
            {"scores": np.array([1.5, "2"], object), "query_ids": [1, 1]},
            "row 2, column 'scores', query '1': '2' .*; expected a number",
        ),
        (
            {"scores": [Decimal("1.5"), CLOSE], "query_ids": [1, 1]},
            r"row 2, column 'scores', query '1': 1\.0+2; .* digits",
        ),
        ({"scores": [1j, 2], "query_ids": [1, 1]}, r"query '1': 1j \(complex\); expected a number"),
        (
            {"scores": np.array([0, 1], "datetime64[D]"), "query_ids": [1, 1]},
            r"\(date\) \(2 such rows\); expected a number",
        ),
        (
            {"scores": np.ma.masked_array([1.0, 2], [0, 1]), "query_ids": [1, 1]},
            "row 2, column 'scores', query '1': no value",
        ),
        (
            {"scores": [1, 2**53 + 1], "query_ids": [1, 1]},
            "row 2, column 'scores', query '1': 9007199254740993; .*or floats",
        ),
        (
            {"scores": [0.5, 2**53 + 1], "query_ids": [1, 1]},
            "row 2, column 'scores', query '1': 9007199254740993; .*or floats",
        ),
        (
            {"scores": np.array([1, 2**63], np.uint64), "query_ids": [1, 1]},
            "row 2, column 'scores', query '1': 92.*; .*or floats",
        ),
        (
            {"scores": [0.5, -1e308], "query_ids": [1, 1]},
            r"row 2, column 'scores', query '1': -1e\+308; .* within ±1e\+50",
        ),
        (
            {"relevance": [0.5, 1e300], "query_ids": [1, 1]},
            r"row 2, column 'relevance', query '1': 1e\+300; .* ≥ 0, at most 1e\+50",
        ),
        ({"scores": [1, 2], "query_ids": [1.5, 2]}, "row 1, column 'query_ids': 1.5"),
        ({"scores": [1, 2], "query_ids": ["a", None]}, "row 2, column 'query_ids': no value"),
        (
            {"scores": [1, 2], "query_ids": [1, 1], "item_ids": ["a", "a"]},
            r"row 2, column 'item_ids', query '1': item 'a' appears twice \(1 row",
        ),
        ({"scores": [1, 2], "query_ids": [1, 1], "segments": ["x", "y"]}, "query '1' has two segments"),
    ],
)
def test_what_cannot_be_ranked_is_refused_by_name(columns, said):
    with pytest.raises(DataError, match=said):
        Queries.from_arrays(**columns)


def test_missing_columns_are_asked_for():
    unscored = Queries.from_arrays(relevance=[1, 0], query_ids=[1, 1])
    with pytest.raises(DataError, match="no scores"):
        GPLRanker().exposure(unscored)
    with pytest.raises(DataError, match="unjudged"):
        Queries.from_arrays(scores=[1, 0], query_ids=[1, 1]).need_relevance()
    assert unscored.with_scores([1.0, 2.0]).scores.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="row 2"):
        unscored.with_scores([1.0, np.nan])
