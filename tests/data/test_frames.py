"""Tables in and out: every source gives the same queries; a bad table says what is wrong, and where."""

import decimal
import gzip
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blocks import read_blocks
from isrr.data.columns import Columns
from isrr.data.copies import write_queries
from isrr.data.queries import Queries
from isrr.data.tables import read_queries
from isrr.errors import DataError

COLUMNS = {
    "query_id": ["a", "b", "a", "b"],
    "item_id": ["x", "x", "y", "z"],
    "score": [2.0, 1.0, 0.5, 0.25],
    "relevance": [1, 0, 2, 3],
    "segment": ["de", "fr", "de", "fr"],
    "provider": ["p", "q", "q", "p"],
}
FIELDS = (
    "offsets", "query_ids", "scores", "relevance", "item_ids", "item_groups", "segments",
    "made_ids",
)  # fmt: skip


def assert_same(found, expected):
    for name in FIELDS:
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert (mine is None) == (theirs is None), name
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype, name


def expected_queries():
    return Queries.from_arrays(
        query_ids=COLUMNS["query_id"],
        item_ids=COLUMNS["item_id"],
        scores=COLUMNS["score"],
        relevance=COLUMNS["relevance"],
        segments=COLUMNS["segment"],
        item_groups=COLUMNS["provider"],
    )


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table], ids=["pandas", "polars", "lazy", "pyarrow"]
)
def test_every_kind_of_frame_gives_the_same_queries(make):
    assert_same(read_queries(make(COLUMNS)), expected_queries())


def test_categories_count_as_what_they_hold():
    frame = pd.DataFrame(COLUMNS).astype({"query_id": "category", "segment": "category", "relevance": "category"})
    assert_same(read_queries(frame), expected_queries())
    assert_same(read_queries(pl.DataFrame(COLUMNS).cast({"query_id": pl.Categorical})), expected_queries())


def written(tmp_path, kind):
    table, file = pa.table(COLUMNS), tmp_path / f"judged.{kind}"
    text = pd.DataFrame(COLUMNS).to_csv(index=False)
    rows = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    match kind:
        case "parquet":
            pq.write_table(table, file)
        case "arrow":
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
        case "csv" | "unknown":
            file.write_text(text)
        case "csv.gz":
            file.write_bytes(gzip.compress(text.encode()))
        case "tsv":
            file.write_text(text.replace(",", "\t"))
        case "jsonl":
            file.write_text(rows)
    return file


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "csv.gz", "tsv", "jsonl", "unknown"])
def test_every_kind_of_file_gives_the_same_queries(tmp_path, kind):
    assert_same(read_queries(written(tmp_path, kind)), expected_queries())


def test_columns_can_be_named():
    frame = pd.DataFrame(
        {"user": [1, 1, 2], "joke": [3, 4, 3], "stars": [1.0, 2.0, 3.0], "a": [0.5, 1, 2], "b": [1, 2, 3]}
    )
    queries = read_queries(frame, Columns(query="user", item="joke", relevance="stars"))
    assert queries.query_ids.tolist() == [1, 2]
    assert queries.item_ids.tolist() == [3, 4, 3]
    assert queries.scores is None


def test_group_sizes_stand_in_for_a_query_column():
    queries = read_queries(pa.table({"score": [1.0, 2.0, 3.0]}), group=[1, 2])
    assert queries.made_ids
    assert queries.offsets.tolist() == [0, 1, 3]


def test_a_column_that_is_needed_later_is_missed_by_file_option_and_likely_name(tmp_path):
    file = tmp_path / "judged.csv"
    file.write_text("query_id,Scores,grades\n1,0.5,1\n1,0.25,0\n")
    queries = read_queries(file, Columns(score="Scores"))
    with pytest.raises(DataError, match=r"judged\.csv: no relevance column .*`relevance=`.*did you mean 'grades'\?"):
        queries[:1].need_relevance()
    with pytest.raises(
        DataError, match=r"judged\.csv: no score column .*columns are query_id, Scores, grades; did you"
    ):
        read_queries(file, Columns(relevance="grades")).need_scores()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_header_of_a_csv_file_tells_its_delimiter(tmp_path, delimiter):
    file = tmp_path / "judged.csv"
    file.write_text("query_id,score\n1,0.5\n1,0.25\n".replace(",", delimiter))
    assert read_queries(file).scores.tolist() == [0.5, 0.25]


def test_leading_zeros_of_csv_ids_are_kept(tmp_path):
    file = tmp_path / "ids.csv"
    file.write_text("qid,docid,score\n007,1,0.5\n7,2,0.25\n")
    queries = read_queries(file)
    assert queries.query_ids.tolist() == ["007", "7"]
    assert queries.item_ids.tolist() == [1, 2]


