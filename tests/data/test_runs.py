"""A run and its judgments, in the formats people have, become the same queries."""

import gzip
import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from isrr.data.clicks import looks_like_clicks
from isrr.data.frames import read_blocks, read_queries, write_queries
from isrr.data.identifiers import Ids
from isrr.data.queries import Queries
from isrr.data.runs import _first_equal
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


def judgment_list(table):
    return [
        {"query": query, "ratings": [{"docId": item, "rating": f"{value:.3f}"} for item, value in listed.items()]}
        for query, listed in table.items()
    ]


def rank_eval(table):
    requests = [
        {
            "id": query,
            "request": {"query": {"match": {"title": query}}},
            "ratings": [{"_index": "shop", "_id": item, "rating": value} for item, value in listed.items()],
        }
        for query, listed in table.items()
    ]
    return {"requests": requests, "metric": {"dcg": {"k": 10}}}


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
    "quepid": lambda folder: written(folder / "case.csv", delimited(QRELS, ["query", "docid", "rating"], ",")),
    "opensearch": lambda folder: written(
        folder / "judgments.json", json.dumps({"name": "x", "judgmentRatings": judgment_list(QRELS)}, indent=2)
    ),
    "opensearch, as returned": lambda folder: written(
        folder / "judgments.json",
        json.dumps({"hits": {"hits": [{"_source": {"judgmentRatings": judgment_list(QRELS)}}]}}),
    ),
    "opensearch, the list": lambda folder: written(folder / "list.json", json.dumps(judgment_list(QRELS))),
    "elasticsearch": lambda folder: written(folder / "rank_eval.json", json.dumps(rank_eval(QRELS))),
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
    assert_joined(read_queries(run=RUNS[run](tmp_path), qrels=QRELS))


@pytest.mark.parametrize("qrels", JUDGMENTS)
def test_every_kind_of_qrels_is_joined_alike(tmp_path, qrels):
    assert_joined(read_queries(run=RUN, qrels=JUDGMENTS[qrels](tmp_path)))


def test_queries_in_one_file_only_are_named_and_counted():
    notes = read_queries(run=RUN, qrels=QRELS | {"q1": {"b": -2, "c": -1, "a": 1}}).notes
    assert notes[:3] == (
        "qrels: 2 negative grades counted as 0",
        "run: 1 query without judgments left out: q3",
        "qrels: 1 judged query not in the run left out: q9",
    )


def test_items_that_share_a_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(Ids, "hashes", lambda ids: np.zeros(len(ids), np.uint64))
    assert_joined(read_queries(run=RUN, qrels=QRELS))


def test_rows_meet_the_first_equal_row_of_their_query():
    rng = np.random.default_rng(20237)
    for n_others in (0, 3, 2_000):
        queries, judged_in = np.sort(rng.integers(0, 500, 9_000)), rng.integers(0, 500, n_others)
        names, judged = (rng.integers(0, 8, n).astype(np.uint64) for n in (9_000, n_others))
        found, first = _first_equal(queries, names, judged_in, judged)
        others = list(zip(judged_in.tolist(), judged.tolist(), strict=True))
        place = {pair: len(others) - 1 - i for i, pair in enumerate(reversed(others))}
        assert found.tolist() == [place.get(pair, -1) for pair in zip(queries.tolist(), names.tolist(), strict=True)]
        assert first.tolist() == [place[pair] for pair in others]


def test_scattered_rows_are_brought_together(tmp_path):
    lines = trec_run(RUN).splitlines(keepends=True)
    run = written(tmp_path / "run.txt", "".join([lines[0], lines[3], lines[1], lines[5], lines[4], lines[2]]))
    assert_joined(read_queries(run=run, qrels=QRELS))


def test_ids_are_integers_where_all_are_written_as_such():
    queries = read_queries(run={7: {1: 2.0, 2: 1.0}}, qrels={"7": {"1": 1}})
    assert queries.query_ids.tolist() == [7]
    assert queries.item_ids.tolist() == [1, 2]
    for ids in (["01", "2"], ["-0"], ["+1"], ["", "1"], ["1" * 19], ["1_0"], ["１"], ["-"]):
        assert read_queries(run={"007": dict.fromkeys(ids, 1.0)}).item_ids.tolist() == ids
    for numbers in ([0, -7, 10], [10**18 - 1, 1 - 10**18]):
        assert read_queries(run={"q": dict.fromkeys(numbers, 1.0)}).item_ids.tolist() == numbers


def test_a_run_alone_is_unjudged():
    with pytest.raises(DataError, match="expected the judgments as `qrels=`"):
        read_queries(run=RUN).need_relevance()


