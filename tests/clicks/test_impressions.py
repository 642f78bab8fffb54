"""Click tables, and which lists and clicks count: every rule, by hand."""

import json
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from isrr.clicks.click_table import read_clicks
from isrr.clicks.impressions import Rules, impressions, impressions_of_table
from isrr.clicks.served import Served
from isrr.data.log import COLUMNS, ServedLists
from isrr.errors import DataError
from isrr.ranker.gpl import GPLRanker
from simulated_users import estimated, simulate

RANKER = GPLRanker(k=2, anchor=0.5)


def line(name, time=100.0, **other):
    fields = {
        "list_id": name, "time": time, "certificate": "c", "status": "valid", "order": "drawn", "query_id": "q",
        "first_rank": 1, "n_shown": 3, "item_ids": ["a", "b", "d"], "scores": [3.0, 2.0, 1.0], "ranking": [1, 0, 2],
        "propensities": [0.2, 0.5, 1.0], "deterministic": [0, 1],
    }  # fmt: skip
    return fields | other


def joined(tmp_path, lines, clicks, **rules):
    log = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(lines, COLUMNS), log)
    if isinstance(clicks, list):
        clicks = pa.Table.from_pylist(clicks)
    table = read_clicks(clicks, kind=rules.pop("kind", None), value=rules.pop("value", None))
    return impressions(log, table, {"c": RANKER}, Rules(2, **rules))


def click(name, item, time=101.0, **other):
    return {"list_id": name, "item_id": item, "time": time} | other


def test_clicks_meet_their_lists(tmp_path):
    found = joined(tmp_path, [line("one"), line("two")], [click("two", "b"), click("two", "a")])
    assert (len(found), len(found.lists), found.counts) == (2, 1, {})
    assert sorted(zip(found.row.tolist(), found.position.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert len(set(found.impression.tolist())) == 1


@pytest.mark.parametrize(
    ("clicks", "rules", "reason", "n", "left"),
    [
        ([click("one", "b"), click("one", "b", 102.0)], {}, "repeated clicks", 1, 1),
        ([click("one", "b"), click("one", "zzz")], {}, "clicks on items not shown", 1, 1),
        ([click("one", "b"), click("other", "b")], {}, "clicks on lists that do not count", 1, 1),
        ([click("one", "b"), click("one", "a", 99.0)], {}, "clicks before the list", 1, 1),
        ([click("one", "b"), click("one", "a", 4_000.0)], {"within": 3_600.0}, "late clicks", 1, 1),
        ([click("one", "b"), click("one", "d")], {}, "clicks below position 2", 1, 1),
        ([click("one", i) for i in "ab"], {"most_clicks": 1}, "clicks on a list with more than 1 items clicked", 2, 0),
        ([click("one", "b")] * 20, {"most_clicks": 3}, "repeated clicks", 19, 1),
        ([click("one", "b", kind="x"), click("one", "b", kind="buy")], {"kind": "buy"}, "clicks of another kind", 1, 1),
    ],
)  # fmt: skip
def test_clicks_that_do_not_count_are_counted(tmp_path, clicks, rules, reason, n, left):
    found = joined(tmp_path, [line("one")], clicks, **rules)
    assert (found.counts, found.n_clicks) == ({reason: n}, left)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (line("bad", order="deterministic"), "lists not drawn by a known ranker"),
        (line("bad", status="uncovered"), "lists not drawn by a known ranker"),
        (line("bad", certificate="stranger"), "lists not drawn by a known ranker"),
        (line("bad", arm="control 0"), "lists not drawn by a known ranker"),
        (line("bad", arm="treatment 1"), "lists not drawn by a known ranker"),
        (line("bad", first_rank=2, n_shown=2), "lists that do not show the first 2 positions"),
        (line("bad", n_shown=1), "lists that do not show the first 2 positions"),
        (line("bad", deterministic=[1, 0]), "lists whose order by score is unknown"),
    ],
)
def test_lists_that_do_not_count_are_counted(tmp_path, bad, reason):
    found = joined(tmp_path, [line("one", query_id="p"), bad], [click("bad", "b"), click("one", "b")])
    assert (len(found), found.n_clicks) == (1, 1)
    assert found.counts == {reason: 1, "clicks on lists that do not count": 1}


def test_no_ranker_is_hotter_than_the_candidates_of_a_pruned_log_allow(tmp_path, queries):
    logger = GPLRanker(k=3, temperature=0.4, anchor=0.7)
    shown, log = simulate(queries, logger, 2_000, seed=8), tmp_path / "log.parquet"
    table, hottest = shown.log("c"), pa.array([None, 0.5] * 1_000, pa.float64())
    pq.write_table(table.set_column(table.column_names.index("hottest"), "hottest", hottest), log)
    outcome = isrr.calibrate_clicks(shown.clicks(), "clicks@3 >= 80% of deterministic", log=log, logger={"c": logger})
    temperatures = [point.ranker.temperature for point in outcome.curve if not point.ranker.is_deterministic]
    assert 0.4 < max(temperatures) <= 0.5


