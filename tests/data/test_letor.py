"""The LETOR reader: what it reads, what it refuses and where, and that nothing makes it fall over."""

import gzip
import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import letor_oracle
from isrr.data.letor import read_letor
from isrr.errors import DataError
from isrr.parallel import use_threads
from letor_fuzz import check, inputs

GOLDEN = Path(__file__).parents[1] / "golden"


def row_ids(queries):
    return np.repeat(queries.query_ids, queries.n_items)


def test_a_small_file_is_read_whole():
    queries = read_letor(GOLDEN / "letor_small.txt")
    assert queries.query_ids.tolist() == ["red", "7", "x-9"]
    assert queries.offsets.tolist() == [0, 2, 4, 6]
    assert queries.relevance.tolist() == [2, 1, 0, 0.5, 3, 0]
    expected = np.zeros((6, 4), np.float32)
    expected[0, [0, 2]] = 0.5, 0.01
    expected[1, [1, 2]] = 0.5, 5
    expected[2, [1, 3]] = 7, -3.25
    expected[3, [0, 3]] = 12345678901234567890, 1e-21
    expected[4, 3] = 1000
    np.testing.assert_array_equal(queries.features, expected)
    assert queries.in_caller_order(queries.relevance).tolist() == [2, 0, 1, 0.5, 3, 0]


def test_carriage_returns_and_a_last_line_without_end_are_fine():
    queries = read_letor(GOLDEN / "letor_crlf.txt")
    assert queries.query_ids.tolist() == [1, 2]
    assert queries.features.tolist() == [[0.5, 1], [0.25, 2], [1, 3]]


def test_any_blank_may_stand_before_the_last_feature():
    for blank in (b" ", b"\t", b"\r", b" \r\t"):
        assert read_letor(b"1 qid:1 1:2" + blank + b"3:4\n").features.tolist() == [[2, 0, 4]]


def test_an_index_may_have_leading_zeros():
    assert read_letor(b"1 qid:1 01:2 " + b"0" * 30 + b"2:4\n").features.tolist() == [[2, 4]]


@pytest.mark.parametrize(
    ("comments", "ids"),
    [
        (["#docid = GX0-1 inc = 1 prob = 0.2", "# docid:7", "#docid=GX0-1"], ["GX0-1", "7", "GX0-1"]),
        (["# 12", "#7\r", "#  12\t"], [12, 7, 12]),
        (["# MED-1", "", "# MED-2"], None),
        (["# a comment", "# b", "# c"], None),
        (["# same", "# same", "# other"], None),
        (["#docid =", "# b", "# c"], None),
    ],
)
def test_comments_become_item_ids_where_every_row_has_one(comments, ids):
    lines = [f"{row} qid:{row // 2} 1:2 {comment}\n" for row, comment in enumerate(comments)]
    text = "# heading\n\n".join(lines).encode()
    found = read_letor(text, comment_ids=True)
    assert (None if found.item_ids is None else found.item_ids.tolist()) == ids
    assert read_letor(text).item_ids is None


def test_item_ids_follow_their_rows_when_queries_are_brought_together():
    found = read_letor(b"0 qid:a 1:1 # x\n1 qid:b 1:1 # y\n2 qid:a 1:1 # z\n", comment_ids=True)
    assert found.item_ids.tolist() == ["x", "z", "y"]


def test_a_gzipped_file_reads_like_the_plain_one(tmp_path):
    plain = GOLDEN / "letor_small.txt"
    packed = tmp_path / "small.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    np.testing.assert_array_equal(read_letor(packed).features, read_letor(plain).features)


