"""Scorer: what turns features into raw scores. It is fitted, scores, is saved and loaded; `load_scorer` finds the kind.

lightgbm, catboost, xgboost   boosted trees
net                           a small net, trained with one of `isrr_paper.scorers.losses`

On Ctrl-C during training the round at hand is finished, what was learnt is kept, and the user is told; a second Ctrl-C
interrupts at once.
"""

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError, MissingExtraError
from isrr.gains import ndcg
from isrr_paper.features import Featured, Normalize, feature_matrix, refuse_constant, refuse_gaps
from isrr_paper.paper_errors import ScorerError
from isrr_paper.scorers.learnt import sample_of, share_in
from isrr_paper.scorers.manifest import keep_model, read_manifest, write_manifest

# Called with (rounds or epochs done, of how many at most, NDCG@5 on the validation set so far).
TrainingProgress = Callable[[int, int, float], None]


class Terms(NamedTuple):
    """Where a training keeps what it learns, whom it tells, and whether somebody wants it to stop."""

    folder: Path | None
    progress: TrainingProgress | None
    interrupted: Callable[[], bool]


_HOME = {
    "catboost": ("isrr_paper.scorers.catboost", "CatBoostScorer", "catboost"),
    "lightgbm": ("isrr_paper.scorers.lightgbm", "LightGBMScorer", "lightgbm"),
    "net": ("isrr_paper.scorers.net", "NetScorer", "torch"),
    "xgboost": ("isrr_paper.scorers.xgboost", "XGBoostScorer", "xgboost"),
}
KINDS = tuple(_HOME)


@dataclass(kw_only=True, repr=False)
class Scorer(ABC):
    """Scores items by their features.

    Dataclass fields that take part in `__init__` are the parameters of a scorer; they are stored and make it again.

    Attributes:
        kind: Name of the kind, one of `KINDS`.
        losses: Names of the losses it can be trained with; the first is the default.
        packages: What it needs installed; their versions are stored with it.
        suffix: How the name of its model file ends.
        takes_gaps: Whether features may be missing (NaN).
        seed: Seed of all chance in training.
        normalize: How features are normalised, "none" or "query".
        loss: What is trained for; empty takes the first of `losses`.
        n_features: Features trained on; None before training.
        feature_names: Their names; empty where they had none.
        validation_ndcg: Mean NDCG@5 over the validation queries; NaN before training.
        history: What happened in training.
        learnt_from: Sample of the queries that trained it or told it when to stop, see `isrr_paper.scorers.learnt`.
    """

    kind: ClassVar[str]
    losses: ClassVar[tuple[str, ...]] = ("",)
    packages: ClassVar[tuple[str, ...]]
    suffix: ClassVar[str]
    takes_gaps: ClassVar[bool] = True

    seed: int = 0
    normalize: Normalize = "none"
    loss: str = ""
    n_features: int | None = field(default=None, init=False)
    feature_names: tuple[str, ...] = field(default=(), init=False)
    validation_ndcg: float = field(default=float("nan"), init=False)
    history: dict[str, Any] = field(default_factory=dict, init=False)
    learnt_from: str = field(default="", init=False)
    _model: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.loss = self.loss or self.losses[0]
        if self.loss not in self.losses:
            raise ValueError(f"{self.kind} has no loss {self.loss!r}; expected one of {', '.join(self.losses)}")

    def fit(
        self,
        train: Featured,
        validation: Featured,
        *,
        folder: str | PathLike[str] | None = None,
        progress: TrainingProgress | None = None,
    ) -> Self:
        """Train, keeping what is best on the validation queries.

        Args:
            train: Judged queries with features.
            validation: Others, with the same features; they decide when to stop and what to keep.
            folder: Where to save the scorer; an interrupted training leaves a usable one there.
            progress: Called as training goes on.

        Raises:
            TrainingInterruptedError: After Ctrl-C, when what was learnt so far is in place.
        """
        learnt = self._prepared(train)
        refuse_constant(learnt)
        watched = self._prepared(validation, learnt.features.shape[1], train.feature_names)  # type: ignore[union-attr]
        self._model, self.n_features, self.validation_ndcg, self.history = None, None, float("nan"), {}
        self.feature_names, self.learnt_from = train.feature_names, sample_of([train, validation])
        with interruptible() as interrupted:
            stopped = self._train(
                learnt, watched, Terms(None if folder is None else Path(folder), progress, interrupted)
            )
        if stopped:
            raise TrainingInterruptedError(f"training stopped {stopped}")
        return self

    def score(self, queries: Featured) -> FloatArray:
        """Raw scores, one per item, in the caller's row order; features that have names may come in any order."""
        return self._scores(self._prepared(queries, self._fitted(), self.feature_names))

    def share_learnt_from(self, queries: Featured) -> float:
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
        if manifest["kind"] != cls.kind:
            raise ScorerError(f"{path}: holds a scorer of kind {manifest['kind']!r}, not {cls.kind!r}")
        try:
            scorer = cls(**manifest["parameters"])
            scorer._model = scorer._read(path / manifest["model"])
            for name in ("n_features", "validation_ndcg", "history", "learnt_from"):
                setattr(scorer, name, manifest[name])
            scorer.feature_names = tuple(manifest["feature_names"])
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ScorerError(f"{path}: cannot be loaded as a {cls.kind} scorer: {reason}") from error
        return scorer

    def _write_manifest(self, folder: Path, model: str, digest: str) -> None:
        checkpoints = [c for c in self.history.get("checkpoints", []) if (folder / c["file"]).is_file()]
        files = {"checkpoints": checkpoints} if checkpoints else {}
        write_manifest(
            folder,
            self.packages,
            kind=self.kind,
            parameters={f.name: getattr(self, f.name) for f in fields(self) if f.init},
            n_features=self._fitted(),
            seed=self.seed,
            normalize=self.normalize,
            validation_ndcg=self.validation_ndcg,
            model=model,
            sha256=digest,
            history={k: v for k, v in self.history.items() if k != "checkpoints"} | files,
            learnt_from=self.learnt_from,
            feature_names=self.feature_names,
        )

    def _prepared(self, queries: Featured, n_features: int | None = None, names: tuple[str, ...] = ()) -> Featured:
        """Return the queries with normalised features, in the scorer's order."""
        if not self.takes_gaps:
            refuse_gaps(queries)
        return replace(queries, features=feature_matrix(queries, self.normalize, n_features, names))

    def _scores(self, prepared: Featured) -> FloatArray:
        scores: FloatArray = prepared.in_caller_order(np.asarray(self._predict(prepared.features), np.float64))
        return scores

    def _fitted(self) -> int:
        if self.n_features is None:
            raise ScorerError(f"this {self.kind} scorer is not trained yet; call fit, or load a trained one")
        return self.n_features

    @abstractmethod
    def _train(self, train: Featured, validation: Featured, terms: Terms) -> str:
        """Train on prepared queries; where that was interrupted, say after what, and what is kept."""

    @abstractmethod
    def _predict(self, matrix: Any) -> Any:
        """Return the model's scores of the features."""

    @abstractmethod
    def _write(self, file: Path) -> None:
        """Write the model."""

    @abstractmethod
    def _read(self, file: Path) -> Any:
        """Read the model that `_write` wrote."""


