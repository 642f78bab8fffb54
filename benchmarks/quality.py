"""What becomes of NDCG where nothing is promised about it, and what `isrr start` draws, on MQ2007 (LightGBM).

    python -m benchmarks.quality [--repeats 10]

A margin is made up that knows nothing of relevance. Half of the queries are calibrated on, figures are those of the
other half; `start` is measured on all of them. A list loses half if it is worth less than half of the order by score.
"""

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.power import DATA, POOLS
from isrr import GPLRanker, Queries, calibrate, evaluate, start
from isrr.calibration.quality import quality_values
from isrr.metrics.metric import metric
from isrr_paper.experiments.pools import data_sets
from isrr_paper.experiments.repetition import SEED
from isrr_paper.tables import markdown

K = 10
PROMISES = (f"value(margin)@{K} >= 97% of deterministic with bound 25", f"ndcg@{K} >= 95% of deterministic")


def figures(queries: Queries, ranker: GPLRanker) -> np.ndarray:
    """Disparity removed, NDCG kept, lists that lose half, and lists that differ from the order by score."""
    by_score = GPLRanker.deterministic(ranker.k)
    disparity = evaluate(queries, [by_score, ranker], ["disparity"]).mean("disparity")
    before, after, halved, changed = np.nanmean(quality_values(queries, ranker, metric("ndcg").at(ranker.k)), axis=0)
    return np.array([1 - disparity[1] / disparity[0], after / before, halved, changed])


def main(repeats: int) -> None:
    pool = POOLS.get(*data_sets([str(DATA / "mq2007")]), "lightgbm")
    queries, rng = Queries.concatenate([pool.validation, pool.judged]), np.random.default_rng(SEED)
    queries = replace(queries, values={"margin": np.minimum(rng.lognormal(1.0, 0.8, queries.n_rows), 25.0)})
    rows = {promise: [] for promise in PROMISES}
    for _ in range(repeats):
        order = rng.permutation(len(queries))
        ours, others = (queries[np.sort(half)] for half in np.array_split(order, 2))
        for promise in PROMISES:
            rows[promise].append(figures(others, calibrate(ours, promise).ranker))
    shares = {promise: np.mean(found, axis=0) for promise, found in rows.items()}
    for share in (0.95, 0.9, 0.8):
        promise = f"ndcg@5 >= {share:.0%} of deterministic"
        shares[f"start, {promise}"] = figures(queries, start(queries, promise).ranker)
    names = ("disparity removed", "NDCG kept", "lists that lose half", "lists that change")
    print(
        markdown(
            [
                {"promise": promise} | {name: f"{x:.1%}" for name, x in zip(names, found, strict=True)}
                for promise, found in shares.items()
            ]
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    main(parser.parse_args().repeats)
