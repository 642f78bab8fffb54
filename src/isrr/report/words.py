"""The page's sentences: what a certificate or an abstention says, in plain language."""

from isrr.certificate import ASSUMPTIONS, Abstention, Certificate, Estimate
from isrr.guarantee import Guarantee
from isrr.ranker.gpl import GPLRanker

BREAKS = (
    "The judged queries are not a random sample: only hard ones were judged, or only one market, or last year's.",
    "The same query stands in the table several times, or queries of one user depend on each other.",
    "The scoring model was trained on these very queries, or was replaced since.",
    "The promise was chosen after trying several on these same queries.",
)


def percent(share: float, digits: int = 1) -> str:
    r"""A share as text that does not break across lines.

    Example:
        >>> percent(0.95), percent(0.1726)
        ('95\xa0%', '17.3\xa0%')
    """
    return f"{100 * share:.{digits}f}".rstrip("0").rstrip(".") + "\N{NO-BREAK SPACE}%"


def interval(estimate: Estimate, *, shares: bool = False) -> str:
    """A value with its interval, as numbers or in percent."""
    if shares:
        return f"{percent(estimate.value)} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    return str(estimate)


def configuration(ranker: GPLRanker) -> str:
    """The settings of a ranker in one line."""
    if ranker.is_deterministic:
        return "deterministic: the order by score"
    parts = [f"temperature {ranker.temperature:.4g}"]
    if ranker.threshold:
        parts.append(f"threshold {ranker.threshold:.4g}")
        parts += [f"decay {ranker.decay:.3g}"] if ranker.decay < 1 else []
    parts += ["log-gain score map"] if ranker.score_map else []
    return ", ".join(parts)


def in_words(guarantee: Guarantee) -> str:
    r"""A promise as a clause.

    Example:
        >>> in_words(Guarantee.parse("ndcg@5 >= 95% of deterministic"))
        'mean NDCG@5 is at least 95\xa0% of what the order by score reaches'
    """
    names = {"ndcg": "NDCG", "normalized_disparity": "normalised disparity", "group_exposure": "disparity of groups"}
    metric = f"{names.get(guarantee.metric, guarantee.metric)}@{guarantee.k}"
    level = (
        f"{percent(guarantee.target, 4)} of what the order by score reaches"
        if guarantee.relative
        else f"{guarantee.target:.10g}"
    )
    where = " in every segment" if guarantee.per else ""
    return f"mean {metric} is at {'least' if guarantee.utility else 'most'} {level}{where}"


def verdict(outcome: Certificate | Abstention) -> tuple[str, str]:
    """Two sentences: what is promised and how surely; what it costs and gains."""
    promise = " and ".join(in_words(g) for g in outcome.guarantees)
    surely = f"{percent(outcome.confidence, 3)} confidence"
    if isinstance(outcome, Abstention):
        return (
            f"Nothing could be certified: that {promise} is not proven with {surely}.",
            "The order by score stays in use, so nothing changes for users or items.",
        )
    before, after = outcome.deterministic_utility.value, outcome.utility.value
    kept = percent(after / max(before, 1e-300))
    return (
        f"On new queries like the judged ones, {promise}, with {surely}.",
        f"Measured, NDCG@{outcome.k} goes from {before:.4f} to {after:.4f} ({kept} kept), and "
        f"{percent(outcome.fairness_gain.value)} of the disparity in exposure is gone.",
    )


def what_helps(outcome: Abstention) -> list[str]:
    """Why nothing was certified and what would change that."""
    lines = [f"Why: {outcome.reason}."]
    if outcome.queries_needed is None:
        lines.append("No number of judged queries would certify this promise: lower it, or improve the scores.")
    else:
        lines.append(
            f"About {outcome.queries_needed:,} judged queries in all would be enough, 8 times out of 10; "
            f"{outcome.provenance.n_queries:,} were tested on."
        )
    for test in outcome.tests:
        if test.level is not None and not (test.guarantee.relative and test.guarantee.utility):
            lines.append(
                f"Asked for {test.guarantee.at(test.level)}, the order by score alone would have been certified."
            )
    if not any(g.relative for g in outcome.guarantees):
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
    rows = [
        ("Outcome", f"{'abstention' if outcome.abstained else 'certificate'} {outcome.id}"),
        ("Promise", "; ".join(str(g) for g in outcome.guarantees)),
        ("Confidence", f"{outcome.confidence:.10g}, over {p.planned_looks} planned look(s) at the data"),
        ("Ranker", f"{configuration(outcome.ranker)}; k = {outcome.k}"),
        ("Tested on", f"{p.n_queries:,} judged queries; {p.n_skipped:,} without a relevant item left out"),
        ("Path", f"{p.path}, {len(outcome.curve)} configurations, fixed by {p.path_basis}"),
        ("Set aside", f"{p.n_set_aside:,} judged queries, to fix the path"),
        ("Evidence", f"{evidence}, {p.selection}; {method}, seed {p.seed}"),
        ("Gain", f"{outcome.guarantees[0].gain_kind}; empty queries: {outcome.guarantees[0].empty_query}"),
        ("Data", p.data),
        ("Order key", p.hash_key or "none: losses were summed up"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in p.versions.items())),
        ("Made by", command),
    ]
    if p.look > p.planned_looks:
        rows.insert(3, ("Warning", f"look {p.look} at the same data, of {p.planned_looks} planned"))
    if p.selection == "pointwise":
        rows.insert(3, ("Warning", "pointwise selection carries no guarantee over the path"))
    if any(test.evidence == "normal_approximation" for test in outcome.tests):
        rows.insert(3, ("Warning", "the normal approximation is not valid for any given number of queries"))
    return rows


def assumptions() -> tuple[str, ...]:
    """What the promise rests on, as sentences."""
    return tuple(f"{text[0].upper()}{text[1:]}." for text in ASSUMPTIONS)
