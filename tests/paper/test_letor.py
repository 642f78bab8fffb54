"""LETOR text: read by scikit-learn, grouped by query, refused with the file's name."""

import gzip

import numpy as np
import pytest
from scores_data import real_files

from isrr import DataError, read_queries
from isrr.data.formats import allow_unpacked
from isrr_paper.letor import read_letor

pytest.importorskip("sklearn", reason="scikit-learn reads LETOR text: pip install 'isrr[paper]'")


@pytest.fixture
def written(tmp_path):
    def write(text, name="judged.txt"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    return write


def test_rows_become_queries_in_order_of_first_appearance(written):
    found = read_letor(written("2 qid:7 1:0.5 3:1e-2 # first\n0 qid:9 2:7\n\n1 qid:7 1:3\n"))
    assert found.query_ids.tolist() == [7, 9]
    assert found.offsets.tolist() == [0, 2, 3]
    assert found.relevance.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(found.features, np.float32([[0.5, 0, 0.01], [3, 0, 0], [0, 7, 0]]))
    assert found.item_ids is None


def test_a_gzipped_file_reads_like_the_plain_one(written):
    text = b"1 qid:1 1:0.5\n0 qid:2 2:1\n"
    plain, packed = read_letor(written(text)), read_letor(written(gzip.compress(text), "judged.txt.gz"))
    np.testing.assert_array_equal(packed.features, plain.features)


@pytest.mark.parametrize(
    ("comments", "ids"),
    [
        (["#docid = GX-1 inc = 1", "#docid = GX-2", "#docid=GX-3"], ["GX-1", "GX-2", "GX-3"]),
        (["# MED-1", "# MED-2", "# MED-1"], ["MED-1", "MED-2", "MED-1"]),
        (["# a", "", "# c"], None),
        (["# two words", "# b", "# c"], None),
        (["# same", "# same", "# other"], None),
    ],
)
def test_comments_become_item_ids_where_every_row_has_one_of_its_own(comments, ids, written):
    text = "".join(f"{row} qid:{row // 2} 1:2 {comment}\n" for row, comment in enumerate(comments))
    found = read_letor(written(text), comment_ids=True)
    assert (None if found.item_ids is None else found.item_ids.tolist()) == ids


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"judged\.txt: the file is empty"),
        ("\n# nothing\n", r"judged\.txt: no rows"),
        ("1 qid:1 1:2\nx qid:1 1:2\n", r"judged\.txt: not LETOR text"),
        ("-1 qid:1 1:2\n", r"judged\.txt: .*≥ 0"),
        ("nan qid:1 1:2\n", r"judged\.txt: .*≥ 0"),
        ("1 1:2\n", r"judged\.txt: 1 of 1 rows have no `qid:ID`"),
        ("1 qid:1 1:2\n1 1:2\n", r"judged\.txt: 1 of 2 rows have no `qid:ID`"),
        ("1 qid:red 1:2\n", r"judged\.txt: not LETOR text with whole-number query ids"),
        ("1 qid:1 14:2 12:3\n", r"judged\.txt: not LETOR text .*sorted and unique"),
        ("1 qid:1 0:2\n", r"judged\.txt: not LETOR text .*[Ii]nvalid index 0"),
        ("1 qid:1 100001:2\n", r"judged\.txt: feature 100001, but the largest index is 100000"),
        ("1 qid:1 1:NaN\n", r"judged\.txt: a feature is missing, infinite or too large"),
        ("1 qid:1 1:1e39\n", r"judged\.txt: a feature is missing, infinite or too large"),
        ("1 qid:1 1:1,5\n", r"judged\.txt: not LETOR text"),
        (b"1 qid:\xff 1:2\n", r"judged\.txt: not LETOR text"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line_with_its_name(text, message, written):
    with pytest.raises(DataError, match=message) as refused:
        read_letor(written(text))
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_cut_gzip_file_are_named(written, tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        read_letor(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=r"cut\.txt\.gz: cannot be read: Compressed file ended before"):
        read_letor(written(gzip.compress(b"1 qid:1 1:0.5\n" * 1000)[:-12], "cut.txt.gz"))


def test_group_sizes_stand_in_for_query_ids(written, tmp_path):
    file, sizes = written("1 2:0.5\n0 1:1\n2 1:3\n"), tmp_path / "rank.query"
    sizes.write_text("1\n2\n")
    for group in ([1, 2], sizes):
        queries = read_letor(file, group=group)
        assert queries.made_ids
        assert queries.offsets.tolist() == [0, 1, 3]
    with pytest.raises(DataError, match=r"judged\.txt: .*add up to 4; expected the number of rows, 3"):
        read_letor(file, group=[1, 3])
    sizes.write_text("1\ntwo\n")
    with pytest.raises(DataError, match=r"rank\.query: not a list of group sizes"):
        read_letor(file, group=sizes)


def test_indices_may_start_at_zero_when_said_so(written):
    file = written("1 qid:1 0:3 2:1\n")
    assert read_letor(file, zero_based=True).features.tolist() == [[3, 0, 1]]


def test_the_product_names_the_command_that_converts(written):
    with pytest.raises(DataError, match=r"judged\.txt: this is LETOR text.*: isrr-paper convert .*judged\.txt"):
        read_queries(written("1 qid:1 1:2\n0 qid:1 1:1\n"))


def test_mq2007_reads_as_published():
    (file,) = real_files("mq2007", "S1.txt")
    queries = read_letor(file, comment_ids=True)
    assert (len(queries), queries.n_rows, queries.features.shape[1]) == (339, queries.item_ids.size, 46)
    assert queries.item_ids[0].startswith("GX")


def test_a_file_that_unpacks_to_far_more_than_expected_is_refused(written):
    file = written(gzip.compress(b"1 qid:1 1:2\n" * 900_000), "bomb.txt.gz")
    with allow_unpacked(0.001), pytest.raises(DataError, match=r"bomb\.txt\.gz: unpacks to more than 0\.001 GB"):
        read_letor(file)
