"""What travels between processes arrives as it was sent, bit for bit."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

import isrr
from isrr import GPLRanker, MergeError, Promise, Queries
from isrr.calibration.check import MeasureOutcome
from isrr.calibration.tasks import ALL, Fill, FindRepeats, FindShared, Gather, NameJudgments, TakeCensus, Without
from isrr.engines.packing import pack, unpack
from isrr.engines.rankings import TakeGlance
from isrr.engines.tables import Span, TakeSpans
from isrr.engines.task import Together
from isrr.promises import objectives

PER_SEGMENT = Promise.parse("ndcg@5 >= 90% of deterministic", per="segment")
GRID = (GPLRanker.deterministic(), GPLRanker(temperature=0.1), GPLRanker())
UNFAIR = Promise.parse("normalized_disparity@5 <= 0.9")


def sent(value):
    (row,) = pack(value).to_pylist()
    return unpack(row)


def same(a, b):
    """Whether two values have the same types and the same bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        alike = (a.dtype, a.shape) == (b.dtype, b.shape)
        return alike and (same(a.tolist(), b.tolist()) if a.dtype == object else a.tobytes() == b.tobytes())
    if is_dataclass(a):
        return all(same(getattr(a, each.name), getattr(b, each.name)) for each in fields(a))
    if isinstance(a, Mapping):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return struct.pack("d", a) == struct.pack("d", b) if isinstance(a, float) else a == b


@dataclass(frozen=True)
class Stranger:
    sizes: tuple[int, ...]


@pytest.mark.parametrize(
    "value",
    [
        2**90,
        -(2**4_000),
        0.1,
        -0.0,
        5e-324,
        math.inf,
        "é\ud800",
        True,
        None,
        frozenset({2**64 - 1, 3}),
        ([], [1.5, 5e-324]),
        {"fields": {1}, "class": set()},
        {(1, "a"): Span(1, 2, True), (2, "b"): ({}, Span("x", "y", False))},
        np.array([[2**80, -1]], object),
        np.array(["a", "é", None], object),
        np.array(["a", "longer"]),
        np.array([2**64 - 1], np.uint64),
        np.array([math.nan, -math.nan]),
        np.zeros((0, 2), np.float32),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_arrives_as_it_was_sent(value):
    assert same(sent(value), value)


def test_what_is_no_number_stays_none():
    assert math.isnan(sent(math.nan))


def test_numbers_of_numpy_arrive_as_those_of_python():
    assert same(sent((np.float32(0.1), np.int64(7), np.bool_(True))), (float(np.float32(0.1)), 7, True))


def test_what_cannot_be_sent_is_refused_by_its_class():
    for value in (object(), Stranger, np.zeros(1, "i4,f8")):
        with pytest.raises(TypeError, match=f"a {type(value).__name__} cannot be sent"):
            pack(value)


def test_only_dataclasses_of_isrr_are_made(monkeypatch):
    monkeypatch.setattr(isrr.engines.tables, "a_span", Span(1, 2, True), raising=False)
    with pytest.raises(TypeError, match=r"unexpected .*Stranger in a summary; expected a dataclass of isrr"):
        sent([Stranger((1,))])
    (row,) = pack(Span(1, 2, True)).to_pylist()
    for name in ("DataError", "Sequence", "a_span", "nothing"):
        with pytest.raises(TypeError, match=f"unexpected isrr.engines.tables.{name}"):
            unpack(row | {"summary": row["summary"].replace("Span", name)})


def test_a_summary_of_another_version_is_refused():
    (row,) = pack(1).to_pylist()
    row["summary"] = row["summary"].replace(f'"version": "{isrr.__version__}"', '"version": "0"')
    with pytest.raises(MergeError, match=r"another version of isrr \(isrr 0"):
        unpack(row)


@pytest.fixture(scope="module")
def queries():
    rng = np.random.default_rng(20235)
    relevance = rng.integers(0, 4, 800).astype(float)
    return Queries.from_arrays(
        scores=relevance + rng.normal(size=800),
        relevance=relevance,
        query_ids=np.repeat([f"q{i}" for i in range(100)], 8),
        item_ids=np.tile(np.arange(8), 100),
        item_groups=np.tile(["new", "old"], 400),
        segments=np.repeat(["a", "b"], 400),
    )


def tasks(queries):
    """One task of every kind, and of `Fill` one for every way values are kept."""
    census = TakeCensus((PER_SEGMENT,))
    outcome = isrr.calibrate(queries, PER_SEGMENT)
    fills = [
        Fill(GRID, (promise,), objectives([promise]), 100, summed)
        for promise, summed in ((PER_SEGMENT, False), (PER_SEGMENT, True), (UNFAIR, True))
    ]
    shared = FindShared.among(queries[:20], made_ids=True)
    less = Without(census, queries.keys[:5])
    single = [census, NameJudgments(), TakeSpans(), TakeGlance.of(outcome, 5), MeasureOutcome(outcome), shared]
    return [
        *single,
        less,
        FindRepeats(9),
        *fills,
        Gather(ALL),
        Gather(1),
        Together(census, Together(Gather(2**62), fills[0])),
    ]


def test_the_summary_of_every_task_arrives_as_it_was_sent(queries):
    tried = tasks(queries)
    for task in tried:
        summary = task.summary([queries[:70], queries[70:]])
        assert same(sent(summary), summary), task
    rooms = [isrr.engines, isrr.calibration]
    modules = [import_module(f"{room.__name__}.{each.name}") for room in rooms for each in iter_modules(room.__path__)]
    held = [each for module in modules for each in vars(module).values()]
    assert {type(task) for task in tried} == {each for each in held if is_dataclass(each) and hasattr(each, "summary")}
