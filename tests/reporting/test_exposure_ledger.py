"""The ledger of exposure, made from the log."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from isrr import Queries
from isrr.errors import DataError
from isrr.reporting.exposure_ledger import ledger, write_ledger


def test_the_ledger_adds_up_exposure_and_gain(tmp_path):
    judged = Queries.from_arrays(
        relevance=[1, 1, 0, 1],
        query_ids=["q", "q", "q", "p"],
        item_ids=["a", "b", "c", "a"],
        item_groups=["x", "y", "y", "x"],
    )
    lines = [
        {"time": 1.0, "query_id": "q", "first_rank": 1, "items": ["a", "b"]},
        {"time": 2.0, "query_id": "q", "first_rank": 1, "items": ["b", "a"]},
        {"time": 3.0, "query_id": "q", "first_rank": 3, "items": ["c"]},
        {"time": 0.0, "query_id": "unjudged", "first_rank": 1, "items": ["a"]},
    ]
    accounts = ledger(lines, judged)
    items = accounts["item"]
    second = 1 / np.log2(3)
    collected = dict(zip(items.names, zip(items.exposure, items.gain, strict=True), strict=True))
    assert collected == {"a": (1 + second, 2.0), "b": (1 + second, 2.0), "c": (0.5, 0.0)}
    assert items.moments.tolist() == [1.0, 2.0, 3.0]
    assert items.disparity.tolist() == pytest.approx([1 / (1 + second) - 0.5, 0.0, 0.5 / (2.5 + 2 * second)])
    assert accounts["group"].names == ("y", "x")
    assert "would have to move" in str(items)
    write_ledger(accounts, tmp_path / "ledger.parquet")
    table = pq.read_table(tmp_path / "ledger.parquet")
    assert table["kind"].to_pylist() == ["item"] * 3 + ["group"] * 2
    assert sum(table["exposure_share"].to_pylist()) == pytest.approx(2.0)
    with pytest.raises(DataError, match="no served list belongs to a judged query, so there is nothing to show"):
        ledger(lines[3:], judged)
    with pytest.raises(DataError, match="no item of a served list is judged, so there is nothing to show"):
        ledger([{**lines[0], "items": ["d", "e"]}], judged)
