"""Small judged queries for tests of scorers, made and real."""

from pathlib import Path

import numpy as np
import pytest

from isrr_paper.features import Featured

SHARED = Path(__file__).parents[2] / "shared" / "data"


def made_queries(n_queries, seed, first_id=0, n_features=6):
    """Queries whose relevance shows in the first two features; rows in no order."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 25, n_queries)
    n_rows = int(lengths.sum())
    features = rng.normal(size=(n_rows, n_features))
    relevance = np.clip(np.round(features[:, 0] + features[:, 1] ** 2 / 2 + rng.normal(size=n_rows) / 2), 0, 4)
    query_ids = np.repeat(first_id + np.arange(n_queries), lengths)
    rows = rng.permutation(n_rows)
    return Featured.from_arrays(features=features[rows], relevance=relevance[rows], query_ids=query_ids[rows])


def real_files(folder, *names):
    """Paths of real data files; the test is skipped where they are missing."""
    files = [SHARED / folder / name for name in names]
    missing = [file for file in files if not file.is_file()]
    if missing:
        pytest.skip(f"real data is not here: {missing[0]}")
    return files
