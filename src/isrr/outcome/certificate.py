"""Certificates, abstentions and starts: values that print as text and are kept as JSON.

A file carries a digest of its content, so that one edited by hand is refused unless the reader says otherwise.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from isrr.counting import percent
from isrr.errors import CertificateError
from isrr.files import read_json, write_atomically
from isrr.metrics.measure import Measurable
from isrr.outcome import text as printing
from isrr.outcome.findings import Estimate, Point, PromiseRead, Provenance, Quality, Record, Test, unit_needed
from isrr.outcome.pictures import Tradeoff, card, frame
from isrr.promises import Promise, check_probability, columns_of
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import ScoreMap

SCHEMA = 4
Cause = Literal["too_few_queries", "out_of_reach", "conflicting_promises"]


class Outcome(Record, frozen=True, dict=True):
    """A base of certificates, abstentions and starts.

    Attributes:
        promises: What was promised, or asked for.
        confidence: Probability with which the promises hold together.
        ranker: The ranker to use.
        utility_name: What utility is measured by, as sentences call it.
        tests: Each promise, in each segment, as it was tested for the ranker in use.
        curve: The configurations that were tried, in the order of the path.
        provenance: Where all of it comes from.
    """

    promises: tuple[PromiseRead, ...]
    confidence: float
    ranker: GPLRanker
    utility_name: str
    tests: tuple[Test, ...]
    curve: tuple[Point, ...]
    provenance: Provenance

    abstained: ClassVar[bool] = False  # whether nothing could be certified

    @property
    def k(self) -> int:
        """Length of the lists that the promise is about."""
        return self.ranker.k

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the promises read, beside query, item and score."""
        return columns_of(self.promises)

    @cached_property
    def id(self) -> str:
        """A short name: the beginning of the digest of the content."""
        return str(self.document()["integrity"])[:16]

    @property
    def promise_text(self) -> str:
        """The promises as text."""
        return " and ".join(str(promise) for promise in self.promises)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the promise rests on."""
        return printing.assumptions(self)

    @property
    def sure(self) -> list[str]:
        """What holds on every single query, by the floor of the ranker, whatever is relevant."""
        return printing.sure(self)

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting the outcome."""
        return printing.warnings(self)

    @property
    def protects_relevance(self) -> bool:
        """Whether a promise sets a lower limit on relevance."""
        return any(promise.protects_relevance for promise in self.promises)

    @property
    def title(self) -> str:
        """The first line of the text."""
        return f"{type(self).__name__} {self.id}"

    def rows(self, verbose: bool = False) -> list[printing.Row]:
        """Return the lines of the text as labels and sentences."""
        raise NotImplementedError

    def text(self, verbose: bool = False) -> str:
        """Return the outcome in a few plain lines; verbose: with every number and how it was tested."""
        return "\n".join([self.title, *printing.written(self.rows(verbose))])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.promise_text}, confidence {self.confidence:.4g}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the outcome in an interactive shell."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return what a notebook shows, with a picture of the trade-off."""
        return card(self.title, self.rows(), self.tradeoff, self.abstained)

    @property
    def tradeoff(self) -> Tradeoff:
        """Disparity removed against utility along the path, as every picture of it draws it."""
        used = None if self.abstained else next((i for i, p in enumerate(self.curve) if p.ranker == self.ranker), None)
        return Tradeoff.along(self.curve, used, self.utility_name)

    def plot(self, ax: Any = None) -> Any:
        """Draw disparity removed against utility along the path with matplotlib; returns the Axes.

        Args:
            ax: Axes to draw on; by default new ones.
        """
        return self.tradeoff.plot(ax)

    def to_frame(self) -> Any:
        """Return the path, one row per configuration, as a frame of pandas, or of polars without pandas."""
        return frame(self.curve)

    def rank(
        self,
        scores: ArrayLike,
        query_id: object = None,
        session: object = None,
        k: int | None = None,
        item_ids: Sequence[Any] | NDArray[Any] | None = None,
        groups: object = None,
    ) -> NDArray[np.int64]:
        """Return one order of one query, the one that `isrr serve` gives; see `GPLRanker.rank`.

        Equal scores are ordered by the items' ids, so pass `item_ids=` if scores can be equal. A ranker that boosts
        groups needs `groups=`.
        """
        return self.ranker.rank(scores, query_id, session, k, item_ids, groups)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the outcome as JSON, to a .json file; the old one stays whole until the new one is complete."""
        write_atomically(ranker_path(path), (json.dumps(self.document(), indent=1, allow_nan=False) + "\n").encode())

    def document(self) -> dict[str, Any]:
        """Return what `save` writes: the content, and the digest that vouches for it."""
        maps: list[ScoreMap] = []  # written once, however many configurations share one
        body = {name: _plain(getattr(self, name), maps) for name in self.__struct_fields__}
        score_maps = [{"inputs": list(known.inputs), "outputs": list(known.outputs)} for known in maps]
        content = {"schema": SCHEMA, "kind": type(self).__name__.lower(), "score_maps": score_maps, **body}
        return {**content, "integrity": _digest(content)}


class Certificate(Outcome, frozen=True):
    """A promise that holds with the stated confidence, and the ranker that keeps it.

    Attributes:
        utility, disparity: Of the ranker, as measured.
        fairness_gain: Share of the disparity of the order by score that it removes.
        deterministic_utility, deterministic_disparity: Of the order by score.
        quality: What becomes of NDCG@k, or of `kept@k` where there are no grades.
    """

    utility: Estimate
    disparity: Estimate
    fairness_gain: Estimate
    deterministic_utility: Estimate
    deterministic_disparity: Estimate
    quality: Quality

    @property
    def warnings(self) -> list[str]:
        """What to know before you trust the certificate."""
        clicks = self.provenance.clicks
        cascade = [printing.CASCADE] if clicks is not None and clicks.assumption else []
        no_fairer = "these queries do not show that the ranker is any fairer than the order by score"
        fairer = self.fairness_gain.low > 0
        unprotected = printing.unprotected(self.promises, self.quality)
        return [*unprotected, *printing.warnings(self), *cascade, *([] if fairer else [no_fairer])]

    rows = printing.certificate_rows


class Abstention(Outcome, frozen=True):
    """Nothing could be certified; the ranker is the order by score.

    Attributes:
        cause: Why, for programs: "too_few_queries" (promises are met, but not proven), "out_of_reach" (a promise is not
            even met), or "conflicting_promises" (each can be kept, but not together).
        reason: Why, in words.
        queries_needed: Judged queries that would be enough, with 80 % probability, including those set aside and
            those without a relevant item; None if no number is enough.
        cheaper: What capping values would need, as sentences, where a bound lies far above nearly all of them.
        frontier: Estimates of what two promises that conflict could reach together, as sentences.
    """

    cause: Cause
    reason: str
    queries_needed: int | None
    cheaper: tuple[str, ...] = ()
    frontier: tuple[str, ...] = ()

    abstained: ClassVar[bool] = True

    def __bool__(self) -> bool:
        return False

    @property
    def unit(self) -> str:
        """What more of would help, one of them."""
        return unit_needed(self.promises) if self.provenance.clicks is None else self.provenance.unit

    @property
    def title(self) -> str:
        """The first line of the text."""
        return "Abstention: nothing is certified, and the order by score is used"

    rows = printing.abstention_rows


class Start(Outcome, frozen=True):
    """A promise that holds on every query by construction, with its ranker.

    Attributes:
        moved: Share of all exposure that the ranker gives to other items than the order by score does.
        shown_before, shown: Share of the items that are shown at all, in the order by score and by the ranker.
        quality: What becomes of `kept@k`.
    """

    moved: float
    shown_before: float
    shown: float
    quality: Quality

    @property
    def title(self) -> str:
        """The first line of the text: what every query keeps, and how many lists change."""
        promise = self.promises[0]
        return (
            f"Start {self.id}: every query keeps at least {100 * promise.target:.4g} % of its {promise.measure.title} "
            f"on average over its lists; {percent(self.quality.changed.value)} of the lists change"
        )

    rows = printing.start_rows


KINDS: dict[str, type[Certificate | Abstention | Start]] = {
    "certificate": Certificate,
    "abstention": Abstention,
    "start": Start,
}


def ranker_path(path: str | PathLike[str]) -> Path:
    """Return where a ranker file lies.

    Its name must end in .json: what is kept beside it (`isrr.outcome.status`) is named after it. A device or a pipe may
    have any name.
    """
    file = Path(path)
    if file.suffix != ".json" and (file.is_file() or not file.exists()):
        ending = f"ends in {file.suffix}" if file.suffix else "has no ending"
        raise CertificateError(f"{path}: the name of a ranker file must end in .json; this one {ending}")
    return file


def load(
    path: str | PathLike[str], *, trust_edited: bool = False, metrics: Iterable[Measurable] = ()
) -> Certificate | Abstention | Start:
    """Read a saved outcome.

    Args:
        path: A file written by `save`.
        metrics: Your custom metrics that its promises use, if they are to be measured again.
        trust_edited: Accept a file whose content no longer matches its digest.
    """
    document = _checked_document(path)
    integrity = document.pop("integrity", None)
    intact = False
    try:
        intact = integrity == _digest(document)
        outcome = _converted(document, tuple(metrics)) if intact or trust_edited else None
        content = {**(document if outcome is None else outcome.document())}
        content.pop("integrity", None)
        for name in content.keys() | document.keys():
            if name not in document or name not in content or _digest(content[name]) != _digest(document[name]):
                raise ValueError(f"{name!r} is not in the form isrr writes")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if intact:
            raise CertificateError(f"{path}: written by another version of isrr; calibrate again ({error})") from None
        raise CertificateError(f"{path}: damaged certificate: {error}") from None
    if outcome is None:
        raise CertificateError(
            f"{path}: the content does not match its digest: it was edited or damaged; calibrate again, "
            "or read it with `trust_edited=True` if you know why"
        )
    return outcome


def _checked_document(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the JSON of a file, if it is an outcome of this version."""
    try:
        document = read_json(path)
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file") from None
    except ValueError as error:
        raise CertificateError(f"{path}: not a certificate: {error}") from None
    if not isinstance(document, dict) or document.get("kind") not in tuple(KINDS):
        raise CertificateError(f"{path}: not a certificate: it has no kind")
    if document.get("schema") != SCHEMA:
        raise CertificateError(
            f"{path}: schema {document.get('schema')!r}; this version of isrr reads schema {SCHEMA}; make a new file "
            f"with `isrr {'start' if document['kind'] == 'start' else 'calibrate'}`"
        )
    return document


