"""What all scorers share: preparing features, restoring the caller's row order, saving with a manifest, loading."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError, ScorerError
from isrr.gains import ndcg
from isrr.scores.features import FeatureMatrix, Normalize, feature_matrix
from isrr.scores.learnt import share_in
from isrr.scores.manifest import Manifest, keep_model, read_manifest, versions, write_manifest


@dataclass(kw_only=True, repr=False)
class BaseScorer(ABC):
    """A scorer's dataclass fields that take part in `__init__` are its parameters; they are stored and make it again.

    Attributes:
        seed: Seed of all chance in training.
        normalize: How features are normalised, "none" or "query".
        n_features: Features trained on; None before training.
        feature_names: Their names; empty where they had none.
        validation_ndcg: Mean NDCG@5 over the validation queries; NaN before training.
        history: What happened in training.
        learnt_from: Sample of the queries that trained it or told it when to stop, see `isrr.scores.learnt`.
    """

    kind: ClassVar[str]
    losses: ClassVar[tuple[str, ...]]
    packages: ClassVar[tuple[str, ...]]
    suffix: ClassVar[str]

    seed: int = 0
    normalize: Normalize = "none"
    n_features: int | None = field(default=None, init=False)
    feature_names: tuple[str, ...] = field(default=(), init=False)
    validation_ndcg: float = field(default=float("nan"), init=False)
    history: dict[str, Any] = field(default_factory=dict, init=False)
    learnt_from: str = field(default="", init=False)

    def score(self, queries: Queries) -> FloatArray:
        """Raw scores, one per item, in the caller's row order; features that have names may come in any order."""
        matrix = feature_matrix(queries, self.normalize, self._fitted(), self.feature_names)
        scores: FloatArray = queries.in_caller_order(np.asarray(self._predict(matrix), np.float64))
        return scores

    def share_learnt_from(self, queries: Queries) -> float:
        """Estimate which share of the queries trained the scorer or told it when to stop."""
        return share_in(self.learnt_from, queries)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model in its native format, and a manifest, to a folder."""
        self._fitted()
        name, digest = keep_model(Path(folder), "model", self.suffix, self._write)
        self._write_manifest(Path(folder), name, digest)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read back what `save` wrote."""
        path = Path(folder)
        manifest = read_manifest(path)
        if manifest.kind != cls.kind:
            raise ScorerError(f"{path}: holds a scorer of kind {manifest.kind!r}, not {cls.kind!r}")
        try:
            scorer = cls(**manifest.parameters)
            scorer.n_features = manifest.n_features
            scorer.feature_names = tuple(manifest.feature_names)
            scorer.validation_ndcg = float(manifest.validation_ndcg)
            scorer.history = manifest.history
            scorer.learnt_from = manifest.learnt_from
            scorer._read(path / manifest.model)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ScorerError(f"{path}: cannot be loaded as a {cls.kind} scorer: {reason}") from error
        return scorer

    def _parameters(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def _write_manifest(self, folder: Path, model: str, digest: str) -> None:
        checkpoints = [c for c in self.history.get("checkpoints", []) if (folder / c["file"]).is_file()]
        held = {"checkpoints": checkpoints} if checkpoints else {}
        manifest = Manifest(
            kind=self.kind,
            parameters=self._parameters(),
            n_features=self._fitted(),
            seed=self.seed,
            normalize=self.normalize,
            validation_ndcg=self.validation_ndcg,
            model=model,
            sha256=digest,
            history={k: v for k, v in self.history.items() if k != "checkpoints"} | held,
            versions=versions(*self.packages),
            learnt_from=self.learnt_from,
            feature_names=list(self.feature_names),
        )
        write_manifest(manifest, folder)

    def _fitted(self) -> int:
        if self.n_features is None:
            raise ScorerError(f"this {self.kind} scorer is not trained yet; call fit, or load a trained one")
        return self.n_features

    @abstractmethod
    def _predict(self, matrix: FeatureMatrix) -> Any: ...

    @abstractmethod
    def _write(self, file: Path) -> None: ...

    @abstractmethod
    def _read(self, file: Path) -> None: ...


def mean_ndcg(queries: Queries, raw_scores: FloatArray, k: int = 5) -> float:
    """Mean NDCG@k over the queries that have a relevant item; scores in the caller's row order."""
    values = ndcg(queries.with_scores(raw_scores), k=k)
    if np.isnan(values).all():
        raise DataError("no query has a relevant item; expected at least one")
    return float(np.nanmean(values))
