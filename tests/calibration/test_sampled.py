"""A certificate of a sample is the same from every format, engine and order of rows, and says what it is."""

from itertools import pairwise

import numpy as np
import pandas
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import isrr
from isrr import PromiseError, calibrate, check
from isrr.data.copies import table_of
from isrr.promises import Promise
from isrr.reporting.portrait import retrace

PROMISE = "ndcg@5 >= 90% of deterministic"


@pytest.fixture(scope="module")
def forms(judged, tmp_path_factory):
    """The same table as Parquet, shuffled CSV, in many files that cut queries, and in a pandas frame."""
    folder, rng = tmp_path_factory.mktemp("forms"), np.random.default_rng(20230)
    named = isrr.Queries.from_arrays(
        scores=judged.scores, relevance=judged.relevance, query_ids=np.repeat(judged.query_ids, judged.n_items),
        segments=np.repeat(judged.segments, judged.n_items), item_ids=[f"d{i}" for i in range(judged.n_rows)],
    )  # fmt: skip
    table = table_of(named)
    pq.write_table(table, folder / "one.parquet", row_group_size=500)
    rows = table.take(rng.permutation(table.num_rows))
    pyarrow.csv.write_csv(rows, folder / "judged.csv")
    for i, (start, stop) in enumerate(pairwise(np.linspace(0, table.num_rows, 8).astype(int).tolist())):
        pq.write_table(rows.slice(start, stop - start), folder / f"part-{i}.parquet")
    frame = pandas.read_parquet(folder / "one.parquet").sample(frac=1.0, random_state=1)
    return [folder / "one.parquet", folder / "judged.csv", f"{folder}/part-*.parquet", frame, named]


@pytest.mark.parametrize("promise", [PROMISE, Promise.parse(PROMISE, per="segment")], ids=["pooled", "per segment"])
def test_every_form_of_a_table_gives_the_same_certificate(forms, promise):
    outcomes = [calibrate(data, promise, sample=400) for data in forms]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    p = outcomes[0].provenance
    assert (p.sample, p.n_table) == (400, 700)
    assert f"{p.n_queries:,} of 700 judged queries" in outcomes[0].text(verbose=True)
    if outcomes[0].promises[0].per is None:
        assert p.n_judged == 400
    else:
        assert sum(test.n_queries for test in outcomes[0].tests) == p.n_queries > 300
    checks = [str(check(outcomes[0], data, sample=300)) for data in forms]
    assert set(checks) == {checks[0]}
    assert len(retrace(outcomes[0], forms[0])) == p.n_queries


def test_all_queries_are_used_where_the_sample_is_none_or_larger(forms):
    whole = calibrate(forms[0], PROMISE, sample=None)
    assert calibrate(forms[0], PROMISE) == calibrate(forms[0], PROMISE, sample=700) == whole
    assert whole.provenance.sample is None
    assert " of 700" not in whole.text(verbose=True)
    with pytest.raises(PromiseError, match="`sample=` must be a whole number ≥ 1, got 0"):
        calibrate(forms[0], PROMISE, sample=0)
