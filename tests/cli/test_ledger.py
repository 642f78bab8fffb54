"""Analyses of the same judged queries are counted, whoever makes them; a certificate says what they prove together."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest
from msgspec import structs

from command_line import isrr
from isrr import Promise, Queries, calibrate, load, write_queries
from isrr.cli.ledger import NAME, entry_of, ledger_at, note, noted

PROMISE = "ndcg@5 >= 90% of deterministic"


def generated(n_queries=100, seed=20230, first_id=0):
    rng = np.random.default_rng(seed)
    relevance = rng.choice(4, 10 * n_queries, p=[0.5, 0.3, 0.15, 0.05])
    return Queries.from_arrays(
        scores=relevance + rng.normal(scale=0.8, size=relevance.size),
        relevance=relevance,
        query_ids=np.repeat(np.arange(n_queries) + first_id, 10),
        item_ids=[f"d{i}" for i in range(relevance.size)],
    )


@pytest.fixture(scope="module")
def judged():
    return generated()


@pytest.fixture(scope="module")
def first(judged):
    """A first analysis: its entry and its outcome."""
    outcome = calibrate(judged, PROMISE)
    return entry_of(outcome), outcome


def number(folder, queries, promise=PROMISE, **options):
    """Which analysis of these queries a calibration is, by the ledger of a folder."""
    ledger = ledger_at(folder / "judged.parquet", folder / "out.json")
    return noted(calibrate(queries, promise, **options), ledger).provenance.analysis


def test_a_further_analysis_is_counted_and_marked_wherever_results_go(judged, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    tried = [
        ("judged", ".", PROMISE, None),
        ("judged", "elsewhere", PROMISE, None),
        ("renamed", "elsewhere", "ndcg@5 >= 0.4", "0.9333"),
    ]
    for i, (name, place, promise, together) in enumerate(tried):
        data, ranker = tmp_path / f"{name}.parquet", tmp_path / place / "ranker.json"
        write_queries(judged, data)
        planned = ["--analyses", "3"] if together else []
        done = isrr("calibrate", data, "-p", promise, "-o", ranker, *planned)
        said = f"analysis 2 of the same data; all 2 together hold with confidence {together} only: plan them"
        assert (said in done.stdout) == (f"warning      {said}" in str(load(ranker))) == (together is not None)
        assert (f"analyses of the same data are counted in {tmp_path}/.isrr-analyses.jsonl" in done.stderr) == (i == 0)


@pytest.mark.parametrize(
    ("planned", "confidences", "together"),
    [
        ((1, 1, 3, 9), (0.95,) * 4, (None, "0.9", "0.8833", "0.8778")),
        ((3, 3, 3, 3), (0.95,) * 4, (None, None, None, "0.9333")),
        ((1, 2, 2), (0.99, 0.95, 0.95), (None, None, "0.94")),
        ((1, 1, 1), (0.5,) * 3, (None, "0", "0")),
    ],
)
def test_what_all_analyses_have_spent_is_held_against_the_confidence(first, planned, confidences, together, tmp_path):
    entry, outcome = first
    for seed, (n, confidence, left) in enumerate(zip(planned, confidences, together, strict=True)):
        other = {**entry, "settings": [seed], "confidence": confidence, "n_analyses": n}
        analysis, spent = note(other, tmp_path / NAME)
        provenance = structs.replace(outcome.provenance, n_analyses=n, analysis=analysis, spent=spent)
        said = " ".join(structs.replace(outcome, confidence=confidence, provenance=provenance).warnings)
        assert (f"analysis {seed + 1} of the same data" in said) == (left is not None)
        assert left is None or f"hold with confidence {left} only: plan" in said


def test_questions_that_differ_in_anything_are_analyses_of_their_own(judged, tmp_path):
    rng = np.random.default_rng(20232)
    by_device, by_market = (replace(judged, segments=rng.choice(["a", "b"], 100)) for _ in range(2))
    by_seller, by_brand = (replace(judged, item_groups=rng.choice(["a", "b"], 1_000)) for _ in range(2))
    everywhere, between = Promise.parse(PROMISE, per="segment"), Promise("group_disparity", 5, at_most=0.9)
    questions = [
        (judged, Promise.parse(PROMISE), {}),
        (judged, Promise.parse(PROMISE, gain="linear"), {}),
        (judged, Promise.parse(PROMISE, empty_query="one"), {}),
        *((judged, Promise("disparity", 5, at_most=90.0, bound=bound), {}) for bound in (200.0, 300.0)),
        *((judged, Promise.parse(PROMISE), {"validation": generated(30, seed, 500)}) for seed in (1, 2)),
        *((queries, everywhere, {}) for queries in (by_device, by_market)),
        *((queries, between, {}) for queries in (by_seller, by_brand)),
        *((judged, Promise.parse(PROMISE), {"sample": n}) for n in (60, 61)),
    ]
    for _ in range(2):
        numbers = [number(tmp_path, queries, promise, **options) for queries, promise, options in questions]
        assert numbers == list(range(1, len(questions) + 1))


def test_queries_scored_anew_are_analysed_again_and_others_are_not(judged, tmp_path):
    rng = np.random.default_rng(20231)
    retrained = judged.with_scores(judged.scores + rng.normal(scale=0.1, size=judged.n_rows))
    others = Queries.from_arrays(
        scores=judged.scores, relevance=judged.relevance, query_ids=np.repeat(judged.query_ids, judged.n_items)
    )
    assert [number(tmp_path, queries) for queries in (judged, retrained, others[10:], judged)] == [1, 2, 1, 1]


def test_analyses_at_the_same_time_are_counted_one_by_one(first, tmp_path):
    n_rounds, n_threads = 40, 4
    together = Barrier(n_threads)

    def analyse(seed):
        numbers = []
        for data in range(n_rounds):
            together.wait()
            entry = {**first[0], "data": str(data), "judgments": str(data), "settings": [seed]}
            numbers.append(note(entry, tmp_path / NAME)[0])
        return numbers

    with ThreadPoolExecutor(n_threads) as pool:
        for numbers in zip(*pool.map(analyse, range(n_threads)), strict=True):
            assert sorted(numbers) == [1, 2, 3, 4]


def test_a_ledger_that_cannot_be_written_is_told_before_the_work(tmp_path):
    (tmp_path / NAME).mkdir()
    done = isrr("calibrate", "nowhere.parquet", "-p", PROMISE, cwd=tmp_path)
    assert done.returncode == 2
    assert "expected a file that you can read and write" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        "9" * 5_000,
        '{"data": "d", "confidence": "0.9", "n_analyses": 1}',
        '{"data": "d", "confidence": 0.9, "n_analyses": 0}',
        '{"data": "d", "confidence": NaN, "n_analyses": 1}',
        "null",
        "\0",
        '{"data": "d", "conf',
    ],
)
def test_a_damaged_line_is_passed_over(first, tmp_path, line):
    other, entry = ({**first[0], "data": "d", "confidence": c} for c in (0.9, 0.8))
    (tmp_path / NAME).write_text(f"{json.dumps(other)}\n{line}")
    assert note(entry, tmp_path / NAME) == (2, pytest.approx(0.3))
    assert note(entry, tmp_path / NAME)[0] == 2
