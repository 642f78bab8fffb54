"""Scorers on real data: MQ2007, fold 1 (train S1 S2 S3, validation S4, test S5)."""

import pytest
from scores_data import real_files

from isrr.data.queries import Queries
from isrr_paper.letor import read_letor
from isrr_paper.scorers.scorer import mean_ndcg


@pytest.fixture(scope="module")
def fold():
    parts = [read_letor(file) for file in real_files("mq2007", *(f"S{part}.txt" for part in range(1, 6)))]
    return Queries.concatenate(parts[:3]), parts[3], parts[4]


@pytest.fixture(scope="module")
def boosted(fold):
    pytest.importorskip("lightgbm")
    from isrr_paper.scorers.lightgbm import LightGBMScorer

    return LightGBMScorer(loss="lambdarank", depth=4, rounds=150, threads=1).fit(*fold[:2])


def test_lightgbm_scores_as_lightgbm_called_directly(fold, boosted):
    import lightgbm

    train, validation, test = fold
    data = lightgbm.Dataset(train.features, train.relevance, group=train.n_items, params={"max_bin": 128})
    held = data.create_valid(validation.features, validation.relevance, group=validation.n_items)
    parameters = {
        "objective": "lambdarank", "learning_rate": 0.07, "max_bin": 128, "max_depth": 4, "num_leaves": 16,
        "metric": "ndcg", "eval_at": [5], "num_threads": 1, "verbosity": -1,
    }  # fmt: skip
    stop = lightgbm.early_stopping(50, verbose=False)
    direct = lightgbm.train(parameters, data, 150, valid_sets=[held], callbacks=[stop])
    ours, theirs = (mean_ndcg(test, scores) for scores in (boosted.score(test), direct.predict(test.features)))
    assert ours == pytest.approx(theirs, abs=0.01)
    assert ours > 0.48


def test_the_net_comes_near_lightgbm_with_lambdaloss(fold, boosted):
    pytest.importorskip("torch")
    from isrr_paper.scorers.net import NetScorer

    net = NetScorer(loss="lambdaloss", epochs=30, device="cpu").fit(*fold[:2])
    test = fold[2]
    assert mean_ndcg(test, net.score(test)) > mean_ndcg(test, boosted.score(test)) - 0.02
