"""A promise about a ranker, and the losses it is tested by.

    ndcg@5 >= 0.70                              an absolute promise on utility
    ndcg@5 >= 95% of deterministic              a paired one: E U ≥ 0.95 · E U_det, on the same queries
    normalized_disparity@5 <= 0.2               disparity as a share of the largest possible
    normalized_disparity@5 <= 50% of deterministic
    disparity@5 <= 0.2                          with `bound=`, the largest disparity a query can have, declared
    group_exposure@5 <= 0.2                     normalised disparity between item groups

Each turns into losses of at most 1 and a level alpha such that the promise holds exactly when the mean loss over new
queries is at most alpha. That is all `isrr.risk` needs to know.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, Queries
from isrr.errors import GuaranteeError
from isrr.gains import EmptyQuery, Gain, empty_value, gain, has_relevant

METRICS = ("ndcg", "normalized_disparity", "disparity", "group_exposure")
INEXACTNESS = 1e-6  # what the exact evaluation may be off by is taken from alpha

_PROMISE = re.compile(
    r"""\s*(?P<metric>[A-Za-z_]+)\s*@\s*(?P<k>\d+)\s*(?P<relation>>=|<=|≥|≤)\s*
        (?P<number>[-+0-9.eE]+)\s*(?P<percent>%\s*of\s+deterministic)?\s*(?P<per>(?<=\s)per\s+segment)?\s*""",
    re.VERBOSE,
)
_SEVERAL = re.compile(r"@.*@|[;&]|,(?!\d)|\band\b", re.IGNORECASE | re.DOTALL)
_SHARE = re.compile(r"(?<![\d.])(0?\.\d+|1(?:\.0*)?)\s+of\s+deterministic", re.IGNORECASE)


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability strictly between 0 and 1, or below a half, and guess what was meant."""
    if not 0 < value < 1:
        meant = value / 100 if value >= 50 else 1 - value / 100
        slip = f"; did you mean {meant:g}?" if 1 < value < 100 else ""
        raise GuaranteeError(f"{name} must lie in (0, 1), got {value:g}{slip}")
    if value < 0.5:
        slip = f"; did you mean {1 - value:g}?" if value <= 0.2 else ""
        raise GuaranteeError(f"{name} {value:g} is less than an even chance{slip}")


