"""Analyses of the same judged queries are counted, whoever makes them; a certificate says what they prove together."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from msgspec import structs
from typer.testing import CliRunner

from isrr import Promise, Queries, calibrate, load, write_queries
from isrr.cli.ledger import NAME, entry_of, ledger_at, note, noted
from isrr.cli.main import app

PROMISE = "ndcg@5 >= 90% of deterministic"


def made(n_queries=100, seed=20230, first_id=0):
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
    return made()


@pytest.fixture(scope="module")
def first(judged):
    """A first analysis: what it asks, and its outcome."""
    outcome = calibrate(judged, PROMISE)
    return entry_of(outcome), outcome


def planned(look, attempts, seed=0, confidence=0.95):
    """The same question, asked in another way."""
    return {**look, "confidence": confidence, "search": [*look["search"][:-2], seed, attempts]}


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
        attempts = ["--analyses", "3"] if together else []
        done = CliRunner().invoke(app, ["calibrate", str(data), "-p", promise, "-o", str(ranker), *attempts])
        said = f"analysis 2 of the same data; jointly they hold with confidence at most {together}: plan them"
        assert (said in done.stdout) == (f"warning      {said}" in str(load(ranker))) == (together is not None)
        assert (f"analyses of judged queries are counted in {tmp_path}/.isrr-looks.jsonl" in done.stderr) == (i == 0)


@pytest.mark.parametrize(
    ("attempts", "confidences", "together"),
    [
        ((1, 1, 3, 9), (0.95,) * 4, (None, "0.9", "0.8833", "0.8778")),
        ((3, 3, 3, 3), (0.95,) * 4, (None, None, None, "0.9333")),
        ((1, 2, 2), (0.99, 0.95, 0.95), (None, None, "0.94")),
        ((1, 1), (0.9, 0.99), (None, "0.89")),
        ((1, 1, 1), (0.5,) * 3, (None, "0", "0")),
    ],
)
def test_what_all_analyses_have_spent_is_held_against_the_confidence(first, attempts, confidences, together, tmp_path):
    look, outcome = first
    for seed, (n, confidence, left) in enumerate(zip(attempts, confidences, together, strict=True)):
        found, spent = note(planned(look, n, seed, confidence), tmp_path / NAME)
        provenance = structs.replace(outcome.provenance, n_analyses=n, analysis=found, spent=spent)
        said = " ".join(structs.replace(outcome, confidence=confidence, provenance=provenance).warnings)
        assert (f"analysis {seed + 1} of the same data" in said) == (left is not None)
        assert left is None or f"hold with confidence at most {left}: plan" in said


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
        *((judged, Promise.parse(PROMISE), {"validation": made(30, seed, 500)}) for seed in (1, 2)),
        *((queries, everywhere, {}) for queries in (by_device, by_market)),
        *((queries, between, {}) for queries in (by_seller, by_brand)),
    ]
    for _ in range(2):
        found = [number(tmp_path, queries, promise, **options) for queries, promise, options in questions]
        assert found == list(range(1, len(questions) + 1))


def test_queries_scored_anew_are_analysed_again_and_others_are_not(judged, tmp_path):
    rng = np.random.default_rng(20231)
    retrained = judged.with_scores(judged.scores + rng.normal(scale=0.1, size=judged.n_rows))
    others = Queries.from_arrays(
        scores=judged.scores, relevance=judged.relevance, query_ids=np.repeat(judged.query_ids, judged.n_items)
    )
    assert [number(tmp_path, queries) for queries in (judged, retrained, others[10:], judged)] == [1, 2, 1, 1]


def test_another_sample_of_the_same_table_is_another_analysis(judged, tmp_path):
    assert [number(tmp_path, judged, sample=n) for n in (60, 61, None, 60)] == [1, 2, 3, 1]


def test_a_line_that_names_no_judgments_or_was_cut_off_is_passed_or_found_again(first, tmp_path):
    ledger, (look, _) = tmp_path / NAME, first
    note(look, ledger)
    line = json.loads(ledger.read_text())
    del line["judgments"]
    ledger.write_text(f'{json.dumps(line)}\n{{"data": "{line["data"]}"}}\n{{"data": "abc", "prom')
    for asked, n in ((look, 1), ({**look, "confidence": 0.9}, 2), (look, 1), (planned(look, 4), 3)):
        assert note(asked, ledger)[0] == n


def test_analyses_at_the_same_time_are_counted_one_by_one(first, tmp_path):
    n_rounds, n_looks = 40, 4
    together = Barrier(n_looks)

    def look(seed):
        numbers = []
        for data in range(n_rounds):
            asked = {**planned(first[0], 1, seed), "data": str(data), "judgments": str(data)}
            together.wait()
            numbers.append(note(asked, tmp_path / NAME)[0])
        return numbers

    with ThreadPoolExecutor(n_looks) as pool:
        for numbers in zip(*pool.map(look, range(n_looks)), strict=True):
            assert sorted(numbers) == [1, 2, 3, 4]


def test_a_ledger_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(NAME).mkdir()
    done = CliRunner().invoke(app, ["calibrate", "nowhere.parquet", "-p", PROMISE])
    assert done.exit_code == 2
    assert "expected a file that you can read and write" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5_000,
        '{"data": "d", "confidence": "0.9", "search": [1]}',
        '{"data": "d", "confidence": 0.9, "search": []}',
        '{"data": "d", "confidence": 0.9, "search": [0]}',
        '{"data": "d", "confidence": NaN, "search": [1]}',
        '{"data": "d", "confidence": 0.9, "search": 7}',
        "null",
        "\0",
    ],
)
def test_a_line_that_is_no_analysis_is_passed_over(tmp_path, line):
    look = {"data": "d", "judgments": "j", "confidence": 0.9, "search": [["a"], 1]}
    (tmp_path / NAME).write_text(f"{line}\n{json.dumps({**look, 'promise': 'another'})}\n")
    number, spent = note(look, tmp_path / NAME)
    assert number == 2
    assert spent == pytest.approx(0.2)
