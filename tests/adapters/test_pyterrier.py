"""A ranker as a step of a PyTerrier pipeline."""

import importlib
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pandas as pd
import polars as pl
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
        given = before[before.qid == query]
        served = ranker.rank(given.score.to_numpy(), query_id=query, session="u42")
        expected = given.docno.to_numpy()[served].tolist()
        rest = given[~given.docno.isin(expected)].sort_values("score", ascending=False).docno.tolist()
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
    assert len(ranker.transform(frame.iloc[:0])) == 0


def test_where_pyterrier_is_installed_it_is_one_of_its_transformers(monkeypatch):
    fake = types.ModuleType("pyterrier")
    fake.__spec__ = ModuleSpec("pyterrier", None)
    fake.Transformer = type("Transformer", (), {})
    monkeypatch.setitem(sys.modules, "pyterrier", fake)
    module = importlib.reload(sys.modules["isrr.adapters.pyterrier"])
    assert issubclass(module.StochasticRanker, fake.Transformer)
    monkeypatch.delitem(sys.modules, "pyterrier")
    importlib.reload(module)