def _converted(document: Mapping[str, Any], metrics: tuple[Measurable, ...]) -> Certificate | Abstention | Start:
    """Return the outcome of a document; msgspec checks every type, and refuses fields that are missing or unknown."""
    body = {name: value for name, value in document.items() if name not in ("schema", "kind", "score_maps")}
    maps = [msgspec.convert(known, ScoreMap) for known in document["score_maps"]]

    def ranker(settings: dict[str, Any]) -> GPLRanker:
        index = settings["score_map"]
        return msgspec.convert({**settings, "score_map": None if index is None else maps[index]}, GPLRanker)

    body["promises"] = [Promise.read(promise, metrics) for promise in body["promises"]]
    body["tests"] = [{**test, "promise": Promise.read(test["promise"], metrics)} for test in body["tests"]]
    body["ranker"] = ranker(body["ranker"])
    body["curve"] = [{**point, "ranker": ranker(point["ranker"])} for point in body["curve"]]
    return _checked(msgspec.convert(body, KINDS[document["kind"]]))


def _checked(outcome: Certificate | Abstention | Start) -> Certificate | Abstention | Start:
    """Refuse what no outcome says, beyond the types of its parts."""
    if not isinstance(outcome, Start):
        check_probability("confidence", outcome.confidence)
    if not outcome.promises or max(promise.k for promise in outcome.promises) != outcome.ranker.k:
        raise ValueError("a promise must look at as many positions as the ranker fills")
    for test in outcome.tests:
        if test.level is not None:
            test.promise.at(test.level)
    for name in ("score_quantiles", "eligibility_quantiles"):
        quantiles = getattr(outcome.provenance, name)
        if list(quantiles) != sorted(quantiles):
            raise ValueError(f"{name} must be five rising numbers, got {quantiles}")
    return outcome


def _plain(value: Any, maps: list[ScoreMap]) -> Any:
    """Return a value as JSON gives it back, so that the digest survives a round trip."""
    if isinstance(value, Promise):
        return value.document()
    if isinstance(value, ScoreMap):
        if value not in maps:
            maps.append(value)
        return maps.index(value)
    if isinstance(value, GPLRanker):
        return {field.name: _plain(getattr(value, field.name), maps) for field in fields(value)}
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name), maps) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {key: _plain(item, maps) for key, item in value.items()}
    return [_plain(item, maps) for item in value] if isinstance(value, list | tuple) else value


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()
