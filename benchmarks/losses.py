"""Gradients of the training losses, batched, beside a plain numpy formulation that takes query after query.

python -m benchmarks.losses
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

N_QUERIES, N_DRAWS, K = 256, 100, 5


def rows() -> list[dict[str, Any]]:
    """Milliseconds of one gradient over 256 MSLR-shaped queries, about 120 items each, all on one thread."""
    import torch

    from isrr_paper.scorers.losses import GRADIENTS

    rng = np.random.default_rng(20230)
    lengths = np.clip(rng.lognormal(np.log(105), 0.55, N_QUERIES).astype(int), 5, 900)
    scores = [rng.normal(size=n) for n in lengths]
    gains = [2.0 ** rng.choice(5, size=n, p=[0.52, 0.32, 0.13, 0.02, 0.01]) - 1 for n in lengths]
    batch = _padded(scores, gains)
    generator = torch.Generator().manual_seed(1)

    def ours(loss: str, k: int) -> Callable[[], object]:
        return lambda: GRADIENTS[loss](*batch, k, N_DRAWS, generator)

    def theirs(gradient: Callable[..., object], *rest: object) -> Callable[[], object]:
        return lambda: [gradient(s, g, *rest) for s, g in zip(scores, gains, strict=True)]

    shape = f"{N_QUERIES} queries of {lengths.mean():.0f} items"
    return [
        _row(f"PL-Rank-3 gradient, {shape}, {N_DRAWS} draws", ours("plrank", K), theirs(_plrank, rng)),
        _row(f"LambdaLoss gradient, {shape}, cut at {K}", ours("lambdaloss", K), theirs(_lambdaloss, K)),
    ]


def _row(what: str, ours: Callable[[], object], theirs: Callable[[], object]) -> dict[str, Any]:
    import torch

    from isrr.parallel import use_threads

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with use_threads(1):
        mine, baseline = _milliseconds(ours, 15), _milliseconds(theirs, 3)
    torch.set_num_threads(before)
    return {"what": what, "ours": mine, "baseline": baseline, "ratio": baseline / mine, "unit": "ms"}


def _milliseconds(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return 1000 * min(times)


def _padded(scores: list[Any], gains: list[Any]) -> tuple[Any, Any, Any]:
    import torch

    shape = len(scores), max(map(len, scores))
    arrays = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, bool)
    for row, (score, gain) in enumerate(zip(scores, gains, strict=True)):
        for array, values in zip(arrays, (score, gain, True), strict=True):
            array[row, : len(score)] = values
    return tuple(map(torch.as_tensor, arrays))  # type: ignore[return-value]


def _plrank(scores: Any, gains: Any, rng: np.random.Generator) -> Any:
    """PL-Rank-3 of one query, every draw, place and item in arrays."""
    k = min(K, len(scores))
    noisy = scores + rng.gumbel(size=(N_DRAWS, len(scores)))
    rankings = np.argsort(-noisy, axis=1)[:, :k]
    theta = 1 / np.log2(np.arange(2, k + 2))
    weights = np.exp(scores - scores.max())
    ahead = np.cumsum((theta * gains[rankings])[:, ::-1], axis=1)[:, ::-1]
    left = weights.sum() - np.cumsum(weights[rankings], axis=1) + weights[rankings]
    placing, losing = np.cumsum(theta / left, axis=1), np.cumsum(ahead / left, axis=1)
    rank = np.full((N_DRAWS, len(scores)), k - 1)
    np.put_along_axis(rank, rankings, np.arange(k)[None], axis=1)
    after = np.zeros((N_DRAWS, len(scores)))
    np.put_along_axis(after, rankings, np.c_[ahead[:, 1:], np.zeros(N_DRAWS)], axis=1)
    per_item = gains * np.take_along_axis(placing, rank, 1) - np.take_along_axis(losing, rank, 1)
    return (after + weights * per_item).mean(axis=0)


def _lambdaloss(scores: Any, gains: Any, k: int) -> Any:
    """NDCG-Loss2 of one query, all pairs in arrays."""
    n = len(scores)
    rank = np.argsort(np.argsort(-scores))
    theta = np.where(np.arange(n + 1) < k, 1 / np.log2(np.arange(2, n + 3)), 0.0)
    better, worse = np.where(gains[:, None] > gains[None, :])
    apart = np.abs(rank[better] - rank[worse])
    weight = (theta[apart - 1] - theta[apart]) * (gains[better] - gains[worse])
    force = weight / (1 + np.exp(scores[better] - scores[worse])) / np.log(2)
    pull = np.zeros(n)
    np.add.at(pull, better, force)
    np.add.at(pull, worse, -force)
    return pull


if __name__ == "__main__":
    for row in rows():
        print(f"{row['what']:70} {row['ours']:8.2f} {row['baseline']:8.1f} {row['unit']} {row['ratio']:6.1f}×")
