"""Damaged files are refused by name or read as valid tables; `tests/table_fuzz.py` says how they are made."""

import gzip
import os

import pyarrow as pa
import pytest

import table_fuzz
from command_line import isrr, run
from isrr.clicks.click_table import read_clicks
from isrr.data.formats import allow_unpacked, write_table
from isrr.data.tables import read_queries
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


@pytest.mark.parametrize("role", ["qid", "item_id", "score", "relevance", "segment"])
@pytest.mark.parametrize(("kind", "value"), [(pa.list_(pa.int64()), [1]), (pa.struct([("a", pa.int64())]), {"a": 1})])
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"query": 1, "score": 1, "x": ' + "[" * 10_000 + "]" * 10_000 + "}", "maximum recursion depth exceeded"),
        ('{"query": 1, "score": 1, "x": ' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}", "maximum recursion depth"),
        ('{"query": 1, "score": 1, "x": ' + "[\n" * 10_000 + "]" * 10_000 + "}", "Input data was truncated"),
        ('{"query": "\\"", "score": ' + "[" * 90_000, "maximum recursion depth"),
        ("]" * 90_000, "JSON is malformed: invalid character (byte 0)"),
        ("null", "Expected `object`, got `null`; expected an object, such as {'query': 7}"),
    ],
)
@pytest.mark.parametrize("reader", ["isrr.data.tables.read_queries", "isrr.clicks.click_table.read_clicks"])
def test_json_lines_that_would_end_the_process_are_refused_by_line(tmp_path, text, said, reader):
    file = tmp_path / "odd.jsonl"
    file.write_text("\n" + text + "\n")
    module, name = reader.rsplit(".", 1)
    code = (
        f"from {module} import {name}\ntry:\n    {name}({str(file)!r})\nexcept ValueError as error:\n    print(error)"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{file}: line 2: {said}")
    assert done.stdout.count("\n") == 1


def test_brackets_in_strings_are_no_nesting(tmp_path):
    file, inside = tmp_path / "good.jsonl", "[{" * 500
    rows = [f'{{"query": "\\\\", "item": "\\"{inside}", "score": {row}}}\n' for row in range(3)]
    file.write_text("".join(rows).replace('"item": "', '"item": "' + "0") + '{"query": "n", "item": "", "score": 1}\n')
    with pytest.raises(DataError, match="appears twice"):  # it was read
        read_queries(file)


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.jsonl.gz"])
def test_a_file_that_unpacks_to_far_more_than_expected_is_read_to_the_limit_only(tmp_path, name):
    file = tmp_path / name
    rows = {"csv": b"query,score\n" + b"1,2\n" * 3_000_000, "jsonl": b'{"query": 1, "score": 2}\n' * 400_000}
    file.write_bytes(gzip.compress(rows[name.split(".")[1]]))
    assert file.stat().st_size < 100_000
    said = (
        "unpacks to more than 0.001 GB; to allow more: `isrr.data.formats.allow_unpacked.*--max-unpacked-gigabytes GB"
    )
    for reader in (read_queries, read_clicks):
        with allow_unpacked(0.001), pytest.raises(DataError, match=rf"{name}: {said}"):
            reader(file)
    assert read_queries(file).n_rows > 100_000
    refused = isrr("--max-unpacked-gigabytes", 0.001, "data", "show", file)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"isrr: {file}: unpacks to more than 0.001 GB" in refused.stderr


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_text_in_views_is_text(tmp_path, suffix):
    columns = {
        "qid": ["a", "a", "b"],
        "item": ["x", "y", "x"],
        "segment": ["m", "m", "d"],
        "unjudged": [None, "zero", None],
    }
    columns = {name: pa.array(values, pa.string_view()) for name, values in columns.items()}
    table = pa.table({**columns, "score": [1.0, 2.0, 3.0], "relevance": [1, 0, 2]})
    write_table(table, tmp_path / f"views.{suffix}", suffix)
    for source in (table, tmp_path / f"views.{suffix}"):
        queries = read_queries(source)
        assert queries.query_ids.tolist() == ["a", "b"]
        assert queries.item_ids.tolist() == ["x", "y", "x"]
        assert queries.segments.tolist() == ["m", "d"]
        assert queries.judged.tolist() == [True, False, True]
    named = {
        "list_id": ["q", "q"],
        "item_id": ["a", "b"],
        "kind": ["buy", "look"],
        "time": ["2024-01-01T00:00:00Z"] * 2,
    }
    clicks = pa.table({name: pa.array(values, pa.string_view()) for name, values in named.items()})
    assert len(read_clicks(clicks, kind="buy")) == 1


def test_metadata_that_are_nested_deeply_are_damaged(tmp_path):
    table = pa.table({"qid": [1], "score": [1.0]}).replace_schema_metadata({b"isrr.values": b"[" * 100_000})
    write_table(table, tmp_path / "odd.arrow", "arrow")
    with pytest.raises(DataError, match=r"metadata 'isrr\.values' are damaged"):
        read_queries(tmp_path / "odd.arrow")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"qid": 1, "score": 2, "qid": 3}', "line 2: 'qid' appears twice; expected an object"),
        ('{"qid": 1, "score": 2, "more": {"a": 1, "a": 1}}', "line 2: 'a' appears twice"),
        ('{"qid": "a:b", "score": 2, "more": {"a": {"a": 1}}}', None),
    ],
)
def test_an_object_that_has_a_name_twice_is_refused(tmp_path, row, said):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"qid": "b", "score": 2}\n' + row + "\n")
    if said is None:
        assert len(read_queries(file)) == 2
        return
    with pytest.raises(DataError, match=said):
        read_queries(file)
