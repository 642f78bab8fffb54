"""XGBoost: rank:ndcg, or regression on the grades."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import xgboost

from isrr.scores.boosted import AfterRound, BoostedScorer, Prepared
from isrr.scores.features import FeatureMatrix


@dataclass(kw_only=True, repr=False)
class XGBoostScorer(BoostedScorer):
    """Boosted trees by XGBoost; parameters as in `BoostedScorer`."""

    kind: ClassVar[str] = "xgboost"
    losses: ClassVar[tuple[str, ...]] = ("rank:ndcg", "reg:squarederror")
    packages: ClassVar[tuple[str, ...]] = ("xgboost",)
    largest_grade: ClassVar[float] = 31
    suffix: ClassVar[str] = ".json"

    _booster: Any = field(default=None, init=False)

    def library_parameters(self) -> dict[str, Any]:
        """The parameters XGBoost is called with."""
        parameters = {
            "objective": self.loss,
            "learning_rate": self.learning_rate,
            "max_bin": self.max_bin,
            "max_depth": self.depth,
            "tree_method": "hist",
            "eval_metric": "ndcg@5",
            "seed": self.seed,
            "verbosity": 0,
        }
        return parameters | ({"nthread": self.threads} if self.threads else {}) | self.native

    def _train(self, train: Prepared, validation: Prepared, after_round: AfterRound) -> int:
        def after_iteration(_self: Any, _model: Any, epoch: int, evals_log: Any) -> bool:
            return after_round(epoch + 1, float(evals_log["validation"]["ndcg@5"][-1]))

        watch = type("Watch", (xgboost.callback.TrainingCallback,), {"after_iteration": after_iteration})
        dataset = xgboost.QuantileDMatrix(train.matrix, train.relevance, group=train.n_items, max_bin=self.max_bin)
        held = xgboost.QuantileDMatrix(
            validation.matrix, validation.relevance, group=validation.n_items, max_bin=self.max_bin, ref=dataset
        )
        stop = xgboost.callback.EarlyStopping(rounds=self.patience, metric_name="ndcg@5", maximize=True)
        booster = xgboost.train(
            self.library_parameters(),
            dataset,
            self.rounds,
            evals=[(held, "validation")],
            callbacks=[stop, watch()],
            verbose_eval=False,
        )
        kept = int(booster.best_iteration) + 1
        self._booster = booster[:kept]
        return kept

    def _predict(self, matrix: FeatureMatrix) -> Any:
        return self._booster.inplace_predict(matrix)

    def _write(self, file: Path) -> None:
        self._booster.save_model(file)

    def _read(self, file: Path) -> None:
        self._booster = xgboost.Booster({"nthread": self.threads} if self.threads else None, model_file=file)
