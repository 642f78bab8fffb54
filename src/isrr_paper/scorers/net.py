"""A small net: an MLP with sigmoids, trained with one of the `losses`; a checkpoint an epoch, the best is used.

Paper: appendix B, "Experimental Setup Details" (two hidden layers of 32, batches of 256 queries, 100 epochs).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from isrr_paper.features import Featured, Normalize
from isrr_paper.scorers import LOSSES
from isrr_paper.scorers.batches import Batch, DeviceQueries
from isrr_paper.scorers.losses import GRADIENTS
from isrr_paper.scorers.losses.draws import discounts, refuse_divergence
from isrr_paper.scorers.manifest import keep_model
from isrr_paper.scorers.replay import Replay
from isrr_paper.scorers.scorer import Scorer, Terms, mean_ndcg

_ROWS_AT_ONCE = 1 << 18


@dataclass(kw_only=True, repr=False)
class NetScorer(Scorer):
    """An MLP trained by gradients of a ranking loss.

    Attributes:
        hidden: Sizes of the hidden layers.
        epochs: Passes over the training queries.
        batch_queries: Queries a step.
        optimizer: "adam" or "sgd".
        learning_rate: Step size of the optimizer.
        n_draws: Rankings drawn per query and step, by the losses that draw.
        k: How many places count in training; validation looks at 5.
        device: "auto" (a GPU where there is one), "cpu" or "cuda".
        normalize: How features are normalised, "query" or "none".
    """

    kind: ClassVar[str] = "net"
    losses: ClassVar[tuple[str, ...]] = LOSSES["net"]
    packages: ClassVar[tuple[str, ...]] = ("torch", "safetensors")
    suffix: ClassVar[str] = ".safetensors"
    takes_gaps: ClassVar[bool] = False

    hidden: tuple[int, ...] = (32, 32)
    epochs: int = 100
    batch_queries: int = 256
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01
    n_draws: int = 100
    k: int = 5
    device: str = "auto"
    normalize: Normalize = "query"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hidden = tuple(int(size) for size in self.hidden)
        if self.optimizer not in ("adam", "sgd"):
            raise ValueError(f"optimizer must be 'adam' or 'sgd', got {self.optimizer!r}")

    def _train(self, train: Featured, validation: Featured, terms: Terms) -> str:
        """With a folder, each epoch leaves a checkpoint and a manifest there."""
        (folder, progress, interrupted), device = terms, _device(self.device)
        learnt, watched = DeviceQueries(train, self.k, device), DeviceQueries(validation, 5, device)
        n_features = learnt.features.shape[1]
        net = mlp(n_features, self.hidden, self.seed).to(device)
        best, done, model = -1.0, 0, ("", "")
        with one_thread():
            for done, value in enumerate(self._epochs(net, learnt, watched, interrupted), 1):
                weights = {name: tensor.detach().cpu().clone() for name, tensor in net.state_dict().items()}
                if better := value > best:
                    best = self.validation_ndcg = value
                    self._model, self.n_features, self.history["best_epoch"] = weights, n_features, done
                if folder is not None:
                    written = keep_model(folder, f"epoch-{done:03}", self.suffix, partial(save_file, weights))
                    model = written if better else model
                    checkpoint = {"epoch": done, "validation_ndcg": value, "file": written[0]}
                    self.history.setdefault("checkpoints", []).append(checkpoint)
                    self._write_manifest(folder, *model)
                if progress:
                    progress(done, self.epochs, best)
        if self._model is None:
            return "within the first epoch; nothing is kept"
        self.validation_ndcg = mean_ndcg(validation, self._scores(validation))
        best_epoch = f"the checkpoint of epoch {self.history['best_epoch']} is kept"
        where = f" in {folder}" if folder is not None else ""
        return f"after {done} of {self.epochs} epochs; {best_epoch}{where}" if done < self.epochs else ""

    def _epochs(
        self, net: nn.Sequential, train: DeviceQueries, validation: DeviceQueries, interrupted: Callable[[], bool]
    ) -> Iterator[float]:
        """Train epoch by epoch; NDCG@5 on the validation queries after each. Ends within a batch when interrupted."""
        noise, optimizer, gradient = torch.Generator(train.device), self._optimizer(net), GRADIENTS[self.loss]

        def step(batch: Batch) -> None:
            scores = net(batch.features).squeeze(1)
            fixed = scores.detach()
            pulls = [
                bucket.unpadded(gradient(bucket.padded(fixed), bucket.gains, bucket.mask, self.k, self.n_draws, noise))
                for bucket in batch.buckets
            ]
            optimizer.zero_grad(set_to_none=True)
            torch.dot(scores, torch.cat(pulls) / -batch.n_queries).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        replay = Replay(train, step, noise) if train.device.type == "cuda" else None
        for epoch in range(self.epochs):
            order = np.random.default_rng((self.seed, epoch)).permutation(len(train))
            noise.manual_seed(self.seed * 1_000_003 + epoch)
            batches = (partial(step, batch) for batch in train.batches(self.batch_queries, order))
            for take_step in replay.steps(self.batch_queries, order) if replay else batches:
                if interrupted():
                    return
                take_step()
            refuse_divergence(torch.cat([weights.detach().flatten() for weights in net.parameters()]))
            yield validation_ndcg(net, validation)

    def _optimizer(self, net: nn.Sequential) -> torch.optim.Optimizer:
        on_gpu = next(net.parameters()).is_cuda
        if self.optimizer == "sgd":
            return torch.optim.SGD(net.parameters(), lr=self.learning_rate, fused=on_gpu)
        return torch.optim.Adam(net.parameters(), lr=self.learning_rate, fused=on_gpu, capturable=on_gpu)

    def _predict(self, matrix: Any) -> Any:
        device = _device(self.device)
        net = mlp(matrix.shape[1], self.hidden)
        net.load_state_dict(self._model)
        net.to(device)
        with one_thread(), torch.no_grad():
            rows = torch.split(torch.tensor(matrix, device=device), _ROWS_AT_ONCE)
            return torch.cat([net(block).squeeze(1).double().cpu() for block in rows]).numpy()

    def _write(self, file: Path) -> None:
        save_file(self._model, file)

    def _read(self, file: Path) -> Any:
        return load_file(file)


def _device(name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds no CUDA device; use 'auto' or 'cpu'")
    if name not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {name!r}")
    return torch.device(name)


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


def validation_ndcg(net: nn.Sequential, queries: DeviceQueries) -> float:
    """Mean NDCG@5 over queries on a device; ties go by input order."""
    total = torch.zeros((), device=queries.device)
    at_once = max(1, int(_ROWS_AT_ONCE / queries.lengths.mean()))
    with torch.no_grad():
        for batch in queries.batches(at_once):
            scores, of_batch = net(batch.features).squeeze(1), torch.zeros((), device=queries.device)
            for bucket in batch.buckets:
                keys = bucket.padded(scores).masked_fill(~bucket.mask, -torch.inf)
                order = keys.sort(dim=1, descending=True, stable=True).indices[:, :5]
                of_batch += (bucket.gains.gather(1, order) * discounts(order.shape[1], scores)).sum()
            total += of_batch
    return float(total) / len(queries)
