"""The explorer's comparisons give calibration's own answers."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from isrr import DataError, Queries
from isrr.calibration.calibrate import calibrate
from isrr.calibration.certify import Rule, certify, cost_of, samples
from isrr.calibration.tasks import Fill
from isrr.explore.explorer import explore
from isrr.explore.portrait import portray
from isrr.explore.retrace import path_of, retrace
from isrr.gains import has_relevant, ndcg
from isrr.promises.promise import Promise, objectives
from isrr.ranker.gpl import GPLRanker
from isrr.report.page import page
from isrr.risk.evidence import NAMED as EVIDENCE
from isrr.risk.select import NAMED


def judged(n_queries, seed=20230, **columns):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 25, n_queries)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.25, 0.15, 0.1])
    made = {name: make(rng, sizes) for name, make in columns.items()}
    ids = np.repeat(np.arange(n_queries) + 10_000 * seed, sizes)
    return Queries.from_arrays(
        scores=0.7 * relevance + rng.normal(size=relevance.size), relevance=relevance, query_ids=ids, **made
    )


def used(explorer, reading, stop):
    """The configuration that the page shows at a slider stop."""
    passing = np.array(explorer.by_definition) | (np.array(reading.levels) >= explorer.strengths[stop])
    return explorer.rule.chosen(passing & np.array(reading.others_hold))


@pytest.mark.parametrize(
    ("promise", "options"),
    [
        ("ndcg@5 >= 90% of deterministic", {"path": "front"}),
        ("ndcg@5 >= 0.65", {"path": "temperature", "evidence": "hoeffding_bentkus"}),
        ("ndcg@5 >= 0.65", {"path": "temperature", "attempts": 2}),
        ("normalized_disparity@5 <= 60% of deterministic", {"path": "temperature"}),
        (["ndcg@5 >= 85% of deterministic", "normalized_disparity@5 <= 0.5"], {}),
    ],
)
def test_every_slider_stop_answers_as_certify_does(promise, options):
    queries = judged(220)
    outcome = calibrate(queries, promise, **options)
    found = retrace(outcome, queries)
    explorer = explore(found)
    p, path = outcome.provenance, path_of(outcome)
    grid = (GPLRanker.deterministic(5), *path.rankers)
    for i, stop in enumerate(np.linspace(0, len(explorer.targets) - 1, 5).astype(int)):
        reading = explorer.readings[i % 3]
        delta = (1 - reading.confidence) / p.planned_looks
        asked = (outcome.promises[0].at(explorer.targets[stop]), *outcome.promises[1:])
        table = Fill(grid, asked, objectives(asked), len(found.tested)).summary([found.tested])
        cost = cost_of(asked, table.utility.means()[0, 1:], table.disparity.means()[0, 1:])
        rule = Rule.of(path, asked, cost, NAMED[p.selection])
        tested = samples(table, asked, path, EVIDENCE[p.evidence], "exact", queries.scores_fingerprint)
        expected = certify(tested, rule, delta=delta, selection=NAMED[p.selection]).chosen
        assert used(explorer, reading, stop) == expected


def test_the_declared_stop_is_the_outcome():
    queries = judged(300)
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic")
    explorer = explore(retrace(outcome, queries))
    reading = next(r for r in explorer.readings if r.confidence == outcome.confidence)
    assert outcome.curve[used(explorer, reading, explorer.declared)].ranker == outcome.ranker
    assert explorer.promises[explorer.declared] == "ndcg@5 >= 90% of deterministic"


def test_the_band_lies_below_the_bounds_that_hold_alone_and_needs_other_queries():
    queries = judged(200)
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic", path="temperature")
    alone = explore(retrace(outcome, queries))
    assert all(reading.band is None and reading.stops for reading in alone.readings)
    banded = explore(retrace(outcome, queries, judged(200, seed=7)))
    for reading in banded.readings:
        tested = ~np.array(banded.by_definition)
        assert (np.array(reading.band)[tested] <= np.array(reading.levels)[tested] / 1e6 + 1e-12).all()


def test_promises_per_segment_take_the_worst_segment():
    queries = judged(400, segments=lambda rng, sizes: np.repeat(rng.choice(["a", "b"], sizes.size), sizes))
    everywhere = Promise.parse("ndcg@5 >= 80% of deterministic", per="segment")
    outcome = calibrate(queries, everywhere, path="temperature")
    explorer = explore(retrace(outcome, queries))
    reading = next(r for r in explorer.readings if r.confidence == outcome.confidence)
    assert outcome.curve[used(explorer, reading, explorer.declared)].ranker == outcome.ranker
    pooled = explore(retrace(calibrate(queries, replace(everywhere, per=None), path="temperature"), queries))
    assert (np.array(explorer.measured) <= np.array(pooled.measured) + 1e-12).all()


def test_other_queries_than_the_calibrations_are_refused():
    queries = judged(200)
    outcome = calibrate(queries, "ndcg@5 >= 80% of deterministic")
    with pytest.raises(DataError, match="not the judged queries of the calibration"):
        retrace(outcome, judged(200, seed=8))
    with pytest.raises(DataError, match="are also tested on"):
        retrace(outcome, queries, queries)


def test_shares_of_exposure_add_up():
    queries = judged(300, item_groups=lambda rng, sizes: rng.choice([f"g{i}" for i in range(40)], sizes.sum()))
    portrait = portray(retrace(calibrate(queries, "ndcg@5 >= 90% of deterministic"), queries))
    for shares in (portrait.grades, portrait.groups, portrait.places):
        for name in ("before", "after", "deserved"):
            assert sum(getattr(share, name) for share in shares) == pytest.approx(1)
        assert sum(share.n_items for share in shares) == sum(share.n_items for share in portrait.grades)
    assert portrait.groups[-1].name == "25 other groups"


def test_equals_are_items_of_one_grade_in_one_query():
    queries = judged(100)
    outcome = calibrate(queries, "ndcg@5 >= 80% of deterministic", path="temperature")
    found = retrace(outcome, queries)
    tested, portrait = found.tested, portray(found)
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


def test_the_spread_counts_every_query():
    queries = judged(300)
    portrait = portray(retrace(calibrate(queries, "ndcg@5 >= 90% of deterministic"), queries))
    assert sum(portrait.spread.before) == sum(portrait.spread.after) == portrait.n_queries


def test_a_report_leaves_queries_without_a_relevant_item_out_of_the_spread():
    """A share of exposure is tested on them all the same."""
    queries = judged(300, item_groups=lambda rng, sizes: rng.choice(["a", "b"], sizes.sum()))
    relevance = np.where(np.repeat(np.arange(300) % 5 == 0, queries.n_items), 0.0, queries.relevance)
    queries = replace(queries, relevance=relevance)
    outcome = calibrate(queries, ["ndcg@5 >= 70% of deterministic", "exposure(a)@5 >= 10%"])
    found = retrace(outcome, queries)
    portrait = portray(found)
    relevant = has_relevant(found.tested)
    assert 0 < relevant.sum() < len(found.tested)
    assert sum(portrait.spread.before) == sum(portrait.spread.after) == relevant.sum()
    assert portrait.spread.median_before == pytest.approx(np.median(ndcg(found.tested[relevant], k=5)))
    assert page(outcome, explore(found), portrait).startswith("<!doctype html>")


def test_validation_queries_shape_the_band_where_ids_were_made_unless_they_were_tested_on():
    tested, others = (replace(judged(400, seed), query_ids=np.arange(400), made_ids=True) for seed in (20230, 20231))
    outcome = calibrate(tested, "ndcg@5 >= 90% of deterministic", path="temperature")
    assert len(retrace(outcome, tested, others).others) == 400
    with pytest.raises(DataError, match="are also tested on"):
        retrace(outcome, tested, tested[np.argsort(tested.keys)[300:]])