@dataclass(frozen=True)
class Guarantee:
    """One promise.

    Attributes:
        metric: "ndcg", "normalized_disparity", "disparity" or "group_exposure".
        k: Length of the list it speaks of.
        target: The level promised: at least this for ndcg, at most this for the others.
        relative: Whether the target is a share of the deterministic ranker's own value.
        bound: For "disparity": the largest value a query of the distribution can have, declared by the caller.
        per: None, or "segment": the promise holds in every segment, each tested on its own queries.
        gain_kind: Gain of a grade, "exponential" or "linear".
        empty_query: What queries with no relevant item count as, "skip", "zero" or "one".
    """

    metric: str
    k: int
    target: float
    relative: bool = False
    bound: float | None = None
    per: Literal["segment"] | None = None
    gain_kind: Gain = "exponential"
    empty_query: EmptyQuery = "skip"

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            known = ", ".join(f"{metric}@{self.k}" for metric in METRICS)
            close = get_close_matches(self.metric, METRICS, 1, 0.5)
            slip = f"; did you mean {close[0]}@{self.k}?" if close else ""
            raise GuaranteeError(f"{self.metric}@{self.k} cannot be promised; what can: {known}{slip}")
        if self.k < 1:
            raise GuaranteeError(f"a promise is about the first k places, k ≥ 1; got {self.metric}@{self.k}")
        if self.relative and self.metric not in ("ndcg", "normalized_disparity"):
            raise GuaranteeError(f"{self.metric} cannot be promised relative to deterministic; ndcg can")
        limit = self.bound if self.metric == "disparity" else 1.0
        if limit is None:
            raise GuaranteeError(
                "disparity has no bound of its own: declare `bound=` (the largest value a query can have), "
                "or promise normalized_disparity"
            )
        if not (np.isfinite(limit) and limit > 0):
            raise GuaranteeError(f"bound must be a positive number, got {limit}")
        if not 0 < self.target < limit:
            if self.target == limit or (self.relative and self.target >= 1):
                why = "nothing random keeps all of it" if self.utility else "it holds by itself"
            elif 1 < self.target <= 100 and not self.relative:
                why = f"write {self.target / 100:g}, or {self.target:g}% of deterministic"
            else:
                why = "lower it" if self.target > 0 else "raise it"
            raise GuaranteeError(f"'{self}' cannot be tested: the target must lie in (0, {limit:g}); {why}")
        if self.tested_alpha <= 0:
            end, way = ("1", "lower it") if self.utility else ("0", "raise it")
            known = f"values are known to {INEXACTNESS:g}, and the target is no further from {end}"
            raise GuaranteeError(f"'{self}' cannot be tested: {known}; {way}")
        if self.per not in (None, "segment"):
            raise GuaranteeError(f"per must be 'segment' or left out, got {self.per!r}")
        gain(0, self.gain_kind)
        empty_value(self.empty_query)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        bound: float | None = None,
        per: Literal["segment"] | None = None,
        gain_kind: Gain = "exponential",
        empty_query: EmptyQuery = "skip",
    ) -> "Guarantee":
        """Read a promise as people write it.

        Example:
            >>> Guarantee.parse("ndcg@5 >= 95% of deterministic")
            Guarantee('ndcg@5 >= 95% of deterministic')
        """
        found = _PROMISE.fullmatch(text)
        if not found:
            share = _SHARE.sub(lambda part: f"{100 * float(part[1]):g}% of deterministic", text)
            if _PROMISE.fullmatch(share):
                raise GuaranteeError(f"cannot read the promise {text!r}; did you mean {share!r}?")
            if _SEVERAL.search(text):
                how = "a list of texts in Python, -g repeated on the command line"
                raise GuaranteeError(f"{text!r} holds several promises; give each by itself: {how}")
            raise GuaranteeError(
                f"cannot read the promise {text!r}; write for example 'ndcg@5 >= 0.70', "
                "'ndcg@5 >= 95% of deterministic' or 'normalized_disparity@5 <= 0.2'"
            )
        metric, k = found["metric"].lower(), int(found["k"])
        try:
            number = float(found["number"])
        except ValueError:
            raise GuaranteeError(f"{found['number']!r} in {text!r} is not a number") from None
        at_least = found["relation"] in (">=", "≥")
        if metric in METRICS and at_least != (metric == "ndcg"):
            turned = text.replace(found["relation"], "<=" if at_least else ">=")
            raise GuaranteeError(f"{text!r} promises nothing worth having; did you mean {turned!r}?")
        relative = found["percent"] is not None
        target = number / 100 if relative else number
        return cls(metric, k, target, relative, bound, "segment" if found["per"] else per, gain_kind, empty_query)

    def __str__(self) -> str:
        relation = ">=" if self.utility else "<="
        target = f"{100 * self.target:.10g}% of deterministic" if self.relative else f"{self.target:.10g}"
        return f"{self.metric}@{self.k} {relation} {target}" + (" per segment" if self.per else "")

    def __repr__(self) -> str:
        return f"Guarantee({str(self)!r})"

    @property
    def utility(self) -> bool:
        """Whether the promise is about utility; otherwise it is about fairness."""
        return self.metric == "ndcg"

    @property
    def alpha(self) -> float:
        """The risk to certify: the promise holds exactly when the mean loss is at most this."""
        share = self.target
        if self.relative:
            return (1.0 if self.utility else share) / (1.0 + share)
        return 1.0 - share if self.utility else share / (self.bound or 1.0)

    @property
    def risk_in_words(self) -> str:
        """What the risk is, and up to where the promise holds.

        Example:
            >>> Guarantee.parse("ndcg@5 >= 95% of deterministic").risk_in_words
            'the mean of (1 + 0.95 · deterministic NDCG@5 − NDCG@5) / 1.95; the promise holds up to 0.5128'
        """
        value = f"NDCG@{self.k}" if self.utility else f"{self.metric}@{self.k}"
        share = f"{self.target:.6g}"
        if self.relative:
            shifted = (
                f"1 + {share} · deterministic {value} − {value}"
                if self.utility
                else f"{share} + {value} − {share} · deterministic {value}"
            )
            loss = f"({shifted}) / {1 + self.target:.6g}"
        elif self.utility:
            loss = f"1 − {value}"
        else:
            loss = value if self.bound is None else f"{value} / {self.bound:.6g}"
        return f"the mean of {loss}; the promise holds up to {self.alpha:.4g}"

    @property
    def tested_alpha(self) -> float:
        """The level that is tested: alpha less what the evaluation may be off by."""
        return self.alpha - INEXACTNESS

    @property
    def prior_deviation(self) -> float:
        """A guess of the losses' deviation that knows nothing of the data; paired losses vary less."""
        return 0.05 if self.relative else 0.25

    def counts(self, queries: Queries) -> NDArray[np.bool_]:
        """Which queries it is tested on: all, or those with a relevant item, (n_queries,)."""
        if self.empty_query != "skip":
            return np.ones(len(queries), bool)
        return has_relevant(queries, gain_kind=self.gain_kind)

    def losses(self, values: FloatArray, deterministic: FloatArray) -> FloatArray:
        """Losses of at most 1, (n_queries, n_grid).

        Args:
            values: The metric of each configuration on each query, (n_queries, n_grid).
            deterministic: The metric of the deterministic ranker, (n_queries,).
        """
        if self.relative:
            reference = self.target * deterministic[:, None]
            shifted = reference - values + 1.0 if self.utility else values - reference + self.target
            return shifted / (1.0 + self.target)
        return 1.0 - values if self.utility else values / (self.bound or 1.0)

    def values(self, losses: FloatArray, deterministic: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The metric behind losses, and that of the deterministic ranker behind its own; means of losses give means.

        Example:
            >>> promise = Guarantee.parse("ndcg@5 >= 90% of deterministic")
            >>> losses = promise.losses(np.array([[0.6]]), np.array([0.8]))
            >>> value, reference = promise.values(losses, promise.losses(np.array([[0.8]]), np.array([0.8])))
            >>> round(value.item(), 9), round(reference.item(), 9)
            (0.6, 0.8)
        """
        if not self.relative:
            value, reference = (1.0 - x if self.utility else x * (self.bound or 1.0) for x in (losses, deterministic))
            return value, reference
        share, sign = self.target, 1.0 if self.utility else -1.0
        constant = 1.0 if self.utility else share
        reference = (sign * (constant - (1 + share) * deterministic)) / (1 - share)
        return share * reference + sign * (constant - (1 + share) * losses), reference

    def at(self, target: float) -> "Guarantee":
        """The same promise at another level."""
        return replace(self, target=target)


def move_together(guarantees: Sequence[Guarantee]) -> bool:
    """Whether all promises get safer, or all get less safe, from the coldest ranker to the hottest.

    Utility falls with the temperature, and so does disparity between items. Exposure of groups may go either way.
    """
    return len({g.utility for g in guarantees}) == 1 and all(g.metric != "group_exposure" for g in guarantees)
