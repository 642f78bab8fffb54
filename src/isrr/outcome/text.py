"""How outcomes print: a few plain lines first, every number and its origin on demand."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from isrr.counting import counted, in_segment, percent
from isrr.data.production import lacking_in_words
from isrr.data.unjudged import unjudged_in_words
from isrr.outcome.findings import ENOUGH_LEFT, JUDGES, LEAST_LEFT, Provenance, Quality, Test, unit_needed
from isrr.promises import Promise, values_alone
from isrr.ranker.scale import FAR

if TYPE_CHECKING:
    from isrr.outcome.certificate import Abstention, Certificate, Outcome, Start

MANY_TIES = 0.1  # share of the first positions decided by ties from which a reader is warned
MANY_REPEATS = 0.01  # share of the queries that repeat another from which a reader is warned
NEAR_THE_BOUND = 0.9  # from which on a declared bound is worth a warning
MOSTLY = 0.5
BY_MODEL = ("model", "both")  # judges whose grades come with a warning
ASSUMPTIONS = (  # of certificates from judged queries
    "the judged queries are drawn at random, each independently, from the same traffic as the queries to come",
    "scores come from the same model, on the same scale",
    "the promise is about the mean over queries and draws, not about each served list",
)
OF_LISTS = "the promise is about the share of all lists; those of one query may fall short more often"
CASCADE = (
    "clicks are promised, not relevance; where users stop after a good result, or click more beside good items, the "
    "estimated share can be off by several points (too high in the second case), so confirm it by a rollout, which "
    "assumes only independent sessions, and later ones like these"
)
Row = tuple[str, str]  # a label of at most twelve characters, and what it names
DROPPED = {"missing_score": "{} without a score", "duplicates": "{} that repeat an item of their query"}


def written(rows: Iterable[Row]) -> list[str]:
    """Return rows as lines of text."""
    return [f"{label:<12} {sentence}" for label, sentence in rows]


def certificate_rows(outcome: "Certificate", verbose: bool = False) -> list[Row]:
    """Return what a certificate says."""
    first = unprotected(outcome.promises, outcome.quality)
    rows = [("warning", warning) for warning in first]
    wrong = f"at most {100 * (1 - outcome.confidence):.4g} % of calibrations like this one certify something false"
    rows += [("promise", outcome.promise_text), ("confidence", f"{100 * outcome.confidence:.6g} %: {wrong}")]
    rows += [("keeps", kept(test, verbose)) for test in outcome.tests]
    gain, now, before = outcome.fairness_gain, outcome.disparity.value, outcome.deterministic_disparity.value
    less = f"{percent(abs(gain.value))} {'less' if gain.value >= 0 else 'more'}"
    rows.append(("disparity", f"{less} than in the order by score ({now:.3g} vs {before:.3g})"))
    rows += [("for certain", sentence) for sentence in sure(outcome)]
    quality = quality_rows(outcome.quality, outcome.utility_name, outcome.protects_relevance)
    if verbose:
        utility, by_score = outcome.utility.value, outcome.deterministic_utility.value
        rows += [
            (outcome.utility_name, f"{utility:.4f}; order by score {by_score:.4f}"),
            *quality,
            ("fairer by", f"{percent(gain.value)} (95 % interval {100 * gain.low:.1f} to {100 * gain.high:.1f} %)"),
            ("ranker", outcome.ranker.in_words),
        ]
    elif not outcome.protects_relevance or _gives_much_away(outcome):
        rows.append(quality[0])
    return rows + _origin(outcome, verbose, without=first)


def _gives_much_away(outcome: "Certificate") -> bool:
    """Whether a tenth of the quality or more is lost, where no promise says how much of today's remains."""
    limited = any(promise.protects_relevance and promise.of == "deterministic" for promise in outcome.promises)
    return not limited and outcome.quality.remaining.value < 0.9