def test_dates_as_jsonl_ids_stay_as_written(tmp_path):
    file = tmp_path / "days.jsonl"
    file.write_text('{"qid": "2024-01-01", "score": 1.0}\n{"qid": "2024-01-02", "score": 1.0}\n')
    assert read_queries(file).query_ids.tolist() == ["2024-01-01", "2024-01-02"]


@pytest.mark.parametrize(
    ("change", "asked", "message"),
    [
        ({}, {"score": "points"}, r"no column 'points'; the columns are query_id, item_id, score, relevance"),
        ({"query_id": None}, {}, r"no query column \(query_id, qid, query, .*or named by `query=`\)"),
        ({"score": None, "relevance": None}, {}, r"no score column \(score, or.*nor is there a relevance"),
        ({}, {"item": "Item_id"}, r"no column 'Item_id'.*did you mean 'item_id'\?"),
        ({"query_id": None, "QueryIDs": list("abab")}, {}, r"no query column.*did you mean 'QueryIDs'\?"),
        ({"score": [1.0, None, 1.0, 1.0]}, {}, r"row 2, column 'score', query '.': no value"),
        ({"query_id": ["a", "b", None, "b"]}, {}, r"row 3, column 'query_id': no value"),
        ({"score": [1.0, 2.0, float("nan"), 1.0]}, {}, r"row 3, column 'score', query 'a': nan; expected a"),
        ({"score": ["1.5", "2", "high", "1"]}, {}, r"row 3, column 'score', query 'a': 'high' \(text\)"),
        ({"relevance": [1, 0, -2, 0]}, {}, r"row 3, column 'relevance', query 'a': -2; expected .* ≥ 0"),
        ({"score": [1, 2, 2**53 + 1, 4]}, {}, r"row 3, column 'score', query 'a': 9007199254740993; .* or floats"),
        (
            {"score": [1.0, 2.0, 1e300, 4.0]},
            {},
            r"row 3, column 'score', query '.': 1e\+300; expected .* within ±1e\+50",
        ),
        (
            {"relevance": [0, 1, 1e300, 0]},
            {},
            r"row 3, column 'relevance', query '.': 1e\+300; expected .* at most 1e\+50",
        ),
        (
            {"item_id": ["x", "x", "x", "z"]},
            {},
            r"row 3, column 'item_id', query 'a': item 'x' appears twice \(1 row repeats .*`duplicates=first`",
        ),
        ({"segment": ["de", "fr", "fr", "fr"]}, {}, r"query 'a' has two segments"),
        ({"score": [[1.0], [2.0], [3.0], [4.0]]}, {}, r"row 1, column 'score', query 'a': array\(\[1\.\]\)"),
    ],
)
def test_a_bad_table_is_refused_by_row_and_column(change, asked, message):
    table = pa.table({name: values for name, values in (COLUMNS | change).items() if values is not None})
    with pytest.raises(DataError, match=message):
        read_queries(table, Columns(**asked))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"score": "relevance"}, "column 'relevance' is named for score and relevance; it can play one role"),
        ({"segment": "query_id"}, "column 'query_id' is named for query and segment"),
        ({"query": "item_id"}, "column 'item_id' is named for query and item"),
    ],
)
def test_a_column_plays_one_role(tmp_path, asked, message):
    pq.write_table(pa.table(COLUMNS), tmp_path / "judged.parquet")
    for read in (read_queries, lambda *args: list(read_blocks(*args))):
        with pytest.raises(DataError, match=rf"judged\.parquet: {message}"):
            read(tmp_path / "judged.parquet", Columns(**asked))


def test_a_name_that_two_columns_have_is_refused(tmp_path):
    names, columns = ["qid", "score", "score"], [[1, 1], [2.0, 1.0], [1.0, 2.0]]
    table = pa.Table.from_arrays([pa.array(values) for values in columns], names)
    pq.write_table(table, tmp_path / "twice.parquet")
    with pa.ipc.new_file(tmp_path / "twice.arrow", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "twice.csv").write_text("qid,score,score\n1,2.0,1.0\n1,1.0,2.0\n")
    for kind in ("parquet", "arrow", "csv"):
        with pytest.raises(DataError, match=rf"twice\.{kind}: column 'score' appears 2 times; rename all but one"):
            read_queries(tmp_path / f"twice.{kind}")
    for frame in (table, pd.DataFrame(dict(enumerate(columns))).set_axis(names, axis=1)):
        with pytest.raises(DataError, match=r"table: a column appears twice: .*'score'"):
            read_queries(frame)


