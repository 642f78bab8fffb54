"""XGBoost: rank:ndcg, or regression on the grades."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import xgboost

from isrr_paper.features import Featured
from isrr_paper.scorers import LOSSES
from isrr_paper.scorers.boosted import AfterRound, BoostedScorer


@dataclass(kw_only=True, repr=False)
class XGBoostScorer(BoostedScorer):
    """Boosted trees by XGBoost; parameters as in `BoostedScorer`."""

    kind: ClassVar[str] = "xgboost"
    losses: ClassVar[tuple[str, ...]] = LOSSES["xgboost"]
    packages: ClassVar[tuple[str, ...]] = ("xgboost",)
    largest_grade: ClassVar[float] = 31
    suffix: ClassVar[str] = ".json"

    def library_parameters(self) -> dict[str, Any]:
        """Return the parameters XGBoost is called with."""
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

    def _boosted(self, train: Featured, validation: Featured, after_round: AfterRound) -> tuple[Any, int]:
        def after_iteration(_self: Any, _model: Any, epoch: int, evals_log: Any) -> bool:
            return after_round(epoch + 1, float(evals_log["validation"]["ndcg@5"][-1]))

        watch = type("Watch", (xgboost.callback.TrainingCallback,), {"after_iteration": after_iteration})

        def matrix(part: Featured, ref: Any = None) -> Any:
            return xgboost.QuantileDMatrix(
                part.features, part.relevance, group=part.n_items, max_bin=self.max_bin, ref=ref
            )

        dataset = matrix(train)
        stop = xgboost.callback.EarlyStopping(rounds=self.patience, metric_name="ndcg@5", maximize=True)
        booster = xgboost.train(
            self.library_parameters(),
            dataset,
            self.rounds,
            evals=[(matrix(validation, dataset), "validation")],
            callbacks=[stop, watch()],
            verbose_eval=False,
        )
        n_rounds = int(booster.best_iteration) + 1
        return booster[:n_rounds], n_rounds

    def _predict(self, matrix: Any) -> Any:
        return self._model.inplace_predict(matrix)

    def _write(self, file: Path) -> None:
        self._model.save_model(file)

    def _read(self, file: Path) -> Any:
        return xgboost.Booster({"nthread": self.threads} if self.threads else None, model_file=file)
