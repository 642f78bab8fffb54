"""How several configurations are tested together, given one p-value each.

A p-value below delta is proof for one configuration chosen beforehand. Here a whole grid is tested, and the
procedures differ in how they keep the chance of any false survivor below delta. Survivors come as sorted
indices, (n_survivors,); any rule may then choose among them, looking at the same data, at no further cost.

Paper: section 3.3 (where each configuration is tested alone: `isrr_paper.further_evidence.POINTWISE`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isrr.errors import PromiseError
from isrr.risk.lattice import IntArray


def fixed_sequence(pvalues: ArrayLike, delta: float) -> IntArray:
    """Return the configurations before the first that fails, in the order given.

    Every test is at the whole delta: a false survivor requires rejecting the first true null of the order,
    and that has probability at most delta. The order, safest first, must be fixed without the calibration
    losses.

    Example:
        >>> fixed_sequence([0.001, 0.02, 0.07, 0.01], delta=0.05)
        array([0, 1])
    """
    fails = ~(np.asarray(pvalues) <= delta)
    return np.arange(np.argmax(fails) if fails.any() else fails.size)


def holm(pvalues: ArrayLike, delta: float) -> IntArray:
    """Holm's step-down: the i-th smallest p-value against delta/(m + 1 − i), until one fails.

    Needs no order and holds under any dependence.

    Example:
        >>> holm([0.04, 0.001, 0.03, 0.015], delta=0.05)
        array([1, 3])
    """
    p = np.asarray(pvalues)
    order = np.argsort(p, kind="stable")
    return np.sort(order[fixed_sequence(p[order] * np.arange(p.size, 0, -1), delta)])


@dataclass(frozen=True)
class Selection:
    """A procedure as `isrr.calibrate(selection=…)` takes it.

    Attributes:
        name: What certificates call it.
        survivors: The configurations that survive, given one p-value each and delta.
        along_path: Whether it stops at the first configuration that fails.
        divides_delta: Whether a single configuration is tested at a part of delta.
        caveat: What a certificate warns of, if anything.
    """

    name: str
    survivors: Callable[[ArrayLike, float], IntArray]
    along_path: bool = False
    divides_delta: bool = False
    caveat: str = ""

    def level_each(self, delta: float, n_tests: int) -> float:
        """Return the level that each configuration is tested at when there are so many."""
        return delta / n_tests if self.divides_delta else delta


NAMED = {
    "fixed_sequence": Selection("fixed_sequence", fixed_sequence, along_path=True),
    "holm": Selection("holm", holm, divides_delta=True),
}


def selection_of(given: str | Selection) -> Selection:
    """Return the selection of a name; a selection itself is returned as it is."""
    if isinstance(given, Selection):
        return given
    if given not in NAMED:
        raise PromiseError(f"unknown selection {given!r}; expected one of {', '.join(NAMED)}, or a Selection")
    return NAMED[given]
