"""Benchmarks: found in either layout, compared with what is published, and missed with directions."""

import gzip
import re
import warnings

import numpy as np
import pytest

from isrr.errors import DataError
from isrr_paper.catalog import CATALOG, BenchmarkCountsWarning, load


def line(query, width=46):
    return f"1 qid:{query} 1:{query} {width}:1\n"


def loaded(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BenchmarkCountsWarning)
        return load(*arguments, **options)


@pytest.fixture
def five_parts(tmp_path):
    for part in range(1, 6):
        (tmp_path / f"S{part}.txt").write_text(line(part))
    return tmp_path


@pytest.mark.parametrize(("fold", "train", "validation", "test"), [(1, [1, 2, 3], [4], [5]), (4, [4, 5, 1], [2], [3])])
def test_parts_are_rotated_into_folds(five_parts, fold, train, validation, test):
    benchmark = loaded("mq2007", five_parts, fold=fold)
    assert benchmark.train.query_ids.tolist() == train
    assert benchmark.validation.query_ids.tolist() == validation
    assert benchmark.test.query_ids.tolist() == test


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("yahoo", ["set1.train.txt", "set1.valid.txt", "set1.test.txt"]),
        ("yahoo", ["ltrc_yahoo/set1.train.txt", "ltrc_yahoo/set1.valid.txt", "ltrc_yahoo/set1.test.txt"]),
        ("mslr-web30k", ["Fold2/train.txt", "Fold2/vali.txt", "Fold2/test.txt"]),
        ("mslr-web10k", [f"MSLR-WEB10K/Fold2/{part}.txt" for part in ("train", "vali", "test")]),
        ("istella-s", ["sample/train.txt", "sample/vali.txt", "sample/test.txt"]),
        ("mq2008", ["Fold2/train.txt.gz", "Fold2/vali.txt", "Fold2/test.txt"]),
    ],
)  # fmt: skip
def test_every_benchmark_is_found_as_it_is_published(tmp_path, name, files):
    for query, file in enumerate(files):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        text = line(query).encode()
        (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith("gz") else text)
    benchmark = loaded(name, tmp_path, fold=2 if CATALOG[name].n_folds > 1 else 1)
    parts = (benchmark.train, benchmark.validation, benchmark.test)
    assert [part.query_ids.tolist() for part in parts] == [[0], [1], [2]]


def test_counts_that_differ_are_warned_about(five_parts):
    with pytest.warns(BenchmarkCountsWarning, match="mq2007: train has 3 queries, published are 1,017; validation"):
        load("mq2007", five_parts)
    with pytest.warns(BenchmarkCountsWarning, match=r"mq2007: there are 5 queries, published are 1,692; there are 5"):
        load("mq2007", five_parts, fold=2)
    (five_parts / "S1.txt").write_text(line(1, width=47))
    with pytest.warns(BenchmarkCountsWarning, match="features end at number 47, published is 46"):
        load("mq2007", five_parts)


def test_all_parts_have_the_same_features(five_parts):
    (five_parts / "S5.txt").write_text(line(5, width=40))
    (five_parts / "S2.txt").write_text("0 qid:2\n")
    benchmark = loaded("mq2007", five_parts)
    assert benchmark.train.features.shape == (3, 46)
    assert benchmark.test.features.shape == (1, 46)
    np.testing.assert_array_equal(np.flatnonzero(benchmark.test.features), [0, 39])


def test_a_missing_benchmark_says_where_it_comes_from(tmp_path):
    for name, known in CATALOG.items():
        with pytest.raises(DataError, match=rf"{name} is not here; expected .*{re.escape(known.source)}"):
            load(name, tmp_path)
    with pytest.raises(DataError, match=r"jester5k is not here; expected ratings\.csv .* recommenderlab"):
        load("jester5k", tmp_path)


def test_unknown_names_and_folds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown benchmark 'msn'; expected one of yahoo, mslr-web10k"):
        load("msn", tmp_path)
    with pytest.raises(ValueError, match="fold 6 of mq2007: its folds are 1 to 5"):
        load("mq2007", tmp_path, fold=6)


@pytest.mark.parametrize(
    ("name", "fold"), [("mq2007", 1), ("mq2007", 3), ("ohsumed", 1), ("ohsumed", 5), ("nfcorpus", 1)]
)
def test_real_benchmarks_have_the_published_counts(real_data, name, fold):
    benchmark = load(name, real_data / name, fold=fold)
    assert benchmark.train.features.shape[1] == CATALOG[name].features


def test_jokes_are_items_and_their_readers_queries(real_data):
    benchmark = load("jester5k", real_data / "jester5k")
    parts = (benchmark.train, benchmark.validation, benchmark.test)
    assert sum(len(part) for part in parts) == 5_000
    assert sum(part.n_rows for part in parts) == 363_209
    relevance = np.concatenate([part.relevance for part in parts])
    assert 0 <= relevance.min() < relevance.max() <= 4