def test_a_cut_gzip_file_is_refused(tmp_path):
    packed = tmp_path / "cut.txt.gz"
    packed.write_bytes(gzip.compress(b"1 qid:1 1:0.5\n" * 1000)[:-12])
    with pytest.raises(DataError, match=r"cut\.txt\.gz: not a complete gzip file"):
        read_letor(packed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no rows"),
        (b"\n # nothing\n", "no rows"),
        (b"1 qid:1 1:2\nx qid:1 1:2\n", r"text:2: column 1: 'x'; expected a relevance label"),
        (b"-1 qid:1 1:2\n", r"text:1: column 1: label -1 is negative"),
        (b"nan qid:1 1:2\n", r"text:1: column 1: 'nan'; expected a relevance label, a finite number"),
        (b"1 1:2\n", r"text:1: column 3: '1:2'; expected `qid:ID`"),
        (b"1\n", r"text:1: column 2: the line ends; expected `qid:ID`"),
        (b"1 qid: 1:2\n", r"text:1: column 7: no query id behind `qid:`"),
        (b"1 qid:\xff 1:2\n", r"text:1: column 7: query id b'\\xff' is not UTF-8"),
        (b"1 qid:1 14:2 12:3\n", r"text:1: column 14: feature 12 follows feature 14; indices must increase"),
        (b"1 qid:1 2:2 2:3\n", r"text:1: column 13: feature 2 appears twice"),
        (b"1 qid:1 0:2\n", r"text:1: column 9: feature 0, but indices start at 1"),
        (b"1 qid:1 100001:2\n", r"text:1: column 9: feature 100001, but the largest index is 100000"),
        (b"1 qid:1 1:NaN\n", r"text:1: column 11: feature 1 is 'NaN'; expected a finite number"),
        (b"1 qid:1 1:-inf\n", r"feature 1 is '-inf'; expected a finite number"),
        (b"1 qid:1 1:1e39\n", r"feature 1 is '1e39', too large for a float32"),
        (b"1 qid:1 1:1,5\n", r"feature 1 is '1,5'"),
        (b"1 qid:1 1:2 x:3\n", r"text:1: column 13: 'x:3'; expected a feature, `index:value`"),
        (b"1 qid:1 1:2\n1 qid:1 1:2 2:", r"text:2: column 15: feature 2 has no value; the file ends here"),
        (b"1 qid:1 1:2\n1 qid:1 1:2 2", r"'2'; expected a feature.*; the file ends here, so its last"),
    ],
)
def test_a_bad_line_is_refused_by_name_line_and_column(text, message):
    with pytest.raises(DataError, match=message):
        read_letor(text)


def test_a_missing_and_an_empty_file_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        read_letor(tmp_path / "nowhere.txt")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DataError, match=r"empty\.txt: no rows"):
        read_letor(tmp_path / "empty.txt")


def test_group_sizes_stand_in_for_query_ids(tmp_path):
    text = b"1 2:0.5\n0 1:1\n2 1:3\n"
    sizes = tmp_path / "rank.query"
    sizes.write_text("1\n2\n")
    for group in ([1, 2], np.array([1, 2]), sizes):
        queries = read_letor(text, group=group)
        assert queries.made_ids
        assert queries.offsets.tolist() == [0, 1, 3]
    with pytest.raises(DataError, match="add up to 4; expected the number of rows, 3"):
        read_letor(text, group=[1, 3])
    with pytest.raises(DataError, match=r"text:1: column 3: 'qid:1', but group sizes are given too"):
        read_letor(b"1 qid:1 1:2\n", group=[1])
    with pytest.raises(DataError, match=r"^text: group 1 has size 0; every query needs at least one item"):
        read_letor(text, group=[3, 0])
    sizes.write_text("1\ntwo\n")
    with pytest.raises(DataError, match=r"rank\.query: not a list of group sizes"):
        read_letor(text, group=sizes)


def test_the_width_can_be_given():
    assert read_letor(b"1 qid:1 2:1\n", n_features=5).features.shape == (1, 5)
    assert read_letor(b"1 qid:1\n").features is None
    with pytest.raises(DataError, match="feature 6, but n_features is 5"):
        read_letor(b"1 qid:1 6:1\n", n_features=5)
    with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
        read_letor(b"1 qid:1 6:1\n", n_features=0)


def test_indices_may_start_at_zero_when_said_so():
    assert read_letor(b"1 qid:1 0:3 2:1\n", zero_based=True).features.tolist() == [[3, 0, 1]]
    assert read_letor(b"1 qid:1 0:3\n", zero_based=True).features.tolist() == [[3]]
    assert read_letor(b"1 qid:1\n", zero_based=True).features is None


def test_ids_are_integers_only_when_all_are_written_so():
    assert read_letor(b"1 qid:7\n1 qid:-3\n").query_ids.tolist() == [7, -3]
    assert read_letor(b"1 qid:7\n1 qid:007\n").query_ids.tolist() == ["7", "007"]


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_threads_change_nothing(n_threads, monkeypatch):
    monkeypatch.setattr("isrr.data.text.BYTES_PER_RANGE", 64)
    rng = np.random.default_rng(20230)
    lines = [f"{rng.integers(3)} qid:{rng.integers(40) // 8} 1:{rng.random():.6f} {i + 2}:1" for i in range(200)]
    text = "\n".join(lines).encode()
    one, many = read_letor(text, n_threads=1), read_letor(text, n_threads=n_threads)
    for name in ("offsets", "query_ids", "relevance", "features", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))
    broken = text.replace(lines[150].encode(), b"1 qid:1 3:1 2:1")
    with pytest.raises(DataError, match="text:151: column 13: feature 2 follows feature 3"):
        read_letor(broken, n_threads=n_threads)