def scorer_class(kind: str) -> Any:
    """Return the class of a kind of scorer; its library must be installed."""
    if kind not in _HOME:
        raise ScorerError(f"unknown scorer {kind!r}; expected one of {', '.join(KINDS)}")
    module, name, extra = _HOME[kind]
    if find_spec(extra) is None:
        raise MissingExtraError(extra, "paper")
    return getattr(import_module(module), name)


def load_scorer(folder: str | PathLike[str]) -> Scorer:
    """Load a scorer of any kind from a folder written by `Scorer.save` or by training. Nothing is unpickled."""
    kind = read_manifest(Path(folder))["kind"]
    if kind not in _HOME:
        raise ScorerError(f"{folder}: holds a scorer of kind {kind!r}; there are {', '.join(KINDS)}")
    loaded: Scorer = scorer_class(kind).load(folder)
    return loaded


def mean_ndcg(queries: Queries, raw_scores: FloatArray, k: int = 5) -> float:
    """Mean NDCG@k over the queries that have a relevant item; scores in the caller's row order."""
    values = ndcg(queries.with_scores(raw_scores), k=k)
    if np.isnan(values).all():
        raise DataError("no query has a relevant item; expected at least one")
    return float(np.nanmean(values))


class TrainingInterruptedError(KeyboardInterrupt):
    """Training was stopped early; its message says what was kept, and where."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within the body, Ctrl-C only sets a flag; the value given tells whether it is set.

    Signals reach the main thread alone; elsewhere the flag is never set.
    """
    interrupted = threading.Event()

    def note(_signal: int, _frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if threading.current_thread() is not threading.main_thread():
        yield interrupted.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
