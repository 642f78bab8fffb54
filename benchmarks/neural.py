"""Training time of the net, for each loss, on data with the shape of MSLR-WEB30K.

python -m benchmarks.neural --device cuda --epochs 100 --queries 18919
"""

import argparse
from time import perf_counter

import numpy as np

from isrr_paper.features import Featured
from isrr_paper.scorers.net import NetScorer

LOSSES = ("lambdaloss", "plrank", "policy-gradient", "stochasticrank")
N_FEATURES = 136


def mslr_shaped(n_queries: int, seed: int) -> Featured:
    """Queries of about 120 items, 1 to 1,251, with 136 features of which some tell of relevance, grades 0 to 4."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(np.log(104), 0.53, n_queries), 1, 1251).astype(np.int64)
    n_rows = int(lengths.sum())
    features = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    quality = np.tanh(features[:, :12]) @ np.linspace(-1, 1, 12, dtype=np.float32)
    quality += features[:, 12] * features[:, 13] / 2 + rng.normal(size=n_rows)
    cuts = np.quantile(quality, [0.52, 0.84, 0.97, 0.99])
    relevance = np.searchsorted(cuts, quality).astype(np.float64)
    return Featured.from_arrays(features=features, relevance=relevance, group=lengths)


def main() -> None:
    """Train each loss and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--queries", type=int, default=18_919)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    options = parser.parse_args()
    train, validation = mslr_shaped(options.queries, 1), mslr_shaped(max(1, options.queries // 3), 2)
    NetScorer(epochs=1, device=options.device).fit(train[:256], validation[:64])
    print(f"{len(train):,} queries, {train.n_rows:,} items, {N_FEATURES} features, {options.draws} draws\n")
    print(f"| loss | seconds for {options.epochs} epochs | validation NDCG@5 |\n|---|---:|---:|")
    for loss in options.losses:
        scorer = NetScorer(loss=loss, epochs=options.epochs, n_draws=options.draws, device=options.device)
        started = perf_counter()
        scorer.fit(train, validation)
        print(f"| {loss} | {perf_counter() - started:.1f} | {scorer.validation_ndcg:.4f} |", flush=True)


if __name__ == "__main__":
    main()
