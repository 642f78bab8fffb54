"""Ids: different ones stay different whatever holds them; what cannot be told apart exactly is refused by row."""

import datetime
import decimal
import uuid
from enum import Enum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blocks import read_blocks
from isrr import DataError, Queries
from isrr.data.identifiers import Ids, identifier_text
from isrr.data.tables import read_queries

BIG = 2**63


def ids_of(values):
    return Queries.from_arrays(scores=np.zeros(len(values)), query_ids=values).query_ids.tolist()


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (np.array([BIG, BIG + 1, 7], np.uint64), [str(BIG), str(BIG + 1), "7"]),
        (np.array([BIG - 1, 7], np.uint64), [BIG - 1, 7]),
        ([BIG, BIG + 1, -1], [str(BIG), str(BIG + 1), "-1"]),
        ([2**64, 2**64 + 1, 7], [str(2**64), str(2**64 + 1), "7"]),
        ([2**53 + 1, 2**53, 7.0], [2**53 + 1, 2**53, 7]),
        ([2**53 + 1, "a", 2**53], [str(2**53 + 1), "a", str(2**53)]),
        (np.array([2.0**53 - 1, -5.0]), [2**53 - 1, -5]),
        (np.array([2**24 - 1, 3], np.float32), [2**24 - 1, 3]),
        (np.array([2**11 - 1, 3], np.float16), [2**11 - 1, 3]),
        ([decimal.Decimal(BIG + 1), decimal.Decimal("7.00")], [str(BIG + 1), "7"]),
        ([uuid.UUID(int=1), uuid.UUID(int=2)], [str(uuid.UUID(int=1)), str(uuid.UUID(int=2))]),
        ([datetime.date(2024, 1, 1), "x"], ["2024-01-01", "x"]),
        (["x", datetime.datetime(2024, 1, 1)], ["x", "2024-01-01 00:00:00"]),
        (np.array(["2024-01-01", "2024-01-02"], "datetime64[D]"), ["2024-01-01", "2024-01-02"]),
        (["a", "a\0b"], ["a", "a\0b"]),
    ],
)  # fmt: skip
def test_ids_are_kept_exactly(values, kept):
    assert ids_of(values) == kept


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            np.array([1.0, 2.0**53]),
            "row 2, column 'query_ids': 9007199254740992.0, and a float64 from 9007199254740992 on",
        ),
        (
            np.array([1, 2**24], np.float32),
            "row 2, column 'query_ids': 16777216.0, and a float32 from 16777216 on may have",
        ),
        (np.array([2, 2**11], np.float16), "row 2, column 'query_ids': 2048.0, and a float16 from 2048 on may have"),
        ([1, 1e300], "row 2, column 'query_ids': 1e[+]300.*; expected integers or text"),
        ([1.0, np.inf], "row 2, column 'query_ids': inf.*; expected integers or text"),
        ([BIG, 0.5], "row 2, column 'query_ids': 0.5 .float.; expected integers or text"),
        ([1.0, np.nan], "row 2, column 'query_ids': no value"),
        (["a", np.nan], "row 2, column 'query_ids': no value"),
        (["a", pd.NA], "row 2, column 'query_ids': no value"),
        (pd.Series([1, None], dtype="Int64"), "row 2, column 'query_ids': no value"),
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), "row 2, column 'query_ids': no value"),
        (np.ma.masked_array([1, 2], [False, True]), "row 2, column 'query_ids': no value"),
        (["a", "a\0"], r"row 2, column 'query_ids': 'a\\x00', which ends in a NUL"),
        (["a", "\ud800"], r"row 2, column 'query_ids': .* .str.; expected integers or text"),
        ([b"a", b"b"], r"row 1, column 'query_ids': b'a' \(bytes\) \(2 such rows\); expected integers or text"),
        (np.array([b"a", b"b"]), "row 1, column 'query_ids': .*b'a'.*; expected integers or text"),
        ([{"b": 1}, "a"], r"row 1, column 'query_ids': .* \(dict\); expected integers or text"),
        ([decimal.Decimal("7.5"), 1], "row 1, .*; expected integers or text"),
        ([1 + 2j, 3j], "row 1, .*complex.*; expected integers or text"),
        ([["a"], "b"], "query_ids must hold one id per row"),
    ],
)
def test_ids_that_may_be_confused_are_refused_by_row(values, said):
    with pytest.raises(DataError, match=said):
        ids_of(values)