def test_threads_are_as_many_as_asked_for(monkeypatch):
    asked = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, n_threads):
            asked.append(n_threads)
            super().__init__(n_threads)

    monkeypatch.setattr("isrr.data.text.BYTES_PER_RANGE", 64)
    monkeypatch.setattr("isrr.data.letor.ThreadPoolExecutor", Pool)
    with use_threads(3):
        read_letor(GOLDEN / "letor_small.txt")
    assert asked == [3]


SPELLINGS = ["{!r}", "{:.17e}", "{:+.60f}", "{:.20E}"]


@settings(max_examples=300, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(SPELLINGS))
def test_a_float32_is_read_back_however_it_is_spelled(value, spelling):
    text = f"1 qid:1 1:{spelling.format(value)}\n".encode()
    assert read_letor(text).features[0, 0] == np.float32(float(spelling.format(value)))


@settings(max_examples=300, deadline=None)
@given(st.integers(-(10**15), 10**15), st.integers(0, 15), st.integers(-22, 7))
def test_fifteen_digits_are_rounded_to_the_nearest_float32(digits, places, exponent):
    whole, part = divmod(abs(digits), 10**places)
    written = f"{'-' * (digits < 0)}{whole}.{part:0{max(places, 1)}d}e{exponent}"
    assert read_letor(f"1 qid:1 1:{written}\n".encode()).features[0, 0] == np.float32(float(written))


@pytest.mark.parametrize("written", ["1e-400", "0e999999999999", "1" + "0" * 50 + "e-50", "0." + "0" * 60 + "1e61"])
def test_extreme_spellings_are_numbers_too(written):
    value = read_letor(f"1 qid:1 1:{written}\n".encode()).features[0, 0]
    assert math.isclose(value, float(written), rel_tol=1e-7)


def test_mutated_text_is_parsed_as_the_oracle_does_or_refused():
    for text in inputs(3_000, seed=20230):
        check(text)


def test_memory_stays_within_half_as_much_again_as_the_matrix(tmp_path):
    line = " ".join(f"{i}:0.{i:06d}" for i in range(1, 47))
    file = tmp_path / "long.txt"
    file.write_text("".join(f"1 qid:{q} {line}\n" for q in range(400) for _ in range(40)))
    packed = tmp_path / "long.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes(), 1))
    shuffled = tmp_path / "shuffled.txt"
    shuffled.write_text("".join(f"1 qid:{q} {line}\n" for _ in range(40) for q in range(400)))
    for source in (file, packed, shuffled):
        read_letor(source)
        tracemalloc.start()
        queries = read_letor(source, n_threads=2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # the floor of 1 MB covers unpacking buffers and the interpreter's own small change
        assert peak < 1.5 * queries.features.nbytes + 1e6, source.name


def test_mq2007_reads_as_scikit_learn_reads_it(real_data):
    from sklearn.datasets import load_svmlight_file

    file = real_data / "mq2007" / "S1.txt"
    features, labels, ids = load_svmlight_file(str(file), query_id=True)
    queries = read_letor(file)
    np.testing.assert_array_equal(queries.features, features.toarray().astype(np.float32))
    np.testing.assert_array_equal(queries.relevance, labels)
    np.testing.assert_array_equal(row_ids(queries), ids)


def test_sparse_lines_with_a_group_file_read_as_scikit_learn_reads_them(real_data):
    from sklearn.datasets import load_svmlight_file

    file = real_data / "lightgbm_sample" / "rank.train"
    features, labels = load_svmlight_file(str(file))
    queries = read_letor(file, group=f"{file}.query")
    assert (len(queries), queries.n_rows) == (201, 3005)
    np.testing.assert_array_equal(queries.features, features.toarray().astype(np.float32))
    np.testing.assert_array_equal(queries.relevance, labels)


def test_the_oracle_reads_the_small_file_too():
    parsed = letor_oracle.parse((GOLDEN / "letor_small.txt").read_bytes())
    assert parsed.ids == ["red", "7", "red", "7", "x-9", "x-9"]
    assert parsed.relevance == [2, 0, 1, 0.5, 3, 0]
