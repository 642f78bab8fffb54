"""LightGBM: regression on the grades (RMSE, as in the paper) or lambdarank."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import lightgbm
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException

from isrr.errors import DataError
from isrr.scores.boosted import AfterRound, BoostedScorer, Prepared
from isrr.scores.features import FeatureMatrix


@dataclass(kw_only=True, repr=False)
class LightGBMScorer(BoostedScorer):
    """Boosted trees by LightGBM; parameters as in `BoostedScorer`.

    Trees grow to 2^depth leaves at most; `native={"num_leaves": 31}` sets another limit.
    """

    kind: ClassVar[str] = "lightgbm"
    losses: ClassVar[tuple[str, ...]] = ("lambdarank", "regression")
    packages: ClassVar[tuple[str, ...]] = ("lightgbm",)
    largest_grade: ClassVar[float] = 30
    suffix: ClassVar[str] = ".txt"

    _booster: Any = field(default=None, init=False)

    def library_parameters(self) -> dict[str, Any]:
        """The parameters LightGBM is called with."""
        return {
            "objective": self.loss,
            "learning_rate": self.learning_rate,
            "max_bin": self.max_bin,
            "max_depth": self.depth,
            "num_leaves": 2**self.depth,
            "metric": "ndcg",
            "eval_at": [5],
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.threads,
            "verbosity": -1,
        } | self.native

    def _train(self, train: Prepared, validation: Prepared, after_round: AfterRound) -> int:
        if any((part.relevance != np.round(part.relevance)).any() for part in (train, validation)):
            raise DataError("LightGBM needs whole relevance grades (0, 1, 2, …); CatBoost and a net accept any")
        parameters = self.library_parameters()
        dataset = lightgbm.Dataset(train.matrix, train.relevance, group=train.n_items, params=parameters)
        held = dataset.create_valid(validation.matrix, validation.relevance, group=validation.n_items)

        seen: list[float] = []

        def watch(env: CallbackEnv) -> None:
            results = env.evaluation_result_list or []
            seen.append(float(results[0][2]))
            if after_round(env.iteration + 1, seen[-1]):
                raise EarlyStopException(int(np.argmax(seen)), results)

        stop = lightgbm.early_stopping(self.patience, first_metric_only=True, verbose=False)
        self._booster = lightgbm.train(parameters, dataset, self.rounds, valid_sets=[held], callbacks=[watch, stop])
        self._booster.free_dataset()
        return int(self._booster.best_iteration)

    def _predict(self, matrix: FeatureMatrix) -> Any:
        return self._booster.predict(matrix, num_threads=self.threads)

    def _write(self, file: Path) -> None:
        self._booster.save_model(file, num_iteration=self._booster.best_iteration)

    def _read(self, file: Path) -> None:
        self._booster = lightgbm.Booster(model_file=file)
