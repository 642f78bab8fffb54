"""`compare`: is one ranking at least as good as another, on judged queries?

A promise such as "ndcg@10 >= 100% of production" is tested on d = v − share · r, with v the metric of the new ranking
on a query and r that of production. There are two answers:

proven        by betting; it rests on nothing but that the queries are a random sample
approximate   the paired randomisation test that the field uses: the sign of each difference is as likely either way

They differ at the sizes people have. A few queries in a hundred could still be disasters, and only the first takes that
into account. Several candidates are told apart at one level by Holm's procedure, in either answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isrr.calibration.certify import Tested
from isrr.counting import counted, in_segment
from isrr.data.production import complete, lacking_in_words, n_lacking, with_production
from isrr.data.queries import FloatArray, Queries
from isrr.data.sample import canonical_order
from isrr.errors import DataError, PromiseError
from isrr.metrics.evaluate import evaluate
from isrr.outcome.findings import Estimate
from isrr.promises import INEXACTNESS, Promise, check_probability, promises
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import NAMED
from isrr.risk.select import holm

N_FLIPS, SEED = 10_000, 20230  # random signs of the differences
AT_ONCE = 10_000_000  # signs drawn at a time
ROUNDING = 1e-9
Verdict = Literal["proven", "not proven", "proven worse"]


@dataclass(frozen=True)
class Compared:
    """One candidate held against production by one promise, in one segment or on all queries.

    Attributes:
        candidate, promise, segment: What is compared; the segment is None for all queries.
        n_queries: Judged queries that count.
        mean, production: The metric's means.
        difference: Their difference, with an approximate 95 % interval.
        wins, ties, losses: Queries on which the candidate is better, alike and worse.
        pvalue: The smallest level at which the promise is proven.
        pvalue_worse: The same of the promise being broken.
        approximate: The p-value of the paired randomisation test.
        queries_needed: About how many judged queries like these would prove it 8 times out of 10; None if no number.
        shortfall: How many lists fall short, for a promise about lists; empty for others.
    """

    candidate: str
    promise: Promise
    segment: str | None
    n_queries: int
    mean: float
    production: float
    difference: Estimate
    wins: int
    ties: int
    losses: int
    pvalue: float
    pvalue_worse: float
    approximate: float
    queries_needed: int | None
    shortfall: str = ""


@dataclass(frozen=True)
class Comparison:
    """Candidates held against production.

    Attributes:
        rows: Every candidate by every promise.
        confidence: Probability with which all candidates called "proven" keep their promises, and, separately, with
            which all called "proven worse" break one. Each may fail with probability 1 − confidence; that either fails
            has at most twice that probability.
        verdicts: Of each candidate, by its name: whether all promises hold.
        approximate: Whether the paired randomisation test says so.
        n_lacking: Judged queries that production lacks, which count 0 there.
    """

    rows: tuple[Compared, ...]
    confidence: float
    verdicts: Mapping[str, Verdict]
    approximate: Mapping[str, bool]
    n_lacking: int = 0

    @property
    def proven(self) -> tuple[str, ...]:
        """The candidates for which all promises are proven."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict == "proven")

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            better = row.wins, row.ties, row.losses
            lines += [
                f"{row.candidate}: {row.promise}{in_segment(row.segment)}, {counted(row.n_queries, 'judged query')}",
                f"  mean         {row.mean:.4f}, production {row.production:.4f}, difference {_signed(row.difference)}",
                f"  by query     {better[0]:,} better, {better[1]:,} equal, {better[2]:,} worse",
                *([f"  lists        {row.shortfall}"] if row.shortfall else []),
                f"  proven       {self._proven(row)}",
                f"  approximate  {'yes' if self.approximate[row.candidate] else 'no'} (p = {row.approximate:.3g}, "
                "paired randomisation test; it assumes that a difference is as likely to be positive as negative)",
            ]
        if len(self.verdicts) > 1:
            lines.append(f"{len(self.verdicts)} candidates together at confidence {self.confidence:g} (Holm)")
        else:
            lines.append(f"confidence {self.confidence:g}")
        if self.n_lacking:
            lines.append(f"warning: {self.lacking}")
        lines.append("Rare disasters may be missing from these queries: only 'proven' allows for them.")
        return "\n".join(lines)

    @property
    def lacking(self) -> str:
        """What to say where production lacks judged queries."""
        return lacking_in_words(self.n_lacking)

    def _proven(self, row: Compared) -> str:
        verdict = self.verdicts[row.candidate]
        if verdict == "proven worse":
            return f"worse (p = {row.pvalue_worse:.3g}, betting)"
        more = ""
        if verdict == "not proven" and row.pvalue > 1 - self.confidence:
            needs = row.queries_needed
            more = "; no number of queries would do" if needs is None else f"; about {needs:,} queries would do"
        return f"{'yes' if verdict == 'proven' else 'no'} (p = {row.pvalue:.3g}, betting){more}"


def _signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}]"


