"""What was promised, chosen and measured, on which data, under which assumptions; or why nothing was.

A certificate is a value, printed as text and kept as JSON. The file carries a digest of its own content: one edited by
hand is refused unless the reader says otherwise.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.counting import counted
from isrr.errors import CertificateError
from isrr.files import write_atomically
from isrr.guarantee import Guarantee
from isrr.json_files import read_json
from isrr.ranker.gpl import GPLRanker
from isrr.scores.standardize import ScoreMap

SCHEMA = 1
THE_TESTED = "the calibration queries' scores"  # as the basis of a path
ASSUMPTIONS = (
    "the judged queries are a random sample of the queries to come, each drawn independently",
    "scores come from the same model, on the same scale",
    "the promise is about the mean over queries and draws, not about each served list",
)


@dataclass(frozen=True)
class Estimate:
    """A number measured on the calibration queries, with an approximate 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float) -> "Estimate":
        """The value ± 1.96 standard errors."""
        return cls(float(value), float(value - 1.96 * error), float(value + 1.96 * error))

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Test:
    """One promise, in one segment, as it was tested for the ranker in use.

    Attributes:
        guarantee: The promise.
        segment: The segment, or None for all queries.
        n_queries: Queries tested on.
        evidence: Name of the test.
        risk: Mean loss.
        bound: Upper confidence bound on the risk at the certificate's level; None where only sums were kept.
        pvalue: Smallest level at which the promise would be certified.
        level: The strongest target that these queries would certify for this ranker; None where not computed.
    """

    __test__: ClassVar[bool] = False  # not a pytest class

    guarantee: Guarantee
    segment: str | None
    n_queries: int
    evidence: str
    risk: float
    bound: float | None
    pvalue: float
    level: float | None


@dataclass(frozen=True)
class Point:
    """One configuration of the path: what it was measured to do."""

    ranker: GPLRanker
    utility: Estimate
    disparity: Estimate
    fairness_gain: Estimate
    certified: bool
    bound: float | None


@dataclass(frozen=True)
class Provenance:
    """Where an outcome comes from, enough to make it again.

    Attributes:
        n_queries: Judged queries that were tested on.
        n_skipped: Judged queries left out for having no relevant item.
        n_set_aside: Judged queries used to fix the path, and not tested on.
        path, path_basis: Which path was searched and what it was fixed by.
        evidence, selection: What was asked for.
        method, n_draws: How utilities were evaluated.
        seed: Names the noise.
        data: Fingerprint of the judged queries (ids, scores, relevance).
        hash_key: Key of the canonical order; empty where losses were summed up, in no order.
        made_ids: Whether query ids were made from positions.
        score_quantiles: Raw scores at 0.1, 1, 50, 99 and 99.9 %, over 20,000 queries drawn by key where there are more.
        eligibility_quantiles: The best item's chance of first place in each list under the ranker in use, at the same.
        planned_looks: Over how many looks at the data delta was split.
        look: Which look at these data this is, as far as is known.
        versions: Of what computed it.
    """

    n_queries: int
    n_skipped: int
    n_set_aside: int
    path: str
    path_basis: str
    evidence: str
    selection: str
    method: str
    n_draws: int
    seed: int
    data: str
    hash_key: str
    made_ids: bool
    score_quantiles: tuple[float, ...]
    eligibility_quantiles: tuple[float, ...] = ()
    planned_looks: int = 1
    look: int = 1
    versions: Mapping[str, str] = field(default_factory=lambda: {n: version(n) for n in ("isrr", "numpy", "numba")})

    @property
    def path_saw_the_tested(self) -> bool:
        """Whether the path was fixed by the very queries it was tested on, which no confidence allows for."""
        return self.path_basis == THE_TESTED


