"""Scorers of the experiments: what tables call them, and how they are made."""

from dataclasses import dataclass, replace
from typing import Any

GIVEN = "given"


@dataclass(frozen=True)
class Recipe:
    """A scorer to train: its name in tables, and how it is made."""

    title: str
    kind: str
    settings: dict[str, Any]


RECIPES = {
    "lightgbm": Recipe("LightGBM", "lightgbm", {"loss": "regression"}),
    "lightgbm-lambdarank": Recipe("LightGBM lambdarank", "lightgbm", {"loss": "lambdarank"}),
    "catboost": Recipe("CatBoost", "catboost", {"loss": "QueryRMSE"}),
    "catboost-yetirank": Recipe("CatBoost YetiRank", "catboost", {"loss": "YetiRank"}),
    "lambdaloss": Recipe("NN", "net", {"loss": "lambdaloss"}),
    "plrank": Recipe("PL-Rank-3", "net", {"loss": "plrank"}),
    "policy-gradient": Recipe("Policy Gradient", "net", {"loss": "policy-gradient"}),
    "stochasticrank": Recipe("StochasticRank", "net", {"loss": "stochasticrank"}),
}
DETERMINISTIC_SCORERS = ("catboost", "lightgbm", "lambdaloss")
STOCHASTIC_SCORERS = ("plrank", "policy-gradient", "stochasticrank")


def recipe(scorer: str, data: str) -> Recipe:
    """How a scorer is made for a data set: CatBoost is trained with YetiRank on Yahoo, QueryRMSE elsewhere."""
    if scorer == GIVEN:
        return Recipe("given scores", GIVEN, {})
    if scorer not in RECIPES:
        raise ValueError(f"unknown scorer {scorer!r}; expected one of {', '.join(RECIPES)}")
    chosen = RECIPES[scorer]
    return (
        replace(RECIPES["catboost-yetirank"], title="CatBoost") if (scorer, data) == ("catboost", "yahoo") else chosen
    )
