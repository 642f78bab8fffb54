"""A metric of one's own, ten lines long, goes everywhere a named one does."""

import numpy as np
import pytest

import isrr
from isrr.reporting.levels import explore
from isrr.reporting.page import page
from isrr.reporting.portrait import portray, retrace


def discounted_margin():
    """What a list earns, positions discounted by their square root."""
    return isrr.Metric(
        "margin",
        value=lambda queries: queries.column("margin"),
        weights=lambda k: 1.0 / np.sqrt(np.arange(1, k + 1)),
        columns=("value:margin",),
        title="discounted margin",
    )


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(6, 20, 400)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.3, 0.15, 0.05])
    scores = relevance + rng.normal(size=sizes.sum())
    return isrr.Queries.from_arrays(
        scores=scores,
        relevance=relevance,
        query_ids=np.repeat(np.arange(400), sizes),
        values={"margin": np.clip(2.0 + 0.5 * scores + rng.normal(size=sizes.sum()), 0.0, 8.0)},
    )


def test_a_metric_of_one_s_own_goes_from_evaluation_to_the_report(judged, tmp_path):
    promise = isrr.Promise(discounted_margin(), k=5, at_least=0.95, of="deterministic", bound=8.0)
    ranker = isrr.GPLRanker(temperature=0.3)
    values = isrr.evaluate(judged, [ranker], [promise.metric])["margin"][:, 0]
    assert (values > 0).all()
    planned = isrr.plan(judged[:100], promise)
    assert planned.queries_needed < 400
    outcome = isrr.calibrate(judged, promise)
    assert isinstance(outcome, isrr.Certificate)
    assert outcome.utility_name == "discounted margin@5"
    assert "margin@5 >= 95% of deterministic" in str(isrr.check(outcome, judged))
    tested = retrace(outcome, judged)
    assert "discounted margin@5" in page(outcome, explore(outcome, tested), portray(outcome, tested))
    outcome.save(tmp_path / "ranker.json")
    assert isrr.load(tmp_path / "ranker.json", metrics=[promise.metric]) == outcome
    with pytest.raises(isrr.PromiseError, match="'margin' is a custom metric"):
        isrr.check(isrr.load(tmp_path / "ranker.json"), judged)
    isrr.write_queries(judged, tmp_path / "judged.parquet")
    assert isrr.calibrate(tmp_path / "judged.parquet", promise).ranker == outcome.ranker


def test_values_may_be_a_list_and_too_few_of_them_are_refused(judged):
    def promise(value):
        return isrr.Promise(isrr.Metric("mine", value=value), k=5, at_least=0.95, of="deterministic", bound=8.0)

    as_list = promise(lambda queries: queries.column("margin").tolist())
    as_array = promise(lambda queries: queries.column("margin"))
    assert isrr.calibrate(judged, as_list).ranker == isrr.calibrate(judged, as_array).ranker
    with pytest.raises(ValueError, match="metric 'mine' must be one finite number per row"):
        isrr.calibrate(judged, promise(lambda queries: [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"one finite number per row, .*; got shape .* with nan in it"):
        isrr.calibrate(judged, promise(lambda queries: np.full(queries.n_rows, np.nan)))


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(5), np.full(5, np.nan), 1.0])
def test_weights_of_positions_are_checked(judged, weights):
    mine = isrr.Metric("mine", value=lambda queries: queries.column("margin"), weights=lambda k: weights)
    with pytest.raises(ValueError, match=r"the weights of metric 'mine' must be one finite number ≥ 0 for each of"):
        isrr.calibrate(judged, isrr.Promise(mine, k=5, at_least=0.95, of="deterministic", bound=8.0))
    with pytest.raises(ValueError, match=r"for each of the positions 1 … 5; got"):
        isrr.evaluate(judged, [isrr.GPLRanker()], [mine])


def test_a_value_column_is_promised_by_name(judged, tmp_path):
    isrr.write_queries(judged, tmp_path / "judged.parquet")
    text = "value(margin)@5 >= 97% of deterministic with bound 8"
    outcome = isrr.calibrate(tmp_path / "judged.parquet", text)
    assert outcome == isrr.calibrate(judged, text)
    with pytest.raises(isrr.PromiseError, match=r"an item has value\(margin\) .*, outside the declared bound 3"):
        isrr.calibrate(judged, "value(margin)@5 >= 97% of deterministic with bound 3")
