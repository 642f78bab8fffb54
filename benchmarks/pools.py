"""Pools of judged queries with out-of-fold scores: real data, every query scored by a model that never saw it."""

from pathlib import Path

import numpy as np

from isrr import Queries
from isrr.data.frames import read_queries, write_queries
from isrr.data.letor import read_letor
from isrr.noise import stream_seed

DATA = Path(__file__).parents[2] / "shared" / "data"
CACHE = Path(__file__).parents[1] / "out" / "pools"
SCORERS = ("lightgbm-rmse", "lightgbm-lambdarank", "catboost-queryrmse", "catboost-yetirank")
FOLDS = 5


def judged(name: str) -> Queries:
    """All queries of a real data set, with features."""
    files = {
        "mq2007": [f"mq2007/S{i}.txt" for i in range(1, 6)],
        "nfcorpus": [f"nfcorpus/{part}.txt.gz" for part in ("train", "vali", "test")],
    }
    return Queries.concatenate([read_letor(DATA / file) for file in files[name]])


def pool(name: str, scorer: str) -> Queries:
    """The queries of a data set with out-of-fold scores of one scorer; trained once, then read from out/pools."""
    file = CACHE / f"{name}-{scorer}.parquet"
    if not file.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        write_queries(_scored(judged(name), scorer), file)
    return read_queries(file)


def _scored(queries: Queries, scorer: str) -> Queries:
    fold = (queries.keys ^ stream_seed(1, 0)) % np.uint64(FOLDS)
    scores = np.empty(queries.n_rows)
    row_fold = np.repeat(fold, queries.n_items)
    for held_out in range(FOLDS):
        train, test = queries[fold != held_out], queries[fold == held_out]
        scores[row_fold == held_out] = _fit_and_score(train, test, scorer)
    return Queries.from_arrays(
        scores=scores, relevance=queries.relevance, query_ids=np.repeat(queries.query_ids, queries.n_items)
    )


def _fit_and_score(train: Queries, test: Queries, scorer: str) -> np.ndarray:
    library, loss = scorer.split("-")
    if library == "lightgbm":
        import lightgbm

        settings = {
            "objective": {"rmse": "regression", "lambdarank": "lambdarank"}[loss],
            "learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 50, "verbose": -1, "seed": 1,
            "num_threads": 2, "deterministic": True,
        }  # fmt: skip
        data = lightgbm.Dataset(train.features, train.relevance, group=train.n_items)
        return lightgbm.train(settings, data, 200).predict(test.features)
    import catboost

    settings = {
        "loss_function": {"queryrmse": "QueryRMSE", "yetirank": "YetiRank"}[loss],
        "learning_rate": 0.07, "depth": 5, "iterations": 300, "random_seed": 1, "verbose": False,
        "thread_count": 2, "allow_writing_files": False,
    }  # fmt: skip
    group = np.repeat(np.arange(len(train)), train.n_items)
    model = catboost.CatBoost(settings)
    model.fit(catboost.Pool(train.features, train.relevance, group_id=group))
    return model.predict(test.features)
