"""From judged queries to a certificate or an abstention, whatever order they come in."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import isrr
from isrr import (
    Abstention,
    Certificate,
    CertificateError,
    DataError,
    GPLRanker,
    GuaranteeError,
    Queries,
    calibrate,
    load,
)
from isrr.calibration.basis import judged_in_all, n_set_aside
from isrr.calibration.census import TakeCensus
from isrr.calibration.fill import Fill, summed_evidence
from isrr.calibration.table import merge
from isrr.calibration.terms import Terms
from isrr.guarantee import Guarantee

PROMISE = "ndcg@5 >= 90% of deterministic"


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(5, 30, 700)
    relevance = rng.choice(5, sizes.sum(), p=[0.5, 0.25, 0.15, 0.07, 0.03])
    scores = relevance + rng.normal(scale=1.2, size=relevance.size)
    query_ids = np.repeat([f"q{i}" for i in range(700)], sizes)
    segment = np.repeat(rng.choice(["mobile", "desktop"], 700), sizes)
    groups = rng.choice(["ours", "theirs"], relevance.size)
    return Queries.from_arrays(
        scores=scores, relevance=relevance, query_ids=query_ids, segments=segment, item_groups=groups
    )


def test_a_certificate_says_what_was_promised_chosen_and_measured(judged):
    outcome = calibrate(judged, PROMISE)
    assert isinstance(outcome, Certificate)
    assert not outcome.abstained
    assert outcome.utility.value >= 0.9 * outcome.deterministic_utility.value
    assert outcome.fairness_gain.value > 0.1
    (test,) = outcome.tests
    assert test.pvalue <= 0.05
    assert test.bound <= test.guarantee.alpha
    assert test.level >= 0.9
    text = str(outcome)
    for said in (PROMISE, "confidence   0.95", "judged queries", "betting, fixed_sequence", "set aside"):
        assert said in text
    assert sum(point.certified for point in outcome.curve) >= 1
    assert outcome.rank([0.2, 0.1], query_id="q", session="s").size == 2


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


@pytest.mark.parametrize(("n_queries", "n_aside"), [(2, 1), (20, 4), (250, 5), (300, 60), (20_000, 2_000)])
def test_most_queries_are_left_to_test_on(n_queries, n_aside):
    assert n_set_aside(n_queries, Terms((Guarantee.parse(PROMISE),)), validation=None) == n_aside


def test_validation_queries_fix_the_path_and_all_judged_ones_are_tested(judged):
    outcome = calibrate(judged[200:], PROMISE, validation=judged[:200])
    assert outcome.provenance.n_set_aside == 0
    assert outcome.provenance.n_queries + outcome.provenance.n_skipped == 500
    assert "200 validation queries" in str(outcome)


def test_validation_queries_must_be_others(judged):
    with pytest.raises(DataError, match="validation queries too: 50"):
        calibrate(judged[100:], PROMISE, validation=judged[50:150])
    plain = Queries.from_arrays(scores=judged.scores, relevance=judged.relevance, group=judged.n_items)
    with pytest.raises(DataError, match="the validation queries are the judged ones"):
        calibrate(plain, PROMISE, validation=plain)


@pytest.mark.parametrize("path", ["temperature", "front", "thresholds", "paper"])
def test_every_path_starts_with_the_deterministic_ranker(judged, path):
    outcome = calibrate(judged, "ndcg@5 >= 0.4", path=path)
    assert isinstance(outcome, Certificate)
    assert outcome.curve[0].ranker.is_deterministic
    assert outcome.curve[0].certified


def test_the_paper_s_procedure_is_there_and_says_what_it_lacks(judged):
    outcome = calibrate(judged, "ndcg@5 >= 0.45", path="paper", evidence="hoeffding_bentkus", selection="pointwise")
    assert len(outcome.curve) == 22
    assert "no guarantee over the path" in str(outcome)


def test_a_path_of_equal_steps_knows_the_tested_queries_only_where_there_are_no_others_and_says_so(judged):
    seen = calibrate(judged[200:], PROMISE, path="paper")
    apart = calibrate(judged[200:], PROMISE, path="paper", validation=judged[:200])
    assert "a path fixed by the tested queries carries no guarantee" in str(seen)
    assert "fixed by the tested queries" not in str(apart)
    best = GPLRanker(k=5, mean=apart.curve[1].ranker.mean, deviation=apart.curve[1].ranker.deviation)
    assert max(p.ranker.threshold for p in apart.curve[1:]) == best.eligibility(judged[:200]).max()


def test_promising_fairness_maximises_utility(judged):
    strict = calibrate(judged, "normalized_disparity@5 <= 60% of deterministic")
    loose = calibrate(judged, "normalized_disparity@5 <= 80% of deterministic")
    assert loose.utility.value > strict.utility.value
    assert strict.disparity.value < loose.disparity.value
    declared = calibrate(judged, Guarantee("disparity", 5, 2.0, bound=300.0))
    assert isinstance(declared, Certificate | Abstention)


def test_several_promises_hold_together(judged):
    outcome = calibrate(judged, ["ndcg@5 >= 0.4", "normalized_disparity@5 <= 0.6"])
    assert isinstance(outcome, Certificate)
    assert len(outcome.tests) == 2
    assert all(test.pvalue <= 0.05 for test in outcome.tests)


def test_a_promise_per_segment_is_tested_in_each(judged):
    outcome = calibrate(judged, Guarantee.parse(PROMISE, per="segment"))
    assert {test.segment for test in outcome.tests} == {"mobile", "desktop"}
    assert "in segment 'mobile': kept" in str(isrr.check(outcome, judged))
    assert sum(test.n_queries for test in outcome.tests) == outcome.provenance.n_queries
    with pytest.raises(DataError, match=r"a segment for each query: .* name their column \(`segment=`\)"):
        calibrate(Queries.from_arrays(scores=[1, 2, 3, 1], relevance=[0, 1, 1, 0], group=[2, 2]),
                  Guarantee.parse(PROMISE, per="segment"))  # fmt: skip


@pytest.mark.parametrize(
    ("path", "selection", "n_aside"), [("temperature", "fixed_sequence", 5), ("auto", "split", 1_800)]
)
def test_every_query_is_tested_or_set_aside_where_ids_were_made(path, selection, n_aside):
    rng = np.random.default_rng(1)
    queries = Queries.from_arrays(scores=rng.normal(size=27_000), relevance=[0, 1, 2] * 9_000, group=[3] * 9_000)
    found = calibrate(queries, "ndcg@2 >= 90% of deterministic", path=path, selection=selection).provenance
    assert (found.n_set_aside, found.n_queries, found.n_skipped) == (n_aside, 9_000 - n_aside, 0)


@pytest.mark.parametrize("why", ["set aside", "nothing relevant"])
def test_a_segment_without_a_query_to_test_on_is_refused(judged, why):
    first = judged.query_ids[np.argsort(judged.keys)[0]]
    ids = np.repeat(judged.query_ids, judged.n_items)
    rare = ids == first if why == "set aside" else np.isin(ids, judged.query_ids[:30])
    relevance = np.where(rare, 0, judged.relevance) if why == "nothing relevant" else judged.relevance
    queries = Queries.from_arrays(
        scores=judged.scores, relevance=relevance, query_ids=ids, segments=np.where(rare, "rare", "usual")
    )
    with pytest.raises(DataError, match="segment 'rare' has no query to test on"):
        calibrate(queries, Guarantee.parse(PROMISE, per="segment"))


@pytest.mark.parametrize("evidence", ["vb", "mixture"])
@pytest.mark.parametrize("selection", ["fixed_sequence", "bonferroni", "holm"])
def test_sums_certify_under_every_selection(judged, evidence, selection):
    outcome = calibrate(judged, "ndcg@5 >= 60% of deterministic", evidence=evidence, selection=selection)
    assert isinstance(outcome, Certificate)
    assert outcome.tests[0].risk < outcome.guarantees[0].alpha


def test_a_grade_too_large_for_a_gain_is_refused(judged):
    relevance = np.where(np.arange(judged.n_rows) == 7, 1_100, judged.relevance)
    queries = Queries.from_arrays(scores=judged.scores, relevance=relevance, group=judged.n_items)
    with pytest.raises(DataError, match="a relevance of 1100 is too large"):
        calibrate(queries, PROMISE, evidence="vb")


def test_promises_on_groups_and_on_utility_are_kept_together():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(8, 21, 900)
    groups = rng.choice(["favoured", "other", "small"], sizes.sum(), p=[0.55, 0.3, 0.15])
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.3, 0.15, 0.05])
    scores = relevance + 0.5 * (groups == "favoured") + rng.normal(size=sizes.sum())
    queries = Queries.from_arrays(scores=scores, relevance=relevance, group=sizes, item_groups=groups)
    both = calibrate(queries, ["group_exposure@5 <= 0.12", "ndcg@5 >= 85% of deterministic"])
    assert isinstance(both, Certificate)
    alone = calibrate(queries, "group_exposure@5 <= 0.12")
    assert isinstance(alone, Certificate)
    assert alone.utility.value > both.utility.value


def test_a_promise_on_groups(judged):
    outcome = calibrate(
        judged, "group_exposure@5 <= 0.2", path=[GPLRanker(temperature=2.0), GPLRanker(temperature=0.5)]
    )
    assert isinstance(outcome, Certificate)
    with pytest.raises(DataError, match="no item groups"):
        calibrate(Queries.from_arrays(scores=judged.scores, relevance=judged.relevance, group=judged.n_items),
                  "group_exposure@5 <= 0.2", path=[GPLRanker()])  # fmt: skip


def test_an_abstention_says_why_and_what_would_help(judged):
    few = calibrate(judged[:25], PROMISE)
    assert isinstance(few, Abstention)
    assert few.ranker.is_deterministic
    assert few.queries_needed > 25
    assert f"about {few.queries_needed} judged queries in all would be enough" in str(few)
    assert "cannot prove it" in few.reason
    impossible = calibrate(judged, "ndcg@5 >= 0.95")
    assert impossible.queries_needed is None
    assert "not met even by the safest" in impossible.reason
    assert "these queries prove no more than ndcg@5 >= 0." in str(impossible)


def test_the_queries_needed_include_those_set_aside_and_those_without_a_relevant_item():
    terms = Terms((Guarantee.parse(PROMISE),))
    for n_tested in (10, 91, 290, 296, 400, 9_000):
        n_judged = judged_in_all(n_tested, terms, share_counted=0.8)
        assert 0.8 * (n_judged - n_set_aside(n_judged, terms, None)) >= n_tested
        assert 0.8 * (n_judged - 2 - n_set_aside(n_judged - 2, terms, None)) < n_tested
    assert judged_in_all(800, terms, given=True, share_counted=0.8) == 1_000


def test_a_notebook_shows_the_outcome_and_a_shell_its_name(judged):
    outcome = calibrate(judged, PROMISE)
    assert repr(outcome) == f"<Certificate {outcome.id}: {PROMISE}, confidence 0.95>"
    shown = []
    outcome._repr_pretty_(SimpleNamespace(text=shown.append), cycle=False)
    assert shown == [str(outcome)]


def test_planned_attempts_split_delta(judged):
    assert Terms((Guarantee.parse(PROMISE),), attempts=3).delta == pytest.approx(0.05 / 3)
    once, thrice = (calibrate(judged, PROMISE, path=[GPLRanker(temperature=0.3)], attempts=n) for n in (1, 3))
    assert thrice.tests[0].bound > once.tests[0].bound


def test_queries_are_set_aside_until_their_scores_vary(judged):
    order = np.argsort(judged.keys[:200])
    scores = judged[:200].scores.copy()
    for query in order[:5]:
        scores[judged.offsets[query] : judged.offsets[query + 1]] = 0.0
    outcome = calibrate(judged[:200].with_scores(scores), PROMISE)
    assert outcome.provenance.n_set_aside == 10


def test_too_few_queries_set_aside_fix_a_scale_and_learn_nothing(judged):
    assert calibrate(judged[:60], PROMISE, path="front").provenance.path == "temperature"
    assert calibrate(judged[:300], PROMISE, path="front").provenance.path == "front"


def test_an_outcome_survives_being_saved_and_loaded(judged, tmp_path):
    for promise in (PROMISE, "ndcg@5 >= 0.95"):
        outcome = calibrate(judged, promise)
        outcome.save(tmp_path / "ranker.json")
        back = load(tmp_path / "ranker.json")
        assert back == outcome
        assert (back.rank(np.arange(9.0), "q", "s") == outcome.rank(np.arange(9.0), "q", "s")).all()


def test_an_edited_or_damaged_certificate_is_refused(judged, tmp_path):
    file = tmp_path / "ranker.json"
    calibrate(judged, PROMISE).save(file)
    document = json.loads(file.read_text())
    document["confidence"] = 0.999
    file.write_text(json.dumps(document))
    with pytest.raises(CertificateError, match="does not match its digest"):
        load(file)
    assert load(file, trust_edited=True).confidence == 0.999
    file.write_text(json.dumps({**document, "schema": 99}))
    with pytest.raises(CertificateError, match="schema 99"):
        load(file)
    file.write_text("{")
    with pytest.raises(CertificateError, match="not a certificate"):
        load(file)
    file.write_text("[]")
    with pytest.raises(CertificateError, match="names no kind"):
        load(file)
    with pytest.raises(CertificateError, match="no such file"):
        load(tmp_path / "nowhere.json")


def test_a_full_disk_leaves_the_old_certificate_whole(judged, tmp_path, monkeypatch):
    from pathlib import Path

    outcome = calibrate(judged, PROMISE)
    outcome.save(tmp_path / "ranker.json")
    before = (tmp_path / "ranker.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        calibrate(judged, "ndcg@5 >= 0.4").save(tmp_path / "ranker.json")
    assert (tmp_path / "ranker.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ranker.json"]


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


def test_a_plan_names_the_queries_needed_with_and_without_a_pilot(judged):
    guess = isrr.plan("ndcg@5 >= 0.50", utility=0.55)
    assert 150 < guess.queries_needed < 350
    assert isrr.plan("ndcg@5 >= 0.60", utility=0.55).queries_needed is None
    pilot = isrr.plan(PROMISE, judged[:100])
    assert pilot.n_pilot > 90
    assert pilot.milestones[0].queries_needed <= (pilot.milestones[-1].queries_needed or np.inf)
    assert "pilot queries" in str(pilot)
    with pytest.raises(GuaranteeError, match="utility="):
        isrr.plan("ndcg@5 >= 0.5")
    with pytest.raises(GuaranteeError, match="a plan needs 10"):
        isrr.plan(PROMISE, judged[:3])
    with pytest.raises(GuaranteeError, match="deviation must lie"):
        isrr.plan("ndcg@5 >= 0.5", utility=0.6, deviation=3.0)
    with pytest.raises(GuaranteeError, match="needs pilot queries"):
        isrr.plan("normalized_disparity@5 <= 0.5")


def test_a_planned_size_certifies_about_as_often_as_planned():
    from isrr.calibration.plan import queries_needed
    from isrr.risk import betting

    promise = Guarantee("ndcg", 5, 0.65)
    rng = np.random.default_rng(20230)
    losses = 1 - rng.beta(2.2, 0.95, 100_000)  # mean 0.3016
    n = queries_needed(float(losses.mean()), float(losses.std()), promise, 0.05)
    held = betting.certifies(rng.choice(losses, (n, 1_000)), promise.tested_alpha, 0.05)
    assert 0.72 < held.mean() < 0.92
