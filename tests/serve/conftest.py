"""A certificate on synthetic queries, and the app over it."""

from pathlib import Path

import numpy as np
import pytest

from isrr.calibration.calibrate import calibrate
from isrr.certificate import Certificate
from isrr.data.synthetic import generate
from serving import client_of


def calibrated(promise, seed=0):
    made = generate("small", n_queries=1_000, seed=seed)
    weights, *_ = np.linalg.lstsq(made.train.features, made.train.queries.relevance, rcond=None)
    judged = made.test.queries.with_scores(made.test.features @ weights)
    return calibrate(judged, promise, path="temperature")


def certified(promise, seed=0):
    found = calibrated(promise, seed)
    assert isinstance(found, Certificate)
    return found


@pytest.fixture(scope="session")
def certificate():
    return certified("ndcg@5 >= 90% of deterministic")


@pytest.fixture(scope="session")
def other_certificate():
    return certified("ndcg@5 >= 80% of deterministic")


@pytest.fixture(scope="session")
def abstention():
    found = calibrated("ndcg@5 >= 0.99")
    assert found.abstained
    return found


@pytest.fixture
def ranker_file(certificate, tmp_path) -> Path:
    certificate.save(tmp_path / "ranker.json")
    return tmp_path / "ranker.json"


@pytest.fixture
def client(ranker_file):
    """A client of an app of its own."""
    return client_of(ranker_file)
