"""The page's sentences: what a certificate or an abstention says, in plain language."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace

from isrr.counting import counted, percent
from isrr.gains import described
from isrr.outcome.certificate import Abstention, Certificate
from isrr.outcome.findings import Estimate
from isrr.reporting.portrait import Portrait

BREAKS = (
    "The judged queries are not a random sample: only hard ones were judged, or only one market, or last year's.",
    "The same query appears in the table more than once, or queries of one user depend on each other.",
    "The scoring model was trained on these very queries, or was replaced since.",
    "The promise was chosen after trying several on these same queries.",
)
_ARGUMENT = re.compile(r"`(\w+)=\w*`")  # as the library names its arguments

SELECTED = {
    "fixed_sequence": "Configurations were put in an order, safest first, without looking at the judgments they are "
    "tested on. Each was tested in turn, and all those before the first failure are certified.",
    "holm": "Configurations were tested by Holm's step-down: the clearest first, each at the part of the tolerated "
    "error that those still untested leave it, until one failed.",
}


def unbroken(text: str) -> str:
    r"""The same on one line, wherever the page breaks its lines.

    Example:
        >>> unbroken("17.3 %")
        '17.3\xa0%'
    """
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def unbroken_units(text: str) -> str:
    r"""The same with percent signs kept beside their numbers.

    Example:
        >>> unbroken_units("at least 95 % of it")
        'at least 95\xa0% of it'
    """
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def level(share: float) -> str:
    r"""A share that somebody chose, with the digits it was given.

    Example:
        >>> level(0.95), level(0.925)
        ('95\xa0%', '92.5\xa0%')
    """
    return unbroken(f"{100 * share:.6g} %")


def interval(share: Estimate) -> str:
    """A share with its interval, in percent."""
    return f"{unbroken(percent(share.value))} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def verdict(outcome: Certificate | Abstention) -> tuple[str, str]:
    """Two sentences: what is promised and how surely; what it costs and gains."""
    promise = " and ".join(unbroken_units(promise.in_words) for promise in outcome.promises)
    surely = f"{level(outcome.confidence)} confidence"
    if isinstance(outcome, Abstention):
        return (
            f"Nothing could be certified: that {promise} is not proven with {surely}.",
            "The order by score stays in use, so nothing changes for users or items.",
        )
    before, after = outcome.deterministic_utility.value, outcome.utility.value
    kept = unbroken(percent(after / max(before, 1e-300)))
    return (
        f"On new queries like the judged ones, {promise}, with {surely}.",
        f"Measured, {outcome.utility_name} goes from {before:.4f} to {after:.4f} ({kept} kept), and "
        f"{unbroken(percent(outcome.fairness_gain.value))} of the disparity in exposure is gone.",
    )


def who_gains(portrait: Portrait | None, k: int) -> str:
    """Who is seen more, and who less, in one sentence; none where nothing moves."""
    if portrait is None or len(portrait.places) <= k:
        return ""
    first, below = portrait.places[0], portrait.places[k:]
    before, after = sum(share.before for share in below), sum(share.after for share in below)
    if after <= before:
        return ""
    return (
        f"Who gains: items that the order by score puts below place {k}; their share of all exposure goes from "
        f"{unbroken(percent(before))} to {unbroken(percent(after))}. Who gives: items that the order by score puts in "
        f"the first {k} places, the top one most (its share goes from {unbroken(percent(first.before))} to "
        f"{unbroken(percent(first.after))})."
    )


def glossary(outcome: Certificate | Abstention) -> str:
    """What utility and disparity are, in a line each."""
    k, title = outcome.k, outcome.utility_name
    ndcg = f"NDCG@{k}: how near the first {k} places come to the best possible order, from 0 to 1. "
    disparity = (
        "Disparity: how far the attention that items get (their exposure) is from what their relevance earns, "
        "comparing two items of a query at a time; 0 is fair."
    )
    return ndcg + disparity if title.startswith("NDCG") else disparity


def sentences(texts: Iterable[str]) -> list[str]:
    """What an outcome says of itself, as sentences without marks of code.

    Example:
        >>> sentences(["pass `distinct=True`"])
        ['Pass distinct.']
    """
    plain = [_ARGUMENT.sub(r"\1", text) for text in texts]
    return [f"{text[0].upper()}{text[1:]}." for text in plain]


def how_the_risk_decides(outcome: Certificate | Abstention) -> str:
    """What bound and tolerated risk have to do with each other."""
    if outcome.provenance.selection != "fixed_sequence":
        said = (
            "Every configuration is tested by itself, at the declared promise and confidence. Those whose upper bound "
            "does not exceed the tolerated risk are certified."
        )
    else:
        said = (
            "Configurations are tested in turn, the safest first, at the declared promise and confidence. Testing "
            "stops at the first whose upper bound exceeds the tolerated risk."
        )
    return f"{said} The chart shows the path near that limit; the table has all of it."


def levels(outcome: Certificate | Abstention) -> str:
    """What the levels fixed beforehand are, and how surely they hold."""
    together = level(outcome.confidence)
    with_declared = "" if outcome.abstained else f"; with the declared promise, {level(2 * outcome.confidence - 1)}"
    return (
        "Eight other levels of the promise were fixed before the judged queries were looked at. Each was tested at an "
        "eighth of the tolerated error, so you may use any certified one after looking: all of them hold together with "
        f"{together} confidence{with_declared}. What lies between them was only measured."
    )


def asking(outcome: Certificate | Abstention) -> str:
    """The command that asks for another promise on fresh queries, with @ for that promise."""
    return f"isrr calibrate fresh.parquet -p '@' --confidence {outcome.confidence:.10g} {settings(outcome)}"


def settings(outcome: Certificate | Abstention) -> str:
    """The other promises and the options under which `isrr calibrate` asks again as it was asked."""
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
    return shlex.join([*words, "-o", "ranker.json"])


def what_helps(outcome: Abstention) -> list[str]:
    """Why nothing was certified and what would change that."""
    lines = [f"Why: {outcome.reason}."]
    if outcome.queries_needed is None:
        lines.append("No number of queries would certify this promise: ask for less, or improve the scores.")
    else:
        lines.append(
            f"With about {counted(outcome.queries_needed, outcome.unit)} in all, this promise would be certified 8 "
            f"times out of 10; it was tested on {outcome.provenance.n_queries:,}."
        )
    lines += [f"Or: {sentence}." for sentence in outcome.cheaper]
    for test in outcome.tests:
        if test.level is not None and test.promise.of is None:
            lines.append(
                f"Asked for {test.promise.at(test.level)}, the order by score alone would have been certified."
            )
    if all(p.of is None and p.safe_end == "cold" for p in outcome.promises):
        k = outcome.k
        lines.append(
            f"A promise relative to the order by score, such as 'ndcg@{k} >= 95% of deterministic', is compared "
            "query by query and needs far fewer queries."
        )
    return lines


def facts(outcome: Certificate | Abstention, command: str) -> list[tuple[str, str]]:
    """Where the numbers come from, as names and values."""
    p = outcome.provenance
    method = "exact expectation" if p.method == "exact" else f"{p.n_draws} rankings drawn per query"
    evidence = ", ".join(sorted({test.evidence for test in outcome.tests})) or p.evidence
    judged = counted(p.n_queries, "judged query")
    rows = [
        ("Outcome", f"{'abstention' if outcome.abstained else 'certificate'} {outcome.id}"),
        ("Promise", "; ".join(str(promise) for promise in outcome.promises)),
        ("Confidence", f"{outcome.confidence:.10g}, analysis {p.analysis} of the data, {p.n_analyses} planned"),
        ("Ranker", outcome.ranker.in_words),
        ("Tested on", f"{judged}; {p.n_skipped:,} without a relevant item left out"),
        ("Path", f"{p.path}, {len(outcome.curve)} configurations, fixed by {p.path_basis}"),
        ("Evidence", f"{evidence}, {p.selection}; {method}, seed {p.seed}"),
        ("Gain", f"{described(outcome.promises[0].metric.gain)}; empty queries: {outcome.promises[0].empty_query}"),
        ("Data", p.data),
        ("Key of the order in which queries were tested", p.hash_key or "none: losses were summed up"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in p.versions.items())),
        ("Made by", command),
    ]
    if p.judge:
        rows.insert(5, ("Judged by", p.judge))
    if p.made_ids:
        rows.insert(5, ("Query ids", "made from positions: the outcome depends on the order of the table"))
    return rows
