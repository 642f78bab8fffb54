"""What was promised, chosen and measured, on which data, under which assumptions; or why nothing was.

A certificate is a value, printed as text and kept as JSON. The file carries a digest of its content: one edited by
hand is refused unless the reader says otherwise.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.counting import counted, in_segment, percent
from isrr.data.unjudged import unjudged_in_words
from isrr.errors import CertificateError
from isrr.files import read_json, write_atomically
from isrr.metrics.disparity import Disparity
from isrr.metrics.metric import Metric
from isrr.outcome.findings import (
    ENOUGH_LEFT,
    LEAST_LEFT,
    ClickLog,
    Estimate,
    Point,
    Provenance,
    Quality,
    Record,
    Test,
    far_off,
    mostly_single,
    unit_needed,
)
from isrr.outcome.notebook import card, curve_frame, plot
from isrr.promises import Promise, check_probability, columns_of, values_alone
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import ScoreMap

SCHEMA = 4
MANY_TIES = 0.1  # share of the first places decided by ties from which a reader is warned
MANY_REPEATS = 0.01  # share of the queries that repeat another from which a reader is warned
NEAR_THE_BOUND = 0.9  # from which on a declared bound is worth a warning
Cause = Literal["too_few_queries", "out_of_reach", "conflicting_promises"]
ASSUMPTIONS = (  # of certificates from judged queries
    "the judged queries are a random sample of the queries to come, each drawn independently",
    "scores come from the same model, on the same scale",
    "the promise is about the mean over queries and draws, not about each served list",
)
CASCADE = (
    "clicks are promised, not relevance; where users stop after a good result, or click more beside good items, the "
    "estimated share can be off by several points (too high in the second case), so confirm it by a rollout, which "
    "assumes only independent sessions, and later ones like these"
)


@dataclass(frozen=True, repr=False)
class Outcome(Record):
    """What certificates and abstentions have in common.

    Attributes:
        promises: What was promised, or asked for.
        confidence: Probability with which the promises hold together.
        ranker: The ranker to use.
        utility_name: What utility is measured by, as sentences call it.
        tests: Each promise, in each segment, as it was tested for the ranker in use.
        curve: The configurations that were tried, in the order of the path.
        provenance: Where all of it comes from.
    """

    promises: tuple[Promise, ...]
    confidence: float
    ranker: GPLRanker
    utility_name: str
    tests: tuple[Test, ...]
    curve: tuple[Point, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        if not isinstance(self, Start):
            check_probability("confidence", self.confidence)
        super().__post_init__()
        if not self.promises or max(promise.k for promise in self.promises) != self.ranker.k:
            raise ValueError("a promise must look at as many places as the ranker fills")

    @property
    def abstained(self) -> bool:
        """Whether nothing could be certified."""
        return isinstance(self, Abstention)

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
        return _digest(self._content())[:16]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self._promise()}, confidence {self.confidence:.4g}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What an interactive shell shows."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """What a notebook shows, with a picture of the trade-off."""
        return card(str(self), self.curve, self._used, self.utility_name, self.abstained)

    @property
    def _used(self) -> Point | None:
        """The configuration in use, where it is one of the path."""
        return None if self.abstained else next((p for p in self.curve if p.ranker == self.ranker), None)

    def plot(self, ax: Any = None) -> Any:
        """Draw disparity removed against utility along the path with matplotlib; returns the Axes.

        Args:
            ax: Axes to draw on; by default new ones.
        """
        return plot(self.curve, self._used, self.utility_name, ax)

    def to_frame(self) -> Any:
        """The path, one row per configuration, as a frame of pandas, or polars where pandas is not installed."""
        return curve_frame(self.curve)

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
        """What `save` writes: the content, and the digest that vouches for it."""
        content = self._content()
        return {**content, "integrity": _digest(content)}

    def _content(self) -> dict[str, Any]:
        maps: list[Any] = []
        body = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        for ranker in (body["ranker"], *(point["ranker"] for point in body["curve"])):
            if ranker["score_map"] is not None:  # written once, however many configurations share it
                if ranker["score_map"] not in maps:
                    maps.append(ranker["score_map"])
                ranker["score_map"] = maps.index(ranker["score_map"])
        return {"schema": SCHEMA, "kind": type(self).__name__.lower(), "score_maps": maps, **body}

    def _promise(self) -> str:
        return " and ".join(str(promise) for promise in self.promises)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the promise rests on."""
        log = self.provenance.clicks
        if log is None:
            return ASSUMPTIONS
        sampled = f"the {log.unit}s are a random sample of the traffic to come, each independent of the others"
        return tuple(filter(None, (sampled, log.assumption, *ASSUMPTIONS[1:])))

    @property
    def sure(self) -> list[str]:
        """What holds on every single query, by the floor of the ranker, whatever is relevant."""
        floored = dict.fromkeys(p.measure.title for p in self.promises if p.floored(self.ranker))
        return [
            f"no query's expected {title} (over its random lists) falls below {100 * self.ranker.floor:.4g} % of what "
            "the order by score gives it; this needs no assumption"
            for title in floored
        ]

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting the outcome."""
        p, found = self.provenance, []
        if said := mostly_single(p.share_single):
            found.append(said)
        found += p.caveats
        if self._spent > (1 - self.confidence) * (1 + 1e-9):  # more than rounding
            found.append(
                f"analysis {p.analysis} of the same data; jointly they hold with confidence at most "
                f"{max(1 - self._spent, 0):.4g}: plan them (`n_analyses=`) before the first, or use new queries"
            )
        if p.tied_share >= MANY_TIES:
            found.append(
                f"{p.tied_share:.0%} of the first {self.k} places go to items whose score another item shares; a hash "
                "decides there, so finer scores would rank better"
            )
        if not p.distinct and p.n_repeated >= MANY_REPEATS * p.n_judged:
            found.append(
                f"repeated queries: {p.n_repeated:,} of {p.n_judged:,} have the same scores and relevance as "
                "another; copies are no additional evidence, so if these are copies, count each query once "
                "(`distinct=`)"
            )
        if p.looks_clicked:
            found.append(p.looks_clicked)
        if said := far_off(p.far_above, p.far_below):
            found.append(said)
        found += [
            f"grades come from {p.judge}, and '{promise}' promises a level of them: grades of two large "
            "language models overstated NDCG@5 by 15–31 % on TREC data; promise a share of deterministic, or have "
            "people judge"
            for promise in self._promises_by_models
            if promise.of is None
        ]
        if p.near_bound >= NEAR_THE_BOUND:
            found.append(
                f"values reach {p.near_bound:.0%} of the declared bound, which must hold for every query to come: is "
                "it large enough?"
            )
        return found

    @property
    def _promises_by_models(self) -> list[Promise]:
        """The promises that rest on grades of a model."""
        by_model = self.provenance.judged_by in ("model", "both")
        return [promise for promise in self.promises if by_model and "relevance" in promise.columns]

    @property
    def protects_relevance(self) -> bool:
        """Whether a promise sets a lower limit on relevance."""
        return any(promise.protects_relevance for promise in self.promises)

    def unprotected(self, quality: Quality) -> list[str]:
        """A warning where little of NDCG (or of `kept`) remains and no promise is about relevance."""
        least = ENOUGH_LEFT if values_alone(self.promises) else LEAST_LEFT
        if self.protects_relevance or quality.remaining.value >= least:
            return []
        more = f"{quality.measure.lower()} >= 95% of deterministic"
        return [
            f"only {percent(quality.remaining.value)} of {quality.measure} remains, and nothing is promised about it; "
            f"to protect it, promise '{more}' too"
        ]

    @property
    def _spent(self) -> float:
        """Tolerated chance of error of this look and those before it together."""
        p = self.provenance
        return p.analysis * (1 - self.confidence) / p.n_analyses if p.spent is None else p.spent

    def _risk_lines(self) -> list[str]:
        """The tested risk and its bound, for those who check."""
        lines = []
        for test in self.tests:
            bound = "" if test.bound is None else f", upper bound {test.bound:.4f}"
            lines.append(f"tested risk  {test.risk:.4f}{bound}{in_segment(test.segment)}, p = {test.pvalue:.3g}")
        several = len(self.promises) > 1
        for promise in self.promises:
            lines.append(f"             {f'of {str(promise)!r}: ' if several else ''}{promise.risk_in_words}")
        return lines

    def _provenance_lines(self) -> list[str]:
        p = self.provenance
        tested = counted(p.n_queries, p.unit)
        if p.clicks is not None:
            tested += f": {p.clicks.n_impressions:,} lists with {counted(p.clicks.n_clicks, 'click')}"
        if p.n_skipped:
            tested += f" ({p.n_skipped:,} more left out: no relevant item)"
        if p.distinct:
            tested += f" ({p.n_repeated:,} left out: they repeat another)"
        if p.n_set_aside:
            tested += f", {p.n_set_aside:,} set aside to fix the path"
        lines = [
            f"tested on    {tested}",
            f"path         {p.path}, {counted(len(self.curve), 'configuration')}, fixed by {p.path_basis}",
            f"evidence     {', '.join(sorted({t.evidence for t in self.tests})) or p.evidence}, {p.selection}",
        ]
        if p.unjudged != "refuse":
            lines.append(f"unjudged     {unjudged_in_words(p.unjudged, p.unjudged_share, self.k)}")
        if p.clicks is not None:
            lines += [f"left out     {n:,} {reason}" for reason, n in p.clicks.left_out.items()]
            if p.clicks.shown_by_score is not None and p.clicks.expected_by_score is not None:
                lines.append(
                    f"logged with  anchor {p.clicks.anchor:g}; {percent(p.clicks.shown_by_score)} of the lists show "
                    f"the order by score (expected: {percent(p.clicks.expected_by_score)})"
                )
            lines += [f"assumed      {text}" for text in self.assumptions]
        lines += [f"judged by    {p.judge}"] if p.judge else []
        lines += [f"warning      {warning}" for warning in self.warnings]
        lines += [
            f"note         grades come from {p.judge}, and they measure both sides of '{promise}': "
            "overstatement common to both cancels, but with people's grades the share may differ; check it on queries "
            "that people judged"
            for promise in self._promises_by_models
            if promise.of is not None
        ]
        if p.made_ids:
            lines.append("note         query ids were made from positions: the outcome depends on the order given")
        return lines


@dataclass(frozen=True, repr=False)
class Certificate(Outcome):
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
        found = self.unprotected(self.quality) + super().warnings
        if self.provenance.clicks is not None and self.provenance.clicks.assumption:
            found.append(CASCADE)
        if self.fairness_gain.low > 0:
            return found
        return [*found, "these queries do not show that the ranker is any fairer than the order by score"]

    def __str__(self) -> str:
        gain, before = self.fairness_gain, self.deterministic_disparity.value
        wrong = f"{100 * (1 - self.confidence):.4g} %"
        first = [f"warning      {warning}" for warning in self.unprotected(self.quality)]
        lines = [
            f"Certificate {self.id}",
            *first,
            f"promise      {self._promise()}",
            f"confidence   {self.confidence:.4g}: at most {wrong} of calibrations like this one certify something "
            "false",
        ]
        lines += [f"keeps        {test.in_words}" for test in self.tests]
        lines += [f"every query  {sentence}" for sentence in self.sure]
        lines += [
            f"{self.utility_name:<12} {self.utility.value:.4f}; order by score {self.deterministic_utility.value:.4f}",
            *self.quality.lines(self.utility_name, self.protects_relevance),
            f"disparity    {self.disparity.value:.4g}; order by score {before:.4g}",
            f"fairer by    {percent(gain.value)}: that much less disparity than the order by score (95 % interval "
            f"{100 * gain.low:.1f} to {100 * gain.high:.1f} %)",
            f"ranker       {self.ranker.in_words}",
        ]
        lines += [line for line in self._provenance_lines() if line not in first]
        return "\n".join(lines + self._risk_lines())


@dataclass(frozen=True, repr=False)
class Abstention(Outcome):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cause not in get_args(Cause):
            raise ValueError(f"cause must be one of {', '.join(get_args(Cause))}; got {self.cause!r}")

    def __bool__(self) -> bool:
        return False

    @property
    def unit(self) -> str:
        """What more of would help, one of them."""
        return unit_needed(self.promises) if self.provenance.clicks is None else self.provenance.unit

    def __str__(self) -> str:
        if self.provenance.clicks is not None and not self.provenance.clicks.n_clicks:
            more = "clicks on these lists, with the list_id and the item_id of the log"
        elif self.queries_needed is None:
            more = "more queries of this kind do not help: promise less, or improve the scores"
        else:
            more = f"about {counted(self.queries_needed, self.unit)} in all would be enough (8 times out of 10)"
            judged = [f"'{promise}'" for promise in self.promises if "relevance" in promise.columns]
            if self.unit == "query":
                more += "; no labels needed"
            elif self.provenance.clicks is None and len(judged) < len(self.promises):
                more += f"; only {' and '.join(judged)} {'needs' if len(judged) == 1 else 'need'} labels"
        lines = [
            "Abstention: nothing is certified, and the order by score is used",
            f"promise      {self._promise()}",
            f"confidence   {self.confidence:.4g}",
            f"reason       {self.reason}",
            f"what helps   {more}",
        ]
        lines += [f"or           {sentence}" for sentence in self.cheaper]
        lines += [f"estimated    {sentence}" for sentence in self.frontier]
        if self.frontier:
            lines.append("             estimates only: to promise a point of this frontier, use new queries")
        for test in self.tests if not self.frontier else ():
            if test.level is not None and test.pvalue > (1 - self.confidence) / self.provenance.n_analyses:
                most = f"{test.promise.at(test.level)}{in_segment(test.segment)}"
                lines.append(f"limit        these queries prove at most {most}; to promise that, use new queries")
        return "\n".join(lines + self._provenance_lines() + self._risk_lines())


@dataclass(frozen=True, repr=False)
class Start(Outcome):
    """A promise that holds on every query by construction, so that no judged query was needed.

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
    def headline(self) -> str:
        """What every query keeps, and how many lists change."""
        promise = self.promises[0]
        return (
            f"every query keeps at least {100 * promise.target:.4g} % of its {promise.measure.title} on average over "
            f"its lists; {percent(self.quality.changed.value)} of the lists change"
        )

    def __str__(self) -> str:
        lines = [
            f"Start {self.id}: {self.headline}",
            f"promise      {self._promise()}",
            *(f"every query  {sentence}" for sentence in self.sure),
            f"exposure     {percent(self.moved)} of it goes to other items than in the order by score",
            f"items shown  {percent(self.shown)} have a chance of being shown, {percent(self.shown_before)} before",
            *self.quality.lines(self.utility_name, self.protects_relevance),
            f"ranker       {self.ranker.in_words}",
            f"fixed by     the scores of {counted(self.provenance.n_queries, 'query')}",
            "next         serve it and collect judgments or clicks: a certificate from them allows far more",
        ]
        return "\n".join(lines)


