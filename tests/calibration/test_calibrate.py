"""From judged queries to an outcome: the same whatever order they come in, or one line on why there is none."""

import numpy as np
import pytest

import isrr
from isrr import Certificate, DataError, GPLRanker, GuaranteeError, Queries, calibrate
from isrr.calibration.census import TakeCensus
from isrr.calibration.fill import Fill, summed_evidence
from isrr.calibration.table import merge
from isrr.guarantee import Guarantee

PROMISE = "ndcg@5 >= 90% of deterministic"


def test_the_order_of_queries_rows_and_shards_changes_no_bit(judged):
    outcome = calibrate(judged, PROMISE)
    turned = np.random.default_rng(20231).permutation(len(judged))
    assert calibrate(judged[turned], PROMISE) == outcome
    rows = np.random.default_rng(20232).permutation(judged.n_rows)
    shuffled = Queries.from_arrays(
        scores=judged.scores[rows],
        relevance=judged.relevance[rows],
        query_ids=np.repeat(judged.query_ids, judged.n_items)[rows],
    )
    assert calibrate(shuffled, PROMISE) == outcome
    grid = (GPLRanker.deterministic(), GPLRanker(temperature=0.3), GPLRanker(temperature=0.6))
    promise = Guarantee.parse(PROMISE)
    task = Fill.planned(TakeCensus((promise,)).summary([judged]), grid, [promise], delta=0.05)
    whole = task.summary([judged])
    parts = [task.summary([part]) for part in (judged[500:], judged[:20], judged[20:500])]
    assert merge(parts).moments == whole.moments
    from isrr.calibration.certify import certify
    from isrr.calibration.paths import Path

    path = Path(grid, "custom", "the caller")
    verdicts = [certify(t, path, delta=0.05, evidence="betting", selection="holm") for t in (whole, merge(parts))]
    assert verdicts[0].certified == verdicts[1].certified
    np.testing.assert_array_equal(verdicts[0].tested[0].pvalues, verdicts[1].tested[0].pvalues)


def test_summed_evidence_is_the_same_however_it_is_cut(judged, monkeypatch):
    from isrr.engines import local

    outcome = calibrate(judged, PROMISE, evidence="vb")
    monkeypatch.setattr(local, "BLOCK", 64)
    assert calibrate(judged, PROMISE, evidence="vb") == outcome
    assert outcome.tests[0].evidence == "vb"


def test_large_samples_are_drawn_and_summed_up(judged, tmp_path, monkeypatch):
    from isrr.calibration import fill
    from isrr.engines import local

    monkeypatch.setattr(fill, "LARGEST_EXACT", 100)
    monkeypatch.setattr(fill, "LARGEST_FOR_BETTING", 200)
    monkeypatch.setattr(local, "BLOCK", 128)
    outcome = calibrate(judged, PROMISE)
    assert isinstance(outcome, Certificate)
    assert outcome.provenance.method == "draws"
    assert outcome.provenance.n_draws == fill.DRAWS
    assert outcome.tests[0].evidence == "vb"
    fair = calibrate(judged, "normalized_disparity@5 <= 0.5")
    assert {test.evidence for test in fair.tests} == {"mixture"}
    fair.save(tmp_path / "fair.json")
    assert isrr.load(tmp_path / "fair.json") == fair
    short = calibrate(judged, "ndcg@5 >= 99.9% of deterministic")
    assert short.abstained
    assert short.queries_needed > len(judged)


@pytest.mark.parametrize(
    ("evidence", "promise", "n_queries", "method", "sums"),
    [
        ("betting", "ndcg@5 >= 0.7", 200_000, "exact", None),
        ("betting", "ndcg@5 >= 0.7", 200_001, "draws", "vb"),
        ("betting", "normalized_disparity@5 <= 0.2", 200_001, "draws", "mixture"),  # drawn disparities may be negative
        ("mixture", "ndcg@5 >= 0.7", 100, "exact", "mixture"),
        ("hb_plus", "ndcg@5 >= 0.7", 10**8, "draws", None),
    ],
)
def test_betting_is_read_as_sums_above_two_hundred_thousand_queries(evidence, promise, n_queries, method, sums):
    assert summed_evidence(evidence, Guarantee.parse(promise), n_queries, method) == sums