def compare(
    new: Queries | Mapping[str, Queries],
    production: Queries,
    promise: str | Promise | Sequence[str | Promise] = "ndcg@10 >= 100% of production",
    confidence: float = 0.95,
) -> Comparison:
    """Hold one ranking, or several, against production, each with its own items.

    Args:
        new: The new ranking, judged queries in the order of their scores; several by name.
        production: What is served today, judged alike. A judged query that one of them lacks counts 0 there.
        promise: One promise "of production" or several, which must all hold.
        confidence: Probability with which all that is called "proven" is so, and, separately, all that is called
            "proven worse"; see `Comparison`.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0] * 9, relevance=[1, 0] * 9, query_ids=np.repeat(range(9), 2))
        >>> comparison = compare(queries, queries.with_scores(-queries.scores), "ndcg@1 >= 100% of production")
        >>> comparison.rows[0].wins, comparison.proven
        (9, ('new',))
    """
    check_probability("confidence", confidence)
    several = promises(promise)
    for one in several:
        if one.compared_with != "production":
            raise PromiseError(f"'{one}' compares with nothing; expected a share 'of production'")
    candidates = {"new": new} if isinstance(new, Queries) else dict(new)
    if not candidates:
        raise PromiseError("nothing to compare with production; expected at least one ranking")
    if any(queries.made_ids for queries in (production, *candidates.values())):
        raise DataError("query ids were made from positions, so rankings cannot be compared by them; expected real ids")
    *ours, theirs = complete([*candidates.values(), production])
    lacking = n_lacking(production, theirs)
    delta = 1 - confidence
    rows = [
        row
        for name, queries in zip(candidates, ours, strict=True)
        for row in _compared(name, with_production(queries, theirs), several, delta / len(candidates))
    ]
    return replace(judged(rows, confidence), n_lacking=lacking)


def judged(rows: Sequence[Compared], confidence: float) -> Comparison:
    """Return the verdicts on candidates: all promises must hold, and all verdicts together at the confidence."""
    names, delta = list(dict.fromkeys(row.candidate for row in rows)), 1 - confidence

    def of(field: str, name: str) -> list[float]:
        return [getattr(row, field) for row in rows if row.candidate == name]

    proven = holm([max(of("pvalue", name)) for name in names], delta)
    worse = holm([min(1.0, len(of("pvalue", name)) * min(of("pvalue_worse", name))) for name in names], delta)
    likely = holm([max(of("approximate", name)) for name in names], delta)
    verdicts = dict[str, Verdict](dict.fromkeys(names, "not proven"))
    verdicts |= {names[i]: "proven worse" for i in worse} | {names[i]: "proven" for i in proven}
    return Comparison(tuple(rows), confidence, verdicts, {name: i in likely for i, name in enumerate(names)})


def _compared(name: str, queries: Queries, several: Sequence[Promise], delta: float) -> list[Compared]:
    """Return one candidate by every promise, in every segment; queries in an order that knows nothing of grades."""
    queries, order = queries[canonical_order(queries.keys, queries.scores_fingerprint)], GPLRanker.deterministic
    rows = []
    for promise in several:
        values = evaluate(queries, [order(promise.k)], [promise.base_measure])[promise.base_measure][:, 0]
        reference = promise.reference(queries, values)
        for segment, inside in promise.segments(queries).items():
            chosen = inside & ~np.isnan(values)
            if chosen.sum() < 2:
                raise DataError(f"'{promise}'{in_segment(segment)}: {chosen.sum()} judged queries; expected several")
            rows.append(compared(name, promise, segment, values[chosen], reference[chosen], delta))
    return rows


def compared(
    name: str, promise: Promise, segment: str | None, values: FloatArray, reference: FloatArray, delta: float
) -> Compared:
    """Return one candidate by one promise, from its metric and production's, (n_queries,) each, in canonical order."""
    test, none = NAMED["betting"], np.zeros(1)
    measured = values[:, None] if promise.lists is None else promise.lists.judged(values[:, None], reference)
    tested = Tested(promise, segment, np.zeros(1, bool), measured, reference, none, test=test)
    loss = promise.loss()
    losses = loss.of(measured, reference)
    worse = test.pvalue(1.0 - losses, np.array([1.0 - promise.alpha - INEXACTNESS]), delta, loss.prior)
    difference = values - reference
    apart = np.where(np.abs(difference) > ROUNDING, np.sign(difference), 0.0)
    lead = promise.alpha - losses[:, 0]
    return Compared(
        name,
        promise,
        segment,
        values.size,
        float(values.mean()),
        float(reference.mean()),
        Estimate.around(float(difference.mean()), float(difference.std() / np.sqrt(values.size - 1))),
        int((apart > 0).sum()),
        int((apart == 0).sum()),
        int((apart < 0).sum()),
        float(tested.pvalue([0], delta)[0]),
        float(worse[0]),
        randomisation_pvalue(lead),
        tested.queries_needed(0, delta),
        promise.shortfall(float(measured.mean())),
    )


def randomisation_pvalue(lead: FloatArray) -> float:
    """Return how often random signs give the differences a mean at least as large as theirs, one-sided.

    Example:
        >>> randomisation_pvalue(np.ones(20)) < 0.001, randomisation_pvalue(np.array([1.0, -1.0])) > 0.5
        (True, True)
    """
    rng, at_once, extreme = np.random.default_rng(SEED), max(AT_ONCE // lead.size, 1), 0
    least = lead.sum() - ROUNDING
    for start in range(0, N_FLIPS, at_once):
        signs = rng.integers(0, 2, (min(at_once, N_FLIPS - start), lead.size), np.int8)
        extreme += int((2.0 * (signs @ lead) - lead.sum() >= least).sum())
    return (extreme + 1) / (N_FLIPS + 1)
