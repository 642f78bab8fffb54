"""A table is ranked block by block, with the lists that ranking it in memory gives."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import isrr
from isrr import DataError, GPLRanker
from isrr.data.parquet import ParquetFiles
from isrr.data.tables import whole_queries
from isrr.rank_table import rank_table
from isrr.ranker.placements import placements

RANKER, USUAL = GPLRanker(k=3, temperature=0.5), (-2.0, 2.0)


@pytest.fixture(scope="module")
def scored():
    """200 queries, the rows of each together."""
    rng = np.random.default_rng(20230)
    sizes = rng.integers(1, 9, 200)
    ids = np.repeat([f"q{q}" for q in rng.permutation(200)], sizes)
    return pa.table(
        {"query_id": ids, "item_id": [f"d{i}" for i in range(ids.size)], "score": rng.normal(size=ids.size).round(1)}
    )


def read(file):
    if file.suffix == ".parquet":
        return pq.read_table(file)
    if file.suffix == ".csv":
        return pyarrow.csv.read_csv(file)
    return pa.Table.from_pylist([json.loads(line) for line in file.read_text().splitlines()])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("order", ["together", "scattered"])
def test_blocks_give_the_lists_of_the_whole_table(scored, tmp_path, monkeypatch, order, suffix):
    rows = np.arange(len(scored)) if order == "together" else np.random.default_rng(1).permutation(len(scored))
    table = scored.take(rows)
    expected = placements(RANKER, isrr.read_queries(table), 3, "s")
    pq.write_table(table, tmp_path / "scored.parquet", row_group_size=50)
    monkeypatch.setattr(whole_queries, "__defaults__", (40,))
    monkeypatch.setattr(ParquetFiles.batches, "__defaults__", (None, 40))
    target, done = tmp_path / f"ranked.{suffix}", []
    counts = rank_table(RANKER, tmp_path / "scored.parquet", target, "s", USUAL, lambda *counts: done.append(counts))
    found = read(target).cast(expected.schema)
    assert found.equals(expected)
    scores = scored["score"].to_numpy()
    assert (counts.n_queries, counts.n_rows, counts.n_positions) == (200, len(scored), len(expected))
    assert counts.n_outside == (np.abs(scores) > 2.0).sum()
    assert done[-1] == (200, 200)
    assert (len(done) > 1) == (order == "together")


def test_bad_rows_are_found_before_anything_is_written(scored, tmp_path, monkeypatch):
    monkeypatch.setattr(whole_queries, "__defaults__", (40,))
    monkeypatch.setattr(ParquetFiles.batches, "__defaults__", (None, 40))
    scores = scored["score"].to_numpy().copy()
    scores[-1] = np.nan
    pq.write_table(scored.set_column(2, "score", pa.array(scores)), tmp_path / "scored.parquet")
    with pytest.raises(DataError, match=r"scored\.parquet, rows from \d+: .*column 'score'"):
        rank_table(RANKER, tmp_path / "scored.parquet", tmp_path / "ranked.parquet", "s", USUAL)
    assert [file.name for file in tmp_path.iterdir()] == ["scored.parquet"]
