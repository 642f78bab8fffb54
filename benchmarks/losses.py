"""Gradients of the training losses, batched, beside a plain numpy formulation that takes query after query."""

from collections.abc import Callable
from time import perf_counter

import numpy as np

N_QUERIES, N_DRAWS, K = 256, 100, 5


def rows() -> list[dict[str, object]]:
    """One gradient over 256 MSLR-shaped queries (120 items on average): seconds of ours, of the baseline, ratio."""
    import torch

    from isrr.scores.losses import gradient_of

    rng = np.random.default_rng(20230)
    lengths = np.clip(rng.lognormal(np.log(100), 0.6, N_QUERIES).astype(int), 5, 900)
    lists = [rng.normal(size=n) for n in lengths]
    gains = [2.0 ** rng.choice(5, size=n, p=[0.52, 0.32, 0.13, 0.02, 0.01]) - 1 for n in lengths]
    buckets = [_padded(lists, gains, rows) for rows in _by_length(lengths)]
    generator = torch.Generator().manual_seed(1)

    def ours(loss: str, k: int) -> Callable[[], object]:
        return lambda: [gradient_of(loss)(*bucket, k, N_DRAWS, generator) for bucket in buckets]

    def baseline(gradient: Callable[..., object], *rest: object) -> Callable[[], object]:
        return lambda: [gradient(s, g, *rest) for s, g in zip(lists, gains, strict=True)]

    whole = int(lengths.max())
    return [
        _row("PL-Rank-3 gradient, 256 queries, 100 draws", ours("plrank", K), baseline(_plrank, K, rng)),
        _row("LambdaLoss gradient, 256 queries, cut at 5", ours("lambdaloss", K), baseline(_lambdaloss, K)),
        _row("LambdaLoss gradient, 256 queries, all pairs", ours("lambdaloss", whole), baseline(_lambdaloss, whole)),
    ]