def abstention_rows(outcome: "Abstention", verbose: bool = False) -> list[Row]:
    """Return what an abstention says."""
    rows = [
        ("promise", outcome.promise_text),
        ("confidence", f"{100 * outcome.confidence:.6g} %"),
        ("reason", outcome.reason),
        ("what helps", _what_helps(outcome)),
        *(("or", sentence) for sentence in outcome.cheaper),
        *(("estimated", sentence) for sentence in outcome.frontier),
    ]
    if outcome.frontier:
        rows.append(("", "estimates only: to promise one of these pairs, use new queries"))
    for test in outcome.tests if not outcome.frontier else ():
        if test.level is not None and test.pvalue > (1 - outcome.confidence) / outcome.provenance.n_analyses:
            most = f"{test.promise.at(test.level)}{in_segment(test.segment)}"
            rows.append(("limit", f"these queries prove at most {most}; to promise that, use new queries"))
    return rows + _origin(outcome, verbose)


def start_rows(outcome: "Start", verbose: bool = False) -> list[Row]:
    """Return what a ranker that needs no labels says."""
    rows = [
        ("promise", outcome.promise_text),
        *(("for certain", sentence) for sentence in outcome.sure),
        ("exposure", f"{percent(outcome.moved)} of it moves to other items"),
        (
            "items shown",
            f"{percent(outcome.shown)} have a chance of being shown, {percent(outcome.shown_before)} in the order by "
            "score",
        ),
        *quality_rows(outcome.quality, outcome.utility_name, outcome.protects_relevance),
    ]
    if verbose:
        n_queries = counted(outcome.provenance.n_queries, "query")
        rows += [("ranker", outcome.ranker.in_words), ("fixed by", f"the scores of {n_queries}")]
    return [*rows, ("next", "serve it and collect judgments or clicks: a certificate from them allows far more")]


def kept(test: Test, verbose: bool = False) -> str:
    """Return what was kept and promised, in the reader's units; verbose: what was proven too."""
    promise = test.promise
    level = f"{100 * promise.target:.6g} %" if promise.in_percent else promise.shown(promise.target)
    level, title = f"{'≤ ' if promise.at_least is None else ''}{level}", promise.measure.title
    proven = "" if test.level is None or not verbose else f", proven: {promise.limit(test.level)}"
    shown = promise.shown(test.measured)
    about = f"{shown} {title}" if promise.of == "deterministic" else f"{title} at {shown}"
    if promise.lists is not None:
        about = f"{promise.reached(test.measured)}, {percent(1 - test.measured)} fall short"
    return f"{about}{in_segment(test.segment)} (promised: {level}{proven})"


def quality_rows(quality: Quality, utility_name: str, promised: bool) -> list[Row]:
    """Return what becomes of the lists; numbers that are printed as utility are not repeated."""
    known = quality.measure == utility_name or quality.measure.startswith("kept")
    numbers = "" if known else f": {quality.after.value:.4f}; order by score {quality.before.value:.4f}"
    about = "" if promised else "; nothing is promised about it"
    remains, theirs = f"{quality.measure} remains", f"their {quality.measure}"
    if quality.measure.startswith("kept"):
        remains, theirs = f"the exposure stays in place, weighted by position ({quality.measure})", "it"
    lose = f"{quality.halved.in_percent} lose more than half of {theirs}"
    return [
        ("quality", f"{quality.remaining.in_percent} of {remains}{numbers}{about}"),
        ("lists", f"{lose}; {quality.changed.in_percent} differ from the order by score"),
    ]


def _what_helps(outcome: "Abstention") -> str:
    clicks = outcome.provenance.clicks
    if clicks is not None and not clicks.n_clicks:
        return "clicks on these lists, with the list_id and the item_id of the log"
    if outcome.queries_needed is None:
        return "promise less, or improve the scores; more queries of this kind would not help"
    enough = f"about {counted(outcome.queries_needed, outcome.unit)} in all would be enough (8 times out of 10)"
    judged = [f"'{promise}'" for promise in outcome.promises if "relevance" in promise.columns]
    if outcome.unit == "query":
        return f"{enough}; no labels needed"
    if clicks is None and len(judged) < len(outcome.promises):
        return f"{enough}; only {' and '.join(judged)} {'needs' if len(judged) == 1 else 'need'} labels"
    return enough


