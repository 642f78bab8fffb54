"""A run and its judgments, in the formats people have, become the same queries."""

import gzip
import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from blocks import read_blocks
from isrr.data.columns import Columns
from isrr.data.copies import write_queries
from isrr.data.doubtful_grades import doubtful_grades
from isrr.data.identifiers import Ids
from isrr.data.ordering import first_equal
from isrr.data.queries import Queries
from isrr.data.tables import read_queries
from isrr.data.unjudged import n_unjudged
from isrr.errors import DataError
from isrr.gains import discount, has_relevant, ideal_dcg, ndcg, relevant_total
from isrr.metrics.evaluate import evaluate
from isrr.ranker.gpl import GPLRanker

RUN = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"b": 1.5, "a": 0.5}, "q3": {"a": 1.0}}
QRELS = {"q1": {"b": 2, "z": 3, "c": 0}, "q2": {"a": 1, "b": 0}, "q9": {"a": 1}}


def triples(table):
    return [(query, item, value) for query, listed in table.items() for item, value in listed.items()]


def trec_run(table):
    return "".join(f"{query} Q0 {item} 1 {value} tag\n" for query, item, value in triples(table))


def trec_qrels(table):
    return "".join(f"{query} 0 {item} {value}\n" for query, item, value in triples(table))


def delimited(table, header, delimiter):
    return "\n".join([delimiter.join(header), *(delimiter.join(map(str, row)) for row in triples(table))])


def frame(table, columns, make):
    return make(dict(zip(columns, map(list, zip(*triples(table), strict=True)), strict=True)))


RUNS = {
    "dict": lambda _: RUN,
    "trec": lambda folder: written(folder / "run.txt", trec_run(RUN)),
    "trec.gz": lambda folder: written(folder / "run.txt.gz", trec_run(RUN)),
    "json": lambda folder: written(folder / "run.json", json.dumps(RUN, indent=1)),
    "one line of json": lambda folder: written(folder / "run.json", json.dumps(RUN)),
    "beir tsv": lambda folder: written(folder / "run.tsv", delimited(RUN, ["query-id", "corpus-id", "score"], "\t")),
    "ir_measures, pandas": lambda _: frame(RUN, ["query_id", "doc_id", "score"], pd.DataFrame),
    "ir_measures, polars": lambda _: frame(RUN, ["query_id", "doc_id", "score"], pl.DataFrame),
    "pyterrier": lambda _: frame(RUN, ["qid", "docno", "score"], pd.DataFrame),
    "jsonl": lambda folder: written(
        folder / "run.jsonl",
        "".join(json.dumps({"qid": q, "docid": d, "score": s}) + "\n" for q, d, s in triples(RUN)),
    ),
}
JUDGMENTS = {
    "dict": lambda _: QRELS,
    "trec": lambda folder: written(folder / "qrels.txt", trec_qrels(QRELS)),
    "trec with tabs": lambda folder: written(folder / "qrels", trec_qrels(QRELS).replace(" ", "\t")),
    "trec.gz": lambda folder: written(folder / "qrels.gz", trec_qrels(QRELS)),
    "beir": lambda folder: written(folder / "test.tsv", delimited(QRELS, ["query-id", "corpus-id", "score"], "\t")),
    "ir_measures": lambda _: frame(QRELS, ["query_id", "doc_id", "relevance"], pl.DataFrame),
    "pyterrier": lambda _: frame(QRELS, ["qid", "docno", "label"], pd.DataFrame),
}


def written(file, text):
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


def assert_joined(queries):
    assert queries.query_ids.tolist() == ["q1", "q2"]
    assert queries.item_ids.tolist() == ["a", "b", "c", "b", "a"]
    assert queries.scores.tolist() == [3, 2, 1, 1.5, 0.5]
    assert queries.relevance.tolist() == [0, 2, 0, 0, 1]
    assert queries.judged.tolist() == [False, True, True, True, True]
    offsets, grades = queries.unretrieved
    assert (offsets.tolist(), grades.tolist()) == ([0, 1, 1], [3])
    assert queries.unjudged == "zero"


@pytest.mark.parametrize("run", RUNS)
def test_every_kind_of_run_is_joined_alike(tmp_path, run):
    assert_joined(read_queries(RUNS[run](tmp_path), qrels=QRELS))