@pytest.mark.parametrize(
    ("run", "qrels", "said"),
    [
        (RUN, {"x": {"a": 1}}, "share no query: q1, q2, q3 here, x there"),
        ({"q": {"a": float("nan")}}, QRELS, "the score of item 'a' of query 'q' is nan"),
        ({"q": {"a": 1e60}}, QRELS, "expected a finite number within ±1e50"),
        ({"q": {"a": "high"}}, QRELS, "found 'high'; expected a number"),
        ({"q": 3}, QRELS, "query 'q' has a int"),
        ({}, QRELS, "run: there are no results"),
        (None, QRELS, "expected the run they belong to, as `run=`"),
        (RUN, judgment_list({"q1": {"a": 1}})[0] | {"requests": 3}, 'expected {"id"'),
        (RUN, {"judgmentRatings": [{"query": "q1", "ratings": [{"rating": 1}]}]}, "entry 1: found"),
        ({"judgmentRatings": judgment_list(QRELS)}, QRELS, "these are judgments, not a run"),
        (3, QRELS, "neither a path nor a pandas"),
    ],
)
def test_what_cannot_be_joined_is_refused(run, qrels, said):
    with pytest.raises(DataError, match=said.replace("(", r"\(").replace("{", r"\{")):
        read_queries(run=run, qrels=qrels)


def test_repeated_pairs_are_refused_by_line(tmp_path):
    run = written(tmp_path / "run.txt", trec_run(RUN) + "\nq1 Q0 b 9 0.5 tag\n")
    with pytest.raises(DataError, match=r"run\.txt:8: item 'b' of query 'q1' appears twice, first at .*run\.txt:2"):
        read_queries(run=run, qrels=QRELS)
    qrels = written(tmp_path / "qrels.txt", trec_qrels(QRELS) + "q1 0 b 2\n")
    assert_joined(read_queries(run=RUN, qrels=qrels))
    qrels.write_text(trec_qrels(QRELS) + "q1 0 b 1\n")
    with pytest.raises(DataError, match=r"qrels\.txt:7: item 'b' of query 'q1' has grade 1, but 2 at .*qrels\.txt:1"):
        read_queries(run=RUN, qrels=qrels)


def test_a_format_can_be_named(tmp_path):
    odd = written(tmp_path / "run.txt", '{"q Q0 a 1 2.5 tag\n')
    with pytest.raises(DataError, match="not JSON"):
        read_queries(run=odd)
    assert read_queries(run=odd, run_format="trec").query_ids.tolist() == ['{"q']
    with pytest.raises(ValueError, match="one of trec, table, json; got 'xml'"):
        read_queries(run=odd, run_format="xml")


def test_three_columns_without_a_header_are_refused(tmp_path):
    run = written(tmp_path / "run.tsv", "q1\ta\t1\nq1\tb\t2\n")
    with pytest.raises(DataError, match="expected TREC text"):
        read_queries(run=run, qrels=QRELS)


@pytest.mark.parametrize(("text", "call"), [(trec_run(RUN), "`run=` .* `qrels=` …"), (trec_qrels(QRELS), "`run=` … ")])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a"])
def test_trec_text_given_alone_names_the_right_call(tmp_path, text, call, name):
    with pytest.raises(DataError, match=call):
        read_queries(written(tmp_path / name, text))
    with pytest.raises(DataError, match=call):
        read_queries(written(tmp_path / name, text.replace(" ", "\t")))


def test_the_grades_of_beir_are_not_taken_for_scores(tmp_path):
    file = JUDGMENTS["beir"](tmp_path)
    for named in ({}, {"query": "query-id", "item": "corpus-id"}):
        with pytest.raises(DataError, match=r"'score' is the grade.*`run=` and `qrels=`"):
            read_queries(file, **named)


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
        read_queries(run=RUN, qrels=QRELS, unjudged="refuse")
    assert read_queries(run=RUN, qrels=QRELS, unjudged="drop").item_ids.tolist() == ["b", "c", "b", "a"]
    worst = read_queries(run=RUN, qrels=QRELS, unjudged="worst")
    assert worst.unretrieved[1].tolist() == [3, 3]
    with pytest.raises(ValueError, match="refuse, zero, drop, worst; got 'best'"):
        read_queries(run=RUN, qrels=QRELS, unjudged="best")


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
    queries = read_queries(run=RUN, qrels=QRELS, unjudged=policy, ties="trec")
    write_queries(queries, tmp_path / f"judged.{suffix}")
    assert_same(read_queries(tmp_path / f"judged.{suffix}"), queries)
    if suffix == "parquet":
        assert_same(Queries.concatenate(list(read_blocks(tmp_path / "judged.parquet", rows=1))), queries)