def _origin(outcome: "Outcome", verbose: bool, without: Sequence[str] = ()) -> list[Row]:
    """Return what an outcome was tested on, what to know before trusting it, and, verbose, how it was tested."""
    p, judge = outcome.provenance, JUDGES.get(outcome.provenance.judged_by or "")
    rows = [("tested on", _tested_on(p))]
    if verbose:
        evidence = ", ".join(sorted({t.evidence for t in outcome.tests})) or p.evidence
        rankers = counted(len(outcome.curve), "ranker")
        rows += [
            ("path", f"{p.path}, {rankers}, fixed by {p.path_basis}"),
            ("evidence", f"{evidence}, {p.selection}"),
        ]
    if p.unjudged != "refuse":
        rows.append(("unjudged", unjudged_in_words(p.unjudged, p.unjudged_share, outcome.k)))
    rows += [("left out", DROPPED.get(option, "{}").format(counted(n, "row"))) for option, n in p.dropped.items()]
    if p.clicks is not None:
        rows += [("left out", f"{n:,} {reason}") for reason, n in p.clicks.left_out.items()]
        if verbose and p.clicks.shown_by_score is not None and p.clicks.expected_by_score is not None:
            shown = f"{percent(p.clicks.shown_by_score)} of the lists show the order by score"
            rows.append(
                (
                    "logged with",
                    f"anchor {p.clicks.anchor:g}; {shown} (expected: {percent(p.clicks.expected_by_score)})",
                )
            )
        rows += [("assumed", assumption) for assumption in outcome.assumptions]
    rows += [("judged by", judge)] if judge else []
    rows += [("warning", warning) for warning in outcome.warnings if warning not in without]
    rows += [
        (
            "note",
            f"grades come from {judge}, and they measure both sides of '{promise}': overstatement common to both "
            "cancels, but with people's grades the share may differ; check it on queries that people judged",
        )
        for promise in outcome.promises
        if p.judged_by in BY_MODEL and "relevance" in promise.columns and promise.compared_with is not None
    ]
    if p.made_ids:
        rows.append(("note", "query ids were numbered by position: the outcome depends on the order of the queries"))
    return rows + (_risk_rows(outcome) if verbose else [])


def _tested_on(p: Provenance) -> str:
    tested = counted(p.n_queries, p.unit)
    if p.sample is not None:
        tested = f"{p.n_queries:,} of {p.n_table:,} judged queries"
    if p.clicks is not None:
        tested += f": {p.clicks.n_impressions:,} lists with {counted(p.clicks.n_clicks, 'click')}"
    if p.n_skipped:
        tested += f" ({p.n_skipped:,} more left out: no relevant item)"
    if p.distinct:
        tested += f" ({p.n_repeated:,} left out: they repeat another)"
    if p.n_set_aside:
        tested += f", {p.n_set_aside:,} set aside to choose which rankers to test"
    return tested


def _risk_rows(outcome: "Outcome") -> list[Row]:
    """Return the tested risk and its bound, for those who check."""
    rows = []
    for test in outcome.tests:
        bound = "" if test.bound is None else f", upper bound {test.bound:.4f}"
        rows.append(("tested risk", f"{test.risk:.4f}{bound}{in_segment(test.segment)}, p = {test.pvalue:.3g}"))
    several = len(outcome.promises) > 1
    for promise in outcome.promises:
        rows.append(("", f"{f'of {str(promise)!r}: ' if several else ''}{promise.risk_in_words}"))
    return rows


def assumptions(outcome: "Outcome") -> tuple[str, ...]:
    """Return what a promise rests on."""
    p, means = outcome.provenance, any(promise.lists is None for promise in outcome.promises)
    if p.clicks is None:
        of_lists = any(promise.lists is not None for promise in outcome.promises)
        return (*ASSUMPTIONS[:2], *ASSUMPTIONS[2:] * means, *[OF_LISTS] * of_lists)
    sampled = f"the {p.clicks.unit}s are a random sample of the traffic to come, each independent of the others"
    return tuple(filter(None, (sampled, p.clicks.assumption, *ASSUMPTIONS[1:])))


def sure(outcome: "Outcome") -> list[str]:
    """Return what holds on every single query, by the floor of the ranker, whatever is relevant."""
    floored = dict.fromkeys(p.measure.title for p in outcome.promises if p.floored(outcome.ranker))
    return [
        f"every query keeps at least {100 * outcome.ranker.floor:.4g} % of its {title} in the order by score, averaged "
        "over its random lists"
        for title in floored
    ]