def test_lists_that_were_shipped_twice_count_once(tmp_path):
    lines = [line(f"l{i}", query_id=f"q{i}") for i in range(3)] + [line("x", certificate="else")]
    clicks = [click(f"l{i}", "b") for i in range(3)] + [click("x", "b")]
    once = joined(tmp_path, lines, clicks)
    assert once.counts == {"lists not drawn by a known ranker": 1, "clicks on lists that do not count": 1}
    for again in ([*lines, *lines], lines[:1] * 2 + lines):
        twice = joined(tmp_path, again, clicks * 2)
        assert (len(twice), twice.n_clicks, twice.digest) == (3, 3, once.digest)
        assert twice.counts["lists logged again"] == len(again) - len(lines)
        assert twice.counts["clicks on lists that do not count"] == 2  # both on the list of another ranker


def test_one_part_of_a_log_is_in_memory_at_a_time():
    alive = weakref.WeakSet()

    def parts():
        for i in range(5):
            part = ServedLists(pa.Table.from_pylist([line(f"l{i}")], COLUMNS))
            alive.add(part)
            assert len(alive) <= 2  # this one, and the one before it
            yield part

    assert Served.of(parts()).rows.num_rows == 5


def test_views_of_one_draw_are_one_impression(tmp_path):
    lines = [line("one", session="s"), line("again", 200.0, session="s"), line("else", 300.0, session="t")]
    found = joined(tmp_path, lines, [click("again", "b", 201.0), click("one", "b"), click("one", "a")])
    assert (found.unit, len(found), found.n_clicks) == ("session", 2, 2)  # the position counts once
    assert found.counts == {"repeated views, merged": 1, "repeated clicks": 1}
    changed = line("again", 200.0, session="s", scores=[3.0, 2.0, 1.5])
    found = joined(tmp_path, [lines[0], changed], [click("again", "b", 201.0)])
    assert (len(found), found.n_clicks) == (1, 0)


def test_the_first_list_of_a_unit_counts(tmp_path):
    lines = [line(f"l{i}", 100.0 + i, session="s", query_id=f"q{i}") for i in range(4)]
    clicks = [click(f"l{i}", "b", 200.0) for i in range(4)]
    found = joined(tmp_path, lines, clicks)
    assert (len(found), found.n_clicks, found.times.tolist()) == (1, 1, [100.0])
    assert found.counts["later lists of a session"] == 3
    assert len(joined(tmp_path, lines, clicks, unit="impression")) == 4


def test_the_largest_value_of_a_place_counts(tmp_path):
    clicks = [click("one", "b", margin=1.0), click("one", "b", margin=7.5), click("one", "b", margin=0.0)]
    assert joined(tmp_path, [line("one")], clicks, value="margin").value.tolist() == [7.5]


@pytest.mark.parametrize(
    "times",
    [
        ["1970-01-01T00:01:41Z"], ["1970-01-01 00:01:41.0"], ["1970-01-01T02:01:41+02:00"],
        pa.array([101_000], pa.timestamp("ms")), pa.array([101_000_000_001], pa.timestamp("ns")), [101],
    ],
)  # fmt: skip
def test_times_may_be_text_timestamps_or_numbers(times):
    assert read_clicks(pa.table({"list_id": ["one"], "item_id": ["b"], "time": times})).times.tolist() == [101.0]


@pytest.mark.parametrize(("unit", "slip"), [(1e3, "milliseconds, as from `Date"), (1e6, "micro"), (1e9, "nano")])
def test_times_in_smaller_units_than_seconds_are_refused(unit, slip):
    table = pa.table({"list_id": ["one"] * 2, "item_id": ["a", "b"], "time": [None, 1_790_000_000 * unit]})
    said = f"row 2: time .* is after the year 2200; expected seconds since 1970; .*{slip}"
    with pytest.raises(DataError, match=said):
        read_clicks(table)


@pytest.mark.parametrize("kinds", [np.array([1, 2, 1]), np.array([1.0, 2.0, 1.0]), ["1", "2", "1"]])
def test_kinds_that_are_numbers_are_compared_as_text(kinds):
    found = read_clicks(pa.table({"list_id": ["a", "b", "c"], "item_id": ["x", "y", "z"], "kind": kinds}), kind="1")
    assert (len(found), found.n_other) == (2, 1)


def event(query, item="b", **more):
    clicked = {"object": {"object_id": item}} if item else {}
    event = {"action_name": "click", "query_id": query, "timestamp": "1970-01-01T00:01:41Z"}
    return event | {"event_attributes": clicked} | more


def ubi(folder, events, queries=None):
    """A folder with events and queries of User Behavior Insights."""
    for name, lines in (("ubi_events", events), ("ubi_queries", queries)):
        if lines is not None:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_events_of_user_behavior_insights_are_clicks(tmp_path):
    ubi(tmp_path, [event("one"), event("one", action_name="impression"), event("one", None)])
    found = read_clicks(tmp_path / "ubi_events.jsonl")
    assert (len(found), found.n_other, found.times.tolist()) == (1, 1, [101.0])
    assert joined(tmp_path, [line("one")], tmp_path / "ubi_events.jsonl").row.tolist() == [1]
    with pytest.raises(DataError, match=r"found none; expected one file ubi_queries\.jsonl"):
        read_clicks(tmp_path)


