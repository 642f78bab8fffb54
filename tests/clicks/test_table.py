"""Click tables are read as they are meant, or refused in a sentence."""

import json

import numpy as np
import pyarrow as pa
import pytest

from isrr.clicks.click_table import read_clicks
from isrr.errors import DataError


def ubi(folder, events, queries):
    """A folder with events and queries of User Behavior Insights."""
    for name, lines in (("ubi_events", events), ("ubi_queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def event(query, item="b"):
    clicked = {"object": {"object_id": item}}
    return {"action_name": "click", "query_id": query, "timestamp": "1970-01-01T00:01:41Z", "event_attributes": clicked}


@pytest.mark.parametrize("kinds", [np.array([1, 2, 1]), np.array([1.0, 2.0, 1.0]), ["1", "2", "1"]])
def test_kinds_that_are_numbers_are_compared_as_text(kinds):
    found = read_clicks(pa.table({"list_id": ["a", "b", "c"], "item_id": ["x", "y", "z"], "kind": kinds}), kind="1")
    assert (len(found), found.n_other) == (2, 1)


def test_kinds_that_are_lists_are_refused():
    table = pa.table({"list_id": ["a"], "item_id": ["x"], "kind": [["buy"]]})
    with pytest.raises(DataError, match="table: column 'kind' holds list<item: string>; expected text"):
        read_clicks(table, kind="buy")


def test_two_responses_to_one_query_id_are_refused(tmp_path):
    asked = [{"query_id": "asked", "query_response_id": "one"}]
    folder = ubi(tmp_path, [event("asked"), event("other"), event(None)], [*asked, *asked])
    assert len(read_clicks(folder)) == 1
    more = {"query_id": "asked", "query_response_id": "two"}
    without = [{"query_id": "asked"}, {"query_response_id": "three"}]
    assert len(read_clicks(ubi(tmp_path, [event("asked"), event(None)], [*without, *asked]))) == 1
    ubi(tmp_path, [event("asked")], [*asked, *without, more])
    with pytest.raises(
        DataError, match=r"ubi_queries\.jsonl: query_id 'asked' has the responses 'one' and 'two'; expect"
    ):
        read_clicks(tmp_path)


def test_query_ids_of_events_may_be_numbers(tmp_path):
    folder = ubi(tmp_path, [event(7), event(8)], [{"query_id": "7", "query_response_id": 1}])
    assert len(read_clicks(folder)) == 1