def warnings(outcome: "Outcome") -> list[str]:
    """Return what a reader must know before trusting an outcome."""
    p, delta = outcome.provenance, 1 - outcome.confidence
    share_single = p.n_single / p.n_judged
    texts = [*([mostly_single(share_single)] if share_single > MOSTLY else []), *p.caveats]
    spent = p.analysis * delta / p.n_analyses if p.spent is None else p.spent  # by this analysis and those before it
    if spent > delta * (1 + 1e-9):  # more than rounding
        texts.append(
            f"analysis {p.analysis} of the same data; all {p.analysis} together hold with confidence "
            f"{max(1 - spent, 0):.4g} only: plan them (`n_analyses=`) before the first, or use new queries"
        )
    if p.tied_share >= MANY_TIES:
        texts.append(
            f"{p.tied_share:.0%} of the first {outcome.k} positions go to items whose score another item shares; a "
            "hash decides there, so finer scores would rank better"
        )
    if not p.distinct and p.n_repeated >= MANY_REPEATS * p.n_judged:
        texts.append(
            f"repeated queries: {p.n_repeated:,} of {p.n_judged:,} have the same scores and relevance as another; "
            "copies are no additional evidence, so if these are copies, count each query once (`distinct=`)"
        )
    texts += [lacking_in_words(p.n_lacking)] if p.n_lacking else []
    texts += [p.doubtful_grades, *([far_off(p.far_above, p.far_below)] if p.far_above + p.far_below else [])]
    texts += [
        f"grades come from {JUDGES[p.judged_by]}, and '{promise}' promises a level of them: grades of two large "
        "language models overstated NDCG@5 by 15–31 % on TREC data; promise a share of deterministic, or have people "
        "judge"
        for promise in outcome.promises
        if p.judged_by in BY_MODEL and "relevance" in promise.columns and promise.compared_with is None
    ]
    if p.near_bound >= NEAR_THE_BOUND:
        texts.append(
            f"values reach {p.near_bound:.0%} of the declared bound, which must hold for every query to come: is it "
            "large enough?"
        )
    return [text for text in texts if text]


def unprotected(promises: Sequence[Promise], quality: Quality) -> list[str]:
    """Return a warning where little of NDCG (or of `kept`) remains and no promise is about relevance."""
    least = ENOUGH_LEFT if values_alone(promises) else LEAST_LEFT
    if any(promise.protects_relevance for promise in promises) or quality.remaining.value >= least:
        return []
    more = f"{quality.measure.lower()} >= 95% of deterministic"
    return [
        f"only {percent(quality.remaining.value)} of {quality.measure} remains, and nothing is promised about it; to "
        f"protect it, promise '{more}' too"
    ]


def needed_in_words(n_queries: int | None, promises: Sequence[Promise], unit: str = "query") -> str:
    """Return how many queries promises need, and whether these need labels.

    Example:
        >>> needed_in_words(7_012, [Promise.parse("exposure(new)@10 >= 20%")])
        'about 7,012 queries, no labels needed'
    """
    if n_queries is None:
        return "more than any number"
    if unit == "query":
        unit = unit_needed(promises)
    return f"about {counted(n_queries, unit)}{', no labels needed' if unit == 'query' else ''}"


def far_off(above: int, below: int) -> str:
    """Return a warning of scores that lie far from those of their query.

    Example:
        >>> far_off(4, 0)
        "4 scores lie more than 100 spreads above their query's median: promoted items?"
    """
    where = "above" if below == 0 else "below" if above == 0 else "above or below"
    lie, why = ("lies", "its query's median: a") if above + below == 1 else ("lie", "their query's median:")
    what = "missing score filled in" if above == 0 else "promoted item"
    what = what if above + below == 1 else what.replace("score", "scores").replace("item", "items")
    return f"{counted(above + below, 'score')} {lie} more than {FAR} spreads {where} {why} {what}?"


def mostly_single(share: float) -> str:
    """Return a warning of queries with a single item: where most have one, columns are likely swapped."""
    return (
        f"{min(share, 0.99):.0%} of the queries have a single item, which any order ranks perfectly: are the columns "
        "of queries and items swapped (`query=`, `item=`)?"
    )
