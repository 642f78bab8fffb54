"""Which files a path names, and which of them make one table; the same words whoever reads them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from isrr import DataError
from isrr.engines.spark import quoted

PROMISE = "ndcg@5 >= 0.3"
STREAMED = pytest.mark.parametrize("where", [{}, {"trust_layout": True}], ids=["in memory", "streamed"])


def two_files(folder, change):
    """400 queries of 8 items, in two files; the second changed."""
    rng = np.random.default_rng(20234)
    relevance = rng.integers(0, 4, 3_200).astype(float)
    columns = {"query_id": np.repeat(np.arange(400), 8), "item_id": np.tile(np.arange(8), 400)}
    table = pa.table(columns | {"score": relevance + rng.normal(size=3_200), "relevance": relevance})
    pq.write_table(table.slice(0, 1_600), folder / "a.parquet")
    pq.write_table(change(table.slice(1_600)), folder / "b.parquet")
    return table, f"{folder}/*.parquet"


def as_type(name, kind):
    return lambda table: table.set_column(table.column_names.index(name), name, table[name].cast(kind))


@STREAMED
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns("item_id"), "no 'item_id'"),
        (lambda t: t.append_column("segment", [["x"] * len(t)]), "'segment' besides"),
        (as_type("score", pa.float32()), "'score' is float, not double"),
        (as_type("query_id", pa.string()), "'query_id' is string, not int64"),
    ],
)
def test_files_of_other_columns_are_no_one_table(tmp_path, change, said, where):
    _, files = two_files(tmp_path, change)
    with pytest.raises(
        DataError, match=rf"b\.parquet: has other columns than .*a\.parquet: {said}; expected the same columns"
    ):
        isrr.calibrate(files, PROMISE, **where)


@STREAMED
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.select(t.column_names[::-1]),
        lambda t: t.append_column("note", [["x"] * len(t)]),
    ],
    ids=["another order", "a column nobody needs"],
)
def test_files_whose_columns_in_use_are_the_same_are_one_table(tmp_path, change, where):
    table, files = two_files(tmp_path, change)
    assert isrr.calibrate(files, PROMISE, **where) == isrr.calibrate(isrr.read_queries(table), PROMISE)


def test_text_may_be_encoded_in_one_file_and_plain_in_the_next(tmp_path):
    text = as_type("query_id", pa.string())
    table, files = two_files(
        tmp_path, lambda t: text(t).set_column(0, "query_id", text(t)["query_id"].dictionary_encode())
    )
    pq.write_table(text(pq.read_table(tmp_path / "a.parquet")), tmp_path / "a.parquet")
    expected = isrr.calibrate(isrr.read_queries(text(table)), PROMISE)
    assert isrr.calibrate(files, PROMISE) == isrr.calibrate(files, PROMISE, trust_layout=True) == expected


@STREAMED
def test_files_that_hold_nothing_are_refused_by_name(tmp_path, where):
    _, files = two_files(tmp_path, lambda table: table)
    (tmp_path / "c.parquet").touch()
    with pytest.raises(DataError, match=r"c\.parquet: the file is empty"):
        isrr.calibrate(files, PROMISE, **where)
    (tmp_path / "c.parquet").unlink()
    (tmp_path / "c.parquet").symlink_to("/nonexistent")
    with pytest.raises(DataError, match=r"c\.parquet: no such file"):
        isrr.calibrate(files, PROMISE, **where)
    with pytest.raises(DataError, match=r"expected a file, found a folder; give its files: '.*/\*\.parquet'"):
        isrr.calibrate(tmp_path, PROMISE, **where)


def test_a_file_without_rows_is_no_partition_but_may_be_part_of_a_table(tmp_path):
    table, files = two_files(tmp_path, lambda table: table)
    pq.write_table(table.slice(0, 0), tmp_path / "c.parquet")
    assert isrr.calibrate(files, PROMISE) == isrr.calibrate(isrr.read_queries(table), PROMISE)
    for engine in ("local", "dask"):
        with pytest.raises(DataError, match=r"c\.parquet: the table has no rows; with trust_layout"):
            isrr.calibrate(files, PROMISE, trust_layout=True, engine=engine)


def test_a_name_is_quoted_for_spark():
    assert quoted("a.`b") == "`a.``b`"


def test_columns_of_one_name_and_files_of_another_kind_are_refused(tmp_path):
    table, _ = two_files(tmp_path, lambda table: table)
    pq.write_table(
        pa.Table.from_arrays([*table.columns, table["score"]], [*table.column_names, "score"]), tmp_path / "a.pq"
    )
    with pytest.raises(DataError, match=r"a\.pq: two columns are called 'score'"):
        isrr.calibrate(tmp_path / "a.pq", PROMISE, trust_layout=True)
    (tmp_path / "a.csv").write_text("query_id,score,relevance\n1,1,1\n")
    with pytest.raises(DataError, match=r"a\.csv: only Parquet is read in blocks.*`isrr data convert`"):
        isrr.calibrate(tmp_path / "a.csv", PROMISE, trust_layout=True)


@STREAMED
def test_lists_of_one_item_speak_for_no_promise(tmp_path, where):
    table, files = two_files(tmp_path, lambda table: table)
    outcome = isrr.calibrate(files, PROMISE)
    assert isrr.check(outcome, files, **where).single_items == 0
    alone = table.set_column(0, "query_id", [np.arange(len(table))])
    pq.write_table(alone, tmp_path / "alone.parquet")
    with pytest.raises(DataError, match="every query has a single item"):
        isrr.check(outcome, tmp_path / "alone.parquet", **where)
    some = alone.set_column(0, "query_id", [np.arange(len(table)).clip(max=3_180)])
    pq.write_table(some.drop_columns("item_id"), tmp_path / "some.parquet")
    assert isrr.check(outcome, tmp_path / "some.parquet", **where).single_items == 3_180 / 3_181