@pytest.mark.parametrize(
    "names", [["qid", 1], pd.MultiIndex.from_tuples([("qid", "a"), ("score", "b")])], ids=["number", "levels"]
)
def test_names_of_columns_must_be_text(names):
    with pytest.raises(DataError, match=r"table: a column is named .*; names of columns must be text"):
        read_queries(pd.DataFrame([[1, 2.0], [1, 1.0]], columns=names))


def test_a_row_of_a_csv_file_is_named_by_its_line_too(tmp_path):
    (tmp_path / "odd.csv").write_text("qid,score,grade\n1,0.5,1\n1,high,0\n")
    with pytest.raises(DataError, match=r"odd\.csv: row 2 \(line 3\), column 'score', query '1': 'high' \(text\)"):
        read_queries(tmp_path / "odd.csv")


@pytest.mark.parametrize("column", ["score", "relevance"])
def test_decimals_that_a_float_would_round_are_refused(column):
    def read(*texts):
        values = pa.array([decimal.Decimal(text) for text in texts], pa.decimal128(38, 20))
        table = pa.table({"qid": [1] * len(texts), column: values})
        return getattr(read_queries(table), f"{column}s" if column == "score" else column).tolist()

    assert read("0.1", "12345.678", "123456789012345") == [0.1, 12345.678, 123456789012345]
    with pytest.raises(
        DataError, match=rf"row 2, column '{column}', query '1': 1.00000000000000000001 \(2 such rows\); .* digits"
    ):
        read("1.5", "1.00000000000000000001", "1.00000000000000000002")


def test_something_that_is_no_table_is_refused():
    with pytest.raises(DataError, match="a list is neither a path nor a pandas, polars or pyarrow table"):
        read_queries([1, 2, 3])


