"""PL-Rank-3 beside the policy gradient at equal epochs: test NDCG@5 of the same net, over seeds and folds.

python -m benchmarks.estimators --data ../shared/data --seeds 10
"""

import argparse
from pathlib import Path

import numpy as np

from isrr.data.queries import Queries
from isrr_paper.features import Featured
from isrr_paper.letor import read_letor
from isrr_paper.scorers.net import NetScorer
from isrr_paper.scorers.scorer import mean_ndcg

Parts = tuple[Queries, Queries, Queries]  # train, validation, test


def folds(data: Path) -> dict[str, list[Parts]]:
    """The five folds of MQ2007, and NFCorpus as it was split by its publishers."""
    parts = [read_letor(data / "mq2007" / f"S{part}.txt") for part in range(1, 6)]
    rotated = [parts[first:] + parts[:first] for first in range(5)]
    nfcorpus = tuple(read_letor(data / "nfcorpus" / f"{part}.txt.gz") for part in ("train", "vali", "test"))
    return {"MQ2007": [(Featured.concatenate(r[:3]), r[3], r[4]) for r in rotated], "NFCorpus": [nfcorpus]}


def row(name: str, parts: list[Parts], n_draws: int, seeds: int, epochs: int) -> str:
    """Both estimators on every fold and seed, as a row of a Markdown table."""
    values = np.array([[_both(*part, n_draws, seed, epochs) for seed in range(seeds)] for part in parts])
    plrank, policy = values.mean(axis=(0, 1))
    lead = (values[..., 0] - values[..., 1]).ravel()
    error = lead.std(ddof=1) / np.sqrt(lead.size)
    return f"| {name} | {n_draws} | {lead.size} | {plrank:.4f} | {policy:.4f} | {lead.mean():+.4f} ± {error:.4f} |"


def _both(train: Queries, validation: Queries, test: Queries, n_draws: int, seed: int, epochs: int) -> list[float]:
    values = []
    for loss in ("plrank", "policy-gradient"):
        scorer = NetScorer(loss=loss, n_draws=n_draws, seed=seed, epochs=epochs).fit(train, validation)
        values.append(mean_ndcg(test, scorer.score(test)))
    return values


def main() -> None:
    """Print a Markdown table, a row a data set and number of draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--draws", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--sets", nargs="+", default=["MQ2007", "NFCorpus"])
    options = parser.parse_args()
    print("| data | draws | trainings | PL-Rank-3 | policy gradient | lead ± standard error |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, parts in folds(options.data).items():
        for n_draws in options.draws if name in options.sets else ():
            print(row(name, parts, n_draws, options.seeds, options.epochs), flush=True)


if __name__ == "__main__":
    main()
