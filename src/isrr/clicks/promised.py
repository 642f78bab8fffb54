"""Promises that clicks can prove, and what clicks are worth under them."""

from dataclasses import replace

from isrr.data.columns import VALUE
from isrr.errors import PromiseError
from isrr.metrics.metric import metric as named_metric
from isrr.promises import Promise, promises


def checked_promise(promise: str | Promise) -> Promise:
    """Return a promise that clicks can prove: at least a share of what the order by score gets.

    Example:
        >>> promise = checked_promise("value(margin)@5 >= 95% of deterministic with bound 40")
        >>> value_column(promise), largest_worth(promise)
        ('margin', 200.0)
    """
    (promised,) = promises(promise)
    if value_column(promised) is not None:  # of clicked items: every position counts alike
        promised = replace(promised, metric=named_metric(promised.metric.name, discount="uniform"))
    elif promised.metric.name != "clicks":
        needs = "judged queries" if "relevance" in promised.columns else "no clicks, only scores"
        raise PromiseError(f"'{promised}' needs {needs}; clicks promise clicks@k or value(COLUMN)@k")
    if promised.of != "deterministic" or promised.at_least is None or promised.per or promised.range[0] < 0:
        raise PromiseError(
            f"'{promised}': a click log can prove at least a share of the order by score, over all traffic, such as "
            f"'{promised.metric.name}@{promised.k} >= 95% of deterministic'"
        )
    return promised


def value_column(promise: Promise) -> str | None:
    """Return the column of the clicks that is added up; None where clicks are counted."""
    return next((name.removeprefix(VALUE) for name in promise.columns if name.startswith(VALUE)), None)


def click_bound(promise: Promise) -> float:
    """Return the most that one click can be worth."""
    return 1.0 if promise.bound is None else promise.bound[1]


def largest_worth(promise: Promise, n_lists: int = 1) -> float:
    """Return the most that the clicks on so many lists can be worth."""
    return promise.k * n_lists * click_bound(promise)
