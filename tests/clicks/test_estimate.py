"""The item–position estimator: unbiased where its assumption holds, the same as its slow twin, safe in its errors."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import isrr
from click_oracles import expected_clicks, shares_by_enumeration
from isrr.clicks.click_certificate import calibrate_clicks, click_path, click_sample
from isrr.clicks.estimate import ITEM_POSITION, ClickModel, Estimates, estimated_gains
from isrr.clicks.promised import checked_promise
from isrr.data.queries import Queries
from isrr.errors import DataError, PromiseError
from isrr.promises import INEXACTNESS, Promise
from isrr.ranker.gpl import GPLRanker
from simulated_users import Users, estimated, simulate

RANKERS = [GPLRanker.deterministic(3), GPLRanker(k=3, temperature=0.3), GPLRanker(k=3, temperature=1.5)]


def slow(shown, ranker, logger):
    """Clicks a ranker would get, impression by impression, with placements counted query by query."""
    totals = np.zeros(shown.query_of.size)
    for i, query in enumerate(shown.query_of):
        one = shown.queries[[query]]
        drawn, logged = ranker.placement(one), logger.placement(one)
        for position in np.flatnonzero(shown.clicked[i]):
            item = shown.rankings[i, position]
            totals[i] += max(drawn[item, position] - INEXACTNESS, 0) / (logged[item, position] + INEXACTNESS)
    return totals


def test_the_estimator_equals_its_slow_twin(queries, logger):
    shown = simulate(queries, logger, 300, seed=20230)
    found = estimated(shown.impressions(), RANKERS)
    for column, ranker in enumerate(RANKERS):
        np.testing.assert_allclose(found.values[:, column], slow(shown, ranker, logger), rtol=1e-9, atol=1e-12)
    assert (found.reference >= found.values[:, 0]).all()  # errors go to the safe side
    np.testing.assert_allclose(found.reference, found.values[:, 0], rtol=1e-5)


def test_estimates_have_the_true_clicks_as_their_mean(queries, logger, users):
    shown = simulate(queries, logger, 200_000, users, seed=20231)
    found = estimated(shown.impressions(), RANKERS)
    for column, ranker in enumerate(RANKERS):
        error = found.values[:, column].std() / np.sqrt(len(found.values))
        assert abs(found.values[:, column].mean() - expected_clicks(queries, ranker, users)) < 4 * error + 1e-5


def few_items(queries, n=6):
    """The first items of each query by score, few enough to try every list."""
    starts = np.repeat(queries.offsets[:-1], queries.n_items)
    rows = (starts + queries.by_score)[np.arange(queries.n_rows) - starts < n]
    sizes = np.minimum(queries.n_items, n)
    return Queries.from_arrays(scores=queries.scores[rows], relevance=queries.relevance[rows], group=sizes)


def test_a_cascade_biases_them_and_nothing_else_does(queries, logger):
    few = few_items(queries)
    for users in (
        Users(),
        Users(model="trust"),
        Users(model="cascade", satisfaction=0.0),
    ):  # the last one stops by position alone
        said, true = shares_by_enumeration(few, logger, RANKERS, users)
        np.testing.assert_allclose(said, true, atol=1e-6)
    said, true = shares_by_enumeration(few, logger, RANKERS, Users(model="cascade", satisfaction=1.0))
    assert said[0] == pytest.approx(true[0], abs=1e-6)  # the order by score itself
    assert 0.002 < abs(said[2] - true[2]) < 0.02
    assert abs(said[1] - true[1]) < abs(said[2] - true[2])


def test_what_is_enumerated_is_what_is_simulated(queries, logger):
    few, users = few_items(queries), Users(model="cascade", satisfaction=1.0)
    said, true = shares_by_enumeration(few, logger, RANKERS[1:], users)
    found = estimated(simulate(few, logger, 200_000, users, seed=20232).impressions(), RANKERS[1:])
    z = found.values - said * found.reference[:, None]
    assert (np.abs(z.mean(axis=0)) < 4 * z.std(axis=0) / np.sqrt(len(z)) + 1e-5).all()
    got = [simulate(few, ranker, 200_000, users, seed=7).clicked.sum(axis=1) for ranker in (_order(), RANKERS[2])]
    assert got[1].mean() - true[1] * got[0].mean() == pytest.approx(0.0, abs=4 * got[1].std() * 1.5 / np.sqrt(200_000))


def _order():
    return GPLRanker(k=3, anchor=1.0)


def test_blocks_and_units_add_up(queries, logger):
    shown = simulate(queries, logger, 1_000, per_user=5, seed=20233)
    alone = estimated(shown.impressions(), RANKERS)
    users = estimated(shown.impressions("user"), RANKERS)
    blocks = estimated(shown.impressions(), RANKERS, most=250)
    np.testing.assert_allclose(users.values, alone.values.reshape(200, 5, 3)[:, 0], atol=1e-12)
    np.testing.assert_allclose(blocks.values, alone.values.reshape(250, 4, 3).mean(axis=1), atol=1e-12)
    assert blocks.block == 4


def test_losses_are_those_of_the_formula_and_at_most_1(queries, logger):
    promise = Promise.parse("clicks@3 >= 90% of deterministic")
    shown = simulate(queries, logger, 5_000, seed=20234).impressions()
    path = click_path(shown, 3)
    found = estimated(shown, path.rankers)
    sample = click_sample(found, promise, path)
    losses = promise.loss().of(sample.values.copy(), sample.reference)
    bound = 0.9 * 3 / logger.anchor
    difference = (0.9 * found.reference[:, None] - found.values) / bound
    np.testing.assert_allclose((losses - promise.alpha) * 1.9 / 0.9, np.minimum(difference, 1), atol=1e-12)
    assert losses.max() <= 1


def test_gains_rise_with_the_score_and_follow_clicks(queries, logger):
    shown = simulate(queries, logger, 50_000, seed=20235).impressions()
    found, order = estimated_gains(shown), np.argsort(shown.lists.scores)
    assert (np.diff(found[order]) >= -1e-12).all()
    assert found[order[-1]] > 2 * found[order[0]] >= 0


@pytest.mark.parametrize(
    ("ranker", "said"),
    [
        (GPLRanker(k=3), "without an anchor"),
        (GPLRanker(k=3, anchor=1.0), "all served in the order by score"),
        (GPLRanker(k=3, anchor=0.5, boost={"new": 1.0}), "drawn with a boost of groups; expected a logger without"),
        (GPLRanker(k=3, anchor=0.5, decay=0.9, threshold=0.2), "expected decay 1"),
        (GPLRanker(k=3, anchor=0.001), r"an anchor of 0.001 is too small for 5,000 impressions .* at least 0\.0"),
    ],
)
def test_loggers_that_cannot_be_reweighted_are_refused(queries, ranker, said):
    logger = replace(ranker, boost=(), threshold=0.0, anchor=max(ranker.anchor, 0.001))
    shown = simulate(queries, logger, 5_000, seed=1).impressions()
    with pytest.raises(DataError, match=said):
        calibrate_clicks(replace(shown, loggers=(ranker,)), checked_promise("clicks@3 >= 90% of deterministic"))
    enough = simulate(queries, GPLRanker(k=3, anchor=0.3), 5_000, seed=1).impressions()
    ITEM_POSITION.check(enough, checked_promise("clicks@3 >= 90% of deterministic"), 0.05)


def test_only_shares_of_deterministic_can_be_promised():
    for text in ("clicks@5 >= 0.8", "ndcg@5 >= 95% of deterministic", "value(x)@5 >= 2 with bound 9"):
        with pytest.raises(PromiseError):
            checked_promise(text)
    assert checked_promise("value(margin)@5 >= 95% of deterministic with bound 40").range == (0.0, 200.0)


def test_a_certificate_speaks_of_clicks_and_of_what_was_assumed(queries, logger):
    promise = checked_promise("clicks@3 >= 85% of deterministic")
    outcome = calibrate_clicks(simulate(queries, logger, 20_000, seed=3).impressions(), promise)
    text = outcome.text(verbose=True)
    for said in (
        "clicks@3 >= 85% of deterministic", "20,000 impressions", "depends on the query, the item and its position",
        "rollout", "anchor 0.7", "weighted by position (kept@3)", "lose more than half of it",
    ):  # fmt: skip
        assert said in text
    assert "NDCG" not in text
    assert "judged" not in text
    promise = checked_promise("clicks@3 >= 95% of deterministic")
    few = calibrate_clicks(simulate(queries, logger, 200, seed=3).impressions(), promise)
    assert few.abstained
    assert "impressions in all would be enough" in str(few)


def test_another_click_model_is_another_value(queries, logger):
    shown = simulate(queries, logger, 20_000, seed=3).impressions()

    def clicks_wherever_they_are(shown, rankers, progress=None, *, most=1):
        clicks = np.bincount(shown.impression, minlength=len(shown)) / 2.0
        return Estimates(np.repeat(clicks[:, None], len(rankers), axis=1), clicks, 1, 1.0)

    model = ClickModel("position does not matter", lambda *_: None, clicks_wherever_they_are)
    outcome = calibrate_clicks(shown, checked_promise("clicks@3 >= 85% of deterministic"), model=model)
    assert all(point.certified for point in outcome.curve)
    assert "position does not matter" in outcome.text(verbose=True)


def test_a_log_without_clicks_ends_in_an_abstention_that_says_so(queries, logger, tmp_path):
    shown = simulate(queries, logger, 500, seed=3)
    log, _ = shown.save(tmp_path, "c")
    early, nobody = shown.clicks(), tmp_path / "clicks.jsonl"
    nobody.touch()
    for table, said in (
        (nobody, "500 lists without a click that counts"),
        (early.slice(0, 0), "500 lists without a click that counts"),
        (early.set_column(2, "time", pa.array(np.full(len(early), -1.0))), "clicks before the list)"),
    ):
        outcome = isrr.calibrate_clicks(table, "clicks@3 >= 85% of deterministic", log=log, logger={"c": logger})
        assert outcome.abstained
        assert outcome.cause == "too_few_queries"
        assert said in outcome.reason
        assert "what helps   clicks on these lists" in str(outcome)
        outcome.save(tmp_path / "ranker.json")
        assert isrr.load(tmp_path / "ranker.json") == outcome


def test_values_of_clicked_items_are_bounded(queries, logger):
    shown = simulate(queries, logger, 20_000, seed=3).impressions()
    worth = replace(shown, value=np.where(shown.row % 2, 5.0, 1.0))
    promise = checked_promise("value(margin)@3 >= 80% of deterministic with bound 5")
    assert not calibrate_clicks(worth, promise).abstained
    with pytest.raises(PromiseError, match="above the bound 4"):
        calibrate_clicks(worth, checked_promise("value(margin)@3 >= 80% of deterministic with bound 4"))
