"""Whole files, streamed files and Dask give the same bits; what travels between processes arrives unchanged."""

from itertools import pairwise
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from isrr import DataError, PromiseError
from isrr.calibration.tasks import FindRepeats, smallest_keys
from isrr.data import blocks
from isrr.data.sample import shuffled
from isrr.data.source import matching_files, read_any
from isrr.engines import local
from isrr.engines.local import Files, InMemory, on_dask
from isrr.engines.source import open_source
from isrr.engines.tables import Span, apart
from isrr.parallel import threads, use_threads
from value_task import SumMargins

PROMISE = "ndcg@5 >= 90% of deterministic"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """500 queries in three files of small row groups, which cut queries."""
    rng = np.random.default_rng(20230)
    sizes = rng.integers(2, 20, 500)
    relevance = rng.choice(4, sizes.sum(), p=[0.6, 0.25, 0.1, 0.05]).astype(float)
    table = pa.table(
        {
            "query_id": np.repeat(np.arange(500), sizes),
            "item_id": np.arange(relevance.size),
            "score": (relevance + rng.normal(size=relevance.size)).round(1),
            "relevance": relevance,
        }
    )
    folder = tmp_path_factory.mktemp("files")
    offsets = np.concatenate(([0], np.cumsum(sizes)))[[0, 100, 350, 500]]
    for start, stop in pairwise(offsets.tolist()):
        pq.write_table(table.slice(start, stop - start), folder / f"from-{start:05}.parquet", row_group_size=33)
    return f"{folder}/*.parquet"


def test_streamed_files_and_dask_give_the_bits_of_queries_in_memory(files, monkeypatch):
    expected = isrr.calibrate(files, PROMISE)
    monkeypatch.setattr(blocks.whole_queries, "__defaults__", (50,))  # many small blocks
    assert isrr.calibrate(files, PROMISE, trust_layout=True) == expected
    pytest.importorskip("dask")
    assert isrr.calibrate(files, PROMISE, trust_layout=True, engine="dask") == expected
    assert isrr.check(expected, files, "dask", trust_layout=True) == isrr.check(expected, files)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_blocks_in_memory_give_the_same_bits_however_many_are_summed_up_side_by_side(files, monkeypatch, n_threads):
    queries, seen = read_any(files), []
    expected = isrr.calibrate(queries, PROMISE)
    monkeypatch.setattr(local, "BLOCK", 70)
    with use_threads(n_threads):
        found = isrr.calibrate(queries, PROMISE, progress=lambda *done: seen.append(done))
    assert found == expected
    assert (500, 500) in seen
    assert n_threads > 1 or len(set(seen)) > 2  # other threads may be done before this one has anything to say


def test_of_blocks_that_are_refused_the_first_one_is_named(files, monkeypatch):
    monkeypatch.setattr(local, "BLOCK", 100)
    queries = read_any(files)
    for _ in range(20):
        later = Event()

        class Refuse(FindRepeats):
            """Refuses every block, the first one last."""

            def summary(self, blocks):
                (block,) = blocks
                first = block.query_ids[0] == queries.query_ids[0]
                assert later.wait(10) if first else later.set() is None  # noqa: B023
                raise DataError(f"query {block.query_ids[0]}")

        with use_threads(2), pytest.raises(DataError, match=f"^query {queries.query_ids[0]}$"):
            InMemory(queries).run(Refuse(10))


@pytest.mark.parametrize("where", [{}, {"trust_layout": True}], ids=["in memory", "streamed"])
def test_columns_are_named_as_for_read_queries(files, tmp_path, where):
    table = pa.concat_tables([pq.read_table(file) for file in sorted(Path(files).parent.iterdir())])
    pq.write_table(table.rename_columns(["search", "sku", "points", "stars"]), tmp_path / "ours.parquet")
    names = {"query": "search", "item": "sku", "score": "points", "relevance": "stars"}
    expected = isrr.calibrate(files, PROMISE)
    found = isrr.calibrate(tmp_path / "ours.parquet", PROMISE, **names, **where)
    assert found == expected
    assert isrr.check(found, tmp_path / "ours.parquet", **names, **where) == isrr.check(expected, files)


@pytest.mark.parametrize("gone", range(495, 500))
def test_a_query_that_goes_between_passes_is_missed(files, gone, tmp_path):
    whole = pa.concat_tables([pq.read_table(file) for file in sorted(Path(files).parent.iterdir())])
    file, passes = tmp_path / "judged.parquet", []
    pq.write_table(whole, file)

    def lose_it_after_two_passes(done, n_files):
        passes.append(done)
        if len(passes) == 2:
            pq.write_table(whole.filter(pa.array(whole["query_id"].to_numpy() != gone)), file)

    counted = "500 queries were counted and 499 seen .* they may not change while being read"
    set_aside = "there were 500 queries at first, then fewer: the data changed while being read"
    with pytest.raises(DataError, match=f"{counted}|{set_aside}"):
        isrr.calibrate(file, PROMISE, trust_layout=True, progress=lose_it_after_two_passes)


def test_the_queries_of_smallest_key_are_found_wherever_they_are(files):
    queries = read_any(files)
    found = smallest_keys(Files(matching_files(files)), 40, len(queries), queries.scores_fingerprint)
    keys = shuffled(queries.keys, queries.scores_fingerprint)
    np.testing.assert_array_equal(found.keys, queries.keys[np.argsort(keys)[:40]])