@pytest.mark.parametrize("qrels", JUDGMENTS)
def test_every_kind_of_qrels_is_joined_alike(tmp_path, qrels):
    assert_joined(read_queries(RUN, qrels=JUDGMENTS[qrels](tmp_path)))


def test_queries_in_one_file_only_are_named_and_counted():
    notes = read_queries(RUN, qrels=QRELS | {"q1": {"b": -2, "c": -1, "a": 1}}).notes
    assert notes[:3] == (
        "qrels: 2 negative grades counted as 0",
        "run: 1 query without judgments left out: q3",
        "qrels: 1 judged query not in run: q9",
    )


def test_items_that_share_a_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(Ids, "hashes", lambda ids: np.zeros(len(ids), np.uint64))
    assert_joined(read_queries(RUN, qrels=QRELS))


@pytest.mark.parametrize("as_ids", [Ids, lambda numbers: Ids(Ids(numbers).texts)])
def test_items_meet_the_first_equal_row_of_their_query(as_ids):
    rng = np.random.default_rng(20237)
    for n_others in (0, 3, 2_000):
        queries, judged_in = (np.sort(rng.integers(0, 500, n)) for n in (9_000, n_others))
        names, judged = (rng.integers(0, 30, n) for n in (9_000, n_others))
        offsets = np.searchsorted(queries, np.arange(501))
        rows = first_equal(offsets, as_ids(names), np.searchsorted(judged_in, np.arange(501)), as_ids(judged))
        pairs = list(zip(queries.tolist(), names.tolist(), strict=True))
        position = {pair: len(pairs) - 1 - i for i, pair in enumerate(reversed(pairs))}
        assert rows.tolist() == [position.get(pair, -1) for pair in zip(judged_in, judged, strict=True)]


def test_scattered_rows_are_brought_together(tmp_path):
    lines = trec_run(RUN).splitlines(keepends=True)
    run = written(tmp_path / "run.txt", "".join([lines[0], lines[3], lines[1], lines[5], lines[4], lines[2]]))
    assert_joined(read_queries(run, qrels=QRELS))


def test_ids_are_integers_where_all_are_written_as_such():
    queries = read_queries({7: {1: 2.0, 2: 1.0}}, qrels={"7": {"1": 1}})
    assert queries.query_ids.tolist() == [7]
    assert queries.item_ids.tolist() == [1, 2]
    for ids in (["01", "2"], ["-0"], ["+1"], ["", "1"], ["1" * 19], ["1_0"], ["１"], ["-"]):
        assert read_queries({"007": dict.fromkeys(ids, 1.0)}).item_ids.tolist() == ids
    for numbers in ([0, -7, 10], [10**18 - 1, 1 - 10**18]):
        assert read_queries({"q": dict.fromkeys(numbers, 1.0)}).item_ids.tolist() == numbers


def test_a_run_alone_is_unjudged():
    with pytest.raises(DataError, match="a run needs its judgments as `qrels=`"):
        read_queries(RUN).need_relevance()


@pytest.mark.parametrize(
    ("run", "qrels", "said"),
    [
        (RUN, {"x": {"a": 1}}, "run and qrels share no query: q1, q2, q3 here, x there"),
        (
            {"q": {"a": float("nan"), "b": None}},
            QRELS,
            r"run: row 1, column 'score', query 'q': no value \(2 such rows\).*`missing_score=drop`",
        ),
        ({"q": {"a": 1e60}}, QRELS, r"run: row 1, column 'score', query 'q': 1e\+60; expected a finite number within"),
        (
            {"q": {"a": "high", "b": "x"}},
            QRELS,
            r"run: row 1, .*'score', query 'q': 'high' \(text\) \(2 such rows\); expected",
        ),
        (RUN, {"q1": {"a": float("inf")}}, "qrels: row 1, column 'relevance': inf; expected a finite number"),
        (RUN, {"q1": {"a": 1}, "q2": 3}, "qrels: query 'q2' has a int; expected {query: {item: number}}"),
        ({}, QRELS, "run: the table has no rows"),
        (None, QRELS, "a NoneType is neither a path nor a pandas"),
        (3, QRELS, "neither a path nor a pandas"),
    ],
)
def test_what_cannot_be_joined_is_refused(run, qrels, said):
    with pytest.raises(DataError, match=said):
        read_queries(run, qrels=qrels)