@dataclass(frozen=True)
class Outcome:
    """What certificates and abstentions have in common."""

    guarantees: tuple[Guarantee, ...]
    confidence: float
    ranker: GPLRanker
    tests: tuple[Test, ...]
    curve: tuple[Point, ...]
    provenance: Provenance

    @property
    def abstained(self) -> bool:
        """Whether nothing could be certified."""
        return isinstance(self, Abstention)

    @property
    def k(self) -> int:
        """Length of the lists the promise speaks of."""
        return self.ranker.k

    @property
    def id(self) -> str:
        """A short name: the beginning of the digest of the content."""
        return _digest(self._content())[:16]

    def rank(
        self, scores: ArrayLike, query_id: object = None, session: object = None, k: int | None = None
    ) -> NDArray[np.int64]:
        """One order of one query; see `GPLRanker.rank`."""
        return self.ranker.rank(scores, query_id, session, k)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the outcome as JSON; the old file stays whole until the new one is complete."""
        write_atomically(path, (json.dumps(self.document(), indent=1, allow_nan=False) + "\n").encode())

    def document(self) -> dict[str, Any]:
        """What `save` writes: the content, and the digest that vouches for it."""
        content = self._content()
        return {**content, "integrity": _digest(content)}

    def _content(self) -> dict[str, Any]:
        maps: list[Any] = []
        body = _plain(asdict(self))
        for ranker in (body["ranker"], *(point["ranker"] for point in body["curve"])):
            if ranker["score_map"] is not None:  # written once, however many configurations share it
                if ranker["score_map"] not in maps:
                    maps.append(ranker["score_map"])
                ranker["score_map"] = maps.index(ranker["score_map"])
        return {"schema": SCHEMA, "kind": type(self).__name__.lower(), "score_maps": maps, **body}

    def _promise(self) -> str:
        return " and ".join(str(guarantee) for guarantee in self.guarantees)

    def _provenance_lines(self) -> list[str]:
        p = self.provenance
        tested = counted(p.n_queries, "judged query")
        if p.n_skipped:
            tested += f" ({p.n_skipped:,} more without a relevant item left out)"
        if p.n_set_aside:
            tested += f", {p.n_set_aside:,} set aside to fix the path"
        lines = [
            f"tested on    {tested}",
            f"path         {p.path}, {counted(len(self.curve), 'configuration')}, fixed by {p.path_basis}",
            f"evidence     {', '.join(sorted({t.evidence for t in self.tests})) or p.evidence}, {p.selection}",
        ]
        if p.selection == "pointwise":
            lines.append("warning      pointwise selection carries no guarantee over the path")
        if p.path_saw_the_tested:
            lines.append("warning      a path fixed by the tested queries carries no guarantee: give `validation=`")
        if any(test.evidence == "normal_approximation" for test in self.tests):
            lines.append("warning      the normal approximation is not valid for any given number of queries")
        if p.look > p.planned_looks:
            lines.append(
                f"warning      look {p.look} at the same data; together the looks hold with confidence "
                f"{max(1 - p.look * (1 - self.confidence), 0):.0%} at best: plan them (`attempts=`), or use new queries"
            )
        if p.made_ids:
            lines.append("note         query ids were made from positions: the outcome depends on the order given")
        return lines


@dataclass(frozen=True)
class Certificate(Outcome):
    """A promise that holds with the stated confidence, and the ranker that keeps it.

    Attributes:
        utility: Expected NDCG@k of the ranker.
        disparity: Its disparity.
        fairness_gain: Share of the deterministic ranker's disparity that it removes.
        deterministic_utility: Expected NDCG@k of the order by score.
    """

    utility: Estimate
    disparity: Estimate
    fairness_gain: Estimate
    deterministic_utility: Estimate

    def __str__(self) -> str:
        r, k = self.ranker, self.k
        lines = [
            f"Certificate {self.id}",
            f"promise      {self._promise()}",
            f"confidence   {self.confidence:.4g}: a promise like this is wrong in at most "
            f"{1 - self.confidence:.2%} of calibrations",
            f"ranker       temperature {r.temperature:.4g}, threshold {r.threshold:.4g}, decay {r.decay:.3g}"
            f"{', log-gain score map' if r.score_map else ''}, k = {k}",
            f"NDCG@{k:<6}  {self.utility}; deterministic {self.deterministic_utility.value:.4f}",
            f"disparity    {self.disparity}",
            f"fairer by    {100 * self.fairness_gain.value:.1f} % "
            f"[{100 * self.fairness_gain.low:.1f}, {100 * self.fairness_gain.high:.1f}] of the deterministic disparity",
        ]
        for test in self.tests:
            where = "" if test.segment is None else f" in segment {test.segment!r}"
            bound = "" if test.bound is None else f", bound {test.bound:.4f}"
            level = "" if test.level is None else f"; would certify {test.guarantee.at(test.level)}"
            lines.append(f"proof        p = {test.pvalue:.3g}{bound} for risk {test.risk:.4f}{where}{level}")
        lines += self._provenance_lines()
        return "\n".join(lines)


@dataclass(frozen=True)
class Abstention(Outcome):
    """Nothing could be certified; the ranker is the deterministic one.

    Attributes:
        reason: Why, in words.
        queries_needed: Tested queries that would be enough, with 80 % chance; None when no number is.
    """

    reason: str
    queries_needed: int | None

    def __str__(self) -> str:
        if self.queries_needed is None:
            more = "no number of queries helps: lower the promise or improve the scores"
        else:
            more = f"about {counted(self.queries_needed, 'tested query')} would be enough (8 times out of 10)"
        lines = [
            "Abstention: nothing certified, the deterministic order is used",
            f"promise      {self._promise()}",
            f"confidence   {self.confidence:.4g}",
            f"reason       {self.reason}",
            f"what helps   {more}",
        ]
        for test in self.tests:
            where = "" if test.segment is None else f" in segment {test.segment!r}"
            if test.level is not None:
                certain = test.guarantee.at(test.level)
                lines.append(f"instead      the deterministic ranker alone would certify {certain}{where}")
        return "\n".join(lines + self._provenance_lines())


def load(path: str | PathLike[str], *, trust_edited: bool = False) -> Certificate | Abstention:
    """Read a saved outcome.

    Args:
        path: A file written by `save`.
        trust_edited: Accept a file whose content no longer matches its digest.
    """
    try:
        document = read_json(path)
    except FileNotFoundError:
        raise CertificateError(f"{path}: there is no such file") from None
    except ValueError as error:
        raise CertificateError(f"{path}: not a certificate: {error}") from None
    if not isinstance(document, dict) or document.get("kind") not in ("certificate", "abstention"):
        raise CertificateError(f"{path}: not a certificate: it names no kind")
    if document.get("schema") != SCHEMA:
        raise CertificateError(f"{path}: schema {document.get('schema')!r}; this version of isrr reads schema {SCHEMA}")
    integrity = document.pop("integrity", None)
    if integrity != _digest(document) and not trust_edited:
        raise CertificateError(
            f"{path}: the content does not match its digest: it was edited or damaged; calibrate again, "
            "or read it with `trust_edited=True` if you know why"
        )
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError) as error:
        raise CertificateError(f"{path}: damaged certificate: {error!r}") from None


def _read(document: dict[str, Any]) -> Certificate | Abstention:
    maps = [ScoreMap(tuple(m["inputs"]), tuple(m["outputs"])) for m in document["score_maps"]]

    def ranker(d: dict[str, Any]) -> GPLRanker:
        return GPLRanker(**{**d, "score_map": None if d["score_map"] is None else maps[d["score_map"]]})

    def point(d: dict[str, Any]) -> Point:
        estimates = {name: Estimate(**d[name]) for name in ("utility", "disparity", "fairness_gain")}
        return Point(ranker(d["ranker"]), **estimates, certified=d["certified"], bound=d["bound"])

    provenance: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["provenance"].items()
    }
    common: dict[str, Any] = {
        "guarantees": tuple(Guarantee(**g) for g in document["guarantees"]),
        "confidence": document["confidence"],
        "ranker": ranker(document["ranker"]),
        "tests": tuple(Test(**{**t, "guarantee": Guarantee(**t["guarantee"])}) for t in document["tests"]),
        "curve": tuple(point(p) for p in document["curve"]),
        "provenance": Provenance(**provenance),
    }
    if document["kind"] == "abstention":
        return Abstention(**common, reason=document["reason"], queries_needed=document["queries_needed"])
    own = [f.name for f in fields(Certificate) if f.name not in {g.name for g in fields(Outcome)}]
    estimates: dict[str, Any] = {name: Estimate(**document[name]) for name in own}
    return Certificate(**common, **estimates)


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON gives them back, so that the digest survives a round trip."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _digest(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