@pytest.mark.parametrize("evidence", ["vb", "mixture"])
@pytest.mark.parametrize("selection", ["fixed_sequence", "bonferroni", "holm"])
def test_sums_certify_under_every_selection(judged, evidence, selection):
    outcome = calibrate(judged, "ndcg@5 >= 60% of deterministic", evidence=evidence, selection=selection)
    assert isinstance(outcome, Certificate)
    assert outcome.tests[0].risk < outcome.guarantees[0].alpha


def test_the_paper_s_procedure_is_there_and_says_what_it_lacks(judged):
    outcome = calibrate(judged, "ndcg@5 >= 0.45", path="paper", evidence="hoeffding_bentkus", selection="pointwise")
    assert len(outcome.curve) == 22
    assert "no guarantee over the path" in str(outcome)


def table(**columns):
    return Queries.from_arrays(**({"scores": [2, 1, 2, 1], "relevance": [1, 0, 0, 1], "group": [2, 2]} | columns))


@pytest.mark.parametrize(
    ("queries", "promise", "options", "error", "said"),
    [
        (table(), PROMISE, {"confidence": 95}, GuaranteeError, "did you mean 0.95"),
        (table(), PROMISE, {"confidence": 0.0}, GuaranteeError, r"confidence must lie in \(0, 1\)"),
        (table(), "ndcg@5 >= 70", {}, GuaranteeError, "write 0.7"),
        (table(), "ndcg@5 >= 1", {}, GuaranteeError, "cannot be tested"),
        (table(), "ndcg@5 >= 100% of deterministic", {}, GuaranteeError, "nothing random keeps all of it"),
        (table(), "map@5 >= 0.3", {}, GuaranteeError, "cannot be promised; what can: ndcg@5"),
        (table(), "ndcg >= 0.3", {}, GuaranteeError, "cannot read the promise"),
        (table(), "ndcg@5 <= 0.3", {}, GuaranteeError, "did you mean 'ndcg@5 >= 0.3'"),
        (table(), "disparity@5 <= 0.3", {}, GuaranteeError, "declare `bound=`"),
        (table(), [], {}, GuaranteeError, "nothing is promised"),
        (table(), ["ndcg@5 >= 0.3", "ndcg@3 >= 0.3"], {}, GuaranteeError, "share one k"),
        (table(), PROMISE, {"confidance": 0.9}, TypeError, "confidance"),
        (table(), PROMISE, {"path": "magic"}, GuaranteeError, "no path is called 'magic'"),
        (table(), PROMISE, {"evidence": "magic"}, GuaranteeError, "no evidence is called 'magic'"),
        (table(), PROMISE, {"selection": "magic"}, GuaranteeError, "no selection is called 'magic'"),
        (table(), PROMISE, {"attempts": 0}, GuaranteeError, "attempts must be"),
        (table(), PROMISE, {"path": [GPLRanker(k=3)]}, GuaranteeError, "own k = 5"),
        (table(relevance=None), PROMISE, {}, DataError, "unjudged"),
        (table(scores=None), PROMISE, {}, DataError, "no scores"),
        (table(relevance=[0, 0, 0, 0]), PROMISE, {}, DataError, "no query has a relevant item"),
        (table(scores=[1, 1, 1, 1]), PROMISE, {}, DataError, "all scores are equal"),
        (table(group=[4]), PROMISE, {}, DataError, "there is one query"),
        (table(group=[1, 1, 1, 1]), PROMISE, {}, DataError, "every query has a single item"),
        (table(), Guarantee("disparity", 5, 0.1, bound=0.2), {"path": [GPLRanker()]}, GuaranteeError, "declared bound"),
    ],
)  # fmt: skip
def test_what_cannot_be_calibrated_is_refused_in_one_line(queries, promise, options, error, said):
    with pytest.raises(error, match=said) as refusal:
        calibrate(queries, promise, **options)
    assert "\n" not in str(refusal.value)


def test_a_grade_too_large_for_a_gain_is_refused(judged):
    relevance = np.where(np.arange(judged.n_rows) == 7, 1_100, judged.relevance)
    queries = Queries.from_arrays(scores=judged.scores, relevance=relevance, group=judged.n_items)
    with pytest.raises(DataError, match="a relevance of 1100 is too large"):
        calibrate(queries, PROMISE, evidence="vb")
