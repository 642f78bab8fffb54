"""Does it pay to set judged queries aside for the score map and the family? A rule of the number of queries.

    python -m benchmarks.set_aside [--repeats 25]

Judged queries are drawn from real pools without replacement; the promise is "ndcg@5 >= 90% of deterministic". The
fairness gain of the chosen ranker is measured on the rest of the pool, an abstention counts as 0.
"""

import argparse

import numpy as np

from benchmarks.power import DATA, POOLS
from isrr import GPLRanker, Queries, calibrate, evaluate
from isrr.calibration import path as fixed
from isrr.metrics.disparity import fairness_gain
from isrr_paper.experiments.pools import data_sets

CHOSEN = (("mq2007", "lightgbm"), ("mq2007", "catboost-yetirank"), ("nfcorpus", "lightgbm"))
SIZES = (150, 300, 600, 1_000)
SHARES = (0.0, 0.1, 0.2, 0.3)
DEFAULT_SHARE = fixed.SET_ASIDE_SHARE


def gain(name: str, scorer: str, n: int, share: float, repeats: int) -> tuple[float, float]:
    """Mean fairness gain and its standard error; share 0 stands for the temperature path."""
    pool = POOLS.get(*data_sets([str(DATA / name)]), scorer)
    queries = Queries.concatenate([pool.validation, pool.judged])
    rng = np.random.default_rng(20230)
    fixed.SET_ASIDE_SHARE = share or DEFAULT_SHARE
    found = []
    for _ in range(repeats):
        order = rng.permutation(len(queries))
        judged, rest = queries[order[:n]], queries[order[n:]]
        path = "temperature" if share == 0.0 else "front"
        outcome = calibrate(judged, "ndcg@5 >= 90% of deterministic", path=path)
        disparity = evaluate(rest, [GPLRanker.deterministic(), outcome.ranker])["disparity"]
        found.append(fairness_gain(disparity[:, 1], disparity[:, 0]))
    return float(np.mean(found)), float(np.std(found) / np.sqrt(repeats))


def main(repeats: int) -> None:
    print(f"| pool | n | {' | '.join('temperature' if s == 0 else f'set aside {s:.0%}' for s in SHARES)} |")
    print("|---" * (2 + len(SHARES)) + "|")
    for name, scorer in CHOSEN:
        for n in SIZES:
            cells = [gain(name, scorer, n, share, repeats) for share in SHARES]
            print(
                f"| {name}, {scorer} | {n} | {' | '.join(f'{100 * g:.1f} ± {100 * e:.1f}' for g, e in cells)} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    main(parser.parse_args().repeats)
