"""What options can be set to: the values their help lists and the shell completes.

They are written out here so that neither help nor completion waits for the library; the tests hold them to it.
"""

import os
from collections.abc import Callable
from typing import Any

import typer

LOSSES = {
    "catboost": ("YetiRank", "QueryRMSE", "StochasticRank"),
    "lightgbm": ("lambdarank", "regression"),
    "net": (
        "lambdaloss", "plrank", "policy-gradient", "placement-policy-gradient", "stochasticrank",
        "stochasticrank-normal",
    ),
    "xgboost": ("rank:ndcg", "reg:squarederror"),
}  # fmt: skip
CHOICES = {
    "path": ("auto", "temperature", "front", "thresholds", "paper"),
    "evidence": (
        "bentkus", "betting", "dkwm", "empirical_bernstein", "hb_plus", "hoeffding", "hoeffding_bentkus", "mixture",
        "normal_approximation", "vb", "wsr",
    ),
    "selection": ("fixed_sequence", "holm", "bonferroni", "pointwise"),
    "gain": ("exponential", "linear", "equal"),
    "discount": ("log2", "reciprocal", "uniform", "trec"),
    "empty_query": ("skip", "zero", "one"),
    "unjudged": ("refuse", "zero", "drop", "worst"),
    "ties": ("trec",),
    "missing_group": ("refuse", "none"),
    "unit": ("impression", "session", "user"),
    "format": ("trec", "table", "json"),
    "model": tuple(LOSSES),
    "normalize": ("none", "query"),
    "result": ("tradeoff", "coverage", "decay", "stochastic", "rcscore", "runtime", "all"),
}  # fmt: skip
PROMISES = (
    "ndcg@5 >= 95% of deterministic",
    "ndcg@5 >= 0.70",
    "exposure(new)@10 >= 20%",
    "precision@10 >= 0.6",
    "recall@20 >= 98% of deterministic",
    "clicks@5 >= 95% of deterministic",
    "value(margin)@10 >= 97% of deterministic with bound 40",
    "normalized_disparity@5 <= 50% of deterministic",
    "normalized_disparity@5 <= 0.2",
    "disparity@5 <= 0.2 with bound 10",
    "group_disparity@5 <= 0.2",
)


def offered(values: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Completion of an option from a list of values."""

    def completed(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return completed


def offered_promises(incomplete: str) -> list[str]:
    """Completion of a promise, within quotes only: bash puts in what it is given, and `>` would be a redirection."""
    line = os.environ.get("COMP_WORDS", "'")
    quoted = line.removesuffix(incomplete).endswith(("'", '"'))
    if not quoted and incomplete:
        return []
    return offered(PROMISES)(incomplete) if quoted else [f"'{promise}'" for promise in PROMISES]


def choice(name: str, help_text: str, panel: str | None = None) -> Any:
    """An option whose values are known: `{values}` in its help lists them, and the shell completes them."""
    text = help_text.replace("{values}", ", ".join(CHOICES[name]))
    return typer.Option(help=text, autocompletion=offered(CHOICES[name]), rich_help_panel=panel)
