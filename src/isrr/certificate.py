"""What was promised, chosen and measured, on which data, under which assumptions; or why nothing was.

A certificate is a value, printed as text and kept as JSON. The file carries a digest of its own content: one edited by
hand is refused unless the reader says otherwise.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.counting import counted, percent
from isrr.errors import CertificateError
from isrr.files import write_atomically
from isrr.findings import Estimate, Point, Provenance, Test, mostly_single
from isrr.guarantee import Guarantee
from isrr.json_files import read_json
from isrr.ranker.gpl import GPLRanker
from isrr.scores.standardize import ScoreMap

SCHEMA = 1
ASSUMPTIONS = (
    "the judged queries are a random sample of the queries to come, each drawn independently",
    "scores come from the same model, on the same scale",
    "the promise is about the mean over queries and draws, not about each served list",
)


@dataclass(frozen=True, repr=False)
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

    @cached_property
    def id(self) -> str:
        """A short name: the beginning of the digest of the content."""
        return _digest(self._content())[:16]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self._promise()}, confidence {self.confidence:.4g}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows."""
        printer.text(str(self))

    def rank(
        self, scores: ArrayLike, query_id: object = None, session: object = None, k: int | None = None
    ) -> NDArray[np.int64]:
        """One order of one query; see `GPLRanker.rank`."""
        return self.ranker.rank(scores, query_id, session, k)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the outcome as JSON, to a .json file; the old one stays whole until the new one is complete."""
        write_atomically(ranker_path(path), (json.dumps(self.document(), indent=1, allow_nan=False) + "\n").encode())

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

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting the outcome."""
        p, found = self.provenance, []
        if said := mostly_single(p.share_single):
            found.append(said)
        if p.selection == "pointwise":
            found.append("pointwise selection carries no guarantee over the path, only at each test alone")
        if p.path_saw_the_tested:
            found.append("a path fixed by the tested queries carries no guarantee: give `validation=`")
        if any(test.evidence == "normal_approximation" for test in self.tests):
            found.append("the normal approximation is not valid for any given number of queries")
        if self._spent > (1 - self.confidence) * (1 + 1e-9):  # more than rounding
            found.append(
                f"look {p.look} at the same data; that all of them hold has no more than confidence "
                f"{max(1 - self._spent, 0):.4g}: plan them (`attempts=`) before the first, or use new queries"
            )
        return found

    @property
    def _spent(self) -> float:
        """Tolerated chance of error of this look and those before it together."""
        p = self.provenance
        return p.look * (1 - self.confidence) / p.planned_looks if p.spent is None else p.spent

    def _risk_lines(self) -> list[str]:
        """What `risk` and `bound` measure, once for each promise."""
        several = len(self.guarantees) > 1
        whose = [f"of '{guarantee}', " if several else "" for guarantee in self.guarantees]
        return [f"risk         {of}{g.risk_in_words}" for of, g in zip(whose, self.guarantees, strict=True)]

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
        lines += [f"warning      {warning}" for warning in self.warnings]
        if p.made_ids:
            lines.append("note         query ids were made from positions: the outcome depends on the order given")
        return lines


@dataclass(frozen=True, repr=False)
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

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting the certificate."""
        if self.fairness_gain.low > 0:
            return super().warnings
        return [*super().warnings, "these queries do not show that the ranker is any fairer than the order by score"]

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
            f"fairer by    {percent(self.fairness_gain.value)} "
            f"[{100 * self.fairness_gain.low:.1f}, {100 * self.fairness_gain.high:.1f}] of the deterministic disparity",
        ]
        for test in self.tests:
            where = "" if test.segment is None else f" in segment {test.segment!r}"
            bound = "" if test.bound is None else f", bound {test.bound:.4f}"
            more = None if test.level in (None, test.guarantee.target) else test.level
            level = "" if more is None else f"; would certify {test.guarantee.at(more)}"
            lines.append(f"proof        p = {test.pvalue:.3g}{bound} for risk {test.risk:.4f}{where}{level}")
        return "\n".join(lines + self._risk_lines() + self._provenance_lines())


@dataclass(frozen=True, repr=False)
class Abstention(Outcome):
    """Nothing could be certified; the ranker is the deterministic one.

    Attributes:
        reason: Why, in words.
        queries_needed: Judged queries that would be enough, with 80 % chance, those set aside and those without a
            relevant item included; None when no number is.
    """

    reason: str
    queries_needed: int | None

    def __str__(self) -> str:
        if self.queries_needed is None:
            more = "no number of queries helps: promise less, or improve the scores"
        else:
            more = f"about {counted(self.queries_needed, 'judged query')} in all would be enough (8 times out of 10)"
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
                most = f"{test.guarantee.at(test.level)}{where}"
                lines.append(f"limit        these queries prove no more than {most}; to promise that, take new ones")
        return "\n".join(lines + self._risk_lines() + self._provenance_lines())


def ranker_path(path: str | PathLike[str]) -> Path:
    """Where a ranker file lies. Its name must end in .json: what is kept beside it (`isrr.status`) is named after it.

    A device or a pipe may have any name.
    """
    found = Path(path)
    if found.suffix != ".json" and (found.is_file() or not found.exists()):
        ending = f"ends in {found.suffix}" if found.suffix else "has no ending"
        raise CertificateError(f"{path}: the name of a ranker file must end in .json; this one {ending}")
    return found


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
    except (AttributeError, LookupError, TypeError, ValueError) as error:
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
