"""Damaged files are refused by name or read as valid tables; `tests/table_fuzz.py` says how they are made."""

import os

import pyarrow as pa
import pytest

import table_fuzz
from isrr.data.frames import read_queries
from isrr.errors import DataError

FILES = int(os.environ.get("ISRR_FUZZ_FILES", "300"))  # of each kind


@pytest.mark.parametrize("kind", table_fuzz.KINDS)
def test_a_flipped_bit_ends_in_a_clear_refusal_or_a_valid_table(kind):
    ended, bad = table_fuzz.fuzz(kind, FILES)
    assert not bad
    assert sum(ended.values()) == FILES
    assert set(ended) <= {"read", "refused", "read/refused"}
    assert ended["refused"] > FILES / 10


@pytest.mark.parametrize(("kept", "said"), [(b"{", "'isrr.values' are damaged"), (b"[3]", "'isrr.values' are damaged")])
def test_damaged_metadata_are_refused_by_file(tmp_path, kept, said):
    table = pa.table({"qid": [1], "score": [1.0]}).replace_schema_metadata({b"isrr.values": kept})
    with pa.ipc.new_file(tmp_path / "odd.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=rf"odd\.arrow: the metadata {said}; expected a list of names"):
        read_queries(tmp_path / "odd.arrow")


def test_as_many_features_as_names_are_expected(tmp_path):
    table = pa.table({"qid": [1], "features": [[1.0, 2.0]]}).replace_schema_metadata({b"isrr.feature_names": b'["a"]'})
    with pa.ipc.new_file(tmp_path / "odd.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"odd\.arrow: the metadata name 1 features, but there are 2"):
        read_queries(tmp_path / "odd.arrow")


@pytest.mark.parametrize("role", ["qid", "item_id", "score", "relevance", "segment"])
@pytest.mark.parametrize(
    ("kind", "value"), [(pa.list_(pa.int64()), [1]), (pa.struct([("a", pa.int64())]), {"a": 1}), (pa.duration("s"), 1)]
)
def test_columns_that_hold_neither_numbers_nor_text_are_refused_by_name(tmp_path, role, kind, value):
    columns = {"qid": [1, 1], "item_id": [1, 2], "score": [0.5, 1.0], "relevance": [0, 1], "segment": ["a", "a"]}
    columns[role] = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([value], kind))
    table = pa.table(columns)
    with pa.ipc.new_file(tmp_path / "odd.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=rf"odd\.arrow: row 1, column '{role}'.*; expected"):
        read_queries(tmp_path / "odd.arrow")


def test_an_odd_value_is_shown_in_one_short_line():
    with pytest.raises(DataError, match=r"column 'score'.*expected a number") as refusal:
        read_queries(pa.table({"qid": [1], "score": ["x\n" * 5_000]}))
    assert len(str(refusal.value)) < 200
    assert "\n" not in str(refusal.value)


def test_an_unknown_way_to_count_unjudged_items_is_refused_by_file(tmp_path):
    table = pa.table({"qid": [1, 1], "score": [1.0, 2.0], "relevance": [0, 1], "unjudged": ["zdro", None]})
    with pa.ipc.new_file(tmp_path / "odd.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"odd\.arrow: unjudged items are marked 'zdro'; expected refuse, zero, drop"):
        read_queries(tmp_path / "odd.arrow")
