"""From features to raw scores, by a scorer trained here."""

LOSSES = {  # what each kind of scorer can be trained for; the first by default
    "catboost": ("YetiRank", "QueryRMSE", "StochasticRank"),
    "lightgbm": ("lambdarank", "regression"),
    "net": (
        "lambdaloss", "plrank", "policy-gradient", "placement-policy-gradient", "stochasticrank",
        "stochasticrank-normal",
    ),
    "xgboost": ("rank:ndcg", "reg:squarederror"),
}  # fmt: skip
