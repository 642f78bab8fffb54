"""Scorer: what turns features into raw scores. It is fitted, scores, is saved and loaded; `load_scorer` finds the kind.

lightgbm, catboost, xgboost   boosted trees
net                           a small net, trained with one of `isrr.scores.losses`
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from isrr.data.queries import FloatArray, Queries
from isrr.errors import MissingExtraError, ScorerError

# Called with (rounds or epochs done, of how many at most, NDCG@5 on the validation set so far).
TrainingProgress = Callable[[int, int, float], None]

_HOME = {
    "catboost": ("isrr.scores.catboost", "CatBoostScorer", "catboost"),
    "lightgbm": ("isrr.scores.lightgbm", "LightGBMScorer", "lightgbm"),
    "net": ("isrr.scores.net", "NetScorer", "torch"),
    "xgboost": ("isrr.scores.xgboost", "XGBoostScorer", "xgboost"),
}
KINDS = tuple(_HOME)


class Scorer(Protocol):
    """Scores items by their features.

    Attributes:
        kind: Name of the kind, one of `KINDS`.
        losses: Names of the losses it can be trained with; the first is the default.
        feature_names: Names of the features it was trained on; empty where they had none.
        validation_ndcg: Mean NDCG@5 over the validation queries, once fitted.
    """

    kind: ClassVar[str]
    losses: ClassVar[tuple[str, ...]]
    feature_names: tuple[str, ...]
    validation_ndcg: float

    def fit(
        self,
        train: Queries,
        validation: Queries,
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
        ...

    def score(self, queries: Queries) -> FloatArray:
        """Raw scores, one per item, in the caller's row order."""
        ...

    def share_learnt_from(self, queries: Queries) -> float:
        """Estimate which share of the queries trained the scorer or told it when to stop."""
        ...

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the model in its native format, and a manifest, to a folder."""
        ...

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read back what `save` wrote."""
        ...


def scorer_class(kind: str) -> Any:
    """The class of a kind of scorer, its library being installed."""
    if kind not in _HOME:
        raise ScorerError(f"unknown scorer {kind!r}; expected one of {', '.join(KINDS)}")
    module, name, extra = _HOME[kind]
    if find_spec(extra) is None:
        raise MissingExtraError(extra, extra)
    return getattr(import_module(module), name)


def load_scorer(folder: str | PathLike[str]) -> Scorer:
    """Load a saved scorer of any kind. Nothing is unpickled.

    Args:
        folder: A folder written by `Scorer.save` or by training.
    """
    from isrr.scores.manifest import read_manifest

    kind = read_manifest(Path(folder)).kind
    if kind not in _HOME:
        raise ScorerError(f"{folder}: holds a scorer of kind {kind!r}; there are {', '.join(KINDS)}")
    loaded: Scorer = scorer_class(kind).load(folder)
    return loaded