def ranker_path(path: str | PathLike[str]) -> Path:
    """Where a ranker file lies.

    Its name must end in .json: what is kept beside it (`isrr.outcome.status`) is named after it.

    A device or a pipe may have any name.
    """
    found = Path(path)
    if found.suffix != ".json" and (found.is_file() or not found.exists()):
        ending = f"ends in {found.suffix}" if found.suffix else "has no ending"
        raise CertificateError(f"{path}: the name of a ranker file must end in .json; this one {ending}")
    return found


def load(
    path: str | PathLike[str], *, trust_edited: bool = False, metrics: Iterable[Metric | Disparity] = ()
) -> Certificate | Abstention | Start:
    """Read a saved outcome.

    Args:
        path: A file written by `save`.
        metrics: Your custom metrics that its promises use, if they are to be measured again.
        trust_edited: Accept a file whose content no longer matches its digest.
    """
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
    integrity = document.pop("integrity", None)
    if integrity != _digest(document) and not trust_edited:
        raise CertificateError(
            f"{path}: the content does not match its digest: it was edited or damaged; calibrate again, "
            "or read it with `trust_edited=True` if you know why"
        )
    try:
        outcome = _read(dict(document), tuple(metrics))
        content = outcome._content()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CertificateError(f"{path}: damaged certificate: {error!r}") from None
    for name in content.keys() | document.keys():
        if name not in document or name not in content or _digest(content[name]) != _digest(document[name]):
            raise CertificateError(f"{path}: damaged certificate: {name!r} is not in the form isrr writes")
    return outcome


