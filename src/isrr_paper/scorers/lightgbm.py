"""LightGBM: regression on the grades (RMSE, as in the paper) or lambdarank."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import lightgbm
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException

from isrr.errors import DataError
from isrr_paper.features import Featured
from isrr_paper.scorers import LOSSES
from isrr_paper.scorers.boosted import AfterRound, BoostedScorer


@dataclass(kw_only=True, repr=False)
class LightGBMScorer(BoostedScorer):
    """Boosted trees by LightGBM; parameters as in `BoostedScorer`.

    Trees grow to 2^depth leaves at most; `native={"num_leaves": 31}` sets another limit.
    """

    kind: ClassVar[str] = "lightgbm"
    losses: ClassVar[tuple[str, ...]] = LOSSES["lightgbm"]
    packages: ClassVar[tuple[str, ...]] = ("lightgbm",)
    largest_grade: ClassVar[float] = 30
    suffix: ClassVar[str] = ".txt"

    def library_parameters(self) -> dict[str, Any]:
        """Return the parameters LightGBM is called with."""
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

    def _boosted(self, train: Featured, validation: Featured, after_round: AfterRound) -> tuple[Any, int]:
        if any((part.need_relevance() % 1).any() for part in (train, validation)):
            raise DataError("LightGBM needs whole relevance grades (0, 1, 2, …); CatBoost and a net accept any")
        parameters = self.library_parameters()
        dataset = lightgbm.Dataset(train.features, train.relevance, group=train.n_items, params=parameters)
        held_out = dataset.create_valid(validation.features, validation.relevance, group=validation.n_items)
        seen: list[float] = []

        def watch(env: CallbackEnv) -> None:
            results = env.evaluation_result_list or []
            seen.append(float(results[0][2]))
            if after_round(env.iteration + 1, seen[-1]):
                raise EarlyStopException(int(np.argmax(seen)), results)

        stop = lightgbm.early_stopping(self.patience, first_metric_only=True, verbose=False)
        booster = lightgbm.train(parameters, dataset, self.rounds, valid_sets=[held_out], callbacks=[watch, stop])
        booster.free_dataset()
        return booster, int(booster.best_iteration)

    def _predict(self, matrix: Any) -> Any:
        return self._model.predict(matrix, num_threads=self.threads)

    def _write(self, file: Path) -> None:
        self._model.save_model(file, num_iteration=self._model.best_iteration)

    def _read(self, file: Path) -> Any:
        return lightgbm.Booster(model_file=file)
