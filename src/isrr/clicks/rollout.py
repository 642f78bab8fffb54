"""A live rollout: where it stands, and which arm a session is in. Light enough for the service.

Along the path of a certificate, step by step, sessions are split at random: control gets the order by score, treatment
the step's ranker. The state lies beside the ranker file, `ranker.json` → `ranker.rollout.json`; `isrr clicks rollout`
writes it, the service reads it.
"""

from hashlib import blake2b
from os import PathLike
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from isrr.errors import CertificateError, DataError, PromiseError
from isrr.files import write_atomically
from isrr.outcome.certificate import Certificate, Outcome
from isrr.outcome.status import beside
from isrr.ranker.gpl import GPLRanker

MOST_STEPS = 4
BUDGET = 200_000  # sessions after which a step has failed
LEAST_DAYS = 7.0  # that a step takes
WITHIN = 3_600.0  # seconds after a list within which clicks count by default
Stage = Literal["running", "done", "failed"]


class SessionRules(NamedTuple):
    """Which lists and clicks of a session count: clicks within so many seconds, on its first so many lists."""

    within: float
    first: int

    @property
    def wait(self) -> float:
        """Seconds after the start of a session when all of its clicks are in; its last list may come at `within`."""
        return self.within if self.first == 1 else 2 * self.within


class Rollout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a rollout stands.

    Attributes:
        certificate: The certificate whose path is walked.
        control: Share of sessions that get the order by score.
        steps: The configurations of its curve that are walked through.
        step: The step that is tried now; all are certified where it is the number of steps.
        stage: "running", "done" or "failed".
        budget: Sessions after which a step has failed.
        least_days: Length of the periods that decide a step: by all sessions of the first one, of the first two, ….
            0 lets every look decide.
        reason: What ended it, in words.
        within: Seconds after a list within which clicks on it count; None before the first look, which fixes it.
        first: Lists of each session that count, the earliest ones; None before the first look, likewise.
        n_counted: Sessions of this step that the last look counted, and `digest` names them: they must stay in the log.
    """

    certificate: str
    control: float
    steps: tuple[int, ...]
    step: int = 0
    stage: Stage = "running"
    budget: int = BUDGET
    least_days: float = LEAST_DAYS
    reason: str = ""
    within: float | None = None
    first: int | None = None
    n_counted: int = 0
    digest: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.control < 1:
            raise ValueError(f"`control=` must lie in (0, 1), got {self.control:g}; it is a share of the sessions")
        if not 0 <= self.least_days < np.inf:
            raise ValueError(
                f"`least_days=` must be a number ≥ 0, got {self.least_days:g}; it is how long a step takes"
            )
        if not 0 <= self.step <= len(self.steps) or not self.steps or min(self.steps) < 0:
            raise ValueError(f"step {self.step} of {len(self.steps)} cannot be {self.stage!r}")
        if min(self.within or 1, self.first or 1, self.n_counted + 1) <= 0:
            raise ValueError("`within=`, `first=` or the number of sessions counted is negative")

    @classmethod
    def begin(
        cls,
        outcome: Outcome,
        control: float = 0.5,
        budget: int = BUDGET,
        least_days: float = LEAST_DAYS,
        steps: int = MOST_STEPS,
    ) -> "Rollout":
        """Return the first step; at most `steps` lead to the certificate's own ranker, evenly along its path."""
        if not isinstance(outcome, Certificate):
            raise CertificateError("nothing was certified, so there is nothing to roll out")
        if [promise.of for promise in outcome.promises] != ["deterministic"] or outcome.provenance.clicks is None:
            raise CertificateError(
                f"'{outcome.promises[0]}' cannot be rolled out; expected one promise about clicks, of deterministic"
            )
        rankers = [point.ranker for point in outcome.curve]
        last = rankers.index(outcome.ranker)
        first = next(i for i, ranker in enumerate(rankers) if not ranker.is_deterministic)
        walked = np.unique(np.linspace(last, first, min(steps, last - first + 1)).round().astype(int))
        return cls(outcome.id, control, tuple(walked.tolist()), budget=budget, least_days=least_days)

    def ranker(self, outcome: Outcome) -> GPLRanker:
        """Return who serves the treatment: the step's ranker or, once it has ended, the last one certified."""
        at = self.step if self.stage == "running" else self.step - 1
        if max(self.steps) >= len(outcome.curve):
            raise CertificateError(
                f"a rollout's steps lead to ranker {max(self.steps)} of the certificate's path, which has "
                f"{len(outcome.curve)}: its state, beside the ranker file (….rollout.json), was edited; "
                "remove it to begin anew"
            )
        return GPLRanker.deterministic(outcome.k) if at < 0 else outcome.curve[self.steps[at]].ranker

    def treated(self, session: object) -> bool:
        """Return whether a session is in the treatment of the present step."""
        name = f"{self.certificate} {self.step} {session}".encode()
        lot = int.from_bytes(blake2b(name, digest_size=8, person=b"isrr rollout").digest(), "little")
        return lot >= self.control * 2**64

    @property
    def rules(self) -> SessionRules:
        """What counts."""
        return SessionRules(self.within or WITHIN, self.first or 1)

    def ruled(self, within: float | None = None, first: int | None = None) -> "Rollout":
        """Fix the rules; None leaves a rule as it is, and a change after a look is refused."""
        for name, new in (("within", within), ("first", first)):
            fixed = getattr(self, name)
            if None not in (new, fixed) and new != fixed:
                raise PromiseError(
                    f"`{name}=` was {fixed:g} when this rollout was first looked at, and is {new:g} now; expected the "
                    "same at every look"
                )
        rules = replace(self, within=self.within or within, first=self.first or first).rules
        return replace(self, within=rules.within, first=rules.first)

    def after(self, *, certified: bool, reason: str) -> "Rollout":
        """Return the state after a step was decided."""
        if not certified:
            return replace(self, stage="failed", reason=reason)
        stage: Stage = "done" if self.step + 1 == len(self.steps) else "running"
        return replace(self, step=self.step + 1, stage=stage, reason=reason, n_counted=0, digest="")

    def save(self, ranker_file: str | PathLike[str]) -> None:
        """Write the state beside a ranker file, all of it or nothing."""
        content = msgspec.json.format(msgspec.json.encode(self), indent=1)
        write_atomically(beside(ranker_file, "rollout"), content + b"\n")


def read_rollout(ranker_file: str | PathLike[str], certificate: str) -> Rollout | None:
    """Return the rollout of the certificate with this id; None where there is none."""
    file = beside(ranker_file, "rollout")
    try:
        rollout = msgspec.json.decode(file.read_bytes(), type=Rollout)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise CertificateError(f"{file}: not the state of a rollout: {error}") from None
    return rollout if rollout.certificate == certificate else None


def arm_name(step: int, treated: bool) -> str:
    """Return the name of an arm in the log.

    Example:
        >>> arm_name(2, True), step_and_arm("treatment 2")
        ('treatment 2', (2, True))
    """
    return f"{'treatment' if treated else 'control'} {step}"


def step_and_arm(name: str) -> tuple[int, bool]:
    """Return the step and whether it is the treatment, from a name in the log."""
    arm, _, step = name.partition(" ")
    if arm not in ("treatment", "control") or not step.isdecimal():
        raise DataError(f"{name!r} is not an arm of a rollout; expected something like 'treatment 2'")
    return int(step), arm == "treatment"