def _read(document: dict[str, Any], metrics: tuple[Metric | Disparity, ...]) -> Certificate | Abstention | Start:
    maps = [ScoreMap(tuple(m["inputs"]), tuple(m["outputs"])) for m in document.pop("score_maps")]
    kind, _ = document.pop("kind"), document.pop("schema")

    def ranker(d: dict[str, Any]) -> GPLRanker:
        plain = {name: _tuples(value) for name, value in d.items()}
        return GPLRanker(**{**plain, "score_map": None if d["score_map"] is None else maps[d["score_map"]]})

    def record(kind: type[Any], d: dict[str, Any]) -> Any:
        return kind(**{name: read.get(name, _tuples)(value) for name, value in d.items()})

    read: dict[str, Callable[[Any], Any]] = {
        "promise": lambda d: Promise.read(d, metrics),
        "promises": lambda several: tuple(Promise.read(d, metrics) for d in several),
        "ranker": ranker,
        "tests": lambda several: tuple(record(Test, d) for d in several),
        "curve": lambda several: tuple(record(Point, d) for d in several),
        "provenance": lambda d: record(Provenance, d),
        "quality": lambda d: record(Quality, d),
        "clicks": lambda d: None if d is None else ClickLog(**d),
        **{f.name: lambda d: Estimate(**d) for f in (*fields(Certificate), *fields(Quality)) if f.type is Estimate},
    }
    made: Certificate | Abstention | Start = record(KINDS[kind], document)
    return made


KINDS: dict[str, type[Outcome]] = {"certificate": Certificate, "abstention": Abstention, "start": Start}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Dataclasses as dicts and tuples as lists, as JSON gives them back, so that the digest survives a round trip."""
    if isinstance(value, Promise):
        return value.document()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
