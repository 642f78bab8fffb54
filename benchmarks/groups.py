"""A promise to a group and one to users at once, on real pools: "new sellers get at least 20 % of the exposure".

    python -m benchmarks.groups [--repetitions 200] [--pools mq2007 nfcorpus]

A fifth of all items, drawn at random, are new sellers'. Their scores are lowered by half a deviation or a whole one, as
a model does that knows them less; or items below the median of their query's relevance make up the group, so that it
truly is less relevant. Calibrated on 300 queries of the pool, measured on the others; the frontier that an abstention
estimates is compared with the one of all queries.
"""

import argparse
import re
from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.power import DATA, POOLS
from isrr import Abstention, GPLRanker, Queries, calibrate, check, evaluate
from isrr.parallel import use_threads
from isrr.promises import promises
from isrr.ranker.scale import mean_and_deviation
from isrr_paper.experiments.pools import data_sets
from isrr_paper.experiments.repetition import SEED
from isrr_paper.paper_tables import markdown

K, N_JUDGED = 10, 300
PROMISES = promises([f"exposure(new)@{K} >= 20%", f"ndcg@{K} >= 95% of deterministic"])
HARD = promises([f"exposure(new)@{K} >= 40%", f"ndcg@{K} >= 98% of deterministic"])


def with_group(judged: Queries, lowered: float) -> Queries:
    """A fifth of the items are new, and their scores are lowered by so many deviations."""
    new = np.random.default_rng(SEED).random(judged.n_rows) < 0.2
    scores = judged.need_scores()
    groups = np.where(new, "new", "known").astype(object)
    return replace(judged, scores=scores - lowered * scores.std() * new, item_groups=groups)


def less_relevant(judged: Queries) -> Queries:
    """A fifth of the items are new, drawn from those with the least relevance of their query."""
    rng, relevance = np.random.default_rng(SEED), judged.need_relevance()
    query = np.repeat(np.arange(len(judged)), judged.n_items)
    order = np.lexsort((rng.random(judged.n_rows), relevance, query))
    place = np.empty(judged.n_rows, np.int64)
    place[order] = np.arange(judged.n_rows) - np.repeat(judged.offsets[:-1], judged.n_items)
    new = place < np.repeat(0.2 * judged.n_items, judged.n_items)
    return replace(judged, item_groups=np.where(new, "new", "known").astype(object))


def certified(queries: Queries, n_repetitions: int) -> dict[str, str]:
    """How often both promises are certified from 300 queries, and how often one of them is broken on the others."""
    rng, found, broken, shares, kept = np.random.default_rng(SEED), 0, 0, [], []
    for _ in range(n_repetitions):
        order = rng.permutation(len(queries))
        outcome = calibrate(queries[np.sort(order[:N_JUDGED])], PROMISES)
        if outcome.abstained:
            continue
        found += 1
        share, ndcg = (kept.value.value for kept in check(outcome, queries[np.sort(order[N_JUDGED:])]).promises)
        broken += share < PROMISES[0].target or ndcg < PROMISES[1].target
        shares.append(share)
        kept.append(ndcg)
    return {
        "certified": f"{100 * found / n_repetitions:.0f} %",
        "broken on the others": f"{100 * broken / n_repetitions:.1f} %",
        "share of exposure": f"{100 * np.mean(shares):.1f} %" if shares else "",
        "NDCG@10 kept": f"{100 * np.mean(kept):.1f} %" if kept else "",
    }


def frontier(queries: Queries, n_repetitions: int) -> dict[str, str]:
    """How far the estimated frontier is from the true one, in points: with all queries, and with 300 of them."""
    share, utility = HARD
    mean, deviation = mean_and_deviation(queries)
    dials = product(np.geomspace(0.02, 1.0, 6).tolist(), np.linspace(0, 3, 61).tolist())
    grid = [GPLRanker(k=K, mean=mean, deviation=deviation, temperature=t, boost={"new": b}) for t, b in dials]
    found = evaluate(queries, [GPLRanker.deterministic(K), *grid], [share.measure, utility.measure])
    shares, kept = found.mean(share.measure), found.mean(utility.measure)
    kept = kept / kept[0]
    truth = 100 * np.array([kept[shares >= share.target].max(), shares[kept >= utility.target].max()])

    def error(judged: Queries) -> float:
        outcome = calibrate(judged, HARD)
        assert isinstance(outcome, Abstention)
        said = [float(re.findall(r"([\d.]+) %", sentence)[-1]) for sentence in outcome.frontier]
        return float(np.abs(np.array(said) - truth).max()) if said else np.nan

    rng = np.random.default_rng(SEED)
    errors = [error(queries[np.sort(rng.permutation(len(queries))[:N_JUDGED])]) for _ in range(n_repetitions)]
    return {
        "frontier": f"{truth[0]:.1f} % of NDCG at {share.target:.0%}, {truth[1]:.1f} % share at {utility.target:.0%}",
        "off by, all queries": f"{error(queries):.1f}",
        "off by, 300 (mean, worst)": f"{np.nanmean(errors):.1f}, {np.nanmax(errors):.1f}",
        "within 3 points at 300": f"{(np.array(errors) <= 3).sum()} of {n_repetitions}",
    }


def main() -> None:
    """Print a row for each pool and kind of group, then the frontiers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--pools", nargs="*", default=("mq2007", "nfcorpus"))
    arguments = parser.parse_args()
    rows, frontiers = [], []
    for data_set in data_sets([str(DATA / name) for name in arguments.pools]):
        judged = POOLS.get(data_set, "lightgbm").judged
        for lowered in (0.5, 1.0):
            queries = with_group(judged, lowered)
            share = PROMISES[0].measure
            before = evaluate(queries, [GPLRanker.deterministic(K)], [share]).mean(share)[0]
            rows.append(
                {
                    "pool": data_set.name,
                    "scores lowered by": f"{lowered:g} deviations",
                    "share by score": f"{100 * before:.1f} %",
                }
                | certified(queries, arguments.repetitions)
            )
        frontiers.append({"pool": data_set.name} | frontier(less_relevant(judged), arguments.repetitions // 10))
    print(markdown(rows))
    print(markdown(frontiers), end="")


if __name__ == "__main__":
    use_threads(2)
    main()
