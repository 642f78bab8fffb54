"""Slow, obvious versions of what isrr computes. Written to be believed without being run."""

import struct
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise, permutations

import numpy as np


def mixed(x):
    """SplitMix64's finaliser."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def text_hash(identifier):
    """FNV-1a of an id's text."""
    name = 0xCBF29CE484222325
    for letter in str(identifier).encode():
        name = (name ^ letter) * 0x100000001B3 % 2**64
    return name


def standard_order(scores, item_ids=None, query_id=None):
    """Positions by falling score; equal ones by falling lot, a hash of query id, all scores and item id or position."""
    golden = 0x9E3779B97F4A7C15
    words = [struct.unpack("<Q", struct.pack("<d", score + 0.0))[0] for score in scores]
    content = sum(mixed((word + golden) % 2**64) for word in words) % 2**64
    query = 0 if query_id is None else int.from_bytes(blake2b(str(query_id).encode(), digest_size=8).digest(), "little")
    lots = mixed((mixed(mixed(query) ^ content) + golden) % 2**64)
    names = range(len(scores)) if item_ids is None else [text_hash(item) for item in item_ids]
    lot = [mixed((lots + (name + 1) * golden) % 2**64) >> 11 for name in names]
    return sorted(range(len(scores)), key=lambda i: (-scores[i], -lot[i]))


def repeated_item(lists):
    """The first item that stands before in its list, that list, and how many items repeat one."""
    found = [(item, q) for q, items in enumerate(lists) for i, item in enumerate(items) if item in items[:i]]
    return (*found[0], len(found)) if found else None


def softmax(values):
    weights = np.exp(np.asarray(values) - np.max(values))
    return weights / weights.sum()


def choices(scores, placed, position, threshold, decay, temperature, eligibility):
    """Chance of each unplaced item at a position, given the items placed before: {item: probability}."""
    free = [d for d in standard_order(scores, query_id=0) if d not in placed]
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
            for item, chance in choices(scores, placed, position, threshold, decay, temperature, eligibility).items():
                longer[(*placed, item)] = probability * chance
        law = longer
    return law


def placement(scores, k, threshold, decay, temperature, eligibility):
    """Chance of each item at each position, by adding up all rankings, (n_items, k)."""
    chances = np.zeros((len(scores), k))
    for ranking, probability in ranking_law(scores, k, threshold, decay, temperature, eligibility).items():
        for position, item in enumerate(ranking):
            chances[item, position] += probability
    return chances


def exposure(scores, k, threshold, decay, temperature, eligibility):
    """Expected discount of each item, by adding up all rankings."""
    return placement(scores, k, threshold, decay, temperature, eligibility) @ (1 / np.log2(np.arange(2, k + 2)))


def exposure_of_law(law, n_items, weights):
    """Expected weight of the position of each item, by adding up all rankings of a law."""
    shown = np.zeros(n_items)
    for ranking, probability in law.items():
        for item, weight in zip(ranking, weights, strict=False):
            shown[item] += probability * weight
    return shown


def law_of_lists(scores, admitted, k):
    """Chance of every short list that may be drawn, for several queries: {ranking: chances, (n_queries,)}.

    Lists are filled from the top: each free item that is admitted is drawn with a chance proportional to exp(score);
    where none is left, the best of the others comes next.

    Args:
        scores: Of as many items in every query, divided by the temperature, (n_queries, n_items).
        admitted: Which items are drawn, (n_queries, n_items).
        k: Positions.
    """
    law = {}

    def go_on(ranking, chance):
        free = [item for item in range(scores.shape[1]) if item not in ranking]
        if len(ranking) == k:
            law[ranking] = chance
            return
        values, drawn = scores[:, free], admitted[:, free]
        best = values == values.max(axis=1, keepdims=True)
        drawn = np.where(drawn.any(axis=1, keepdims=True), drawn, best)
        values = np.where(drawn, values, -np.inf)
        weights = np.exp(values - values.max(axis=1, keepdims=True))
        for item, weight in zip(free, weights.T, strict=True):
            go_on((*ranking, item), chance * weight / weights.sum(axis=1))

    go_on((), np.ones(len(scores)))
    return law


