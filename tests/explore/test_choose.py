"""A promise chosen after looking is certified by the band, or refused."""

import numpy as np
import pytest

import isrr
from isrr import PromiseError, Queries, calibrate
from isrr.calibration.quality import measured_quality
from isrr.explore.choose import choose
from isrr.explore.explorer import explore
from isrr.explore.retrace import retrace


def judged(n_queries, seed):
    rng = np.random.default_rng(seed)
    relevance = rng.choice(4, n_queries * 12, p=[0.5, 0.25, 0.15, 0.1])
    return Queries.from_arrays(
        scores=0.7 * relevance + rng.normal(size=relevance.size),
        relevance=relevance,
        query_ids=np.repeat(np.arange(n_queries) + 10_000 * seed, 12),
    )


@pytest.fixture(scope="module")
def found():
    queries, validation = judged(400, 1), judged(150, 2)
    outcome = calibrate(queries, "ndcg@5 >= 90% of deterministic", validation=validation)
    return retrace(outcome, queries, validation)


def test_what_is_chosen_is_what_the_band_of_the_page_certifies(found, tmp_path):
    explorer = explore(found)
    reading = next(r for r in explorer.readings if r.confidence == 0.95)
    gains = []
    for share in (0.86, 0.9, 0.94):
        chosen = choose(found, f"ndcg@5 >= {100 * share:g}% of deterministic")
        held = [c for c, level in enumerate(reading.band) if level >= share and not explorer.rule.free[c]]
        best = min(held, key=lambda c: explorer.rule.preference[c])
        assert chosen.ranker == found.path.rankers[best]
        assert chosen.tests[0].level == pytest.approx(reading.band[best])
        assert chosen.tests[0].level >= chosen.promises[0].target == share
        assert chosen.provenance.selection == "band"
        assert chosen.quality == measured_quality(found.sample, chosen.ranker, chosen.promises)
        chosen.save(tmp_path / "chosen.json")
        assert isrr.load(tmp_path / "chosen.json") == chosen
        gains.append(chosen.fairness_gain.value)
    assert gains == sorted(gains, reverse=True)
    alone = found.outcome.tests[0].level  # the band costs something
    assert reading.band[found.path.rankers.index(found.outcome.ranker)] <= alone + 1e-9


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        ("ndcg@5 >= 99.9% of deterministic", "not certified by the band, which reaches"),
        ("ndcg@10 >= 90% of deterministic", "not the declared promise with another target"),
        ("ndcg@5 >= 0.6", "not the declared promise with another target"),
    ],
)
def test_what_the_band_does_not_certify_is_refused(found, promise, said):
    with pytest.raises(PromiseError, match=said):
        choose(found, promise)


def test_without_other_queries_there_is_no_band(found):
    outcome = calibrate(found.tested, "ndcg@5 >= 90% of deterministic", path=[found.outcome.ranker])
    with pytest.raises(PromiseError, match="no band holds for all promises at once: expected 50 or more"):
        choose(retrace(outcome, found.tested), "ndcg@5 >= 85% of deterministic")