def test_large_unsigned_ids_are_the_same_from_every_source(tmp_path):
    ids = [BIG - 1, BIG, BIG, BIG + 1]  # as int64 the last would stand near −2^63
    table = pa.table({"qid": pa.array(ids, pa.uint64()), "docid": pa.array(ids, pa.uint64()), "score": [4.0, 3, 2, 1]})
    table = table.set_column(1, "docid", pa.array([BIG, BIG, BIG + 1, BIG], pa.uint64()))
    pq.write_table(table, tmp_path / "u.parquet")
    decimals = table.set_column(0, "qid", table["qid"].cast(pa.decimal128(20, 0)))  # how Spark reads unsigned integers
    lines = (f'{{"qid": {row["qid"]}, "docid": {row["docid"]}, "score": 1}}\n' for row in table.to_pylist())
    (tmp_path / "u.jsonl").write_text("".join(lines))
    (tmp_path / "u.csv").write_text(table.to_pandas().to_csv(index=False))
    frames, files = (table, decimals, table.to_pandas(), pl.from_arrow(table)), ("u.jsonl", "u.csv")
    whole = read_queries(tmp_path / "u.parquet")
    assert whole.query_ids.tolist() == [str(BIG - 1), str(BIG), str(BIG + 1)]
    assert whole.item_ids.tolist() == [str(BIG), str(BIG), str(BIG + 1), str(BIG)]
    for source in (*frames, *(tmp_path / file for file in files)):
        found = read_queries(source)
        assert (found.keys == whole.keys).all()
        assert found.item_ids.astype(str).tolist() == whole.item_ids.astype(str).tolist()
    in_blocks = Queries.concatenate(list(read_blocks(tmp_path / "u.parquet", rows=1)))  # the first block holds integers
    assert in_blocks.query_ids.tolist() == whole.query_ids.tolist()
    assert in_blocks.item_ids.tolist() == whole.item_ids.tolist()


@pytest.mark.parametrize("written", [10**17, -(10**17), 10**18 - 1, 1 - 10**18, 10**18, -(10**18)])
def test_text_files_of_every_kind_agree_on_what_is_an_integer(tmp_path, written):
    (tmp_path / "ids.csv").write_text(f"qid,score\n{written},1\n")
    assert read_queries(tmp_path / "ids.csv").query_ids.tolist() == [written if abs(written) < 10**18 else str(written)]


def test_numbers_in_json_are_ids_as_written(tmp_path):
    file = tmp_path / "ids.jsonl"

    def read(*ids):
        file.write_text("".join(f'{{"qid": {text}, "score": 1}}\n' for text in ids))
        return read_queries(file).query_ids.tolist()

    assert read(2**53 + 1, 2**53, BIG) == [str(2**53 + 1), str(2**53), str(BIG)]
    assert read("7.0", 8) == [7, 8]
    with pytest.raises(DataError, match=r"ids\.jsonl: row 2, column 'qid': 1\.5 .*; expected integers or text"):
        read(2, 1.5)
    assert read(1, '"a"') == ["1", "a"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"a", b"b"]), pa.array([b"a", b"b"], pa.binary(1)), pa.array([[1], [2]]), pa.array([{"a": 1}] * 2),
        pa.array([b"a", b"b"]).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)  # fmt: skip
@pytest.mark.parametrize("column", ["qid", "docid", "segment"])
def test_columns_that_have_no_text_of_their_own_are_no_ids(tmp_path, values, column):
    table = pa.table({"qid": [1, 2], "docid": [1, 2], "segment": [1, 2], "score": [1.0, 2.0]})
    table = table.set_column(table.column_names.index(column), column, values)
    pq.write_table(table, tmp_path / "kinds.parquet")
    said = f"row 1, column '{column}': .*; expected integers or text"
    with pytest.raises(DataError, match=said):
        read_queries(table)
    with pytest.raises(DataError, match=said):
        list(read_blocks(tmp_path / "kinds.parquet", rows=1))


class Shop(str, Enum):  # noqa: UP042 - the kind whose str() is its name
    CORNER = "corner shop"


def test_a_member_of_an_enumeration_is_its_text_in_a_table_and_in_a_request():
    for column in ([Shop.CORNER], [Shop.CORNER, 7]):
        assert Ids.of(column, "query_ids", len(column)).array[0] == "corner shop"
    assert identifier_text(Shop.CORNER) == "corner shop"


def test_text_that_arrow_cuts_into_pieces_is_one_array_again(monkeypatch):
    whole = pa.array
    monkeypatch.setattr(pa, "array", lambda values, *kind: pa.chunked_array([whole(values[:1]), whole(values[1:])]))
    ids = Ids.of(np.array(["b", "a", "c"], object), "query_ids", 3)
    monkeypatch.undo()
    assert ids.hashes().tolist() == Ids.of(["b", "a", "c"], "query_ids", 3).hashes().tolist()
