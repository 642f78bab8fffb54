"""`certify`: which settings of any knob keep a promise, given the values of a metric under each of them.

Whatever is tuned (the weight of a fusion, a rerank depth, the strength of a diversification, a cascade's cut-off), its
settings are tested along a path fixed beforehand, safest first, each at the whole delta: a false certificate needs a
false rejection of the first setting that breaks the promise.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from isrr.calibration.certify import Tested
from isrr.calibration.certify import certify as certified_along
from isrr.counting import counted
from isrr.data.numbers import finite
from isrr.errors import DataError, PromiseError
from isrr.files import write_atomically
from isrr.promises import Promise, check_probability, promises
from isrr.risk.evidence import NAMED
from isrr.risk.select import NAMED as SELECTIONS

SEED = 20230  # of the order in which queries are tested: it knows nothing of the values


@dataclass(frozen=True)
class Setting:
    """One setting of the knob.

    Attributes:
        name: What it is called.
        measured: The promised quantity: the metric's mean, or its share of what it is compared with.
        risk, bound: Mean loss, and its upper confidence bound; the promise holds where the bound is at most alpha.
        pvalue: The smallest level at which this setting alone would be certified.
        certified: Whether it is certified, with all settings before it.
        queries_needed: Where it is not, about how many queries would prove it alone 8 times out of 10; None if no
            number would.
    """

    name: str
    measured: float
    risk: float
    bound: float
    pvalue: float
    certified: bool
    queries_needed: int | None


@dataclass(frozen=True)
class Settings:
    """What `certify` returns: all settings in the order of the test.

    Attributes:
        promise: The promise.
        confidence: Probability with which all certified settings keep it.
        n_queries: Queries tested on.
        alpha: The risk up to which the promise holds.
        settings: The settings.
    """

    promise: Promise
    confidence: float
    n_queries: int
    alpha: float
    settings: tuple[Setting, ...]

    @property
    def certified(self) -> tuple[str, ...]:
        """The names of the certified settings, in the order of the test."""
        return tuple(setting.name for setting in self.settings if setting.certified)

    @property
    def furthest(self) -> str | None:
        """The last certified setting: the one that gives up most; None where none is certified."""
        return self.certified[-1] if self.certified else None

    def __str__(self) -> str:
        width = max(len(setting.name) for setting in self.settings)
        lines = [f"{self.promise}, confidence {self.confidence:g}, {counted(self.n_queries, 'query')}"]
        for setting in self.settings:
            needed = setting.queries_needed
            more = "no number of queries would do" if needed is None else f"about {needed:,} queries would do"
            said = "certified" if setting.certified else f"not certified; {more}"
            shown = self.promise.shown(setting.measured)
            lines.append(f"{setting.name:<{width}}  {shown}, p = {setting.pvalue:.3g}: {said}")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a JSON file."""
        document = {**asdict(self), "promise": self.promise.document(), "settings": [*map(asdict, self.settings)]}
        write_atomically(Path(path), (json.dumps(document, indent=1) + "\n").encode())


def certify(
    values: ArrayLike,
    promise: str | Promise,
    confidence: float = 0.95,
    *,
    reference: ArrayLike | None = None,
    names: Sequence[object] | None = None,
    n_analyses: int = 1,
) -> Settings:
    """Certify the settings of any knob.

    Args:
        values: The metric under each setting on each query, (n_queries, n_settings); settings in an order fixed without
            these queries, safest first. Queries are a random sample of those to come.
        promise: The promise; its metric says between which values the values lie.
        confidence: Probability with which all certified settings keep it.
        reference: For promises "of production" or "of deterministic": the metric of that order on each query.
        names: Names of the settings; by default their numbers.
        n_analyses: Number of planned analyses of these queries.

    Example:
        >>> rng = np.random.default_rng(7)
        >>> production = rng.uniform(0.4, 0.6, 500)
        >>> values = production[:, None] - [0.0, 0.005, 0.1] + rng.normal(scale=0.02, size=(500, 3))
        >>> certify(values, "ndcg@10 >= 95% of production", reference=production, names=[0, 1, 2]).certified
        ('0', '1')
    """
    check_probability("confidence", confidence)
    if n_analyses < 1:
        raise PromiseError(f"n_analyses must be ≥ 1, got {n_analyses}; it is the number of planned analyses")
    (promised,) = promises(promise)
    if promised.per is not None:
        raise PromiseError(f"'{promised}': call certify with the queries of each segment instead")
    if promised.lists is not None:
        raise PromiseError(f"'{promised}' is about single lists, and values are means over them; promise a mean")
    matrix = np.asarray(values, np.float64)
    if matrix.ndim != 2 or len(matrix) < 2 or matrix.shape[1] == 0:
        raise DataError(f"values must have shape (n_queries, n_settings), two queries at least; got {matrix.shape}")
    if (promised.of is None) != (reference is None):
        raise DataError(
            f"'{promised}' {'compares with nothing; omit' if promised.of is None else 'needs'} `reference=`"
        )
    n_queries, n_settings = matrix.shape
    finite(matrix.ravel(), "values", matrix.size)
    compared = np.zeros(n_queries) if reference is None else np.asarray(reference, np.float64)
    finite(compared, "reference", n_queries)
    low, high = promised.range
    for name, column in (("values", matrix), ("reference", compared)):
        if column.min() < low or column.max() > high:
            raise DataError(f"{name} must lie between {low:g} and {high:g}, as {promised.measure} does")
    named = [str(name) for name in (range(n_settings) if names is None else names)]
    if len(named) != n_settings:
        raise DataError(f"there are {n_settings} settings and {len(named)} names; expected one each")
    order, none = np.random.default_rng(SEED).permutation(n_queries), np.zeros(n_settings)
    tested = Tested(promised, None, none > 0, matrix[order], compared[order], none, test=NAMED["betting"])
    delta = (1 - confidence) / n_analyses
    passed = certified_along([tested], SELECTIONS["fixed_sequence"], delta)
    every = range(n_settings)
    settings = [
        Setting(*row)
        for row in zip(
            named,
            tested.measured().tolist(),
            promised.loss().of(tested.values, tested.reference).mean(axis=0).tolist(),
            tested.upper_bound(every, delta).tolist(),
            tested.pvalue(every, delta).tolist(),
            passed.tolist(),
            [None if passed[c] else tested.queries_needed(c, delta) for c in every],
            strict=True,
        )
    ]
    return Settings(promised, confidence, n_queries, promised.alpha, tuple(settings))
