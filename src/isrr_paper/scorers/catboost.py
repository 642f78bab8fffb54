"""CatBoost: QueryRMSE, YetiRank and StochasticRank."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import catboost
import numpy as np

from isrr_paper.features import Featured
from isrr_paper.scorers import LOSSES
from isrr_paper.scorers.boosted import AfterRound, BoostedScorer

_METRIC = "NDCG:top=5;type=Exp"
_OBJECTIVE = {"StochasticRank": "StochasticRank:metric=NDCG;top=5;type=Exp"}


@dataclass(kw_only=True, repr=False)
class CatBoostScorer(BoostedScorer):
    """Boosted trees by CatBoost; parameters as in `BoostedScorer`."""

    kind: ClassVar[str] = "catboost"
    losses: ClassVar[tuple[str, ...]] = LOSSES["catboost"]
    packages: ClassVar[tuple[str, ...]] = ("catboost",)
    suffix: ClassVar[str] = ".cbm"

    def library_parameters(self) -> dict[str, Any]:
        """Return the parameters CatBoost is called with."""
        return {
            "loss_function": _OBJECTIVE.get(self.loss, self.loss),
            "eval_metric": _METRIC,
            "learning_rate": self.learning_rate,
            "border_count": self.max_bin,
            "depth": self.depth,
            "iterations": self.rounds,
            "early_stopping_rounds": self.patience,
            "random_seed": self.seed,
            "thread_count": self.threads or -1,
            "allow_writing_files": False,
            "logging_level": "Silent",
        } | self.native

    def _boosted(self, train: Featured, validation: Featured, after_round: AfterRound) -> tuple[Any, int]:
        class Watch:
            def after_iteration(self, info: Any) -> bool:
                scores = info.metrics["validation"]
                ndcg = next(values for name, values in scores.items() if name.startswith("NDCG"))
                return not after_round(info.iteration, float(ndcg[-1]))

        model = catboost.CatBoost(self.library_parameters())
        model.fit(_pool(train), eval_set=_pool(validation), use_best_model=True, callbacks=[Watch()])
        return model, int(model.tree_count_)

    def _predict(self, matrix: Any) -> Any:
        return self._model.predict(matrix, thread_count=self.threads or -1)

    def _write(self, file: Path) -> None:
        self._model.save_model(str(file), format="cbm")

    def _read(self, file: Path) -> Any:
        return catboost.CatBoost().load_model(str(file), format="cbm")


def _pool(queries: Featured) -> Any:
    groups = np.repeat(np.arange(len(queries)), queries.n_items)
    return catboost.Pool(queries.features, queries.relevance, group_id=groups)
