"""Logs that their logger cannot have shown are refused, and those that it did show pass."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from isrr.clicks.click_table import read_clicks
from isrr.clicks.estimate import Estimates
from isrr.clicks.impressions import Rules, impressions
from isrr.clicks.shown import check_estimates, check_shown
from isrr.errors import DataError, PromiseError
from isrr.ranker.gpl import GPLRanker
from simulated_users import Users, estimated, simulate

PROMISE = "clicks@3 >= 85% of deterministic"
LOGGER = GPLRanker(k=3, temperature=0.6, anchor=0.7)


def table_of(shown):
    """One row per impression and candidate."""
    sizes = shown.queries.n_items[shown.query_of]
    starts = np.cumsum(sizes) - sizes
    impression = np.repeat(np.arange(sizes.size), sizes)
    row = shown.queries.offsets[shown.query_of][impression] + np.arange(impression.size) - starts[impression]
    position, click = np.full(row.size, np.nan), np.zeros(row.size, int)
    i, place = np.nonzero(shown.rankings >= 0)
    at = starts[i] + shown.rankings[i, place]
    position[at], click[at] = place + 1.0, shown.clicked[i, place]
    return {
        "impression_id": impression, "query_id": shown.queries.query_ids[shown.query_of][impression],
        "item_id": shown.queries.item_ids[row], "score": shown.queries.scores[row], "position": position,
        "click": click,
    }  # fmt: skip


def calibrated(table):
    return isrr.calibrate_clicks(pa.table(table), PROMISE, logger=LOGGER)


@pytest.fixture(scope="module")
def shown(queries):
    return simulate(queries[queries.n_items > 4], replace(LOGGER, k=4), 20_000, seed=3)


def test_a_table_of_what_the_logger_showed_is_certified(shown):
    outcome = calibrated(table_of(shown))
    assert not outcome.abstained
    log = outcome.provenance.clicks
    assert log.shown_by_score == pytest.approx(log.expected_by_score, abs=0.02)
    assert "of the lists show the order by score (expected: " in outcome.text(verbose=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p - 1, "a position is 0; expected positions counted from 1, whole numbers"),
        (lambda p: np.where(p == 1, np.nan, p - 1), "of 20,000 lists show"),  # from 0, and the first one forgotten
        (lambda p: np.where(p == 2, 1.0, p), "has position 1 where position 2 comes next; expected the positions 1, 2"),
        (lambda p: np.where(p == 1, 1.5, p), "a position is 1.5; expected positions counted from 1, whole numbers"),
        (lambda p: np.full(p.size, "first"), "column 'position' holds string; expected whole numbers"),
    ],
)
def test_positions_other_than_1_to_n_are_refused(shown, change, said):
    table = table_of(shown)
    with pytest.raises(DataError, match=said):
        calibrated(table | {"position": change(table["position"])})


def test_items_shown_twice_and_scores_in_another_order_are_refused(shown):
    table = table_of(shown)
    with pytest.raises(DataError, match=r"impression_id '0' has item 'd.*' twice; expected one row per impression and"):
        calibrated({name: np.concatenate((column, column[:1])) for name, column in table.items()})
    with pytest.raises(DataError, match="lists show"):
        calibrated(table | {"score": -table["score"]})
    for option in ({"kind": "purchase"}, {"within": 60.0}):
        with pytest.raises(PromiseError, match="are for clicks on a log; in a table, `click` says which ones count"):
            isrr.calibrate_clicks(pa.table(table), PROMISE, logger=LOGGER, **option)


@pytest.mark.parametrize(
    "other",
    [{"anchor": 1.0}, {"anchor": 0.8}, {"anchor": 0.6}, {"temperature": 2.0}, {"temperature": 0.2}, {"floor": 0.97}],
    ids=str,
)
def test_lists_of_another_ranker_are_refused(queries, other):
    table = table_of(simulate(queries, replace(LOGGER, **other), 20_000, seed=4))
    said = r"\d\d\.\d % of 20,000 lists show .* shows it in \d\d\.\d %; expected the logger"
    with pytest.raises(DataError, match=said):
        calibrated(table)


def test_a_log_with_an_edited_certificate_is_refused(queries, tmp_path):
    """The ranker named by the edited id shows these lists too, now and then, but with other propensities."""
    drawn_by = replace(LOGGER, temperature=0.62)
    few = simulate(queries, drawn_by, 300, seed=5)
    log, clicks = few.save(tmp_path, "c")
    check_shown(impressions(log, read_clicks(clicks), {"c": drawn_by}, Rules(3)))
    check_shown(replace(few.impressions(), loggers=(LOGGER,)))  # too few lists to see it otherwise
    said = r"was logged with propensity 0\.\d+ at position 1, but its logger .* gives 0\.\d+"
    with pytest.raises(DataError, match=said):
        isrr.calibrate_clicks(clicks, PROMISE, log=log, logger={"c": LOGGER})


def test_the_monitor_refuses_them_too(queries, shown, tmp_path):
    outcome = isrr.calibrate_clicks(pa.table(table_of(shown)), PROMISE, logger=LOGGER, anchor=0.3)
    log, clicks = simulate(queries, replace(outcome.ranker, anchor=0.5), 300, seed=6).save(tmp_path, outcome.id)
    with pytest.raises(DataError, match="was logged with propensity"):
        isrr.Monitor(outcome).update_clicks(log, read_clicks(clicks), now=1e9)


def test_estimates_above_the_most_there_can_be_are_refused(shown):
    found, fair = shown.impressions(), Estimates(np.full((20_000, 1), 2.9), np.full(20_000, 3.0), 1, 1 / 0.7)
    by_chance = replace(fair, values=np.full((3, 1), 3.0), reference=np.full(3, 3 / 0.7))
    for possible in (fair, by_chance):
        check_estimates(found, possible, 3.0)
    for false in (
        replace(fair, reference=np.full(20_000, 3.3)),
        replace(fair, values=np.where(np.arange(20_000)[:, None] % 2, 70.0, 8.0)),
        replace(fair, reference=np.full(2_000, 3.3), values=np.full((2_000, 1), 3.0), block=10),
    ):
        with pytest.raises(
            DataError, match=r"clicks per impression, of at most 3: its logger did not draw these lists"
        ):
            check_estimates(found, false, 3.0)


def test_400_correct_logs_pass(queries, tmp_path):
    """Loggers of many kinds, users of two: with propensities, and from what was shown alone."""
    rng, refused, hot = np.random.default_rng(20230), [], GPLRanker(k=3, temperature=2.0)
    for seed in range(400):
        temperature, anchor, floor = rng.uniform(0.05, 2.0), rng.uniform(0.05, 0.95), rng.choice([0.0, 0.9])
        logger = GPLRanker(k=3, temperature=temperature, anchor=anchor, floor=floor)
        users = Users(model="trust") if seed % 2 else Users(examination=0.0, noise=0.9)
        shown, log = simulate(queries, logger, 500, users, seed=seed), tmp_path / "log.parquet"
        pq.write_table(shown.log("c"), log)
        try:
            found = impressions(log, read_clicks(shown.clicks()), {"c": logger}, Rules(3))
            check_shown(found)
            check_estimates(found, estimated(found, [hot]), 3.0)
        except DataError as error:
            refused.append((seed, str(error)))
    assert refused == []
