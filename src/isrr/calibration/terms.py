"""What is asked of a calibration, checked once."""

from collections.abc import Sequence
from dataclasses import dataclass

from isrr.calibration.paths import NAMES
from isrr.errors import GuaranteeError
from isrr.guarantee import Guarantee, check_probability
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import check_delta
from isrr.risk.evidence import evidence as named_evidence
from isrr.risk.select import SELECTIONS


@dataclass(frozen=True)
class Terms:
    """What is promised, and how it is tested.

    Attributes:
        guarantees: Promises; all must hold. They share k, gain and the policy for empty queries.
        confidence: Probability with which they hold.
        path: Name of the path, or rankers in the order to be tested.
        evidence: Name of the test.
        selection: How configurations are selected along the path.
        seed: Names the noise, where rankings are drawn.
        attempts: How many looks at the data are planned.
    """

    guarantees: tuple[Guarantee, ...]
    confidence: float = 0.95
    path: str | tuple[GPLRanker, ...] = "auto"
    evidence: str = "betting"
    selection: str = "fixed_sequence"
    seed: int = 0
    attempts: int = 1

    def __post_init__(self) -> None:
        self._refuse_promises_apart()
        check_probability("confidence", self.confidence)
        if self.attempts < 1:
            raise GuaranteeError(
                f"attempts must be ≥ 1, got {self.attempts}; it is the number of looks that are planned"
            )
        check_delta(self.delta)
        named_evidence(self.evidence)
        if self.selection not in (*SELECTIONS, "split"):
            known = ", ".join([*SELECTIONS, "split"])
            raise GuaranteeError(f"no selection is called {self.selection!r}; there are {known}")
        if isinstance(self.path, str):
            if self.path not in NAMES:
                raise GuaranteeError(f"no path is called {self.path!r}; there are {', '.join(NAMES)}")
        elif not self.path or any(ranker.k != self.k for ranker in self.path):
            raise GuaranteeError(f"a path needs rankers with the promise's own k = {self.k}")

    def _refuse_promises_apart(self) -> None:
        if not self.guarantees:
            raise GuaranteeError("nothing is promised: give at least one guarantee")
        for name in ("k", "gain_kind", "empty_query"):
            if len({getattr(guarantee, name) for guarantee in self.guarantees}) > 1:
                raise GuaranteeError(f"promises made together share one {name}; these do not")

    @property
    def k(self) -> int:
        """Length of the lists."""
        return self.guarantees[0].k

    @property
    def delta(self) -> float:
        """The tolerated chance of error in one look."""
        return (1 - self.confidence) / self.attempts

    @property
    def rule(self) -> str:
        """The selection along a path that is fixed, which that of "split" is by then."""
        return "fixed_sequence" if self.selection == "split" else self.selection

    def level_each(self, n_tests: int) -> float:
        """The level each configuration is tested at when there are so many: a share of delta where it is divided."""
        return self.delta / n_tests if self.selection in ("bonferroni", "holm") else self.delta


def promises(given: str | Guarantee | Sequence[str | Guarantee]) -> tuple[Guarantee, ...]:
    """One promise or several, as text or read already."""
    several = [given] if isinstance(given, str | Guarantee) else list(given)
    return tuple(Guarantee.parse(g) if isinstance(g, str) else g for g in several)