def test_queries_of_user_behavior_insights_name_the_answers(tmp_path):
    asked = {"query_id": "asked", "query_response_id": "one", "query_response_hit_ids": ["a", "b"]}
    folder = ubi(tmp_path, [event("asked"), event("elsewhere"), event(None)], [asked, asked])
    found = joined(tmp_path, [line("one")], folder)
    assert (found.n_clicks, found.row.tolist()) == (1, [1])
    without = [{"query_id": "asked"}, {"query_response_id": "three"}]
    assert len(read_clicks(ubi(tmp_path, [event("asked"), event(None)], [*without, asked]))) == 1
    assert len(read_clicks(ubi(tmp_path, [event(7), event(8)], [{"query_id": "7", "query_response_id": 1}]))) == 1
    ubi(tmp_path, [event("asked")], [asked, *without, asked | {"query_response_id": "two"}])
    said = r"ubi_queries\.jsonl: query_id 'asked' has the responses 'one' and 'two'; expect"
    with pytest.raises(DataError, match=said):
        read_clicks(tmp_path)


def test_what_is_missing_or_of_another_kind_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no column 'list_id' or 'impression_id'"):
        read_clicks(pa.table({"item_id": ["b"]}))
    table = pa.table({"list_id": ["a"], "item_id": ["x"], "kind": [["buy"]]})
    with pytest.raises(DataError, match="table: column 'kind' holds list<item: string>; expected text"):
        read_clicks(table, kind="buy")
    with pytest.raises(DataError, match=r"table: row 2, column 'list_id': no value"):
        read_clicks(pa.table({"list_id": ["a", None], "item_id": ["x", "y"]}))
    with pytest.raises(DataError, match="1 of 1 have no time; expected a column"):
        joined(tmp_path, [line("one")], [{"list_id": "one", "item_id": "b"}], within=9.0)
    said = r"1 lists not drawn by a known ranker\); the lists are of certificate other, expected those of c"
    with pytest.raises(DataError, match=said):
        joined(tmp_path, [line("one", certificate="other")], [click("one", "b")])
    with pytest.raises(DataError, match=r"no list counts \(1 lists not drawn by a known ranker\)$"):
        joined(tmp_path, [line("one", order="deterministic")], [click("one", "b")])


def wide(shown):
    """The table of impressions and candidates that a log and its clicks amount to."""
    clicked, rows = {(row["list_id"], row["item_id"]) for row in shown.clicks().to_pylist()}, []
    for listed in shown.log("c").to_pylist():
        position = {i: p + 1 for p, i in enumerate(listed["ranking"])}
        for i, (item, score) in enumerate(zip(listed["item_ids"], listed["scores"], strict=True)):
            click = int((listed["list_id"], item) in clicked)
            row = {"impression_id": listed["list_id"], "query_id": listed["query_id"], "item_id": item, "score": score}
            rows.append(row | {"position": position.get(i), "click": click, "user": listed["session"]})
    return pa.Table.from_pylist(rows)


def test_a_log_and_a_table_of_impressions_say_the_same(tmp_path, queries, logger):
    shown, rankers = simulate(queries, logger, 400, per_user=2, seed=20230), [GPLRanker(k=3, temperature=0.8)]
    log, clicks = shown.save(tmp_path, "c")
    of_log = impressions(log, read_clicks(clicks), {"c": logger}, Rules(3, "impression"))
    for found in (of_log, impressions_of_table(wide(shown), logger, Rules(3))):
        assert found.n_clicks + found.counts.get("repeated clicks", 0) == int(shown.clicked.sum())
    table, direct = impressions_of_table(wide(shown), logger, Rules(3, "user")), estimated(shown.impressions(), rankers)
    assert len(table) == 200
    np.testing.assert_allclose(estimated(table, rankers).values.sum(), direct.values[::2].sum(), rtol=1e-9)


def test_units_are_tested_in_an_order_that_knows_nothing_of_time(tmp_path):
    lists = [line(f"l{i}", 100.0 + i, query_id=f"q{i}") for i in range(9)]
    turned = [one | {"time": 200.0 - i} for i, one in enumerate(lists)]
    first, again = (joined(tmp_path, lines, [click("l1", "b")]) for lines in (lists, turned))
    names = [found.lists.query_ids[found.list_of].tolist() for found in (first, again)]
    assert names[0] == names[1] != sorted(names[0])


def test_the_order_of_lines_and_clicks_changes_nothing(tmp_path, queries, logger):
    log, clicks = simulate(queries, logger, 3_000, seed=20231).save(tmp_path, "c")

    def outcome():
        return isrr.calibrate_clicks(clicks, "clicks@3 >= 80% of deterministic", log=log, logger={"c": logger})

    first, rng = outcome(), np.random.default_rng(1)
    for file in (log, clicks):
        table = pq.read_table(file)
        pq.write_table(table.take(rng.permutation(table.num_rows)), file)
    again = outcome()
    assert (first.tests, first.ranker) == (again.tests, again.ranker)
