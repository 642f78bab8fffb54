"""Pools of real data with out-of-fold scores, as the experiments make them; kept in out/pools."""

from pathlib import Path

from isrr import Queries
from isrr.experiments.pools import Pool, Pools, Source

DATA = Path(__file__).parents[2] / "shared" / "data"
CACHE = Path(__file__).parents[1] / "out" / "pools"
SCORERS = ("lightgbm", "lightgbm-lambdarank", "catboost", "catboost-yetirank")


def pool(name: str, scorer: str) -> Pool:
    """A data set under a scorer, divided into validation and judged queries."""
    return Pools(CACHE).get(Source(name, DATA / name), scorer)


def whole(name: str, scorer: str) -> Queries:
    """All queries of a pool."""
    found = pool(name, scorer)
    return Queries.concatenate([found.validation, found.judged])
