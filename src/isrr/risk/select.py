"""How several configurations are tested together, given one p-value each.

A p-value below delta is proof for one configuration chosen beforehand. Here a whole grid is tested, and the
procedures differ in how they keep the chance of any false survivor below delta. Survivors come as sorted
indices, (n_survivors,); any rule may then choose among them, looking at the same data, at no further cost.

Paper: section 3.3 (where each configuration is tested alone: `pointwise`).
"""

import numpy as np
from numpy.typing import ArrayLike

from isrr.risk.lattice import IntArray


def fixed_sequence(pvalues: ArrayLike, delta: float) -> IntArray:
    """The configurations before the first that fails, in the order given.

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


def bonferroni(pvalues: ArrayLike, delta: float) -> IntArray:
    """Every p-value against delta/m. Any order, any dependence; never more survivors than `holm`.

    Example:
        >>> bonferroni([0.04, 0.001, 0.03, 0.015], delta=0.05)
        array([1])
    """
    p = np.asarray(pvalues)
    return np.flatnonzero(p * p.size <= delta)


def pointwise(pvalues: ArrayLike, delta: float) -> IntArray:
    """Every p-value against the whole delta: the paper's selection, which carries NO guarantee over the grid.

    Each survivor alone would be right with probability 1 − delta; that some survivor is false can be far more
    likely (28 % for 21 independent configurations at the boundary, delta = 5 %). For reproduction only.

    Example:
        >>> pointwise([0.001, 0.02, 0.07, 0.01], delta=0.05)
        array([0, 1, 3])
    """
    return np.flatnonzero(np.asarray(pvalues) <= delta)


SELECTIONS = {"fixed_sequence": fixed_sequence, "holm": holm, "bonferroni": bonferroni, "pointwise": pointwise}
