"""A sample of whole queries: the same one from every format and order of rows, and a uniform one."""

from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from isrr import DataError, Queries
from isrr.data import parquet
from isrr.data.sample import digests, in_sample, sample_queries, table_key

N_QUERIES = 500


@pytest.fixture(scope="module")
def table():
    """500 queries of 1 to 8 items, the rows of a query adjacent, a fifth of the queries in segment "web"."""
    rng = np.random.default_rng(20230)
    sizes = rng.integers(1, 9, N_QUERIES)
    names = np.array([f"q{q}" for q in range(N_QUERIES)], object)
    return pa.table(
        {
            "query_id": np.repeat(names, sizes),
            "item_id": [f"d{i}" for i in range(sizes.sum())],
            "score": rng.normal(size=sizes.sum()),
            "relevance": rng.integers(0, 3, sizes.sum()),
            "segment": np.repeat(np.where(np.arange(N_QUERIES) % 5 == 0, "web", "app"), sizes),
        }
    )


def shuffled(table, seed):
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def forms(table, folder):
    """The same table in one Parquet file, as shuffled CSV, in several files that cut queries, and in memory."""
    pq.write_table(table, folder / "one.parquet", row_group_size=200)
    pyarrow.csv.write_csv(shuffled(table, 1), folder / "judged.csv")
    rows, cuts = shuffled(table, 2), [0, 300, 300, 301, 1_000, table.num_rows]
    for i, (start, stop) in enumerate(pairwise(cuts)):
        pq.write_table(rows.slice(start, stop - start), folder / f"part-{i}.parquet")
    frame = shuffled(table, 3)
    return [folder / "one.parquet", folder / "judged.csv", str(folder / "part-*.parquet"), frame, frame.to_pandas()]


@pytest.mark.parametrize("per_segment", [False, True])
def test_every_format_and_order_of_rows_gives_the_same_sample(table, tmp_path, per_segment):
    drawn = [sample_queries(data, sample=120, per_segment=per_segment) for data in forms(table, tmp_path)]
    assert {(one.n_queries, one.key) for one in drawn} == {(N_QUERIES, drawn[0].key)}
    assert len({one.queries.fingerprint for one in drawn}) == 1
    assert len({one.queries.judgments for one in drawn}) == 1
    queries = drawn[0].queries
    assert len(queries) == 120 if not per_segment else 120 < len(queries) < 240
    assert drawn[0].uniform(120).sum() == 120
    if per_segment:
        assert (queries.segments == "web").sum() == 60


def test_the_sample_is_that_of_the_formula():
    ids = np.arange(40)
    key = sum(int.from_bytes(sha256(str(i).encode()).digest()[:8], "big") for i in ids) % 2**64
    order = [int.from_bytes(sha256(f"{key:016x}{i}".encode()).digest()[:8], "big") for i in ids]
    assert table_key(digests(ids)) == f"{key:016x}"
    assert digests(pa.array(ids), f"{key:016x}").tolist() == order
    queries = Queries.from_arrays(scores=np.arange(80.0), query_ids=np.repeat(ids, 2))
    drawn = sample_queries(queries, sample=7)
    assert drawn.queries.query_ids.tolist() == sorted(np.argsort(order)[:7].tolist())


@pytest.mark.parametrize("sample", [N_QUERIES, 10_000, None])
def test_a_table_that_is_no_larger_is_taken_whole(table, tmp_path, sample):
    pq.write_table(table, tmp_path / "judged.parquet")
    drawn = sample_queries(tmp_path / "judged.parquet", sample=sample)
    assert len(drawn.queries) == drawn.n_queries == N_QUERIES
    assert drawn.uniform(sample).all()


def test_every_query_is_as_likely_as_any_other():
    n_tables, n_ids, sample = 400, 50, 10
    counts = np.zeros(n_ids)
    for t in range(n_tables):  # an extra query makes another table, and another key
        ids = np.append(np.arange(n_ids), 1_000 + t)
        counts += in_sample(digests(ids, table_key(digests(ids))), sample)[:n_ids]
    expected = n_tables * sample / (n_ids + 1)
    assert ((counts - expected) ** 2 / expected).sum() < 86  # the 99.9 % quantile of chi-squared with 49 degrees


def test_a_sample_of_nothing_is_refused(table):
    with pytest.raises(DataError, match="at least 1, got 0"):
        sample_queries(table, sample=0)


def test_a_missing_query_id_is_refused_by_file_and_column(table, tmp_path):
    pq.write_table(
        table.set_column(0, "query_id", pa.array([None] * table.num_rows, pa.string())), tmp_path / "x.parquet"
    )
    with pytest.raises(DataError, match=r"x\.parquet.*query_id.*no value"):
        sample_queries(tmp_path / "x.parquet", sample=10)


def test_an_error_says_where_its_rows_are_counted(table, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet.ParquetFiles.batches, "__defaults__", (None, 1_000))
    ids = table["query_id"].to_pylist()
    ids[1_500] = None
    pq.write_table(table.set_column(0, "query_id", pa.array(ids)), tmp_path / "ids.parquet")
    with pytest.raises(DataError, match=r"ids\.parquet, rows from 1001: row 501, column 'query_id': no value"):
        sample_queries(tmp_path / "ids.parquet", sample=10)
    below = pa.array(np.full(table.num_rows, -1.0))
    pq.write_table(table.set_column(3, "relevance", below), tmp_path / "below.parquet")
    with pytest.raises(DataError, match=r"below\.parquet, rows of the sample: row 1, column 'relevance', query 'q"):
        sample_queries(tmp_path / "below.parquet", sample=10)
    for part in "ab":
        pq.write_table(table, tmp_path / f"part-{part}.parquet")
    with pytest.raises(DataError, match=r"part-a\.parquet and 1 more, rows of the sample: row .* appears twice"):
        sample_queries(str(tmp_path / "part-*.parquet"), sample=10)
