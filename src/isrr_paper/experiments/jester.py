"""Jester as a ranking problem: half of each user's ratings are seen, the other half is ranked.

Features of a (user, joke) pair come from seen ratings alone: means and deviations of both, a neighbourhood prediction
and truncated singular value decompositions. The hidden ratings, from −10 to 10, become the nearest of the grades 0
to 4.
"""

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.noise import stream_seed
from isrr_paper.features import Featured

RANKS = (2, 5, 10)
NEIGHBOURS = 20
_SHRINK = 5.0  # ratings' worth of doubt about a user's or a joke's own mean


def with_features(users: Queries) -> Featured:
    """Users with their hidden ratings as relevance and features from the seen ones; `users` rank all they rated."""
    joke = np.unique(np.asarray(users.item_ids), return_inverse=True)[1]
    user = np.repeat(np.arange(len(users)), users.n_items)
    chance = np.random.default_rng(stream_seed(5, 0)).random(users.n_rows)
    seen = chance < 0.5
    relevance = users.need_relevance()
    ratings = np.full((len(users), int(joke.max()) + 1), np.nan)
    ratings[user[seen], joke[seen]] = relevance[seen] - 2.0
    hidden = np.flatnonzero(~seen)
    features = _features(ratings, user[hidden], joke[hidden])
    grades = np.rint(relevance[hidden])
    return Featured.from_arrays(relevance=grades, features=features, query_ids=users.query_ids[user[hidden]])


def _features(ratings: FloatArray, user: NDArray[np.int64], joke: NDArray[np.int64]) -> NDArray[np.float32]:
    known = ~np.isnan(ratings)
    overall = float(np.nanmean(ratings))
    centred = np.where(known, ratings - overall, 0.0)
    of_joke = centred.sum(axis=0) / (known.sum(axis=0) + _SHRINK)
    rest = np.where(known, centred - of_joke, 0.0)
    of_user = rest.sum(axis=1) / (known.sum(axis=1) + _SHRINK)
    rest = np.where(known, rest - of_user[:, None], 0.0)
    columns = [of_user[user], of_joke[joke], known.sum(axis=1)[user], known.sum(axis=0)[joke]]
    columns += [np.sqrt((rest**2).sum(axis=0) / known.sum(axis=0))[joke]]
    columns += [_by_neighbours(rest, known)[user, joke]]
    left, size, right = np.linalg.svd(rest, full_matrices=False)
    for rank in RANKS:
        columns.append(((left[:, :rank] * size[:rank]) @ right[:rank])[user, joke])
    return np.stack(columns, axis=1).astype(np.float32)


def _by_neighbours(rest: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """For each user and joke the mean of the user's ratings of the most similar jokes, weighted by similarity."""
    both = known.T.astype(float) @ known
    similarity = (rest.T @ rest) / (both + 50.0)
    np.fill_diagonal(similarity, 0.0)
    least = np.sort(similarity, axis=1)[:, -NEIGHBOURS][:, None]
    weights = np.where(similarity >= np.maximum(least, 0.0), similarity, 0.0)
    predicted: FloatArray = (rest @ weights.T) / (known @ weights.T + 1e-9)
    return predicted
