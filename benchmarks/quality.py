"""What becomes of NDCG where nothing is promised about it, and what `isrr start` draws, on MQ2007 (LightGBM).

    python -m benchmarks.quality [--repeats 10]
    python -m benchmarks.quality --lists

A margin is made up that knows nothing of relevance. Half of the queries are calibrated on, figures are those of the
other half; `start` is measured on all of them. A list loses half if it is worth less than half of the order by score.

With `--lists`: the disparity that promises about single lists allow to remove, beside one about the mean. Queries are
split 40 times into 300 or 1,000 to calibrate on and the others, on which the gain is measured; an abstention counts as
0. A promise is broken where all queries together break it. The path is that of temperatures, the confidence 95 %.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from benchmarks.power import DATA, POOLS
from isrr import GPLRanker, Promise, Queries, calibrate, evaluate, metric, start
from isrr.calibration.certify import Tested, certify, choose
from isrr.calibration.path import temperature_path
from isrr.calibration.quality import quality_values
from isrr.metrics.disparity import fairness_gain
from isrr.ranker.scale import scale_of
from isrr.risk.evidence import NAMED
from isrr.risk.select import NAMED as SELECTIONS
from isrr_paper.experiments.pools import data_sets
from isrr_paper.experiments.repetition import SEED
from isrr_paper.paper_tables import markdown

K = 10
EXPECTED = {
    "ndcg@5 >= 80% of deterministic in 90% of lists": ("11.8%", "13.0%"),
    "ndcg@5 >= 80% of deterministic in 80% of lists": ("27.8%", "31.1%"),
    "ndcg@5 >= 80% of deterministic in 70% of lists": ("48.2%", "50.0%"),
    "ndcg@5 >= 95% of deterministic": ("", ""),
}  # disparity removed after calibrating on 300 and on 1,000 queries, with LightGBM trained otherwise
PROMISES = (f"value(margin)@{K} >= 97% of deterministic with bound 25", f"ndcg@{K} >= 95% of deterministic")


def figures(queries: Queries, ranker: GPLRanker) -> np.ndarray:
    """Disparity removed, NDCG kept, lists that lose half, and lists that differ from the order by score."""
    by_score = GPLRanker.deterministic(ranker.k)
    disparity = evaluate(queries, [by_score, ranker], ["disparity"]).mean("disparity")
    before, after, halved, changed = np.nanmean(quality_values(queries, ranker, metric("ndcg").at(ranker.k)), axis=0)
    return np.array([1 - disparity[1] / disparity[0], after / before, halved, changed])


def mq2007() -> Queries:
    """The queries of MQ2007, each scored by a LightGBM regression that never saw it."""
    pool = POOLS.get(*data_sets([str(DATA / "mq2007")]), "lightgbm")
    return Queries.concatenate([pool.validation, pool.judged])


def lists(n_splits: int = 40, confidence: float = 0.95) -> None:
    """Print the disparity that promises about lists allow to remove, and how often they are broken on all queries."""
    queries, rng, sizes = mq2007(), np.random.default_rng(SEED), (300, 1_000)
    queries = queries[metric("ndcg").at(5).counts(queries)]
    promises = [Promise.parse(text) for text in EXPECTED]
    grid = temperature_path(5, scale_of(queries), promises, "").rankers  # the order by score first
    began = time.perf_counter()
    values = evaluate(queries, grid, [*dict.fromkeys(promise.measure for promise in promises), "disparity"])
    print(f"{len(queries):,} queries, {len(grid)} rankers: {time.perf_counter() - began:.1f} seconds")
    disparity, rows = values["disparity"], []
    for promise, expected in EXPECTED.items():
        promised, row = Promise.parse(promise), {"promise": promise}
        measured = values[promised.measure][:, [0, *range(len(grid))]]
        whole = Tested.of(promised, None, NAMED["betting"], measured, measured[:, 0], grid).measured()
        for n, figure in zip(sizes, expected, strict=True):
            gains, broken = np.zeros(n_splits), 0
            for split in range(n_splits):
                ours, others = np.split(rng.permutation(len(queries)), [n])
                tested = Tested.of(promised, None, NAMED["betting"], measured[ours], measured[ours, 0], grid)
                certified = certify([tested], SELECTIONS["fixed_sequence"], 1 - confidence)
                chosen = choose(certified, grid, [promised], disparity[ours].mean(axis=0)) or 0
                gains[split] = fairness_gain(disparity[others, chosen], disparity[others, 0])
                broken += int(whole[chosen] < promised.target)
            row |= {
                f"n = {n:,}": f"{gains.mean():.1%}",
                f"expected, n = {n:,}": figure,
                f"broken, n = {n:,}": str(broken),
            }
        rows.append(row)
    print(markdown(rows))


def main(repeats: int) -> None:
    queries, rng = mq2007(), np.random.default_rng(SEED)
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
    parser.add_argument("--lists", action="store_true")
    arguments = parser.parse_args()
    lists() if arguments.lists else main(arguments.repeats)
