"""The page's sentences: what a certificate or an abstention says, in plain language."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace

from isrr.counting import counted, percent
from isrr.gains import described
from isrr.outcome.certificate import Abstention, Certificate, Outcome
from isrr.outcome.findings import Estimate
from isrr.reporting.portrait import Portrait, Row, Sample

BREAKS = (
    "The judged queries are not a random sample: only hard ones were judged, or only one market, or last year's.",
    "The same query appears in the table more than once, or queries of one user depend on each other.",
    "The scoring model was trained on these very queries, or was replaced since.",
    "The promise was chosen after trying several on these same queries.",
)
SELECTED = {
    "fixed_sequence": "Rankers were put in an order, safest first, without looking at the judgments they are "
    "tested on. Each was tested in turn, and all those before the first failure are certified.",
    "holm": "Rankers were tested by Holm's step-down: the clearest first, each at the part of the tolerated "
    "error that those still untested leave it, until one failed.",
}
_ARGUMENT = re.compile(r"`(\w+)=\w*`")  # as the library names its arguments


def level(share: float) -> str:
    """Return a share that somebody chose, with the digits it has.

    Example:
        >>> level(0.95), level(0.925)
        ('95 %', '92.5 %')
    """
    return f"{100 * share:.6g} %"


def interval(share: Estimate) -> str:
    """Return a share with its interval, in percent."""
    return f"{percent(share.value)} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def verdict(outcome: Certificate | Abstention) -> str:
    """Return what is promised, or is not, in one sentence."""
    promise = " and ".join(promise.in_words for promise in outcome.promises)
    if isinstance(outcome, Abstention):
        return f"Nothing could be certified: it is not proven that {promise}."
    return f"On new queries like the judged ones, {promise}."


def cost_and_gain(outcome: Certificate | Abstention, portrait: Portrait | None) -> str:
    """Return what it costs and gains, in one sentence that speaks of items."""
    if isinstance(outcome, Abstention):
        return "The order by score stays in use, so nothing changes for users or items."
    share = outcome.utility.value / max(outcome.deterministic_utility.value, 1e-300)
    remains = f"Measured, {percent(share)} of {outcome.utility_name} remains"
    if portrait is not None and portrait.promised:
        shares = (f"the {s.name} goes from {percent(s.before)} to {percent(s.after)}" for s in portrait.promised)
        return f"{', and '.join([remains, *shares])}."
    below = () if portrait is None else [item for item in portrait.shown if item.position == outcome.k + 1]
    item = next(iter(below), None)  # lists may be too short to have one
    if item is None:
        return f"{remains}, and {percent(outcome.fairness_gain.value)} of the disparity in exposure is gone."
    visits = f"{100 * item.before:.0f} % of the visits, now in {100 * item.after:.0f} %"
    return f"{remains}, and an item one position below the cut (position {item.position}) was shown in {visits}."


def which_is_which(outcome: Certificate | Abstention) -> str:
    """Return what the share that is kept and the confidence are, so that nobody takes one for the other."""
    sure, wrong = level(outcome.confidence), level(1 - outcome.confidence)
    confidence = (
        f"The {sure} confidence is how sure that is: of all calibrations like this one, at most {wrong} promise "
        "something that is not so."
    )
    if outcome.abstained:
        return f"To be certified, a promise must be proven with {sure} confidence."
    shares = [
        promise for promise in outcome.promises if promise.lists or (promise.of == "deterministic" and promise.at_least)
    ]
    if not shares:
        return confidence
    first = shares[0]
    share = f"The {level(first.target)} in the promise is how much of today's {first.measure.title} is left on average"
    if first.lists is not None:
        share = f"The {level(first.target)} in the promise is the share of lists that {first.lists.in_words(first.k)}"
    alike = f"Two different {100 * first.target:.6g}s. " if abs(first.target - outcome.confidence) < 1e-9 else ""
    return f"{alike}{share}. {confidence}"


def about(outcome: Certificate | Abstention) -> str:
    """Return what the promises are about."""
    lists = [promise.lists is not None for promise in outcome.promises]
    return "the share of lists" if all(lists) else "the mean and the share of lists" if any(lists) else "the mean"


def floor(outcome: Certificate | Abstention) -> str:
    """Return what a floor does and does not mean; nothing where there is none."""
    if not outcome.sure:
        return ""
    return (
        f"{' '.join(sentences(outcome.sure))} It does not mean that each single list keeps that much, nor that so "
        "little is usual: the mean over queries is what the promise is about."
    )


def disparity(outcome: Certificate | Abstention) -> str:
    """Return what disparity is, and what removing it means for an item."""
    k = outcome.k
    ndcg = f"NDCG@{k} says how near the first {k} positions come to the best possible order, from 0 to 1. "
    return (
        f"{ndcg if outcome.utility_name.startswith('NDCG') else ''}Disparity compares two items of a query at a time: "
        "how far the attention they get (their exposure) is from what their relevance earns; 0 is fair. Removing "
        "disparity means that items of like relevance, which the order by score always puts in the same "
        "positions, take turns."
    )


def spread(outcome: Certificate | Abstention, portrait: Portrait) -> str:
    """Return what becomes of the queries that have least, and of a middling one."""
    name, s = outcome.utility_name, portrait.spread
    tenth = f"The tenth of the {counted(portrait.n_queries, 'query')} that the order by score serves worst"
    if outcome.abstained:
        return f"{tenth} has a mean {name} of {s.worst_before:.3f}; the median is {s.median_before:.3f}."
    return (
        f"{tenth} has a mean {name} of {s.worst_before:.3f}; the same queries have {s.worst_after:.3f} under the "
        f"ranker in use. The median goes from {s.median_before:.3f} to {s.median_after:.3f}. {percent(s.losing)} of "
        f"the queries lose more than 0.05, {percent(s.gaining)} gain more than 0.05. The promise is about "
        f"{about(outcome)}."
    )


def sample(outcome: Certificate | Abstention, query: Sample) -> str:
    """Return how to read the table of one query; its name comes before."""
    whole = counted(query.n_items, "item")
    part = f"the {len(query.rows)} highest-scoring of its {whole}" if len(query.rows) < query.n_items else whole
    mapped = (
        " Chances follow the scores after the score map, which rescales them, so a small gap in score can be a larger "
        "gap in chance."
    )
    return (
        f": {part}, best score first. Each cell is the chance that the item is shown at that position; the framed cell "
        f"is its position in the order by score.{mapped if outcome.ranker.score_map else ''}"
    )


def inversion(query: Sample) -> str:
    """Return why an item is shown more often than a more relevant one; nothing where none is."""
    pairs = [
        (lower.relevance - higher.relevance, higher, lower)
        for i, higher in enumerate(query.rows)
        for lower in query.rows[i + 1 :]
        if lower.relevance > higher.relevance and sum(higher.chances) > sum(lower.chances) + 0.005
    ]
    if not pairs:
        return ""
    _, more, less = max(pairs, key=lambda pair: pair[0])

    def named(row: Row) -> str:
        return f"{row.item if len(row.item) <= 40 else row.item[:39] + '…'} (grade {row.relevance:g})"

    return (
        f"{named(more)} is shown more often than {named(less)} because the scores rank it higher, before as after: "
        "isrr shares exposure out by score, and does not correct the scores."
    )


def sentences(texts: Iterable[str]) -> list[str]:
    """Return what an outcome says of itself, as sentences without marks of code.

    Example:
        >>> sentences(["pass `distinct=True`"])
        ['Pass distinct.']
    """
    plain = [_ARGUMENT.sub(r"\1", text) for text in texts]
    return [f"{text[0].upper()}{text[1:]}." for text in plain]


def how_the_risk_decides(outcome: Certificate | Abstention) -> str:
    """Return what bound and tolerated risk have to do with each other."""
    if outcome.provenance.selection != "fixed_sequence":
        rule = (
            "Every ranker is tested by itself, at the declared promise and confidence. Those whose upper bound "
            "does not exceed the tolerated risk are certified."
        )
    else:
        rule = (
            "Rankers are tested in turn, the safest first, at the declared promise and confidence. Testing "
            "stops at the first whose upper bound exceeds the tolerated risk."
        )
    return f"{rule} The chart shows the path near that limit; the table has all of it."


def levels(outcome: Certificate | Abstention) -> str:
    """Return what the levels fixed beforehand are, and how surely they hold."""
    with_declared = "" if outcome.abstained else f"; with the declared promise, {level(2 * outcome.confidence - 1)}"
    return (
        "Eight other levels of the promise were fixed before the judged queries were looked at. Each was tested at an "
        "eighth of the tolerated error, so you may use any certified one after looking: all of them hold together with "
        f"{level(outcome.confidence)} confidence{with_declared}. What lies between them was only measured."
    )


def asking(outcome: Certificate | Abstention) -> str:
    """Return the command that asks for another promise on fresh queries, with @ for that promise."""
    p, first = outcome.provenance, outcome.promises[0]
    words = [word for promise in outcome.promises[1:] for word in ("-p", str(replace(promise, per=None)))]
    words += ["--per-segment"] if first.per else []
    options = (
        ("--evidence", p.evidence, ("hoeffding_bentkus",)),
        ("--selection", p.selection, ("holm",)),
        ("--gain", described(first.metric.gain), ("linear", "equal")),
        ("--empty-query", first.empty_query, ("zero", "one")),
    )
    words += [word for name, value, unusual in options if value in unusual for word in (name, value)]
    settings = shlex.join([*words, "-o", "ranker.json"])
    return f"isrr calibrate fresh.parquet -p '@' --confidence {outcome.confidence:.10g} {settings}"


def what_helps(outcome: Abstention) -> list[str]:
    """Return why nothing was certified and what would change that."""
    labels = ("reason", "what helps", "or", "estimated", "limit")
    lines = sentences(f"{label}: {text}" for label, text in outcome.rows() if label in labels)
    if all(p.compared_with is None and p.safe_end == "cold" for p in outcome.promises):
        lines.append(
            f"A promise relative to the order by score, such as 'ndcg@{outcome.k} >= 95% of deterministic', is "
            "compared query by query and needs far fewer queries."
        )
    return lines


def facts(outcome: Outcome, command: str) -> list[tuple[str, str]]:
    """Return what `isrr show --verbose` prints and where it comes from, as names and values."""
    p, first = outcome.provenance, outcome.promises[0]
    rows = [row for row in outcome.rows(verbose=True) if row[0] not in ("warning", "assumed", "next")]
    return [
        ("outcome", f"{type(outcome).__name__.lower()} {outcome.id}"),
        *rows,
        ("analysis", f"{p.analysis} of the data, {p.n_analyses} planned"),
        (
            "values",
            f"{'exact expectation' if p.method == 'exact' else f'{p.n_draws} rankings per query'}, seed {p.seed}",
        ),
        ("gain", f"{described(first.metric.gain)}; empty queries: {first.empty_query}"),
        ("data", p.data),
        ("key of the order in which queries were tested", p.hash_key or "none"),
        ("versions", ", ".join(f"{name} {number}" for name, number in p.versions.items())),
        ("made by", command),
    ]
