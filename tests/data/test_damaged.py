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
