"""Boosted trees: what LightGBM, CatBoost and XGBoost have in common.

Each library trains with its own loss and stops early by its own NDCG@5 on the validation queries; NDCG@5 reported and
compared between scorers is ours, which leaves out queries without a relevant item.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from isrr.errors import DataError
from isrr.gains import LARGEST_GRADE
from isrr_paper.features import Featured
from isrr_paper.paper_errors import ScorerError
from isrr_paper.scorers.scorer import Scorer, Terms, mean_ndcg

# Called after each round with (rounds done, NDCG@5 on the validation set); True asks to stop.
AfterRound = Callable[[int, float], bool]

_SOURCE_LINE = re.compile(r"^(\[[\d:]+\] )?(\S+\.(h|cc|cpp|cu):\d+: )?")  # where in its source a library complains


@dataclass(kw_only=True, repr=False)
class BoostedScorer(Scorer):
    """Parameters of all boosted trees.

    Attributes:
        learning_rate: Step of each round.
        max_bin: Histogram bins a feature.
        depth: Depth of the trees.
        rounds: Trees at most.
        patience: Stop after this many rounds without a better NDCG@5 on the validation set.
        threads: Threads to train on; 0 leaves it to the library.
        native: Further parameters, under the library's names; they override the ones above.
    """

    largest_grade: ClassVar[float] = LARGEST_GRADE

    learning_rate: float = 0.07
    max_bin: int = 128
    depth: int = 6
    rounds: int = 1000
    patience: int = 50
    threads: int = 0
    native: dict[str, Any] = field(default_factory=dict)

    def _train(self, train: Featured, validation: Featured, terms: Terms) -> str:
        self._refuse_grades(train, validation)
        done = 0

        def after_round(number: int, ndcg: float) -> bool:
            nonlocal done
            done = number
            if terms.progress:
                terms.progress(number, self.rounds, ndcg)
            return terms.interrupted()

        with self._library_errors():
            self._model, rounds_used = self._boosted(train, validation, after_round)
        self.n_features = train.features.shape[1]  # type: ignore[union-attr]
        self.history = {"rounds": rounds_used, "interrupted": terms.interrupted()}
        self.validation_ndcg = mean_ndcg(validation, self._scores(validation))
        if terms.folder is not None:
            self.save(terms.folder)
        where = f"; the model so far is saved in {terms.folder}" if terms.folder is not None else ""
        return f"after {done} of {self.rounds} rounds{where}" if self.history["interrupted"] else ""

    def _refuse_grades(self, *parts: Featured) -> None:
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
    def _boosted(self, train: Featured, validation: Featured, after_round: AfterRound) -> tuple[Any, int]:
        """Return the trained model and how many of its rounds are used."""
