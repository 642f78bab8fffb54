"""Promises about a group of items: a boost keeps them, and where none does, what is within reach is named."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from isrr import (
    Columns,
    DataError,
    GPLRanker,
    Promise,
    Queries,
    calibrate,
    check,
    evaluate,
    load,
    plan,
    read_queries,
    write_queries,
)
from isrr.ranker.scale import mean_and_deviation

TOGETHER = ["exposure(new)@5 >= 20%", "ndcg@5 >= 95% of deterministic"]


def market(n_queries=400, lowered=1.0, worth=1.0, seed=20230):
    """A fifth of the items are new; their scores are too low, or their relevance is."""
    rng = np.random.default_rng(seed)
    new = rng.random(n_queries * 20) < 0.2
    quality = rng.normal(size=new.size) - (1.0 - worth) * new
    relevance = np.clip(np.floor(quality + 1.0), 0, 4)
    return Queries.from_arrays(
        scores=quality + 0.7 * rng.normal(size=new.size) - lowered * new,
        relevance=relevance,
        query_ids=np.repeat(np.arange(n_queries), 20),
        item_ids=np.arange(new.size),
        item_groups=np.where(new, "new", "known"),
    )


def reached(queries, ranker):
    found = evaluate(queries, [GPLRanker.deterministic(), ranker], ["exposure(new)", "ndcg"])
    share, utility = found.mean("exposure(new)"), found.mean("ndcg")
    return share[1], utility[1] / utility[0]


def test_a_boost_gives_new_sellers_their_share_where_temperature_alone_does_not():
    judged, others = market(), market(2_000, seed=20231)
    assert calibrate(judged, TOGETHER, path="temperature").abstained
    outcome = calibrate(judged, TOGETHER)
    assert not outcome.abstained
    assert dict(outcome.ranker.boost)["new"] > 0
    share, kept = reached(others, outcome.ranker)
    assert share >= 0.2
    assert kept >= 0.95


GROWTH = "exposure(new)@5 >= 150% of deterministic"


def test_a_group_is_given_half_as_much_again_as_the_order_by_score_gives_it(tmp_path):
    judged, others = market(), market(2_000, seed=20231)
    outcome = calibrate(replace(judged, relevance=None), GROWTH)
    assert not outcome.abstained
    assert dict(outcome.ranker.boost)["new"] > 0
    found = evaluate(others, [GPLRanker.deterministic(), outcome.ranker], ["exposure(new)"]).mean("exposure(new)")
    assert found[1] >= 1.5 * found[0]
    assert outcome.tests[0].level >= 1.5
    outcome.save(tmp_path / "ranker.json")
    assert load(tmp_path / "ranker.json") == outcome
    assert "share of exposure of 'new'@5 (promised: 150 %)" in str(outcome)
    checked = check(outcome, others)
    assert checked.promises[0].verdict == "kept"
    assert plan(judged, GROWTH).queries_needed is not None


def test_a_group_that_fills_the_lists_already_cannot_be_given_half_as_much_again():
    judged = market(lowered=-3.0)
    outcome = calibrate(judged, GROWTH)
    assert outcome.abstained
    assert outcome.cause == "out_of_reach"
    assert "is not met by any ranker; the best reaches" in outcome.reason


def test_nothing_is_said_to_be_proven_where_nothing_is():
    """At most 100 % of the order by score is no bound that holds by itself."""
    outcome = calibrate(market(60), "exposure(new)@5 <= 70% of deterministic", path=[GPLRanker(boost={"new": 2.5})])
    assert outcome.abstained
    assert outcome.tests[0].measured > 2
    assert outcome.tests[0].level is None


def test_a_share_that_must_not_be_exceeded_is_kept_by_a_boost_downwards():
    judged = market(lowered=-0.5)
    outcome = calibrate(judged, ["exposure(new)@5 <= 22%", "ndcg@5 >= 90% of deterministic"])
    assert dict(outcome.ranker.boost)["new"] < 0
    assert reached(judged, outcome.ranker)[0] <= 0.22


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize(("lowered", "sign"), [(1.0, 1), (-1.5, -1)])
def test_a_share_between_two_limits_is_kept_whichever_is_promised_first(lowered, sign, direction):
    limits = ["exposure(new)@5 >= 20%", "exposure(new)@5 <= 28%"]
    outcome = calibrate(market(lowered=lowered), limits[::direction])
    assert not outcome.abstained
    assert sign * dict(outcome.ranker.boost)["new"] > 0


def test_two_groups_are_boosted_together():
    judged = market()
    groups = np.where(np.arange(judged.n_rows) % 7 == 0, "local", judged.item_groups)
    both = ["exposure(new)@5 >= 15%", "exposure(local)@5 >= 18%", "ndcg@5 >= 80% of deterministic"]
    outcome = calibrate(replace(judged, item_groups=groups), both)
    assert not outcome.abstained
    assert set(dict(outcome.ranker.boost)) == {"local", "new"}


def test_a_floor_that_is_asked_for_holds_for_every_configuration_with_a_boost():
    outcome = calibrate(market(), TOGETHER, floor=0.6)
    assert {point.ranker.floor for point in outcome.curve if not point.ranker.is_deterministic} == {0.6}


def test_where_both_cannot_be_kept_the_frontier_is_near_the_true_one(tmp_path):
    promises = [Promise.parse("exposure(new)@5 >= 40%"), Promise.parse("ndcg@5 >= 95% of deterministic")]
    judged, everything = market(1_500, lowered=0.0, worth=-0.5), market(2_000, lowered=0.0, worth=-0.5, seed=20231)
    outcome = calibrate(judged, promises)
    assert outcome.abstained
    assert outcome.cause == "conflicting_promises"
    mean, deviation = mean_and_deviation(everything)
    base = GPLRanker(mean=mean, deviation=deviation)
    fine = product(np.geomspace(0.02, 1.0, 8).tolist(), np.linspace(0, 2.5, 101).tolist())
    rankers = [replace(base, temperature=t, boost={"new": b}) for t, b in fine]
    found = evaluate(everything, [GPLRanker.deterministic(), *rankers], ["exposure(new)", "ndcg"])
    share, kept = found.mean("exposure(new)"), found.mean("ndcg") / found.mean("ndcg")[0]
    ndcg_there, share_there = (float(re.search(r"reaches ([\d.]+) %", said)[1]) for said in outcome.frontier)
    assert ndcg_there == pytest.approx(100 * kept[share >= 0.4].max(), abs=1.5)
    assert share_there == pytest.approx(100 * share[kept >= 0.95].max(), abs=1.5)
    assert all(said in str(outcome) for said in outcome.frontier)
    outcome.save(tmp_path / "abstained.json")
    assert load(tmp_path / "abstained.json") == outcome


def test_a_share_that_nothing_reaches_is_named_with_the_best_there_is():
    outcome = calibrate(market(200), "exposure(new)@5 >= 99%")
    assert outcome.cause == "out_of_reach"
    assert "not met by any ranker; the best reaches" in outcome.reason


def test_an_item_may_belong_to_several_groups_or_to_none(tmp_path):
    rng = np.random.default_rng(20230)
    inside = {"local": rng.random(600) < 0.3, "new": rng.random(600) < 0.3}
    several = [[name for name in inside if inside[name][row]] for row in range(600)]
    query, scores = np.repeat(np.arange(30), 20), rng.normal(size=600)
    queries = Queries.from_arrays(scores=scores, query_ids=query, item_groups=several)
    ranker = GPLRanker(temperature=0.3, boost={"new": 0.4, "local": -0.2})
    found, exposure = evaluate(queries, [ranker], ["exposure(new)", "exposure(local)"]), ranker.exposure(queries)
    added = scores + 0.4 * inside["new"] - 0.2 * inside["local"]
    np.testing.assert_allclose(exposure, replace(ranker, boost={}).exposure(queries.with_scores(added)), atol=1e-9)
    for name, members in inside.items():
        ours = np.bincount(query, exposure * members) / np.bincount(query, exposure)
        np.testing.assert_allclose(found[f"exposure({name})"][:, 0], ours, atol=1e-9)
    write_queries(queries, tmp_path / "written.parquet")
    pq.write_table(pa.table({"query": query, "score": scores, "group": several}), tmp_path / "lists.parquet")
    for file in ("written.parquet", "lists.parquet"):
        assert (read_queries(tmp_path / file).item_groups == queries.item_groups).all()
    with pytest.raises(DataError, match="expected a list of groups in every row"):
        Queries.from_arrays(scores=[1.0, 2.0], query_ids=[1, 1], item_groups=[["new"], None])


@pytest.mark.parametrize("write", [csv.write_csv, pq.write_table])
def test_groups_may_be_written_in_one_text_and_be_missing(tmp_path, write):
    groups = ["new | local", None, "local", "new|", "new"]
    table = pa.table({"query": [1, 1, 2, 2, 2], "score": [5.0, 4.0, 3.0, 2.0, 1.0], "group": groups})
    file = tmp_path / ("scored.csv" if write is csv.write_csv else "scored.parquet")
    write(table, file)
    queries = read_queries(file, Columns(group_separator="|", missing_group="none"))
    several = [["new", "local"], [], ["local"], ["new"], ["new"]]
    expected = Queries.from_arrays(scores=table["score"], query_ids=table["query"], item_groups=several)
    assert queries.item_groups.tolist() == expected.item_groups.tolist()
    assert queries.notes == ("1 item without a group: in no group (`missing_group=none`)",)
    with pytest.raises(DataError, match=r"row 2.*no value; expected a group in every row, or `missing_group=none`"):
        read_queries(file, Columns(group_separator="|"))
    with pytest.raises(DataError, match="`group_separator=` is empty"):
        read_queries(file, Columns(group_separator=""))


def test_a_group_that_no_item_is_in_is_refused_with_those_there_are():
    with pytest.raises(DataError, match="no item is in group 'nwe'; groups are, for example, 'known', 'new'"):
        calibrate(market(50), "exposure(nwe)@5 >= 20%")
