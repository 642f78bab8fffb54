"""Tables with features: columns of lists or of numbers, named or matched, written and read back."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scores_data import made_queries

from isrr import DataError, Queries, read_queries
from isrr_paper.features import Featured, read_featured, write_featured


@pytest.fixture
def written(tmp_path):
    def write(**columns):
        pq.write_table(pa.table(columns), tmp_path / "judged.parquet")
        return tmp_path / "judged.parquet"

    return write


def test_features_are_columns_of_lists_or_of_numbers(written):
    lists = written(qid=[1, 1], grade=[0, 1], features=[[1.0, 2.0], [3.0, 4.0]])
    assert read_featured(lists).features.tolist() == [[1, 2], [3, 4]]
    numbers = written(qid=[1, 1], grade=[0, 1], f2=[1.0, 2.0], f1=[3.0, 4.0], other=[5.0, 6.0])
    found = read_featured(numbers, features="f*")
    assert (found.features.tolist(), found.feature_names) == ([[1, 3], [2, 4]], ("f2", "f1"))
    assert read_featured(numbers, features=["other", "f?"]).features.tolist() == [[5, 1, 3], [6, 2, 4]]
    assert found.with_features(["f1"]).features.tolist() == [[3], [4]]


def test_features_follow_their_rows_when_queries_are_brought_together(written):
    file = written(qid=["a", "b", "a"], grade=[0, 1, 2], features=[[1.0], [2.0], [3.0]])
    assert read_featured(file).features.ravel().tolist() == [1, 3, 2]
    assert read_featured(file)[1:].features.ravel().tolist() == [2]


def test_queries_without_scores_and_grades_can_be_scored(written):
    found = read_featured(written(qid=[1, 1], item_id=["x", "y"], features=[[1.0], [2.0]]))
    assert (found.scores, found.relevance, found.item_ids.tolist()) == (None, None, ["x", "y"])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, 2.0], [3.0]], r"judged\.parquet: the features cannot be read: .*equally many per row"),
        ([[1.0, 2.0], [3.0, 1e300]], r"must lie within ±1e\+38"),
        (["one", "two"], r"judged\.parquet: the features cannot be read"),
    ],
)
def test_features_that_are_no_matrix_of_numbers_are_refused(written, features, message):
    with pytest.raises(DataError, match=message):
        read_featured(written(qid=[1, 1], grade=[0, 1], features=features))


def test_a_column_that_is_not_there_is_named(written):
    with pytest.raises(DataError, match=r"judged\.parquet: there is no column 'h\*'; the columns are qid, grade"):
        read_featured(written(qid=[1], grade=[1]), features="h*")
    with pytest.raises(DataError, match=r"no features column \(features, or named by `features=`\)"):
        read_featured(written(qid=[1], grade=[1]))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_what_is_written_is_read_back(tmp_path, suffix):
    queries = made_queries(20, seed=1)
    write_featured(queries, tmp_path / f"plain.{suffix}")
    np.testing.assert_array_equal(read_featured(tmp_path / f"plain.{suffix}").features, queries.features)
    named = Featured.of(queries.without_features, queries.in_caller_order(queries.features), list("abcdef"))
    write_featured(named, tmp_path / f"named.{suffix}")
    again = read_featured(tmp_path / f"named.{suffix}", features="[a-f]")
    np.testing.assert_array_equal(again.features, queries.features)
    assert again.feature_names == tuple("abcdef")
    assert type(read_queries(tmp_path / f"plain.{suffix}")) is Queries
