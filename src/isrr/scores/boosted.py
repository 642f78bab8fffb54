"""Boosted trees: what LightGBM, CatBoost and XGBoost have in common.

Each library trains with its own loss and stops early by its own NDCG@5 on the validation queries; NDCG@5 reported and
compared between scorers is ours, which leaves out queries without a relevant item.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.errors import DataError, ScorerError
from isrr.gains import LARGEST_GRADE
from isrr.scores.features import FeatureMatrix, feature_matrix, refuse_constant
from isrr.scores.learnt import sample_of
from isrr.scores.scorer import Scorer, TrainingInterruptedError, TrainingProgress, interruptible, mean_ndcg

# Called after each round with (rounds done, NDCG@5 on the validation set); True asks to stop.
AfterRound = Callable[[int, float], bool]

_SOURCE_LINE = re.compile(r"^(\[[\d:]+\] )?(\S+\.(h|cc|cpp|cu):\d+: )?")  # where in its source a library complains


class Prepared(NamedTuple):
    """Judged queries, ready for a library: features as the scorer sees them, grades, and the sizes of the queries."""

    matrix: FeatureMatrix
    relevance: FloatArray
    n_items: IntArray


@dataclass(kw_only=True, repr=False)
class BoostedScorer(Scorer):
    """Parameters of all boosted trees.

    Attributes:
        loss: What is trained for; empty takes the first of `losses`.
        learning_rate: Step of each round.
        max_bin: Histogram bins a feature.
        depth: Depth of the trees.
        rounds: Trees at most.
        patience: Stop after this many rounds without a better NDCG@5 on the validation set.
        threads: Threads to train on; 0 leaves it to the library.
        native: Further parameters, under the library's names; they override the ones above.
    """

    largest_grade: ClassVar[float] = LARGEST_GRADE

    loss: str = ""
    learning_rate: float = 0.07
    max_bin: int = 128
    depth: int = 6
    rounds: int = 1000
    patience: int = 50
    threads: int = 0
    native: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loss = self.loss or self.losses[0]
        if self.loss not in self.losses:
            raise ValueError(f"{self.kind} has no loss {self.loss!r}; expected one of {', '.join(self.losses)}")

    def fit(
        self,
        train: Queries,
        validation: Queries,
        *,
        folder: str | PathLike[str] | None = None,
        progress: TrainingProgress | None = None,
    ) -> Self:
        """Train with early stopping; arguments as in `Scorer.fit`."""
        matrix = feature_matrix(train, self.normalize)
        held_out = feature_matrix(validation, self.normalize, matrix.shape[1], train.feature_names)
        refuse_constant(matrix)
        self._refuse_grades(train, validation)
        learnt = Prepared(matrix, train.need_relevance(), train.n_items)
        watched = Prepared(held_out, validation.need_relevance(), validation.n_items)
        done = 0
        with interruptible() as interrupted:

            def after_round(number: int, ndcg: float) -> bool:
                nonlocal done
                done = number
                if progress:
                    progress(number, self.rounds, ndcg)
                return interrupted()

            with self._library_errors():
                kept = self._train(learnt, watched, after_round)
            self.n_features, self.feature_names = matrix.shape[1], train.feature_names
            self.learnt_from = sample_of([train, validation])
            self.history = {"rounds": kept, "interrupted": interrupted()}
            self.validation_ndcg = mean_ndcg(validation, self.score(validation))
            if folder is not None:
                self.save(folder)
        if self.history["interrupted"]:
            where = f"; the model so far is saved in {folder}" if folder is not None else ""
            raise TrainingInterruptedError(f"training stopped after {done} of {self.rounds} rounds{where}")
        return self

    def _refuse_grades(self, *parts: Queries) -> None:
        """Refuse grades whose exponential gain the library cannot hold; its own parameters may set another gain."""
        largest = max(part.need_relevance().max() for part in parts)
        if largest > self.largest_grade and not self.native:
            most = f"{self.kind} takes up to {self.largest_grade:g}"
            raise DataError(f"a relevance of {largest:g} is too large: {most}; map it to grades")

    @contextmanager
    def _library_errors(self) -> Iterator[None]:
        """Turn what the library raises into one line of ours."""
        try:
            yield
        except Exception as error:
            if type(error).__module__.strip("_").split(".")[0] != self.kind:
                raise
            said = _SOURCE_LINE.sub("", str(error).strip().split("\n")[0])
            raise ScorerError(f"{self.kind} could not train: {said}") from error

    @abstractmethod
    def _train(self, train: Prepared, validation: Prepared, after_round: AfterRound) -> int:
        """Train and keep the model; how many rounds of it are used."""