def test_a_copy_in_any_row_order_and_without_metadata_keeps_its_grades(tmp_path):
    queries = read_queries(run=RUN, qrels=QRELS)
    write_queries(queries, tmp_path / "judged.parquet")
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "judged.parquet").replace_schema_metadata(None)
    back = read_queries(table.take([4, 3, 2, 1, 0]))
    assert back.query_ids.tolist() == ["q2", "q1"]
    assert back.unretrieved[1].tolist() == [3]
    assert back.unretrieved[0].tolist() == [0, 0, 1]
    assert back.unjudged == "zero"
    assert back.judged.tolist() == [True, True, True, True, False]
    assert read_queries(table, unjudged="drop").n_rows == 4


def test_choosing_joining_and_sending_keep_what_belongs_to_a_query():
    queries = read_queries(run=RUN, qrels=QRELS, ties="trec")
    again = Queries.concatenate([queries[1], queries[0]])[[1, 0]]
    assert_same(again, queries)
    assert_same(Queries.concatenate([queries[0], queries[1]]), queries)
    rescored = queries.with_scores([1.0, 2.0, 3.0, 1.0, 2.0])
    np.testing.assert_array_equal(rescored.unretrieved[1], queries.unretrieved[1])
    assert queries[[1]].unretrieved[1].size == 0
    with pytest.raises(DataError, match="count differently"):
        Queries.concatenate([queries[0], replace(queries[1], unjudged="worst")])


def test_grades_outside_the_lists_change_the_fingerprint():
    queries = read_queries(run=RUN, qrels=QRELS)
    assert queries.fingerprint != replace(queries, unretrieved=None).fingerprint
    offsets, grades = queries.unretrieved
    assert queries.fingerprint != replace(queries, unretrieved=(offsets, grades + 1)).fingerprint


def test_ndcg_counts_what_was_not_retrieved():
    queries = read_queries(run={"q": {"a": 1.0, "b": 0.5}}, qrels={"q": {"b": 1, "z": 2}})
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


def test_clicks_taken_for_grades_are_noticed():
    graded, binary = lists(20, 30, 4), lists(20, 30, 2)
    assert looks_like_clicks(graded, "relevance", 5, True) is None
    assert looks_like_clicks(binary, "label", 5, False) is None
    for name in ("click", "Clicked", "n_clicks", "purchase", "was_bought"):
        assert "isrr clicks calibrate --log … --clicks …" in looks_like_clicks(graded, name, 5, False)
    assert "position shown" in looks_like_clicks(binary, "label", 5, True)
    assert "no list is longer" in looks_like_clicks(lists(20, 5, 2), "label", 5, False)
    assert "the same items as another" in looks_like_clicks(lists(20, 30, 2, same_items=True), "label", 5, False)


def test_metrics_divide_by_all_that_is_relevant():
    run = {"found": {"a": 1.0, "b": 0.5}, "missed": {"a": 1.0}, "none": {"a": 1.0}}
    qrels = {"found": {"b": 1, "y": 2, "z": 1}, "missed": {"z": 1}, "none": {"a": 0}}
    queries = read_queries(run=run, qrels=qrels)
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
        ('[{"query": "q1", "ratings": [{"docId": "a", "rating": 1, "rating": 2}]}]', "'rating' appears twice"),
        ('{"q1": {"a": %s}}' % ("9" * 5_000), "Exceeds the limit"),
        ('{"q1": {"a": %s}}' % ("[" * 10_000 + "]" * 10_000), "line 1: lists and objects more than 64 deep"),
        ('{"q1":\n{"a": %s}}' % ('{"a":' * 900 + "1" + "}" * 900), "line 2: lists and objects more than 64 deep"),
        ('{"q1": {"a": %s}}' % ("[" * 40 + "]" * 40), r"entry 1: found \[\[\[\[\[\[\[\.\.\.\]+; expected a number"),
    ],
)
def test_odd_json_is_refused_in_one_short_line(tmp_path, text, said):
    file = written(tmp_path / "qrels.json", text)
    with pytest.raises(DataError, match=rf"qrels\.json: {said}") as refusal:
        read_queries(run={"q1": {"a": 1.0}}, qrels=file)
    assert len(str(refusal.value)) < 300


def test_a_number_of_thousands_of_digits_is_refused():
    with pytest.raises(DataError, match="entry 1: found a number of thousands of digits; expected a number"):
        read_queries(run={"q1": {"a": 1.0}}, qrels={"q1": {"a": 10**5_000}})
