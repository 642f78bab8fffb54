"""Logs that their logger cannot have shown are refused, and those that it did show pass."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isrr
from isrr import Monitor
from isrr.clicks.click_table import read_clicks
from isrr.clicks.estimate import Estimates
from isrr.clicks.impressions import Rules, impressions
from isrr.clicks.shown import check_estimates, check_shown
from isrr.errors import DataError
from isrr.ranker.gpl import GPLRanker
from simulated_users import Users, estimated, simulate

PROMISE = "clicks@3 >= 85% of deterministic"
LOGGER = GPLRanker(k=3, temperature=0.6, anchor=0.7)


def table_of(shown):
    """One row per impression and candidate."""
    sizes = shown.queries.n_items[shown.query_of]
    starts = np.cumsum(sizes) - sizes
    impression = np.repeat(np.arange(sizes.size), sizes)
    inside = np.arange(impression.size) - starts[impression]
    row = shown.queries.offsets[shown.query_of][impression] + inside
    position, click = np.full(row.size, np.nan), np.zeros(row.size, int)
    i, place = np.nonzero(shown.rankings >= 0)
    position[starts[i] + shown.rankings[i, place]], click[starts[i] + shown.rankings[i, place]] = (
        place + 1.0, shown.clicked[i, place],
    )  # fmt: skip
    return {
        "impression_id": impression, "query_id": shown.queries.query_ids[shown.query_of][impression],
        "item_id": shown.queries.item_ids[row], "score": shown.queries.scores[row], "position": position,
        "click": click,
    }  # fmt: skip


def calibrated(table, logger=LOGGER):
    return isrr.calibrate_clicks(pa.table(table), PROMISE, logger=logger)


@pytest.fixture
def shown(queries):
    return simulate(queries[queries.n_items > 4], replace(LOGGER, k=4), 20_000, seed=3)


def test_a_table_of_what_the_logger_showed_is_certified(shown):
    outcome = calibrated(table_of(shown))
    assert not outcome.abstained
    log = outcome.provenance.clicks
    assert log.shown_by_score == pytest.approx(log.expected_by_score, abs=0.02)
    assert "of the lists show the order by score (expected: " in outcome.text(verbose=True)


def from_zero(table):
    return table | {"position": table["position"] - 1}


def moved_up(table):
    """Counted from 0, and the first place forgotten."""
    return table | {"position": np.where(table["position"] == 1, np.nan, table["position"] - 1)}


def two_at_one_place(table):
    return table | {"position": np.where(table["position"] == 2, 1.0, table["position"])}


def halfway(table):
    return table | {"position": np.where(table["position"] == 1, 1.5, table["position"])}


def twice(table):
    return {name: np.concatenate((column, column[:1])) for name, column in table.items()}


def named(table):
    return table | {"position": np.full(len(table["click"]), "first")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (from_zero, "a position is 0; expected positions counted from 1, whole numbers"),
        (moved_up, "of 20,000 lists show"),
        (two_at_one_place, "has position 1 where position 2 comes next; expected the positions 1, 2, 3"),
        (halfway, "a position is 1.5; expected positions counted from 1, whole numbers"),
        (twice, "impression_id 0 has item 'd.*' twice; expected one row per impression and candidate"),
        (named, "column 'position' holds string; expected whole numbers"),
    ],
)
def test_places_other_than_1_to_n_are_refused(shown, change, said):
    with pytest.raises(DataError, match=said):
        calibrated(change(table_of(shown)))


@pytest.mark.parametrize(
    "drawn_by",
    [
        GPLRanker(k=3, anchor=1.0),
        replace(LOGGER, anchor=0.8),
        replace(LOGGER, anchor=0.6),
        replace(LOGGER, temperature=2.0),
        replace(LOGGER, temperature=0.2),
        replace(LOGGER, floor=0.97),
    ],
    ids=["by score", "anchor .8", "anchor .6", "hotter", "colder", "floor"],
)
def test_lists_of_another_ranker_are_refused(queries, drawn_by):
    table = table_of(simulate(queries, drawn_by, 20_000, seed=4))
    with pytest.raises(
        DataError, match=r"\d\d\.\d % of 20,000 lists show .* shows it in \d\d\.\d %; expected the logger"
    ):
        calibrated(table)


def test_scores_in_another_order_are_refused(shown):
    table = table_of(shown)
    with pytest.raises(DataError, match="lists show"):
        calibrated(table | {"score": -table["score"]})


def test_a_log_with_an_edited_certificate_is_refused(queries, tmp_path):
    """The ranker named by the edited id shows these lists too, now and then, but with other propensities."""
    drawn_by, edited = replace(LOGGER, temperature=0.62), LOGGER
    few = simulate(queries, drawn_by, 300, seed=5)
    log, clicks = few.save(tmp_path, "c")
    check_shown(impressions(log, read_clicks(clicks), {"c": drawn_by}, Rules(3)))
    check_shown(few.impressions())
    check_shown(replace(few.impressions(), loggers=(edited,)))  # too few lists to see it otherwise
    with pytest.raises(
        DataError, match=r"was logged with propensity 0\.\d+ at position 1, but its logger .* gives 0\.\d+"
    ):
        isrr.calibrate_clicks(clicks, PROMISE, log=log, logger={"c": edited})


def test_the_watch_refuses_them_too(queries, shown, tmp_path):
    outcome = isrr.calibrate_clicks(pa.table(table_of(shown)), PROMISE, logger=LOGGER, anchor=0.3)
    log, clicks = simulate(queries, replace(outcome.ranker, anchor=0.5), 300, seed=6).save(tmp_path, outcome.id)
    with pytest.raises(DataError, match="was logged with propensity"):
        Monitor(outcome).update_clicks(log, read_clicks(clicks), now=1e9)


def test_estimates_above_the_most_there_can_be_are_refused(shown):
    found = shown.impressions()
    fair = Estimates(np.full((20_000, 1), 2.9), np.full(20_000, 3.0), 1, 1 / 0.7)
    check_estimates(found, fair, 3.0)
    for false in (
        replace(fair, reference=np.full(20_000, 3.3)),
        replace(fair, values=np.where(np.arange(20_000)[:, None] % 2, 70.0, 8.0)),
        replace(fair, reference=np.full(2_000, 3.3), values=np.full((2_000, 1), 3.0), block=10),
    ):
        with pytest.raises(
            DataError, match=r"clicks per impression, of at most 3: its logger did not draw these lists"
        ):
            check_estimates(found, false, 3.0)
    few = shown.impressions()
    check_estimates(
        few, Estimates(np.full((3, 1), 3.0), np.full(3, 3 / 0.7), 1, 1 / 0.7), 3.0
    )  # as it may be by chance


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
