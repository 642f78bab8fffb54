"""A small net: an MLP with sigmoids, trained with one of `isrr.scores.losses`; a checkpoint an epoch, the best is used.

Paper: appendix B, "Experimental Setup Details" (two hidden layers of 32, batches of 256 queries, 100 epochs).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from safetensors.torch import load_file, save_file

from isrr.data.queries import FloatArray, Queries
from isrr.scores.batches import DeviceQueries
from isrr.scores.features import FeatureMatrix, Normalize, feature_matrix, refuse_constant, refuse_gaps
from isrr.scores.learnt import sample_of
from isrr.scores.losses import GRADIENTS
from isrr.scores.manifest import keep_model
from isrr.scores.scorer import Scorer, TrainingInterruptedError, TrainingProgress, interruptible, mean_ndcg
from isrr.scores.training import epochs, mlp, one_thread, predict


@dataclass(kw_only=True, repr=False)
class NetScorer(Scorer):
    """An MLP trained by gradients of a ranking loss.

    Attributes:
        loss: One of `losses`.
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
    losses: ClassVar[tuple[str, ...]] = tuple(GRADIENTS)
    packages: ClassVar[tuple[str, ...]] = ("torch", "safetensors")
    suffix: ClassVar[str] = ".safetensors"

    loss: str = ""
    hidden: tuple[int, ...] = (32, 32)
    epochs: int = 100
    batch_queries: int = 256
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01
    n_draws: int = 100
    k: int = 5
    device: str = "auto"
    normalize: Normalize = "query"

    _weights: dict[str, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.loss = self.loss or self.losses[0]
        self.hidden = tuple(int(size) for size in self.hidden)
        if self.loss not in self.losses:
            raise ValueError(f"a net has no loss {self.loss!r}; expected one of {', '.join(self.losses)}")
        if self.optimizer not in ("adam", "sgd"):
            raise ValueError(f"optimizer must be 'adam' or 'sgd', got {self.optimizer!r}")

    def fit(
        self,
        train: Queries,
        validation: Queries,
        *,
        folder: str | PathLike[str] | None = None,
        progress: TrainingProgress | None = None,
    ) -> Self:
        """Train; arguments as in `Scorer.fit`. With a folder, each epoch leaves a checkpoint and a manifest there."""
        device = _device(self.device)
        refuse_gaps(train)
        refuse_gaps(validation)
        matrix = feature_matrix(train, self.normalize)
        held_out = feature_matrix(validation, self.normalize, matrix.shape[1], train.feature_names)
        refuse_constant(matrix)
        learnt = DeviceQueries(train, matrix, self.k, device)
        watched = DeviceQueries(validation, held_out, 5, device)
        net = mlp(matrix.shape[1], self.hidden, self.seed).to(device)
        self._weights, self.n_features = None, None
        self.feature_names, self.learnt_from = train.feature_names, sample_of([train, validation])
        self.validation_ndcg, self.history = float("nan"), {}
        keep = self._keeper(matrix.shape[1], Path(folder) if folder is not None else None, progress)
        with interruptible() as interrupted, one_thread():
            done = 0
            for done, value in enumerate(epochs(net, learnt, watched, self, interrupted), 1):
                keep(done, value, net.state_dict())
            stopped = done < self.epochs
        if self._weights is None:
            raise TrainingInterruptedError("training stopped within the first epoch; nothing is kept")
        self.validation_ndcg = mean_ndcg(validation, self.score(validation))
        if stopped:
            kept = f"the checkpoint of epoch {self.history['best_epoch']} is kept"
            where = f" in {folder}" if folder is not None else ""
            raise TrainingInterruptedError(f"training stopped after {done} of {self.epochs} epochs; {kept}{where}")
        return self

    def _keeper(
        self, n_features: int, folder: Path | None, progress: TrainingProgress | None
    ) -> Callable[[int, float, dict[str, Any]], None]:
        """What to do after an epoch: keep the weights if they are the best, save a checkpoint, tell."""
        best, model, checkpoints = -1.0, ("", ""), []

        def keep(epoch: int, value: float, state: dict[str, Any]) -> None:
            nonlocal best, model
            weights = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
            better = value > best
            if better:
                best, self._weights, self.validation_ndcg = value, weights, value
                self.n_features = n_features
                self.history["best_epoch"] = epoch
            if folder is not None:
                written = keep_model(folder, f"epoch-{epoch:03}", self.suffix, lambda file: save_file(weights, file))
                model = written if better else model
                checkpoints.append({"epoch": epoch, "validation_ndcg": value, "file": written[0]})
                self.history["checkpoints"] = checkpoints
                self._write_manifest(folder, *model)
            if progress:
                progress(epoch, self.epochs, best)

        return keep

    def score(self, queries: Queries) -> FloatArray:
        """Raw scores, one per item, in the caller's row order."""
        refuse_gaps(queries)
        return super().score(queries)

    def _predict(self, matrix: FeatureMatrix) -> Any:
        device = _device(self.device)
        net = mlp(matrix.shape[1], self.hidden)
        net.load_state_dict(self._kept())
        with one_thread():
            return predict(net.to(device), torch.tensor(matrix, device=device)).numpy()

    def _write(self, file: Path) -> None:
        save_file(self._kept(), file)

    def _read(self, file: Path) -> None:
        self._weights = load_file(file)

    def _kept(self) -> dict[str, Any]:
        assert self._weights is not None, "weights and n_features are set together"
        return self._weights


def _device(name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but torch finds no CUDA device; use 'auto' or 'cpu'")
    if name not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {name!r}")
    return torch.device(name)
