"""NDCG, precision and recall of a run with its qrels, equal to those of trec_eval by way of pytrec_eval."""

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from isrr.data.tables import read_queries
from isrr.gains import ndcg, relevant_total
from isrr_paper.letor import read_letor

DATA = Path(__file__).parents[3] / "shared" / "data"
CUTS = (1, 5, 10, 1000)


def trec_files(folder, letor, *, feature, rounding):
    """A LETOR file as a run and qrels: a feature as the score, rounded to make ties; rows left out of either."""
    queries, rng = read_letor(letor), np.random.default_rng(20230)
    n = queries.n_rows
    scores = np.round(queries.features[:, feature].astype(np.float64), rounding)
    query = np.repeat(queries.query_ids, queries.n_items)
    item = [f"D{number}" for number in rng.permutation(n)]
    grades = np.where(rng.random(n) < 0.02, -1, queries.relevance).astype(int)
    retrieved, judged = rng.random(n) < 0.7, rng.random(n) < 0.8
    run, qrels = folder / "run.txt", folder / "qrels.txt"
    order = rng.permutation(n)
    run.write_text("".join(f"{query[r]} Q0 {item[r]} 1 {scores[r]} tag\n" for r in order if retrieved[r]))
    qrels.write_text("".join(f"{query[r]}\t0\t{item[r]}\t{grades[r]}\n" for r in order if judged[r]))
    return run, qrels


def trec_eval(run, qrels):
    with run.open() as lists, qrels.open() as judgments:
        judged = pytrec_eval.parse_qrel(judgments)
        retrieved = pytrec_eval.parse_run(lists)
    cuts = ",".join(map(str, CUTS))
    measures = {f"ndcg_cut.{cuts}", f"P.{cuts}", f"recall.{cuts}"}
    return pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(retrieved)


def relevant_among_first(queries, k):
    """How many of the first k items by score are relevant, query by query."""
    starts = np.repeat(queries.offsets[:-1], queries.n_items)
    relevant = queries.relevance[starts + queries.by_score] > 0
    place = np.arange(queries.n_rows) - starts
    return np.add.reduceat(relevant & (place < k), queries.offsets[:-1], dtype=np.int64)


def assert_equals_trec_eval(queries, figures):
    assert {str(query) for query in queries.query_ids} == set(figures)
    for k in CUTS:
        found = relevant_among_first(queries, k)
        total = relevant_total(queries)
        ours = {
            f"ndcg_cut_{k}": ndcg(queries, k=k, gain="linear", empty_query="zero"),
            f"P_{k}": found / k,
            f"recall_{k}": found / np.maximum(total, 1),
        }
        for measure, values in ours.items():
            theirs = [figures[str(query)][measure] for query in queries.query_ids]
            np.testing.assert_allclose(values, theirs, rtol=0, atol=1e-9, err_msg=measure)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not here")
@pytest.mark.parametrize(
    ("letor", "feature", "rounding"),
    [("nfcorpus/test.txt.gz", 0, 1), ("nfcorpus/vali.txt.gz", 0, 17), ("mq2007/S5.txt", 24, 2)],
)
def test_figures_equal_those_of_trec_eval(tmp_path, letor, feature, rounding):
    run, qrels = trec_files(tmp_path, DATA / letor, feature=feature, rounding=rounding)
    figures = trec_eval(run, qrels)
    queries = read_queries(run, qrels=qrels, ties="trec")
    assert queries.unretrieved is not None
    assert not queries.judged.all()
    assert any("negative grade" in note for note in queries.notes)
    assert_equals_trec_eval(queries, figures)


def test_ties_are_those_of_32_bit_scores(tmp_path):
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("q Q0 a 1 1.00000001 t\nq Q0 b 2 1.0 t\nq Q0 z 3 0.99999999 t\nq Q0 é 4 1 t\nq Q0 B 5 1 t\n")
    qrels.write_text("q 0 z 3\nq 0 a 1\nq 0 é 2\nq 0 c 1\nr 0 x 1\n")
    figures = trec_eval(run, qrels)
    assert_equals_trec_eval(read_queries(run, qrels=qrels, ties="trec"), figures)


def test_made_lists_equal_trec_eval(tmp_path):
    rng = np.random.default_rng(20231)
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    lines, judgments = [], []
    for query in range(60):
        pool = rng.choice(400, 60, replace=False)
        for place, item in enumerate(pool[: rng.integers(1, 40)]):
            lines.append(f"q{query} Q0 d{item} {place} {rng.integers(8) / 4} made\n")
        for item in pool[rng.random(60) < 0.5]:
            judgments.append(f"q{query} 0 d{item} {rng.integers(-1, 4)}\n")
    run.write_text("".join(lines))
    qrels.write_text("".join(judgments))
    assert_equals_trec_eval(read_queries(run, qrels=qrels, ties="trec"), trec_eval(run, qrels))
