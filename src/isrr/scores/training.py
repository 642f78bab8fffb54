"""Training a net: a batch, the gradient of its loss with respect to the scores, a step; an epoch, a look at NDCG."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from isrr.scores.batches import Batch, DeviceQueries, device_ndcg
from isrr.scores.losses import GRADIENTS
from isrr.scores.losses.draws import refuse_divergence
from isrr.scores.replay import Replay

if TYPE_CHECKING:
    from isrr.scores.net import NetScorer

_ROWS_AT_ONCE = 1 << 18


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch run on one core: how many share a sum shows in its last bits, and after many steps in the net."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def mlp(n_features: int, hidden: tuple[int, ...], seed: int = 0) -> nn.Sequential:
    """Linear layers with sigmoids between them and one linear output; Glorot's uniform weights, drawn on the host."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in zip((n_features, *hidden), (*hidden, 1), strict=True):
        linear = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
        nn.init.xavier_uniform_(linear.weight, generator=generator)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Sigmoid()]
    return nn.Sequential(*layers[:-1])


def epochs(
    net: nn.Sequential,
    train: DeviceQueries,
    validation: DeviceQueries,
    scorer: "NetScorer",
    interrupted: Callable[[], bool],
) -> Iterator[float]:
    """Train epoch by epoch; NDCG@5 on the validation queries after each. Ends within a batch when interrupted."""
    noise, optimizer, gradient = torch.Generator(train.device), _optimizer(net, scorer), GRADIENTS[scorer.loss]

    def step(batch: Batch) -> None:
        scores = net(batch.features).squeeze(1)
        fixed = scores.detach()
        pulls = [
            bucket.unpadded(gradient(bucket.padded(fixed), bucket.gains, bucket.mask, scorer.k, scorer.n_draws, noise))
            for bucket in batch.buckets
        ]
        optimizer.zero_grad(set_to_none=True)
        torch.dot(scores, torch.cat(pulls) / -batch.n_queries).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    replay = Replay(train, step, noise) if train.device.type == "cuda" else None
    for epoch in range(scorer.epochs):
        order = np.random.default_rng((scorer.seed, epoch)).permutation(len(train))
        noise.manual_seed(scorer.seed * 1_000_003 + epoch)
        batches = (partial(step, batch) for batch in train.batches(scorer.batch_queries, order))
        for take_step in replay.steps(scorer.batch_queries, order) if replay else batches:
            if interrupted():
                return
            take_step()
        refuse_divergence(torch.cat([weights.detach().flatten() for weights in net.parameters()]))
        yield validation_ndcg(net, validation)


def _optimizer(net: nn.Sequential, scorer: "NetScorer") -> torch.optim.Optimizer:
    on_gpu = next(net.parameters()).is_cuda
    if scorer.optimizer == "sgd":
        return torch.optim.SGD(net.parameters(), lr=scorer.learning_rate, fused=on_gpu)
    return torch.optim.Adam(net.parameters(), lr=scorer.learning_rate, fused=on_gpu, capturable=on_gpu)


def validation_ndcg(net: nn.Sequential, queries: DeviceQueries, k: int = 5) -> float:
    """Mean NDCG@k over queries on a device."""
    total = torch.zeros((), device=queries.device)
    at_once = max(1, int(_ROWS_AT_ONCE / queries.lengths.mean()))
    with torch.no_grad():
        for batch in queries.batches(at_once):
            total = total + device_ndcg(batch, net(batch.features).squeeze(1), k)
    return float(total) / len(queries)


def predict(net: nn.Sequential, matrix: Tensor) -> Tensor:
    """Raw scores of feature rows, in double precision, on the host."""
    firsts = range(0, len(matrix), _ROWS_AT_ONCE)
    with torch.no_grad():
        blocks = [net(matrix[first : first + _ROWS_AT_ONCE]).squeeze(1).double().cpu() for first in firsts]
    return torch.cat(blocks)
