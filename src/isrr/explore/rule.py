"""How calibration picks one configuration among those that are certified, given what each could certify."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isrr.certificate import Abstention, Certificate
from isrr.risk.lattice import IntArray


@dataclass(frozen=True)
class Rule:
    """How one configuration is chosen, given what is certified.

    Attributes:
        by_definition: Configurations that keep the first promise untested: the deterministic one, relative to itself.
        free: Those that keep every promise untested; nothing is proven of them.
        preference: Order in which certified configurations are liked, smallest first.
        one_by_one: Whether each is tested by itself (pointwise, Bonferroni), not along the path.
    """

    by_definition: tuple[bool, ...]
    free: tuple[bool, ...]
    preference: tuple[int, ...]
    one_by_one: bool

    @classmethod
    def of(cls, outcome: Certificate | Abstention) -> "Rule":
        """The rule that an outcome was chosen by."""
        curve, promises = outcome.curve, outcome.guarantees
        deterministic = [point.ranker.is_deterministic for point in curve]
        relative = [g.relative and g.utility for g in promises]
        cost = [p.disparity.value if any(g.utility for g in promises) else -p.utility.value for p in curve]
        preference = np.argsort(np.argsort(cost, kind="stable"), kind="stable").tolist()
        return cls(
            tuple(d and relative[0] for d in deterministic),
            tuple(d and all(relative) for d in deterministic),
            tuple(preference),
            outcome.provenance.selection in ("pointwise", "bonferroni"),
        )

    def chosen(self, levels: Sequence[int] | IntArray, others_hold: Sequence[bool], strength: float) -> int | None:
        """The configuration to use at a target of this strength; None for an abstention."""
        good = (np.array(self.by_definition) | (np.array(levels) >= strength)) & np.array(others_hold)
        if not (self.one_by_one or good.all()):
            good[np.argmin(good) :] = False
        proven = np.flatnonzero(good & ~np.array(self.free))
        return int(min(proven, key=lambda c: self.preference[c])) if proven.size else None