def test_repeated_pairs_are_refused_by_row(tmp_path):
    run = written(tmp_path / "run.txt", trec_run(RUN) + "q1 Q0 b 9 0.5 tag\n")
    with pytest.raises(DataError, match=r"run\.txt: row 7, .*, query 'q1': item 'b' appears twice \(1 row"):
        read_queries(run, qrels=QRELS)
    queries = read_queries(run, qrels=QRELS, duplicates="first")
    assert_joined(queries)
    assert queries.dropped == {"duplicates": 1}
    qrels = written(tmp_path / "qrels.txt", trec_qrels(QRELS) + "q1 0 b 2\n")
    assert_joined(read_queries(RUN, qrels=qrels))
    qrels.write_text(trec_qrels(QRELS) + "q1 0 b 1\n")
    with pytest.raises(
        DataError, match=r"qrels\.txt: row 7: item 'b' of query 'q1' has grade 1, but 2 in row 1; expected"
    ):
        read_queries(RUN, qrels=qrels)


def test_a_format_can_be_named(tmp_path):
    odd = written(tmp_path / "run.txt", '{"q Q0 a 1 2.5 tag\n')
    with pytest.raises(DataError, match="not JSON"):
        read_queries(odd)
    assert read_queries(odd, format="trec").query_ids.tolist() == ['{"q']
    with pytest.raises(ValueError, match="one of trec, table, json; got 'xml'"):
        read_queries(odd, format="xml")


def test_three_columns_without_a_header_are_refused(tmp_path):
    run = written(tmp_path / "run.tsv", "q1\ta\t1\nq1\tb\t2\n")
    with pytest.raises(DataError, match=r"no query column .*; the columns are q1, a, 1"):
        read_queries(run, qrels=QRELS)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a"])
@pytest.mark.parametrize("blank", [" ", "\t", "   "])
def test_trec_text_given_alone_is_a_run(tmp_path, name, blank):
    run = read_queries(written(tmp_path / name, trec_run(RUN).replace(" ", blank)))
    assert run.scores.tolist() == [3, 2, 1, 1.5, 0.5, 1]
    with pytest.raises(DataError, match="these as `qrels=`"):
        read_queries(written(tmp_path / name, trec_qrels(QRELS).replace(" ", blank)))
    with pytest.raises(DataError, match="looks like a TREC run; expected its judgments"):
        read_queries(RUN, qrels=written(tmp_path / name, trec_run(RUN).replace(" ", blank)))


def test_the_grades_of_beir_are_not_taken_for_grades_of_a_table(tmp_path):
    for columns in (None, Columns(query="query-id", item="corpus-id")):
        with pytest.raises(DataError, match="a run needs its judgments as `qrels=`"):
            read_queries(JUDGMENTS["beir"](tmp_path), columns).need_relevance()


def table_with_gaps(missing):
    return pa.table(
        {
            "query_id": ["a", "a", "a", "b", "b", "c"],
            "item_id": ["x", "y", "z", "x", "y", "x"],
            "score": [3.0, 2.0, 1.0, 2.0, 1.0, 1.0],
            "relevance": pa.array([missing, 2.0, 1.0, 1.0, missing, missing], pa.float64()),
        }
    )


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_grade_is_refused_with_the_options(missing):
    with pytest.raises(DataError, match=r"row 1, column 'relevance'.*`unjudged=zero`, `unjudged=drop` or"):
        read_queries(table_with_gaps(missing))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_each_policy_counts_missing_grades_its_way(missing):
    table = table_with_gaps(missing)
    zero = read_queries(table, unjudged="zero")
    assert zero.relevance.tolist() == [0, 2, 1, 1, 0, 0]
    assert zero.judged.tolist() == [False, True, True, True, False, False]
    assert zero.notes == ("3 items without a grade (50.0 %): counted as irrelevant (`unjudged=zero`)",)
    assert n_unjudged(zero, 1) / len(zero) == pytest.approx(2 / 3)
    dropped = read_queries(table, unjudged="drop")
    assert dropped.query_ids.tolist() == ["a", "b"]
    assert dropped.item_ids.tolist() == ["y", "z", "x"]
    assert "1 query without a graded item left out" in dropped.notes[-1]
    worst = read_queries(table, unjudged="worst")
    assert worst.relevance.tolist() == [0, 2, 1, 1, 0, 0]
    assert ideal_dcg(worst, k=2).tolist() == [3 + 3 * discount(2)[1], 3 + 1 * discount(2)[1], 3]
    assert relevant_total(worst).tolist() == [3, 2, 1]


