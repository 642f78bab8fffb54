"""Outcomes travel: through pickle, copies, other processes and files, and are equal when they arrive."""

import copy
import multiprocessing
import pickle
from operator import methodcaller

import numpy as np
import pytest

import isrr
from isrr import Promise, Queries

SCORES = np.array([0.2, 1.4, 0.1, 0.9, 0.9])
GROUPS = ["new", "old", "new", "old", "new"]
PROMISES = {
    "ndcg": "ndcg@5 >= 90% of deterministic",
    "dcg": "dcg@5 >= 80% of deterministic with bound 15",
    "precision": "precision@5 >= 80% of deterministic",
    "recall": "recall@5 >= 80% of deterministic",
    "kept": "kept@5 >= 0.7",
    "value": "value(margin)@5 >= 90% of deterministic with bound 8",
    "share": "exposure(new)@5 >= 20%",
    "merit": "exposure(new)@5 >= 60% of merit",
    "disparity": "normalized_disparity@5 <= 0.9",
    "between groups": "group_disparity@5 <= 0.9",
    "several": ["exposure(new)@5 >= 35%", "ndcg@5 >= 90% of deterministic"],
    "linear gain": Promise.parse("ndcg@5 >= 90% of deterministic", gain="linear", discount="reciprocal"),
    "out of reach": "ndcg@5 >= 0.99",
    "conflicting": ["exposure(new)@5 >= 80%", "ndcg@5 >= 99% of deterministic"],
}


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, 300 * 12, p=[0.5, 0.3, 0.15, 0.05])
    new = rng.random(relevance.size) < 0.3
    return Queries.from_arrays(
        scores=relevance + rng.normal(size=relevance.size) - 0.3 * new,
        relevance=relevance,
        query_ids=np.repeat(np.arange(300), 12),
        item_groups=np.where(new, "new", "old"),
        values={"margin": rng.uniform(0.0, 8.0, relevance.size)},
    )


@pytest.fixture(scope="module")
def outcomes(judged):
    """An outcome of every kind of promise, each of which has ranked."""
    found = {name: isrr.calibrate(judged, promise) for name, promise in PROMISES.items()}
    found["start"] = isrr.start(judged, PROMISES["ndcg"])
    for outcome in found.values():
        ranked(outcome)
    return found


ranked = methodcaller("rank", SCORES, "q7", "u42", groups=GROUPS)


def same(back, outcome):
    """Whether an outcome is the same in all that a reader sees."""
    told = back.id, str(back), ranked(back).tolist()
    return back == outcome and told == (outcome.id, str(outcome), ranked(outcome).tolist())


@pytest.mark.parametrize("name", [*PROMISES, "start"])
def test_an_outcome_is_equal_after_a_copy_a_pickle_and_a_file(outcomes, judged, tmp_path, name):
    outcome = outcomes[name]
    outcome.save(tmp_path / "ranker.json")
    loaded = isrr.load(tmp_path / "ranker.json")
    for back in (copy.copy(outcome), copy.deepcopy(outcome), pickle.loads(pickle.dumps(outcome)), loaded):
        assert same(back, outcome)
    assert same(pickle.loads(pickle.dumps(loaded)), outcome)
    assert isrr.check(pickle.loads(pickle.dumps(outcome)), judged).promises == isrr.check(outcome, judged).promises


def test_outcomes_go_to_other_processes(outcomes):
    several = [outcomes[name] for name in ("several", "out of reach", "start")]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.map(ranked, several), [ranked(outcome) for outcome in several])
        assert all(map(same, pool.map(copy.copy, several), several))


def test_a_file_of_an_older_version_is_refused_with_the_remedy(outcomes, tmp_path):
    for name, verb in (("ndcg", "calibrate"), ("start", "start")):
        file = tmp_path / f"{name}.json"
        outcomes[name].save(file)
        file.write_text(file.read_text().replace('"schema": 4', '"schema": 3'))
        said = rf"schema 3; this version of isrr reads schema 4; make a new file with `isrr {verb}`$"
        with pytest.raises(isrr.CertificateError, match=said):
            isrr.load(file, trust_edited=True)


def test_the_first_lines_say_what_is_kept_and_verbose_ones_how_it_was_tested(outcomes):
    outcome = outcomes["ndcg"]
    (test,), gain = outcome.tests, outcome.fairness_gain.value
    short, whole = str(outcome).splitlines(), outcome.text(verbose=True).splitlines()
    assert short[:4] == [
        f"Certificate {outcome.id}",
        "promise      ndcg@5 >= 90% of deterministic",
        "confidence   95 %: at most 5 % of calibrations like this one certify something false",
        f"keeps        {100 * test.measured:.1f} % of deterministic NDCG@5 (promised: 90 %)",
    ]
    assert short[4].startswith(f"disparity    {100 * gain:.1f} % less than in the order by score (")
    for label in ("tested risk", "path", "evidence", "ranker"):
        assert not any(line.startswith(label) for line in short)
        assert any(line.startswith(label) for line in whole)


def margin_of(queries):
    return queries.column("margin")


def test_a_certificate_of_a_metric_of_one_s_own_can_be_pickled(judged, tmp_path):
    margin = isrr.Metric("margin", margin_of, columns=("value:margin",))
    outcome = isrr.calibrate(judged, Promise(margin, 5, at_least=0.9, of="deterministic", bound=8.0))
    assert same(pickle.loads(pickle.dumps(outcome)), outcome)
    outcome.save(tmp_path / "ranker.json")
    unmeasured = isrr.load(tmp_path / "ranker.json")
    back = pickle.loads(pickle.dumps(unmeasured))
    assert same(back, unmeasured)
    with pytest.raises(isrr.PromiseError, match="'margin' is a custom metric; pass it as load"):
        isrr.check(back, judged)
