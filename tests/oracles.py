"""Slow, obvious versions of what isrr computes. Written to be believed without being run."""

from itertools import permutations

import numpy as np


def standard_order(scores, item_ids=None):
    """Positions by falling score; ties by item id, else by input order."""
    ties = range(len(scores)) if item_ids is None else item_ids
    return sorted(range(len(scores)), key=lambda i: (-scores[i], ties[i]))


def softmax(logits):
    weights = np.exp(np.asarray(logits) - np.max(logits))
    return weights / weights.sum()


def choices(scores, placed, position, threshold, decay, temperature, eligibility):
    """Chance of each unplaced item at a position, given the items placed before: {item: probability}."""
    free = [d for d in standard_order(scores) if d not in placed]
    admitted = [d for d in free if eligibility[d] >= threshold * decay**position]
    if not admitted:
        return {free[0]: 1.0}
    chances = softmax([scores[d] / temperature for d in admitted])
    return dict(zip(admitted, chances, strict=True))


def ranking_law(scores, k, threshold, decay, temperature, eligibility):
    """Probability of every ranking of length min(k, n) that can be drawn: {ranking: probability}."""
    law = {(): 1.0}
    for position in range(min(k, len(scores))):
        longer = {}
        for placed, probability in law.items():
            for item, chance in choices(
                scores, placed, position, threshold, decay, temperature, eligibility
            ).items():
                longer[(*placed, item)] = probability * chance
        law = longer
    return law


def exposure(scores, k, threshold, decay, temperature, eligibility):
    """Expected discount of each item, by adding up all rankings."""
    expected = np.zeros(len(scores))
    for ranking, probability in ranking_law(scores, k, threshold, decay, temperature, eligibility).items():
        for position, item in enumerate(ranking):
            expected[item] += probability / np.log2(2 + position)
    return expected


def gain(relevance):
    return 2.0 ** np.asarray(relevance, float) - 1.0


def dcg(relevance, ranking):
    return sum(gain(relevance[d]) / np.log2(2 + j) for j, d in enumerate(ranking))


def ndcg(relevance, ranking, k):
    ideal = max(dcg(relevance, order) for order in permutations(range(len(relevance)), min(k, len(relevance))))
    return dcg(relevance, ranking[:k]) / ideal


def disparity(exposure, gains, error=lambda a, b: (a - b) ** 2):
    """2 × the mean over ordered pairs of distinct items."""
    n = len(exposure)
    pairs = [(d, e) for d in range(n) for e in range(n) if d != e]
    return 2.0 * sum(error(exposure[d] * gains[e], exposure[e] * gains[d]) for d, e in pairs) / max(len(pairs), 1)


def disparity_bound(gains, k):
    """The largest disparity of any deterministic ranking, hence of any mixture of rankings."""
    n, worst = len(gains), 0.0
    for order in permutations(range(n), min(k, n)):
        shown = np.zeros(n)
        for position, item in enumerate(order):
            shown[item] = 1.0 / np.log2(2 + position)
        worst = max(worst, disparity(shown, gains))
    return worst