def test_worst_is_a_bound_whatever_the_missing_grades():
    rng = np.random.default_rng(20230)
    for _ in range(200):
        n = int(rng.integers(2, 9))
        grades = rng.integers(0, 4, n).astype(float)
        hidden = rng.random(n) < 0.4
        hidden[int(np.argmax(grades))] = False  # the largest grade is known
        if grades.max() == 0:
            continue
        columns = {"query_id": [1] * n, "score": rng.normal(size=n)}
        truth = read_queries(pa.table(columns | {"relevance": grades}))
        bound = read_queries(pa.table(columns | {"relevance": np.where(hidden, np.nan, grades)}), unjudged="worst")
        assert (ndcg(bound, k=3) <= ndcg(truth, k=3) + 1e-12).all()


def test_policies_apply_to_runs():
    with pytest.raises(DataError, match="run with qrels: item 'a' of query 'q1' has no grade; expected"):
        read_queries(RUN, qrels=QRELS, unjudged="refuse")
    assert read_queries(RUN, qrels=QRELS, unjudged="drop").item_ids.tolist() == ["b", "c", "b", "a"]
    worst = read_queries(RUN, qrels=QRELS, unjudged="worst")
    assert worst.unretrieved[1].tolist() == [3, 3]
    with pytest.raises(ValueError, match="refuse, zero, drop, worst; got 'best'"):
        read_queries(RUN, qrels=QRELS, unjudged="best")


def assert_same(queries, expected):
    for field in fields(Queries):
        if field.name not in ("absent", "notes", "rows", "tie_order", "items", "grade_column"):
            mine, theirs = getattr(queries, field.name), getattr(expected, field.name)
            if field.name == "unretrieved" and theirs is not None:
                for part, other in zip(mine, theirs, strict=True):
                    np.testing.assert_array_equal(part, other)
            else:
                np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
    np.testing.assert_array_equal(queries.item_ids, expected.item_ids)
    assert queries.fingerprint == expected.fingerprint
    tied, others = (replace(some, scores=np.zeros(some.n_rows)) for some in (queries, expected))
    np.testing.assert_array_equal(tied.by_score, others.by_score)


