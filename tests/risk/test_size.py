"""How many losses a test needs is told of that test, and holds when it is run."""

import numpy as np

from isrr import Queries, calibrate
from isrr.risk.hoeffding_bentkus import hoeffding_bentkus
from isrr.risk.size import needed_by_mean


def test_as_many_losses_as_a_test_of_the_mean_needs_certify_as_often_as_wanted():
    rng = np.random.default_rng(20230)
    losses = rng.beta(2, 6, 50_000)
    n = needed_by_mean(losses, lambda means, n: hoeffding_bentkus(means, n, 0.3) <= 0.05, 0.3)
    pvalues = hoeffding_bentkus(rng.choice(losses, (2_000, n)).mean(axis=1), n, 0.3)
    assert 0.77 <= (pvalues <= 0.05).mean() <= 0.83
    assert needed_by_mean(losses, lambda means, n: means < 0, 0.2) is None


def test_an_abstention_does_not_ask_for_fewer_queries_than_it_had():
    """Betting would do with fewer than Hoeffding and Bentkus."""
    rng = np.random.default_rng(20230)
    relevance = rng.choice(5, 400 * 12, p=[0.5, 0.25, 0.15, 0.07, 0.03])
    scores = relevance + rng.normal(scale=0.8, size=relevance.size)
    judged = Queries.from_arrays(scores=scores, relevance=relevance, group=[12] * 400)
    outcome = calibrate(judged, "ndcg@5 >= 90% of deterministic", evidence="hoeffding_bentkus", n_analyses=99)
    assert outcome.abstained
    assert outcome.queries_needed > 400
