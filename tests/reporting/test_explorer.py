"""The rows of the page's table are what calibration would answer."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from msgspec import structs

import isrr
from isrr import DataError, Queries
from isrr.calibration.calibrate import calibrate
from isrr.gains import has_relevant, ndcg
from isrr.promises import Promise
from isrr.ranker.gpl import GPLRanker
from isrr.reporting import levels
from isrr.reporting.levels import eight_levels
from isrr.reporting.page import page
from isrr.reporting.portrait import portray, retrace


def explore(outcome, queries):
    return levels.explore(outcome, retrace(outcome, queries))


def judged(n_queries, seed=20230, **columns):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 25, n_queries)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.25, 0.15, 0.1])
    made = {name: make(rng, sizes) for name, make in columns.items()}
    ids = np.repeat(np.arange(n_queries) + 10_000 * seed, sizes)
    return Queries.from_arrays(
        scores=0.7 * relevance + rng.normal(size=relevance.size), relevance=relevance, query_ids=ids, **made
    )


def test_the_frontier_is_what_no_other_configuration_beats():
    rng = np.random.default_rng(20230)
    one = rng.integers(0, 20, 80).astype(float)
    other = 20 - one + rng.integers(-3, 4, 80)
    frontier = list(levels.frontier(one, other))
    points = list(zip(one[frontier], other[frontier], strict=True))
    beaten = {
        (a, b) for a, b in zip(one, other, strict=True) if ((one >= a) & (other >= b) & ((one > a) | (other > b))).any()
    }
    assert points == sorted({*zip(one, other, strict=True)} - beaten, key=lambda point: -point[1])
    assert len(points) > 5


@pytest.mark.parametrize(
    ("promise", "options"),
    [
        ("ndcg@5 >= 90% of deterministic", {}),
        ("ndcg@5 >= 0.65", {"evidence": "hoeffding_bentkus"}),
        ("ndcg@5 >= 0.65", {"n_analyses": 2}),
        ("normalized_disparity@5 <= 75% of deterministic", {}),
        (["ndcg@5 >= 85% of deterministic", "normalized_disparity@5 <= 0.5"], {}),
    ],
)
def test_each_of_the_eight_levels_is_what_calibrate_certifies_at_an_eighth_of_the_error(promise, options):
    queries = judged(400)
    path = [point.ranker for point in calibrate(queries, promise).curve]
    outcome = calibrate(queries, promise, path=path, **options)
    explorer, answers = explore(outcome, queries), set()
    assert len(explorer.levels) == 8
    for level in explorer.levels:
        asked = (Promise.parse(level.promise), *outcome.promises[1:])
        alone = calibrate(queries, list(asked), 1 - 0.05 / 8, path=path, **options)
        answers.add(alone.abstained)
        assert level.configuration == (None if alone.abstained else path.index(alone.ranker))
    assert False in answers


def test_levels_follow_from_the_declared_promise_alone_and_never_repeat_it():
    for text in (
        "ndcg@5 >= 93% of deterministic",
        "ndcg@5 >= 0.98",
        "normalized_disparity@5 <= 0.02",
        "normalized_disparity@5 <= 50% of deterministic",
        "exposure(new)@10 >= 20%",
        "exposure(new)@10 >= 150% of deterministic",
        "disparity@5 <= 1.5 with bound 3",
    ):
        promise = Promise.parse(text)
        targets = [level.target for level in eight_levels(promise)]
        assert len({*targets, promise.target}) == 9
        assert sum(target > promise.target for target in targets) == 4


def test_a_later_level_is_not_reached_past_a_configuration_that_fails():
    queries = judged(400)
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic", path="temperature")
    assert {level.configuration for level in explore(outcome, queries).levels} != {None}
    curve = outcome.curve
    hot_first = structs.replace(outcome, curve=(curve[0], curve[-1], *curve[1:-1]))
    assert {level.configuration for level in explore(hot_first, queries).levels} == {None}


def test_the_table_holds_the_outcome_and_a_measurement_for_every_configuration():
    queries = judged(300)
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic")
    explorer, chosen = explore(outcome, queries), outcome.tradeoff.used
    (declared,) = (row for row in explorer.rows if row.kind == "declared")
    assert (declared.promise, declared.configuration) == ("ndcg@5 >= 90% of deterministic", chosen)
    measured = {row.configuration: row.value for row in explorer.rows if row.kind == "measured"}
    assert measured == dict(enumerate(explorer.measured))
    assert len(measured) == len(outcome.curve)
    assert explorer.measured[chosen] == outcome.tests[0].measured
    assert explorer.risk[chosen] == pytest.approx(outcome.tests[0].risk, abs=1e-12)
    assert explorer.tolerated == outcome.promises[0].alpha
    values = [row.value for row in explorer.rows]
    assert values == sorted(values)


def test_promises_per_segment_take_the_worst_segment():
    queries = judged(400, segments=lambda rng, sizes: np.repeat(rng.choice(["a", "b"], sizes.size), sizes))
    everywhere = Promise.parse("ndcg@5 >= 80% of deterministic", per="segment")
    path = [GPLRanker.deterministic(), *(GPLRanker(temperature=t) for t in (0.2, 0.5, 1.0))]
    explorer = explore(calibrate(queries, everywhere, path=path), queries)
    pooled = explore(calibrate(queries, replace(everywhere, per=None), path=path), queries)
    assert (np.array(explorer.measured[1:]) < np.array(pooled.measured[1:])).all()
    for level in explorer.levels:
        asked = Promise.parse(level.promise, per="segment")
        alone = calibrate(queries, asked, 1 - 0.05 / 8, path=path)
        assert level.configuration == (None if alone.abstained else path.index(alone.ranker))


def test_other_queries_than_the_calibrations_are_refused():
    queries = judged(200)
    outcome = calibrate(queries, "ndcg@5 >= 80% of deterministic")
    with pytest.raises(DataError, match="not the judged queries of the calibration"):
        retrace(outcome, judged(200, seed=8))


def test_shares_of_exposure_add_up():
    queries = judged(300, item_groups=lambda rng, sizes: rng.choice([f"g{i}" for i in range(40)], sizes.sum()))
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic")
    portrait = portray(outcome, retrace(outcome, queries))
    for shares in (portrait.grades, portrait.groups, portrait.positions):
        for name in ("before", "after", "deserved"):
            assert sum(getattr(share, name) for share in shares) == pytest.approx(1)
        assert sum(share.n_items for share in shares) == sum(share.n_items for share in portrait.grades)
    assert portrait.groups[-1].name == "25 other groups"


def test_equals_are_items_of_one_grade_in_one_query():
    queries = judged(100)
    outcome = calibrate(queries, "ndcg@5 >= 80% of deterministic", path="temperature")
    tested = retrace(outcome, queries)
    portrait = portray(outcome, tested)
    for ranker, when in ((GPLRanker.deterministic(), "before"), (outcome.ranker, "after")):
        exposure = tested.in_query_order(ranker.exposure(tested), "exposure")
        sums, sizes = {}, {}
        for start, stop in pairwise(tested.offsets.tolist()):
            for grade in set(tested.relevance[start:stop].tolist()):
                mine = exposure[start:stop][tested.relevance[start:stop] == grade]
                if mine.size > 1:
                    mean = np.mean([abs(a - b) for a, b in combinations(mine, 2)])
                    sums[grade] = sums.get(grade, 0.0) + mean * mine.size
                    sizes[grade] = sizes.get(grade, 0) + mine.size
        expected = [(f"{g:g}", sizes[g], sums[g] / sizes[g]) for g in sorted(sums)]
        assert [(e.name, e.n_items) for e in portrait.equals] == [(name, n) for name, n, _ in expected]
        assert [getattr(e, when) for e in portrait.equals] == pytest.approx([value for *_, value in expected])


def test_the_worst_tenth_is_the_same_queries_before_and_after():
    queries = judged(300)
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic")
    tested = retrace(outcome, queries)
    spread = portray(outcome, tested).spread
    grid = [GPLRanker.deterministic(5), outcome.ranker]
    before, after = isrr.evaluate(tested, grid, ["ndcg"])["ndcg"].T
    worst = np.argsort(before, kind="stable")[: len(before) // 10]
    assert (spread.worst_before, spread.worst_after) == pytest.approx((before[worst].mean(), after[worst].mean()))
    assert sum(spread.before) == sum(spread.after) == len(tested)


def test_an_item_below_the_cut_is_shown_as_often_as_it_is_drawn():
    queries = judged(200)
    outcome = calibrate(queries, "ndcg@5 >= 80% of deterministic", path="temperature")
    tested = retrace(outcome, queries)
    shown = portray(outcome, tested).shown
    assert [item.before for item in shown] == [1.0] * 5 + [0.0] * 5
    lists = outcome.ranker.sample(tested, 400, seed=1)
    long = np.flatnonzero(tested.n_items >= 6)
    sixth = tested.by_score[tested.offsets[long] + 5]
    assert shown[5].after == pytest.approx((lists[long] == sixth[:, None, None]).any(axis=2).mean(), abs=0.01)


def test_a_report_leaves_queries_without_a_relevant_item_out_of_the_spread():
    """A share of exposure is tested on them all the same."""
    queries = judged(300, item_groups=lambda rng, sizes: rng.choice(["a", "b"], sizes.sum()))
    relevance = np.where(np.repeat(np.arange(300) % 5 == 0, queries.n_items), 0.0, queries.relevance)
    queries = replace(queries, relevance=relevance)
    outcome = calibrate(queries, ["ndcg@5 >= 70% of deterministic", "exposure(a)@5 >= 10%"])
    tested = retrace(outcome, queries)
    portrait = portray(outcome, tested)
    relevant = has_relevant(tested)
    assert 0 < relevant.sum() < len(tested)
    assert sum(portrait.spread.before) == sum(portrait.spread.after) == relevant.sum()
    assert portrait.spread.median_before == pytest.approx(np.median(ndcg(tested[relevant], k=5)))
    assert page(outcome, explore(outcome, queries), portrait).startswith("<!doctype html>")