def placement_in_lists(law, n_items):
    """Chance of each item at each position of short lists, (n_queries, n_items, k), by adding up their law."""
    first, k = next(iter(law.values())), len(next(iter(law)))
    placed = np.zeros((len(first), n_items, k))
    for ranking, chance in law.items():
        for position, item in enumerate(ranking):
            placed[:, item, position] += chance
    return placed


def first_relevant_in_lists(law, relevant):
    """Chance that the first relevant item comes at each position of short lists, (n_queries, k)."""
    first = np.zeros((len(relevant), len(next(iter(law)))))
    for ranking, chance in law.items():
        before = np.zeros(len(relevant), bool)
        for position, item in enumerate(ranking):
            first[:, position] += chance * (relevant[:, item] & ~before)
            before |= relevant[:, item]
    return first


def order_share(law, order, floor, weightings):
    """The least chance of the order by score, beside draws from a law, that keeps the floor for each of its items."""
    share = 0.0
    for weights in weightings:
        shown = exposure_of_law(law, len(order), weights)
        for item, weight in zip(order, weights, strict=False):
            if shown[item] < floor * weight:
                share = max(share, (floor * weight - shown[item]) / (weight - shown[item]))
    return share


def mixed_law(law, order, share):
    """With a chance the order by score, else a draw from a law of rankings."""
    mixed = {ranking: (1 - share) * probability for ranking, probability in law.items()}
    leading = tuple(order[: len(next(iter(law)))])
    mixed[leading] = mixed.get(leading, 0.0) + share
    return mixed


def exposure_by_dense_integral(scores, k):
    """Plackett–Luce exposure from the clocks' integral, on many nodes, leaving each item out by prefix and suffix."""
    weights = np.exp(np.asarray(scores) - np.max(scores))
    slowest = np.sort(weights)[::-1][k - 1 :].sum()
    log_time = np.linspace(np.log(1e-9 / weights.sum()), np.log((60 + k + 7 * np.sqrt(k)) / slowest), 400)
    time, step = np.exp(log_time), log_time[1] - log_time[0]
    stay, come = np.exp(-np.outer(weights, time)), -np.expm1(-np.outer(weights, time))

    def times_factor(polynomial, i):
        product = polynomial * stay[i]
        product[1:] += polynomial[:-1] * come[i]
        return product

    one = np.zeros((k, time.size))
    one[0] = 1.0
    before = [one]
    for i in range(len(weights)):
        before.append(times_factor(before[-1], i))
    arrived = np.add.outer(np.arange(k), np.arange(k))  # of the others: a before item i in the list, b after it
    worth = np.where(arrived < k, 1 / np.log2(2 + arrived), 0.0)
    after, shown = one, np.zeros(len(weights))
    for i in reversed(range(len(weights))):
        expected = (before[i] * (worth @ after)).sum(axis=0)
        shown[i] = (weights[i] * stay[i] * expected * time).sum() * step
        after = times_factor(after, i)
    return shown


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


def score_tally(scores, quantiles):
    """How many scores lie in each bin, upper end included, and the last that lies further out than all bins span."""
    low, high = quantiles[0], quantiles[-1]
    edges = [-np.inf, *quantiles, np.inf]
    counts = [sum(below < score <= above for score in scores) for below, above in pairwise(edges)]
    far = [score for score in scores if score < low - (high - low) or score > high + (high - low)]
    return counts, far[-1] if far else None


def score_map(raw, inputs, outputs):
    """The line through the two knots around a raw score, or through the two nearest beyond the ends, in fractions."""
    right = next((i for i in range(1, len(inputs) - 1) if raw < inputs[i]), len(inputs) - 1)
    x0, x1, y0, y1 = map(Fraction, (*inputs[right - 1 : right + 1], *outputs[right - 1 : right + 1]))
    return float(y0 + (Fraction(raw) - x0) * (y1 - y0) / (x1 - x0))
