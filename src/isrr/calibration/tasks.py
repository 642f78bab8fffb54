"""What each pass over the queries collects: one task per question, run where the queries are.

* `TakeCensus` counts them: what must be known of all queries before any is tested.
* `Gather` fetches the queries of smallest key. Keys are hashes of query ids, mixed with a digest of all ids and scores,
  so those below a cutoff are a random sample that is the same whatever order or partition they come in.
* `FindRepeats` finds queries that repeat another under a different id, and `Without` leaves queries out.
* `FindShared` finds validation queries among the judged ones, `NameJudgments` names the judgments.
* `Fill` evaluates every configuration on every query that was not set aside.

Values are exact for decay 1. Below, they are averaged over draws, and beyond 50,000 queries over few: any number keeps
a promise valid (losses stay unbiased and at most 1), and at that size the queries' own spread outweighs the draws'.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from isrr.calibration.table import PowerSums, Sums, Table, Values, merge
from isrr.data.queries import Queries, joint_fingerprint
from isrr.data.sample import canonical_order, shuffled
from isrr.data.unjudged import n_unjudged, one_policy
from isrr.engines.task import Source, Sum, Task
from isrr.errors import DataError
from isrr.gains import has_relevant
from isrr.metrics.disparity import Disparity
from isrr.metrics.evaluate import Method, evaluate
from isrr.metrics.measure import Measure
from isrr.parallel import Progress
from isrr.promises import Promise, columns_of, objectives
from isrr.ranker.gpl import SMOOTHING_DRAWS, GPLRanker

MANY, FEW_DRAWS = 50_000, 4  # queries beyond which so many draws of each are enough
SOME_GROUPS = 5  # names of groups that an error shows
MOST_GROUPS = 1_000  # names of groups that a certificate keeps
NOTHING = np.empty(0, np.uint64)
ALL = 2**64
CHANCE = 6.0  # standard deviations by which the cutoff is put higher than it would have to be on average
Keys = NDArray[np.uint64]
Counts = TypeVar("Counts")


def added(ours: Counts, theirs: Counts, **others: Callable[[Any, Any], Any]) -> Counts:
    """Two records of counts as one, field by field: numbers added up, unless another rule is given for a field."""
    rules = {"unjudged": one_policy, "fingerprint": joint_fingerprint, "digest": joint_fingerprint, **others}
    found = vars(theirs)
    return type(ours)(**{name: rules.get(name, _sum)(value, found[name]) for name, value in vars(ours).items()})


def _sum(ours: Any, theirs: Any) -> Any:
    """Numbers added up, in tuples place by place, in dicts name by name; sets united."""
    if isinstance(ours, dict):
        return ours | {name: _sum(ours[name], part) if name in ours else part for name, part in theirs.items()}
    if isinstance(ours, tuple):
        return tuple(a + b for a, b in zip(ours, theirs, strict=True))
    return ours | theirs if isinstance(ours, frozenset) else ours + theirs


@dataclass(frozen=True)
class Census:
    """Counts over queries, those to be set aside included.

    Attributes:
        n_queries, n_single, n_relevant: Queries in all, with a single item, with a relevant item.
        n_judged: Queries with relevance, all or none.
        n_counted: Queries that count for each promise.
        segments: The segments there are, if a promise is about them.
        groups: Of the groups of items, those that promises name, and 1,000 others or more.
        lowest, highest: Scores.
        near_bound: How near values come to the declared bounds, as a share; 0 where none is declared.
        n_places: The first k places of all queries in the order by score.
        n_tied, n_unjudged: Of these, those that hold an item whose score another item shares, or one without a grade.
        unjudged: How items without a grade count.
        fingerprint: Of ids, scores and relevance.
        digest: Of ids and scores, without labels.
    """

    n_queries: int = 0
    n_single: int = 0
    n_judged: int = 0
    n_relevant: int = 0
    n_counted: tuple[int, ...] = ()
    segments: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    lowest: float = np.inf
    highest: float = -np.inf
    near_bound: float = 0.0
    n_tied: int = 0
    n_places: int = 0
    n_unjudged: int = 0
    unjudged: str = "refuse"
    fingerprint: str = "0" * 32
    digest: str = "0" * 32

    def __add__(self, other: "Census") -> "Census":
        return added(self, other, lowest=min, highest=max, near_bound=max)

    @property
    def judged(self) -> bool:
        """Whether the queries have relevance."""
        return self.n_judged > 0


@dataclass(frozen=True)
class TakeCensus(Task[Census]):
    """The task: count queries under the policies of these promises."""

    promises: tuple[Promise, ...]

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("query", "score", "relevance", *columns_of(self.promises))))

    def summary(self, blocks: Iterable[Queries]) -> Census:
        return self.joined([self._count(block) for block in blocks])

    def joined(self, summaries: Sequence[Census]) -> Census:
        return sum(summaries, Census(n_counted=(0,) * len(self.promises)))

    def _count(self, queries: Queries) -> Census:
        scores, judged = queries.need_scores(), queries.relevance is not None
        for promise in self.promises:
            if "relevance" in promise.columns:
                queries.need_relevance()
        gain = objectives(self.promises, judged=judged)[1].metric.gain
        segmented = any(promise.per is not None for promise in self.promises)
        k = max(promise.k for promise in self.promises)
        declared = [promise for promise in self.promises if promise.bound is not None]
        return Census(
            len(queries),
            int((queries.n_items == 1).sum()),
            len(queries) if judged else 0,
            int(has_relevant(queries, gain=gain).sum()),
            tuple(int(promise.measure.counts(queries).sum()) for promise in self.promises),
            frozenset(queries.need_segments().astype(str).tolist() if segmented else ()),
            self._groups(queries),
            float(scores.min()),
            float(scores.max()),
            max((p.metric.check_bound(queries, p.k, p.bound) for p in declared if p.bound is not None), default=0.0),
            int(queries.tied_places(k).sum()),
            int(np.minimum(queries.n_items, k).sum()),
            n_unjudged(queries, k),
            queries.unjudged,
            queries.fingerprint,
            queries.scores_fingerprint,
        )

    def _groups(self, queries: Queries) -> frozenset[str]:
        promised = {promise.group for promise in self.promises} - {None}
        names = queries.coded_groups.by_group()[0] if promised else []
        return frozenset([name for name in names if name in promised] + names[: MOST_GROUPS + 1])


@dataclass(frozen=True)
class NameJudgments(Task[str]):
    """The task: the fingerprint of query ids, item ids where there are any, and relevance, whatever the scores.

    Queries with new scores are analysed again. Item ids take long to read, so this is asked in a pass that reads
    them anyway.
    """

    roles: tuple[str, ...] = ("query", "item", "relevance")

    def summary(self, blocks: Iterable[Queries]) -> str:
        return self.joined([block.judgments for block in blocks])

    def joined(self, summaries: Sequence[str]) -> str:
        return reduce(joint_fingerprint, summaries, "0" * 32)


@dataclass(frozen=True)
class Gather(Task[Queries | None]):
    """The task: fetch the queries whose shuffled key is below a cutoff; None where there are none.

    Keys are shuffled by a digest of ids and scores; `columns` are fetched beside the usual ones.
    """

    below: int
    digest: str = ""
    columns: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("query", "item", "score", "relevance", "segment", "item_group", *self.columns)))

    def summary(self, blocks: Iterable[Queries]) -> Queries | None:
        return self.joined([self._chosen(block) for block in blocks])

    def _chosen(self, queries: Queries) -> Queries | None:
        if self.below >= ALL:
            return queries
        chosen = np.flatnonzero(shuffled(queries.keys, self.digest) < np.uint64(self.below))
        return queries[chosen] if chosen.size else None

    def joined(self, summaries: Sequence[Queries | None]) -> Queries | None:
        found = [queries for queries in summaries if queries is not None]
        return Queries.concatenate(found) if len(found) > 1 else next(iter(found), None)


@dataclass(frozen=True, eq=False)
class Contents:
    """What queries hold, whatever their ids: hashes of scores and relevance beside those of ids, both rising."""

    contents: Keys
    keys: Keys

    @property
    def repeats(self) -> Keys:
        """The keys of queries that repeat another, all but the first of each kind."""
        return np.asarray(self.keys[1:][self.contents[1:] == self.contents[:-1]])

    def n_repeats(self, n_several: int) -> int:
        """How many of so many queries of several items repeat another, if these stand for all."""
        return round(n_several * self.repeats.size / max(self.keys.size, 1))


@dataclass(frozen=True)
class FindRepeats(Task[Contents]):
    """The task: what queries of several items hold, to find those that repeat another under a different id.

    At most so many queries are looked at, those of smallest hash: a query and its repeats, or none of them.
    """

    most: int
    roles: tuple[str, ...] = ("query", "score", "relevance")

    def summary(self, blocks: Iterable[Queries]) -> Contents:
        return self.joined([self._contents(block) for block in blocks])

    def _contents(self, queries: Queries) -> Contents:
        several = queries.n_items > 1
        contents = queries.content_keys(judged=queries.relevance is not None)
        return Contents(contents[several], queries.keys[several])

    def joined(self, summaries: Sequence[Contents]) -> Contents:
        contents = np.concatenate([NOTHING, *(part.contents for part in summaries)])
        keys = np.concatenate([NOTHING, *(part.keys for part in summaries)])
        first = np.lexsort((keys, contents))[: self.most]
        return Contents(contents[first], keys[first])


@dataclass(frozen=True, eq=False)
class Without(Task[Sum]):
    """A task on all queries but those with these keys."""

    task: Task[Sum]
    keys: Keys

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("query", *self.task.roles)))

    def summary(self, blocks: Iterable[Queries]) -> Sum:
        kept = ((block, np.flatnonzero(~np.isin(block.keys, self.keys))) for block in blocks)
        return self.task.summary(block[chosen] for block, chosen in kept if chosen.size)

    def joined(self, summaries: Sequence[Sum]) -> Sum:
        return self.task.joined(summaries)


@dataclass(frozen=True, eq=False)
class Distinct(Source):
    """A source without the queries that repeat another."""

    source: Source
    repeats: Keys

    @property
    def made_ids(self) -> bool:
        return self.source.made_ids

    def run(self, task: Task[Sum], progress: Progress | None = None) -> Sum:
        return self.source.run(Without(task, self.repeats), progress)

    def close(self) -> None:
        self.source.close()


@dataclass(frozen=True)
class FindShared(Task[frozenset[int]]):
    """The task: which queries of the source are among some others.

    Attributes:
        names: Hashes that name the others.
        roles: The columns that are hashed: ids, or, where those were made from positions and so name nothing, scores
            and relevance.
    """

    names: frozenset[int]
    roles: tuple[str, ...] = ("query",)

    @classmethod
    def among(cls, others: Queries, *, made_ids: bool) -> "FindShared":
        """For these others, where ids of either side were made or not."""
        judged = () if others.relevance is None else ("relevance",)
        roles = ("query", "score", *judged) if made_ids else ("query",)
        return cls(frozenset(_names(others, roles).tolist()), roles)

    def shared(self, others: Queries, found: frozenset[int]) -> NDArray[np.bool_]:
        """Which of the others were found, (n_queries,)."""
        return np.isin(_names(others, self.roles), np.array(sorted(found), np.uint64))

    def summary(self, blocks: Iterable[Queries]) -> frozenset[int]:
        return self.joined([self.names.intersection(_names(block, self.roles).tolist()) for block in blocks])

    def joined(self, summaries: Sequence[frozenset[int]]) -> frozenset[int]:
        return frozenset().union(*summaries)


def _names(queries: Queries, roles: tuple[str, ...]) -> Keys:
    return queries.content_keys(judged="relevance" in roles) if "score" in roles else queries.keys


def enough(n_wanted: int, n_queries: int, digest: str, columns: tuple[str, ...] = ()) -> Gather:
    """The task that fetches the `n_wanted` queries of smallest key and a few more; fewer once in a billion times."""
    return Gather(min(math.ceil((n_wanted + CHANCE * math.sqrt(n_wanted) + 1) / n_queries * ALL), ALL), digest, columns)


def smallest_keys(
    source: Source,
    n_wanted: int,
    n_queries: int,
    digest: str,
    columns: tuple[str, ...] = (),
    found: Queries | None = None,
    progress: Progress | None = None,
) -> Queries:
    """The `n_wanted` queries of smallest shuffled key among all `n_queries`, by rising key; all where there are fewer.

    What `enough` has `found` need not be fetched again; other arguments are those of `Gather`.
    """
    task, wanted = enough(n_wanted, n_queries, digest, columns), min(n_wanted, n_queries)
    found = source.run(task, progress) if found is None else found
    while found is None or len(found) < wanted:
        if task.below == ALL:
            raise DataError(f"there were {n_queries:,} queries at first, then fewer: the data changed while being read")
        task = Gather(min(2 * task.below, ALL), digest, columns)
        found = source.run(task, progress)
    order = canonical_order(found.keys, digest)
    keys = found.keys[order]
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if twice.size:
        query = str(found.query_ids[order[twice[0]]])
        raise DataError(f"query {query!r} shares its key with another; expected each query in one place", query)
    return found[order[:wanted]]


@dataclass(frozen=True)
class Fill(Task[Table]):
    """The task: evaluate every configuration on every query that was not set aside.

    Attributes:
        grid: Configurations, the deterministic ranker first.
        promises: What values are kept for.
        reported: The utility and the disparity that are reported.
        n_tested: Queries that will be tested on, in all.
        summed: Whether values are summed up as they come, not kept.
        seed: Random seed, used only when rankings are sampled.
        digest, aside_below: Queries whose key, shuffled by the digest, is below this were set aside.
    """

    grid: tuple[GPLRanker, ...]
    promises: tuple[Promise, ...]
    reported: tuple[Measure, Measure]
    n_tested: int
    summed: bool = False
    seed: int = 0
    digest: str = ""
    aside_below: int = 0

    @property
    def roles(self) -> tuple[str, ...]:
        reported = [column for measure in self.reported for column in measure.metric.columns]
        return tuple(dict.fromkeys(("query", "item", "score", *reported, *columns_of(self.promises))))

    @property
    def method(self) -> Method:
        """How values are found."""
        if any(ranker.floor or ranker.anchor for ranker in self.grid):
            return "exact"  # the share of the order by score that a floor takes comes from exact exposures
        fair = any(isinstance(promise.metric, Disparity) for promise in self.promises)
        # smoothed exposures, which decay below 1 needs, are no losses for a promise about disparity
        return "draws" if fair and any(r.decay < 1 and r.threshold > 0 for r in self.grid) else "exact"

    @property
    def n_draws(self) -> int:
        """Rankings drawn per query, if any are drawn."""
        return SMOOTHING_DRAWS if self.n_tested <= MANY else FEW_DRAWS

    def summary(self, blocks: Iterable[Queries]) -> Table:
        return self.joined([self._shard(block) for block in blocks])

    def joined(self, summaries: Sequence[Table]) -> Table:
        return merge(summaries) if summaries else self._empty(0)

    def _empty(self, n_skipped: int) -> Table:
        nothing = np.empty((0, len(self.grid)))
        kept = () if self.summed else tuple(Values(nothing, np.empty(0)) for _ in self.promises)
        segments = np.empty(0, object) if self._segmented and not self.summed else None
        none = Sums.of(nothing, np.empty(0))
        return Table(0, n_skipped, NOTHING, segments, kept, {}, none, none)

    @property
    def _segmented(self) -> bool:
        return any(promise.per is not None for promise in self.promises)

    def _shard(self, queries: Queries) -> Table:
        tested = shuffled(queries.keys, self.digest) >= np.uint64(self.aside_below)
        counted = tested & np.any([promise.measure.counts(queries) for promise in self.promises], axis=0)
        n_skipped = int(tested.sum() - counted.sum())
        if not counted.any():
            return self._empty(n_skipped)
        chosen = queries if counted.all() else queries[np.flatnonzero(counted)]
        measures = dict.fromkeys([*self.reported, *(promise.measure for promise in self.promises)])
        found = evaluate(chosen, self.grid, measures, method=self.method, n_draws=self.n_draws, seed=self.seed)
        measured = [(promise, found[promise.measure]) for promise in self.promises]
        kept = tuple(Values(values, promise.reference(chosen, values[:, 0])) for promise, values in measured)
        reported = [Sums.of(found[measure], found[measure][:, 0]) for measure in self.reported]
        if self.summed:
            return Table(len(chosen), n_skipped, NOTHING, None, (), self._powers(chosen, kept), *reported)
        segments = chosen.need_segments().astype(str).astype(object) if self._segmented else None
        return Table(len(chosen), n_skipped, chosen.keys, segments, kept, {}, *reported)

    def _powers(self, queries: Queries, kept: Sequence[Values]) -> dict[tuple[int, str], PowerSums]:
        found = {}
        for i, (promise, values) in enumerate(zip(self.promises, kept, strict=True)):
            unit = max(map(abs, promise.range))
            for segment, rows in promise.segments(queries).items():
                chosen = rows & values.counted
                counted = values if chosen.all() else values[chosen]
                found[i, segment or ""] = PowerSums.of(counted.values, counted.reference, unit)
        return found


def refuse_single(n_single: int, n_queries: int) -> None:
    """Refuse queries of one item each: anything ranks these perfectly, so they would speak for any promise."""
    if n_single == n_queries:
        raise DataError(
            "every query has a single item, so there is nothing to rank; are the columns of queries and items swapped "
            "(`query=`, `item=`)?"
        )
