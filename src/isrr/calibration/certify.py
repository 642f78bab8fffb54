"""From a risk table to the configurations that are certified, and the one to use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isrr.calibration.order import canonical_order
from isrr.calibration.paths import Path
from isrr.calibration.table import Cell, RiskTable
from isrr.data.queries import FloatArray
from isrr.errors import GuaranteeError
from isrr.risk import betting, vb
from isrr.risk.evidence import Evidence
from isrr.risk.evidence import evidence as named_evidence
from isrr.risk.select import SELECTIONS

BOUNDS_WITHIN = 1_000_000  # queries × configurations up to which every configuration's bound is computed …
BOUND_BITS = 14  # … to four digits, rounded up


@dataclass(frozen=True, eq=False)
class Tested:
    """One cell after testing: what every configuration of the grid has to show.

    Attributes:
        cell: The promise and segment.
        evidence: Name of the evidence used.
        pvalues: (n_grid,); 0 and 1 stand for "certified" and "not" where only that was asked.
        exact_pvalues: Whether `pvalues` are p-values rather than answers.
        mean_loss, deviation: Of the losses, (n_grid,); nearly, where they were summed up.
    """

    cell: Cell
    evidence: str
    pvalues: FloatArray
    exact_pvalues: bool
    mean_loss: FloatArray
    deviation: FloatArray

    def losses(self) -> FloatArray:
        """Losses in canonical order."""
        assert self.cell.losses is not None
        return self.cell.losses[canonical_order(self.cell.keys)]

    def pvalue(self, column: int, delta: float) -> float:
        """The p-value of one configuration."""
        if self.exact_pvalues:
            return float(self.pvalues[column])
        source = _evidence(self.cell, self.evidence, delta)
        return float(source.pvalue(self.losses()[:, [column]], self.cell.guarantee.tested_alpha)[0])

    def rough_bounds(self, delta: float) -> FloatArray | None:
        """Every configuration's bound, rounded up to four digits; None where that would take too long."""
        if self.cell.losses is None or self.cell.losses.size > BOUNDS_WITHIN:
            return None
        if self.evidence != "betting":
            return self.upper_bound(range(self.cell.losses.shape[1]), delta)
        prior = self.cell.guarantee.prior_deviation
        return betting.upper_bound(self.losses(), delta, prior, significant_bits=BOUND_BITS)

    def upper_bound(self, columns: Sequence[int], delta: float) -> FloatArray:
        """Upper confidence bounds on the risk; NaN where losses were summed up for one alpha only."""
        if self.cell.losses is not None:
            source = _evidence(self.cell, self.evidence, delta)
            return source.upper_bound(self.losses()[:, list(columns)], delta)
        if isinstance(self.cell.summary, vb.Summary):
            return np.full(len(columns), np.nan)
        assert self.cell.summary is not None
        return self.cell.summary.upper_bound(delta)[list(columns)]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Which configurations survive, and which one of them is used.

    Attributes:
        tested: One entry a promise and segment.
        certified: Columns of the grid that keep every promise, sorted along the path.
        chosen: Column to use, or None when nothing but an untested head survives.
    """

    tested: tuple[Tested, ...]
    certified: tuple[int, ...]
    chosen: int | None


def certify(table: RiskTable, path: Path, *, delta: float, evidence: str, selection: str) -> Verdict:
    """Test every promise along the path and choose among the configurations that keep them all.

    A configuration counts as certified when every promise (in every segment) is: a false certificate needs a false
    rejection of the one promise that is broken, so testing several costs nothing. The deterministic ranker keeps a
    utility promise relative to itself by definition and is not tested for it.
    """
    if selection not in SELECTIONS:
        raise GuaranteeError(f"no selection is called {selection!r}; there are {', '.join([*SELECTIONS, 'split'])}")
    place = {ranker: column for column, ranker in enumerate(table.grid)}
    columns = np.array([place[ranker] for ranker in path.rankers])
    answers = selection in ("fixed_sequence", "pointwise")  # which ask whether p ≤ delta and nothing more
    tested = tuple(_test(cell, evidence, delta, answers) for cell in table.cells)
    worst = np.zeros(len(columns))
    free = np.ones(len(columns), bool)
    deterministic = np.array([ranker.is_deterministic for ranker in path.rankers])
    for result in tested:
        guarantee = result.cell.guarantee
        exempt = deterministic & (guarantee.relative and guarantee.utility)
        free &= exempt
        worst = np.maximum(worst, np.where(exempt, 0.0, result.pvalues[columns]))
    survivors = SELECTIONS[selection](worst, delta)
    certified = tuple(int(c) for c in columns[survivors])
    proven = [int(c) for c, is_free in zip(columns[survivors], free[survivors], strict=True) if not is_free]
    return Verdict(tested, certified, _choose(proven, table, tested))


def _choose(proven: list[int], table: RiskTable, tested: tuple[Tested, ...]) -> int | None:
    """The one that measured fairest where utility is promised; else the most useful.

    All that are proven keep the promise, so choosing among them by what the same queries say costs nothing.
    """
    if not proven:
        return None
    if any(result.cell.guarantee.utility for result in tested):
        return min(proven, key=lambda c: table.moments.disparity[c])
    return max(proven, key=lambda c: table.moments.utility[c])


def _test(cell: Cell, name: str, delta: float, answers: bool) -> Tested:
    guarantee = cell.guarantee
    if cell.losses is None:
        summary = cell.summary
        assert summary is not None
        if isinstance(summary, vb.Summary):
            pvalues, used = summary.pvalue(), "vb"
        else:
            pvalues, used = summary.pvalue(guarantee.tested_alpha), "mixture"
        return Tested(cell, used, pvalues, True, *summary.mean_and_deviation())
    source = _evidence(cell, name, delta)
    losses = cell.losses[canonical_order(cell.keys)]
    mean, deviation = losses.mean(axis=0), losses.std(axis=0)
    if answers:
        pvalues = np.where(source.certifies(losses, guarantee.tested_alpha, delta), 0.0, 1.0)
    else:
        pvalues = source.pvalue(losses, guarantee.tested_alpha)
    return Tested(cell, source.name, pvalues, not answers, mean, deviation)


def _evidence(cell: Cell, name: str, delta: float) -> Evidence:
    return named_evidence(name, delta=delta, prior_deviation=cell.guarantee.prior_deviation)