def test_queries_a_path_a_glob_and_a_table_are_read_alike(files):
    table = pa.concat_tables([pq.read_table(file) for file in sorted(Path(files).parent.iterdir())])
    queries = isrr.read_queries(table)
    assert read_any(queries) is queries
    assert read_any(files).fingerprint == read_any(table).fingerprint == queries.fingerprint
    ours = table.rename_columns(["search", "item_id", "score", "relevance"])
    assert read_any(ours, query="search", score=None).fingerprint == queries.fingerprint


@pytest.mark.parametrize(
    ("spans", "whole"),
    [
        ([(5, 9, True), (0, 4, True)], True),
        ([(0, 5, True), (5, 9, True)], False),
        ([(0, 7, True), (5, 9, True)], False),
        ([(0, 4, True), (5, 9, False)], False),
        ([("a", "b", True), ("c", "c", True)], True),
        ([(0, 4, True), ("5", "9", True)], False),
        ([], True),
    ],
)
def test_spans_show_that_queries_are_whole_only_where_they_rise_apart(spans, whole):
    assert apart(tuple(Span(*span) for span in spans)) == whole


@pytest.mark.parametrize("ids", [[0, 1, 2, 1, 3], [0, 1, 2, 3, 1]], ids=["inside", "at the end"])
def test_a_query_in_two_places_of_one_block_is_refused_where_the_layout_is_trusted(ids, tmp_path):
    table = pa.table({"query_id": np.repeat(ids, 4), "score": np.arange(20.0), "relevance": np.ones(20)})
    pq.write_table(table, tmp_path / "judged.parquet")
    with pytest.raises(DataError, match=r"judged\.parquet: query '1' appears in two places"):
        isrr.calibrate(tmp_path / "judged.parquet", PROMISE, trust_layout=True)


@pytest.mark.parametrize("trust_layout", [True, False])
def test_files_whose_ids_were_made_from_positions_are_not_pooled(trust_layout, tmp_path):
    rng = np.random.default_rng(20233)
    for name in "ab":
        queries = isrr.Queries.from_arrays(scores=rng.normal(size=400), relevance=np.ones(400), group=[4] * 100)
        isrr.write_queries(queries, tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: its query ids were made from positions"):
        isrr.calibrate(f"{tmp_path}/*.parquet", PROMISE, trust_layout=trust_layout)
    assert isrr.calibrate(tmp_path / "a.parquet", PROMISE, trust_layout=trust_layout).provenance.made_ids


def test_a_task_reads_a_column_of_numbers_by_its_name(files, tmp_path):
    for file in sorted(Path(files).parent.iterdir()):
        table = pq.read_table(file)
        pq.write_table(table.append_column("margin", [np.arange(len(table)) / 4 - 10]), tmp_path / file.name)
    rows = pa.concat_tables([pq.read_table(file) for file in sorted(tmp_path.iterdir())])
    expected = float(rows["margin"].to_numpy() @ (rows["relevance"].to_numpy() > 0))
    valued = f"{tmp_path}/*.parquet"
    queries = isrr.read_queries(rows, values=["margin"])
    for data, where in ((valued, {}), (valued, {"trust_layout": True}), (rows, {}), (queries, {})):
        assert open_source(data, values=["margin"], **where).run(SumMargins()) == expected
    with pytest.raises(DataError, match=r"no column 'margins'; .*did you mean 'margin'"):
        open_source(valued, values=["margins"], trust_layout=True)
    with pytest.raises(DataError, match="no value column 'stock'; they have 'margin'"):
        open_source(queries, values=["stock"])


def test_names_of_columns_beside_queries_are_refused(files):
    queries = isrr.read_queries(pq.read_table(sorted(Path(files).parent.iterdir())[0]))
    with pytest.raises(DataError, match="`score=` is for tables; these queries are already in memory"):
        isrr.calibrate(queries, PROMISE, score="points")
    assert isrr.calibrate(queries, PROMISE, score=None) == isrr.calibrate(queries, PROMISE)


def test_a_refusal_keeps_its_kind_on_the_way(files):
    promise = isrr.Promise.parse("disparity@5 <= 0.001", bound=0.01)
    for where in ({}, {"trust_layout": True}):
        with pytest.raises(PromiseError, match="above the declared bound"):
            isrr.calibrate(files, promise, **where)


def test_a_task_on_dask_runs_on_one_thread(monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.setenv("ISRR_THREADS", "3")
    assert on_dask(lambda _: threads(), [Path("a"), Path("b")]) == (1, 1)


def test_unknown_engines_and_rows_that_dask_would_have_to_move_are_refused(files, tmp_path):
    with pytest.raises(PromiseError, match="unknown engine 'flink'"):
        isrr.calibrate(files, PROMISE, engine="flink")
    with pytest.raises(DataError, match="rows are not regrouped there"):
        isrr.calibrate(files, PROMISE, engine="dask")
    for partitions in (0, -1):
        with pytest.raises(PromiseError, match=f"must be at least 1, got {partitions}"):
            isrr.calibrate(files, PROMISE, engine="spark", partitions=partitions)
    with pytest.raises(DataError, match="no such file"):
        isrr.calibrate(f"{tmp_path}/*.parquet", PROMISE)