@pytest.mark.parametrize("policy", ["zero", "drop", "worst"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_written_copy_says_the_same(tmp_path, policy, suffix):
    queries = read_queries(RUN, qrels=QRELS, unjudged=policy, ties="trec")
    write_queries(queries, tmp_path / f"judged.{suffix}")
    assert_same(read_queries(tmp_path / f"judged.{suffix}"), queries)
    if suffix == "parquet":
        assert_same(Queries.concatenate(list(read_blocks(tmp_path / "judged.parquet", rows=1))), queries)


def test_a_copy_in_any_row_order_and_without_metadata_keeps_its_grades(tmp_path):
    queries = read_queries(RUN, qrels=QRELS)
    write_queries(queries, tmp_path / "judged.parquet")
    table = pq.read_table(tmp_path / "judged.parquet").replace_schema_metadata(None)
    back = read_queries(table.take([4, 3, 2, 1, 0]))
    assert back.query_ids.tolist() == ["q2", "q1"]
    assert back.unretrieved[1].tolist() == [3]
    assert back.unretrieved[0].tolist() == [0, 0, 1]
    assert back.unjudged == "zero"
    assert back.judged.tolist() == [True, True, True, True, False]
    assert read_queries(table, unjudged="drop").n_rows == 4


def test_choosing_joining_and_sending_keep_what_belongs_to_a_query():
    queries = read_queries(RUN, qrels=QRELS, ties="trec")
    again = Queries.concatenate([queries[1], queries[0]])[[1, 0]]
    assert_same(again, queries)
    rescored = queries.with_scores([1.0, 2.0, 3.0, 1.0, 2.0])
    np.testing.assert_array_equal(rescored.unretrieved[1], queries.unretrieved[1])
    assert queries[[1]].unretrieved[1].size == 0
    with pytest.raises(DataError, match="count differently"):
        Queries.concatenate([queries[0], replace(queries[1], unjudged="worst")])


def test_grades_outside_the_lists_change_the_fingerprint():
    queries = read_queries(RUN, qrels=QRELS)
    assert queries.fingerprint != replace(queries, unretrieved=None).fingerprint
    offsets, grades = queries.unretrieved
    assert queries.fingerprint != replace(queries, unretrieved=(offsets, grades + 1)).fingerprint


def test_ndcg_counts_what_was_not_retrieved():
    queries = read_queries({"q": {"a": 1.0, "b": 0.5}}, qrels={"q": {"b": 1, "z": 2}})
    assert ndcg(queries, k=2, gain="linear")[0] == pytest.approx(discount(2)[1] / (2 + discount(2)[1]))
    assert relevant_total(queries).tolist() == [2]


def lists(n_queries, n_items, grades, same_items=False):
    rng = np.random.default_rng(20230)
    items = [f"{'' if same_items else query}-{item}" for query in range(n_queries) for item in range(n_items)]
    return Queries.from_arrays(
        scores=rng.normal(size=n_queries * n_items),
        relevance=rng.integers(0, grades, n_queries * n_items),
        query_ids=np.repeat(np.arange(n_queries), n_items),
        item_ids=items,
    )


def test_scores_swapped_with_grades_are_noticed():
    def warning(queries):
        return doubtful_grades(queries, "relevance", 5, False)

    graded, wide = lists(20, 30, 5), lists(20, 30, 200)
    swapped = replace(graded, scores=graded.relevance, relevance=np.exp(graded.scores))
    assert warning(swapped).startswith("every score is one of 5 whole numbers, while relevance takes 600 values")
    assert warning(swapped) in isrr.calibrate(swapped, "ndcg@5 >= 5% of deterministic").warnings
    assert warning(replace(graded, scores=graded.relevance)) is None
    assert warning(replace(graded, scores=np.abs(np.round(2 * graded.scores)))) is None  # coarse scores, few grades
    assert warning(replace(wide, scores=np.arange(600.0))) is None  # many grades, and scores that are ranks


def test_scores_of_which_a_smaller_one_is_better_are_noticed():
    queries = lists(60, 30, 5)
    good = replace(queries, scores=queries.scores + queries.relevance)
    bad = replace(good, scores=-good.scores)
    assert doubtful_grades(good, "relevance", 5, False) is None
    assert "relevance falls as scores rise: is a smaller score better?" in doubtful_grades(bad, "relevance", 5, False)
    assert doubtful_grades(queries, "relevance", 5, False) is None  # scores that know nothing
    assert doubtful_grades(bad[:20], "relevance", 5, False) is None  # too few to tell
    equal = replace(queries, relevance=np.full(queries.n_rows, 0.1))
    assert doubtful_grades(equal, "relevance", 5, False) is None


def test_clicks_taken_for_grades_are_noticed():
    graded, binary = lists(20, 30, 4), lists(20, 30, 2)
    assert doubtful_grades(graded, "relevance", 5, True) is None
    assert doubtful_grades(binary, "label", 5, False) is None
    for name in ("click", "Clicked", "n_clicks", "purchase", "was_bought"):
        assert "isrr clicks calibrate --log … --clicks …" in doubtful_grades(graded, name, 5, False)
    assert "position shown" in doubtful_grades(binary, "label", 5, True)
    assert "no list is longer" in doubtful_grades(lists(20, 5, 2), "label", 5, False)
    assert "the same items as another" in doubtful_grades(lists(20, 30, 2, same_items=True), "label", 5, False)


def test_metrics_divide_by_all_that_is_relevant():
    run = {"found": {"a": 1.0, "b": 0.5}, "missed": {"a": 1.0}, "none": {"a": 1.0}}
    qrels = {"found": {"b": 1, "y": 2, "z": 1}, "missed": {"z": 1}, "none": {"a": 0}}
    queries = read_queries(run, qrels=qrels)
    found = evaluate(queries, [GPLRanker.deterministic(k=2)], ["recall", "precision", "ndcg"])
    ideal = 3 + discount(2)[1]
    expected = {"recall": 1 / 3, "precision": 1 / 2, "ndcg": discount(2)[1] / ideal}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name][:, 0], [value, 0, np.nan], err_msg=name)
    assert has_relevant(queries).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"q1": {"a": 1, "a": 2}}', "'a' appears twice"),
        ('{"q1": {"a": 1}, "q1": {"b": 2}}', "'q1' appears twice"),
        ('{"q1": {"a": %s}}' % ("9" * 5_000), "Exceeds the limit"),
        ('{"q1": {"a": %s}}' % ("[" * 10_000 + "]" * 10_000), "maximum recursion depth exceeded"),
        ('{"q1": {"a": %s}}' % ("[" * 40 + "]" * 40), "row 1, column 'relevance': array.*; expected a number"),
        ("[1]", "a list; expected {query: {item: number}}"),
    ],
)
def test_odd_json_is_refused_in_one_short_line(tmp_path, text, said):
    file = written(tmp_path / "qrels.json", text)
    with pytest.raises(DataError, match=rf"qrels\.json: {said}") as refusal:
        read_queries({"q1": {"a": 1.0}}, qrels=file)
    assert len(str(refusal.value)) < 300


