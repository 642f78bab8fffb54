"""A ranker as a step of a PyTerrier pipeline."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyterrier as pt
import pytest

from isrr.adapters.pyterrier import StochasticRanker
from isrr.ranker.gpl import GPLRanker


def retrieved(make):
    rng = np.random.default_rng(20230)
    qid = rng.permutation(np.repeat(["q1", "q2", "q3"], [8, 2, 1]))
    columns = {"qid": qid, "docno": [f"d{row}" for row in range(11)], "score": rng.normal(size=11), "rank": range(11)}
    return make(columns | {"query": [f"text of {query}" for query in qid]})


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_ranks_are_those_that_the_ranker_serves(make):
    frame, ranker = retrieved(make), GPLRanker(k=3, temperature=0.7)
    out = StochasticRanker(ranker, session="u42").transform(frame)
    assert type(out) is type(frame)
    assert set(out.columns) == {*frame.columns, "model_score"}
    before, after = (pd.DataFrame({name: list(some[name]) for name in some.columns}) for some in (frame, out))
    for query, rows in after.groupby("qid"):
        candidates = before[before.qid == query]
        served = ranker.rank(candidates.score.to_numpy(), query_id=query, session="u42")
        expected = candidates.docno.to_numpy()[served].tolist()
        rest = candidates[~candidates.docno.isin(expected)].sort_values("score", ascending=False).docno.tolist()
        assert rows.docno.tolist() == expected + rest
        assert rows["rank"].tolist() == list(range(len(rows)))
        assert rows.score.is_monotonic_decreasing
    by_item = before.set_index("docno").score
    assert after.model_score.tolist() == by_item[after.docno].tolist()


def test_a_frame_with_a_strange_index_and_an_empty_one_are_fine():
    frame = retrieved(pd.DataFrame)
    ranker = StochasticRanker(GPLRanker(), session=1)
    numbered = frame.set_axis(range(100, 111))
    pd.testing.assert_frame_equal(ranker.transform(numbered), ranker.transform(frame))
    empty = ranker.transform(frame.iloc[:0])
    assert len(empty) == 0
    assert set(empty.columns) == {*frame.columns, "model_score"}


def test_in_a_pipeline_of_pyterrier_it_ranks_what_comes_before_it():
    frame, topics = retrieved(pd.DataFrame), pd.DataFrame({"qid": ["q2", "q1"], "query": ["two", "one"]})
    ranker = StochasticRanker(GPLRanker(k=3), session="u42")
    assert isinstance(ranker, pt.Transformer)
    shown = (pt.Transformer.from_df(frame[["qid", "docno", "score"]]) >> ranker % 2)(topics)
    expected = ranker.transform(frame)
    for query, rows in shown.groupby("qid"):
        first = expected[(expected.qid == query) & (expected["rank"] < 2)]
        assert rows.sort_values("rank").docno.tolist() == first.docno.tolist()
    assert sorted(shown.qid) == ["q1", "q1", "q2", "q2"]
    assert {"score", "rank", "model_score"} <= set(pt.inspect.transformer_outputs(ranker, ["qid", "docno", "score"]))


def test_a_pipeline_is_measured_by_an_experiment_of_pyterrier():
    frame = retrieved(pd.DataFrame)
    pipeline = pt.Transformer.from_df(frame[["qid", "docno", "score"]]) >> StochasticRanker(GPLRanker.deterministic())
    best = frame.sort_values("score").groupby("qid").tail(1)
    qrels = best[["qid", "docno"]].assign(label=1)
    topics = pd.DataFrame({"qid": ["q1", "q2", "q3"], "query": "text"})
    assert pt.Experiment([pipeline], topics, qrels, ["recip_rank"]).recip_rank.tolist() == [1.0]


def test_without_pyterrier_it_takes_frames_all_the_same():
    probe = (
        "import sys; sys.modules['pyterrier'] = None; import isrr, pandas as pd, isrr.adapters.pyterrier as adapter\n"
        "frame = pd.DataFrame({'qid': ['q', 'q'], 'docno': ['a', 'b'], 'score': [1.0, 2.0]})\n"
        "print(*adapter.StochasticRanker(isrr.GPLRanker.deterministic()).transform(frame).docno)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("b a\n", "")
