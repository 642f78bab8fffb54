"""How many judged queries are enough: what `plan` says before, and an abstention afterwards.

Calibration sets queries aside, and the number of queries decides what else it does: which floor it takes (the promised
share has a say in that too), and whether it learns a path. A `Span` is a range of numbers that are treated alike. A
number is enough when it leaves enough queries to test on in its own span, and every larger number does in its span.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isrr.calibration.certify import Tested
from isrr.calibration.path import SET_ASIDE_FROM, n_set_aside
from isrr.calibration.request import Request
from isrr.outcome.text import needed_in_words
from isrr.promises import Promise, move_together

LARGEST = 10**12  # judged queries up to which the floor is followed


@dataclass(frozen=True)
class Need:
    """How many queries a promise needs.

    Attributes:
        segment: The segment, where the promise is about segments.
        queries_needed: Their number; None where no number is enough.
        unit: What is counted.
    """

    promise: Promise
    segment: str | None
    queries_needed: int | None
    unit: str = "query"

    @property
    def in_words(self) -> str:
        """The number, and whether they need labels."""
        return needed_in_words(self.queries_needed, [self.promise], self.unit)


def most(needs: Iterable[Need]) -> int | None:
    """Return how many queries all of them need together."""
    numbers = [need.queries_needed for need in needs]
    return None if None in numbers else max(number for number in numbers if number is not None)


@dataclass(frozen=True)
class Span:
    """Numbers of judged queries that calibration treats alike.

    Attributes:
        first, last: The range.
        floor: The floor of the configurations; None where the path comes with its own.
        learns: Whether the path is learned from queries set aside.
    """

    first: int
    last: float
    floor: float | None
    learns: bool


def spans(request: Request, *, validated: bool = False) -> list[Span]:
    """Return the spans of a request; where validation queries fix the path (`validated`), none is set aside."""
    if not isinstance(request.path, str) or not move_together(request.promises):
        return [Span(2, math.inf, None, False)]

    def floor(n_judged: int) -> float:
        return request.floor_for(n_judged - n_set_aside(n_judged, request, validated=validated))

    several: list[Span] = []
    for sizes in (range(2, SET_ASIDE_FROM), range(SET_ASIDE_FROM, LARGEST)):  # in each, more are never floored higher
        learns = request.path == "front" or (request.path == "auto" and (validated or sizes.start >= SET_ASIDE_FROM))
        first = sizes.start
        while first < sizes.stop:
            after = sizes[0] + bisect_right(sizes, -floor(first), key=lambda n: -floor(n))
            several.append(Span(first, after - 1, floor(first), learns))
            first = after
    return [*several[:-1], replace(several[-1], last=math.inf)]


def judged_needed(
    of: Iterable[Span],
    tested_in: Callable[[Span], float | None],
    request: Request,
    *,
    validated: bool = False,
    share_counted: float = 1.0,
) -> int | None:
    """Return the smallest number of judged queries from which on every number is enough; None when no number is.

    Args:
        of: The spans of the request.
        tested_in: How many queries must be tested on in a span.
        request: What is asked of the calibration.
        validated: Whether the path is fixed by others, so that no query is set aside.
        share_counted: Share of the queries that are tested on, the others having no relevant item.
    """
    enough = None
    for span in reversed([*of]):
        n_tested = tested_in(span)
        if n_tested is None:
            return enough
        judged = judged_in_all(n_tested, request, validated=validated, share_counted=share_counted)
        if judged > span.last:
            return enough
        enough = max(judged, span.first)
        if judged > span.first:
            return enough
    return enough


def decisive(tested: Sequence[Tested], delta: float) -> list[int] | None:
    """Return the configuration that each promise would be proven for; None where none is measured to keep all promises.

    It is each promise's safest one. Where safe ones may lie anywhere on the path, it is the one for all promises that
    keeps them by the widest margin; but the first of the path, if only that is not proven at level delta.
    """
    if move_together([sample.promise for sample in tested]):
        return [sample.safest for sample in tested]
    slack = np.min([np.where(sample.exempt, np.inf, sample.slack) for sample in tested], axis=0)
    slack[np.all([sample.exempt for sample in tested], axis=0)] = -np.inf  # proves nothing
    best = int(np.argmax(slack))
    if slack[0] > 0 and all(proven(s, best, delta) for s in tested) and not all(proven(s, 0, delta) for s in tested):
        best = 0
    return [best] * len(tested) if slack[best] > 0 else None


def proven(sample: Tested, column: int, delta: float) -> bool:
    """Return whether one configuration is certified to keep a promise, whatever else is on the path."""
    return bool(sample.exempt[column]) or bool(sample.only(column).holds(delta)[0])


def judged_in_all(n_tested: float, request: Request, *, validated: bool = False, share_counted: float = 1.0) -> int:
    """Return how many judged queries leave so many to test on; the arguments are those of `judged_needed`.

    Example:
        >>> from isrr.promises import Promise
        >>> judged_in_all(800, Request((Promise.parse("ndcg@5 >= 0.5"),)))
        1000
    """
    wanted = math.ceil(n_tested / share_counted)
    n_judged = wanted
    while not validated and (missing := wanted - n_judged + n_set_aside(n_judged, request, validated=False)) > 0:
        n_judged += missing
    return n_judged