def test_a_number_of_thousands_of_digits_is_refused():
    with pytest.raises(
        DataError, match=r"row 1, column 'relevance': a number of thousands of digits .*; expected a number"
    ):
        read_queries({"q1": {"a": 1.0}}, qrels={"q1": {"a": 10**5_000}})


def test_rows_without_a_score_and_repeated_items_are_dropped_on_demand_and_counted(tmp_path):
    table = pa.table(
        {
            "qid": ["a", "a", "b", "b", "b", "c"],
            "docid": ["x", "y", "x", "y", "x", "x"],
            "score": pa.array([1.0, None, 2.0, float("nan"), 3.0, None]),
            "grade": [1, 0, 2, 0, 1, -1],
        }
    )
    with pytest.raises(
        DataError, match=r"row 2, column 'score', query 'a': no value \(2 such rows\).*`missing_score=drop`"
    ):
        read_queries(table)
    with pytest.raises(DataError, match=r"row 5, column 'docid', query 'b': item 'x' appears twice \(1 row"):
        read_queries(table.slice(0, 5), missing_score="drop")
    queries = read_queries(table.slice(0, 5), missing_score="drop", duplicates="first")
    assert (queries.query_ids.tolist(), queries.scores.tolist()) == (["a", "b"], [1.0, 2.0])
    assert queries.dropped == {"missing_score": 2, "duplicates": 1}
    assert queries.notes == ("2 rows left out (`missing_score=drop`)", "1 row left out (`duplicates=first`)")
    assert queries[1].dropped == queries.dropped
    write_queries(queries, tmp_path / "copy.parquet")
    assert read_queries(tmp_path / "copy.parquet").dropped == queries.dropped
    with pytest.raises(DataError, match="no row has a score"):
        read_queries(table.slice(5), missing_score="drop")
    with pytest.raises(DataError, match=r"`duplicates=first` needs item ids; table: no item column"):
        read_queries(table.drop_columns("docid"), duplicates="first")
    with pytest.raises(
        ValueError, match="`missing_score=` must be refuse or drop, and `duplicates=` refuse or first; got"
    ):
        read_queries(table, missing_score="zero")


def test_an_address_is_read_as_pyarrow_does(tmp_path):
    for part, queries in enumerate((RUN, {"q8": {"a": 1.0}})):
        table = frame(queries, ["qid", "docid", "score"], pa.table)
        pq.write_table(table, tmp_path / f"part-{part}.parquet")
    (tmp_path / "run.csv").write_text(delimited(RUN, ["qid", "docid", "score"], ","))
    for name in ("part-0.parquet", "run.csv"):
        assert_joined(read_queries(f"file://{tmp_path}/{name}", qrels=QRELS))
    assert read_queries(f"file://{tmp_path}/part-*.parquet").query_ids.tolist() == ["q1", "q2", "q3", "q8"]
    with pytest.raises(DataError, match=r"nowhere.parquet: no such file"):
        read_queries(f"file://{tmp_path}/nowhere.parquet")
    with pytest.raises(DataError, match="nothing://x: cannot be read: "):
        read_queries("nothing://x")
