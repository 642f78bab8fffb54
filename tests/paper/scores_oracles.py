"""Slow, obvious versions of the training losses. Lists are plain; nothing is batched or padded."""

from itertools import permutations

import numpy as np


def discount(position):
    """Weight of a 0-based position."""
    return 1.0 / np.log2(2.0 + position)


def expected_dcg(scores, gains, k):
    """Expected DCG@k of a Plackett–Luce ranking, adding up all of them."""
    total = 0.0
    weights = np.exp(np.asarray(scores, float))
    for ranking in permutations(range(len(scores))):
        chance, left = 1.0, weights.sum()
        for item in ranking:
            chance *= weights[item] / left
            left -= weights[item]
        total += chance * sum(gains[d] * discount(j) for j, d in enumerate(ranking[:k]))
    return total


def slope(function, point, step=1e-5):
    """Central differences of a function of several numbers."""
    point = np.asarray(point, float)
    unit = np.eye(len(point)) * step
    return np.array([(function(point + u) - function(point - u)) / (2 * step) for u in unit])


def expected_dcg_normal(scores, gains, k, nodes=4001):
    """Expected DCG@k when standard normal noise is added to the scores.

    Given an item's noisy score x the others stand above it independently of each other; x is integrated by the
    trapezoid rule.
    """
    from scipy.stats import norm

    scores = np.asarray(scores, float)
    x = np.linspace(scores.min() - 9, scores.max() + 9, nodes)
    total = 0.0
    for d in range(len(scores)):
        above = np.zeros((len(scores), nodes))
        above[0] = 1.0
        for other in range(len(scores)):
            if other != d:
                chance = norm.sf(x - scores[other])
                above[1:] = above[1:] * (1 - chance) + above[:-1] * chance
                above[0] *= 1 - chance
        exposure = sum(discount(j) * above[j] for j in range(min(k, len(scores))))
        total += gains[d] * np.trapezoid(exposure * norm.pdf(x - scores[d]), x)
    return total


def lambdaloss(scores, gains, k):
    """NDCG-Loss2 pull on each item, pair by pair."""
    n = len(scores)
    rank = {d: r for r, d in enumerate(sorted(range(n), key=lambda d: (-scores[d], d)))}
    discounts = [discount(j) if j < k else 0.0 for j in range(n + 1)]
    pull = np.zeros(n)
    for i in range(n):
        for j in range(n):
            if gains[i] > gains[j]:
                apart = abs(rank[i] - rank[j])
                weight = (discounts[apart - 1] - discounts[apart]) * (gains[i] - gains[j])
                force = weight / (1 + np.exp(scores[i] - scores[j])) / np.log(2)
                pull[i] += force
                pull[j] -= force
    return pull


def sample_rankings(scores, k, n_draws, rng):
    """The first k places of Plackett–Luce rankings, by sorting Gumbel noise, (n_draws, k)."""
    noisy = scores + rng.gumbel(size=(n_draws, len(scores)))
    return np.argsort(-noisy, axis=1)[:, :k]


def plrank(scores, gains, k, n_draws, rng):
    """PL-Rank-3 for one query: every draw, place and item spelled out in arrays."""
    n, k = len(scores), min(k, len(scores))
    rankings = sample_rankings(scores, k, n_draws, rng)
    discounts = discount(np.arange(k))
    weights = np.exp(scores - scores.max())
    ahead = np.cumsum((discounts * gains[rankings])[:, ::-1], axis=1)[:, ::-1]
    placed = np.cumsum(weights[rankings], axis=1) - weights[rankings]
    left = weights.sum() - placed
    placing, losing = np.cumsum(discounts / left, axis=1), np.cumsum(ahead / left, axis=1)
    rank = np.full((n_draws, n), k - 1)
    np.put_along_axis(rank, rankings, np.arange(k)[None], axis=1)
    after = np.zeros((n_draws, n))
    np.put_along_axis(after, rankings, np.c_[ahead[:, 1:], np.zeros(n_draws)], axis=1)
    per_item = gains * np.take_along_axis(placing, rank, 1) - np.take_along_axis(losing, rank, 1)
    return (after + weights * per_item).mean(axis=0)