def test_unreadable_files_are_refused_by_name(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.parquet: no such file"):
        read_queries(tmp_path / "nowhere.parquet")
    with pytest.raises(DataError, match=r"\*\.parquet: no such file"):
        read_queries(tmp_path / "*.parquet")
    with pytest.raises(DataError, match="found a folder"):
        read_queries(tmp_path)
    for name, content, message in [
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"qid,score\n", "the table has no rows"),
        ("broken.parquet", b"PAR1 and then nothing", "cannot be read"),
        ("broken.arrow", b"ARROW1\0\0 and then nothing", "cannot be read"),
        ("ragged.csv", b"qid,score\n1,2\n1,2,3\n", "cannot be read: .*Expected 2 columns, got 3"),
        ("broken.jsonl", b'{"qid": 1\n', "line 1: Input data was truncated; expected an object"),
        ("what", b"\x01\x02\x03", "expected a table: Parquet, Arrow, CSV or JSONL"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}: .*{message}"):
            read_queries(tmp_path / name)


def many_queries(ids):
    rng = np.random.default_rng(20230)
    lengths = rng.integers(1, 30, len(ids))
    n_rows = lengths.sum()
    return Queries.from_arrays(
        query_ids=np.repeat(ids, lengths),
        scores=rng.normal(size=n_rows),
        relevance=rng.integers(0, 3, n_rows),
        item_ids=np.arange(n_rows),
        segments=np.repeat(np.where(np.arange(len(ids)) % 2, "odd", "even"), lengths),
    )


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize("ids", [np.arange(100), np.array([f"q{i}" for i in range(100)])], ids=["numbers", "text"])
def test_what_is_written_is_read_back(tmp_path, suffix, ids):
    queries = many_queries(ids)
    file = tmp_path / f"copy.{suffix}"
    write_queries(queries, file)
    assert_same(read_queries(file), queries)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_made_ids_and_joined_rows_survive_writing(tmp_path):
    made = Queries.from_arrays(scores=[1.0, 2.0, 3.0], group=[1, 2])
    write_queries(made, tmp_path / "made.arrow")
    assert_same(read_queries(tmp_path / "made.arrow"), made)
    scattered = expected_queries()
    write_queries(scattered, tmp_path / "scattered.parquet")
    assert_same(read_queries(tmp_path / "scattered.parquet"), scattered)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "copy.arrow"
    write_queries(many_queries(np.arange(3)), file)
    before = file.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write_queries(many_queries(np.arange(50)), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["copy.arrow"]
    with pytest.raises(DataError, match=r"copy\.csv: queries are written to \.parquet or \.arrow"):
        write_queries(many_queries(np.arange(3)), tmp_path / "copy.csv")
    with pytest.raises(DataError, match="does not exist"):
        write_queries(many_queries(np.arange(3)), tmp_path / "nowhere" / "copy.arrow")


@pytest.mark.parametrize("ids", [np.arange(100), np.array([f"q{i}" for i in range(100)])], ids=["numbers", "text"])
@pytest.mark.parametrize("rows", [1, 7, 64, 100_000])
def test_blocks_hold_whole_queries_and_together_all_of_them(tmp_path, ids, rows):
    queries = many_queries(ids)
    write_queries(queries, tmp_path / "whole.parquet")
    pq.write_table(pq.read_table(tmp_path / "whole.parquet"), tmp_path / "groups.parquet", row_group_size=50)
    blocks = list(read_blocks(tmp_path / "groups.parquet", rows=rows))
    assert_same(Queries.concatenate(blocks), queries)
    if rows < 100:
        assert max(block.n_rows for block in blocks) <= 2 * rows + 30  # a batch, what waited for it, a query


def test_blocks_take_a_small_part_of_the_memory_of_the_whole(tmp_path):
    rows, file = 200_000, tmp_path / "long.parquet"
    values = np.random.default_rng(20230).random(rows)
    table = pa.table({"qid": np.arange(rows) // 20, "score": values, "features": list(values.reshape(-1, 1))})
    pq.write_table(table, file, row_group_size=10_000)
    before, most = pa.total_allocated_bytes(), 0
    for _ in read_blocks(file, rows=5_000):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < table.nbytes / 5


def test_only_parquet_is_read_in_blocks(tmp_path):
    with pytest.raises(DataError, match="only Parquet is read in blocks, or"):
        list(read_blocks(written(tmp_path, "csv")))


def test_a_null_in_a_block_is_named_by_its_row(tmp_path):
    table = pa.table({"qid": [1, 1, 2, 2, 3], "score": [1.0, 2.0, 3.0, None, 4.0]})
    pq.write_table(table, tmp_path / "null.parquet")
    with pytest.raises(DataError, match=r"null\.parquet, rows from 3: row 2, column 'score', query '.': no value"):
        list(read_blocks(tmp_path / "null.parquet", rows=2))


VALUED = {"query_id": ["a", "b", "a"], "score": [2.0, 1.0, 0.5], "margin": [-1.5, 3.0, 0.25], "stock": [7, 8, 9]}


def test_value_columns_travel_with_their_rows(tmp_path):
    queries = read_queries(pa.table(VALUED), Columns(values=["margin", "score"]))
    assert queries.column("margin").tolist() == [-1.5, 0.25, 3.0]
    assert queries.column("score").tolist() == queries.scores.tolist()
    assert queries[1].column("margin").tolist() == [3.0]
    both = Queries.concatenate([queries[0], queries[1]])
    assert both.column("margin").tolist() == [-1.5, 0.25, 3.0]
    assert repr(queries) == "Queries(2 queries, 3 items; scores, margin, score)"
    for suffix in (".parquet", ".arrow"):
        write_queries(queries, file := tmp_path / f"queries{suffix}")
        assert {name: column.tolist() for name, column in read_queries(file).values.items()} == {
            "margin": [-1.5, 0.25, 3.0],
            "score": [2.0, 0.5, 1.0],
        }
    assert [block.column("margin").tolist() for block in read_blocks(tmp_path / "queries.parquet", rows=2)] == [
        [-1.5, 0.25],
        [3.0],
    ]


def test_a_value_column_is_never_taken_for_the_relevance(tmp_path):
    queries = Queries.from_arrays(scores=[1, 2], group=[2], values={"label": [-3, 0.5]})
    write_queries(queries, file := tmp_path / "queries.parquet")
    again = read_queries(file)
    assert again.relevance is None
    assert again.column("label").tolist() == [-3, 0.5]


def test_a_value_column_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    with pytest.raises(DataError, match=r"there is no column 'margins'; .* did you mean 'margin'"):
        read_queries(pa.table(VALUED), Columns(values=["margins"]))
    queries = read_queries(pa.table(VALUED), Columns(values="margin"))
    with pytest.raises(DataError, match=r"no value column 'Margins'; they have 'margin'.*did you mean 'margin'\?"):
        queries.column("Margins")
    with pytest.raises(DataError, match="they have none"):
        read_queries(pa.table(VALUED)).column("margin")
    with pytest.raises(DataError, match=r"row 2, column 'margin', query '0': inf"):
        Queries.from_arrays(scores=[1, 2], group=[2], values={"margin": [0, np.inf]})
    with pytest.raises(DataError, match=r"row 1, column 'query_id', query 'a': 'a' \(text\)"):
        read_queries(pa.table(VALUED), Columns(values=["query_id"]))
    clash = Queries.from_arrays(scores=[1, 2], group=[2], values={"score": [0, 1]})
    with pytest.raises(DataError, match="a value column cannot be called 'score'"):
        write_queries(clash, tmp_path / "queries.arrow")
